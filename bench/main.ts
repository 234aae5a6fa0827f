/**
 * `npm run bench [-- names…]`: measures Leat against bare counterparts on this machine. Figures are
 * ratios within one run, because the speed of the machine says nothing about Leat.
 */
import {
  closeSync,
  existsSync,
  fdatasyncSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  rmSync,
  writeSync,
} from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { Argument, Command, InvalidArgumentError } from 'commander';
import { backlog } from './backlog.ts';
import type { Bench, Figure, RunOptions } from './bench.ts';
import { consolePages } from './console.ts';
import { drainPostgres } from './drain-postgres.ts';
import { drain } from './drain.ts';
import { facts } from './facts.ts';
import { failing } from './failing.ts';
import { filter } from './filter.ts';
import { health } from './health.ts';
import { hostileRequests } from './hostile-requests.ts';
import { idle } from './idle.ts';
import { isolation } from './isolation.ts';
import { latencyPostgres } from './latency-postgres.ts';
import { latency } from './latency.ts';
import { management } from './management.ts';
import { messages } from './messages.ts';
import { peerPostgres } from './peer-postgres.ts';
import { profileInto, profileLines } from './profile.ts';
import { pull } from './pull.ts';
import { publishPostgres } from './publish-postgres.ts';
import { fanOut, publishHundred, publishOne } from './publish.ts';
import { holds, line } from './report.ts';
import { median } from './rounds.ts';
import { order } from './order.ts';
import { outage } from './outage.ts';
import { signature } from './signature.ts';
import { sizes } from './sizes.ts';
import { upkeep } from './upkeep.ts';
import { watchers } from './watchers.ts';

const benches: readonly Bench[] = [
  drain,
  failing,
  signature,
  order,
  latency,
  publishOne,
  publishHundred,
  fanOut,
  filter,
  backlog,
  isolation,
  outage,
  hostileRequests,
  idle,
  pull,
  watchers,
  management,
  messages,
  drainPostgres,
  latencyPostgres,
  publishPostgres,
  peerPostgres,
  facts,
  health,
  upkeep,
  sizes,
  consolePages,
];

interface Given extends Omit<RunOptions, 'rounds'> {
  readonly json: boolean;
  readonly rounds?: number;
  /** True without a folder. */
  readonly profile?: string | true;
}

const program = new Command('bench')
  .description('Measures Leat against bare counterparts on this machine, all of it or some.')
  .addArgument(new Argument('[names...]').choices(benches.map(({ name }) => name)))
  .option('--json', 'prints the figures for machines', false)
  .option('--nodes <counts>', 'how many servers those on PostgreSQL have', counts, [1])
  .option('--rounds <count>', 'how often each side is measured (5; with --profile 1)', count)
  .option(
    '--cases <text>',
    'measures the cases of isolation, hostile-requests, filter and console with this in their names only',
  )
  .option(
    '--events <count>',
    'how many events those that drain have, or rows of history upkeep has',
    count,
  )
  .option(
    '--against <folder>',
    'the checkout of another version, installed, that failing is compared with',
    checkout,
  )
  .option(
    '--profile [folder]',
    'writes a processor profile of each server and bare side there, for Chromium or an editor to open, and prints the functions with the largest shares; no limits then',
    profileFolder,
  )
  .addHelpText('after', '\nExample: npm run bench -- drain-postgres --nodes 1,2,4 --rounds 3')
  .parse();
const names = program.args;
const { json, profile, ...given } = program.opts<Given>();
const options: RunOptions = { ...given, rounds: given.rounds ?? (profile === undefined ? 5 : 1) };
const profiles = profile === true ? mkdtempSync(join(tmpdir(), 'leat-profiles-')) : profile;
if (profiles !== undefined) profileInto(profiles);

// Child processes of a benchmark end with this process.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1));

const machine = {
  cores: availableParallelism(),
  fsyncMicros: fsyncMicros(),
  node: process.version,
};
print(`${machine.cores} cores, Node ${machine.node}, one fsync takes ${machine.fsyncMicros} µs\n`);
const figures: (Figure & { median: number; holds: boolean })[] = [];
for (const bench of benches.filter(({ name }) => names.length === 0 || names.includes(name))) {
  print(`\n${bench.name}: ${bench.what}\n`);
  const seen = await bench.run(progress, options);
  progress('');
  for (const figure of seen) {
    print(`  ${line(figure, profiles !== undefined)}\n`);
    figures.push({ ...figure, median: median(figure.values), holds: holds(figure) });
  }
  for (const under of new Set(seen.map((figure) => figure.under))) {
    if (under !== undefined) print(`  on ${under}\n`);
  }
  for (const each of profileLines(resolve(import.meta.dirname, '..'))) print(`  ${each}\n`);
}
if (json) process.stdout.write(`${JSON.stringify({ machine, figures }, undefined, 2)}\n`);
process.exit(profiles !== undefined || figures.every((figure) => figure.holds) ? 0 : 1);

function count(text: string): number {
  const number = Number(text);
  if (!Number.isSafeInteger(number) || number < 1) {
    throw new InvalidArgumentError('It is not a whole number from 1.');
  }
  return number;
}

/** Names of benchmarks come before the option: the next word is taken for the folder. */
function profileFolder(folder: string): string {
  if (benches.some(({ name }) => name === folder)) {
    throw new InvalidArgumentError(
      'It is a benchmark: write it before --profile, or name a folder.',
    );
  }
  mkdirSync(folder, { recursive: true });
  return resolve(folder);
}

function checkout(folder: string): string {
  if (existsSync(join(folder, 'bench/leat.ts')) && existsSync(join(folder, 'node_modules'))) {
    return folder;
  }
  throw new InvalidArgumentError('It is not an installed checkout: run npm ci there.');
}

function counts(text: string): number[] {
  return text.split(',').map(count);
}

function print(text: string): void {
  (json ? process.stderr : process.stdout).write(text);
}

/** Shows one line that is overwritten, on a terminal only. */
function progress(text: string): void {
  if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K${text === '' ? '' : `  … ${text}`}`);
}

/** Measures the time of a small synced write; results depend on it. */
function fsyncMicros(): number {
  const file = join(tmpdir(), `leat-fsync-${process.pid}`);
  const handle = openSync(file, 'w');
  const block = Buffer.alloc(4096);
  const times = Array.from({ length: 100 }, () => {
    const started = performance.now();
    writeSync(handle, block);
    fdatasyncSync(handle);
    return (performance.now() - started) * 1000;
  });
  closeSync(handle);
  rmSync(file);
  return Math.round(median(times));
}
