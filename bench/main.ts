/**
 * `npm run bench [-- names…] [--json]`: measures Leat against bare counterparts on this machine.
 * Figures are ratios of one run, because the machine's own speed says nothing about Leat.
 *
 * `--nodes 1,2,4` runs those on PostgreSQL with so many servers each; `--rounds` and `--events`
 * make a run shorter, for a look.
 */
import { closeSync, fdatasyncSync, openSync, rmSync, writeSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { backlog } from './backlog.ts';
import type { Bench, Figure, RunOptions } from './bench.ts';
import { drainPostgres } from './drain-postgres.ts';
import { drain } from './drain.ts';
import { idle } from './idle.ts';
import { isolation } from './isolation.ts';
import { latencyPostgres } from './latency-postgres.ts';
import { latency } from './latency.ts';
import { messages } from './messages.ts';
import { peerPostgres } from './peer-postgres.ts';
import { publishPostgres } from './publish-postgres.ts';
import { fanOut, publishHundred, publishOne } from './publish.ts';
import { holds, line } from './report.ts';
import { median } from './rounds.ts';

const benches: readonly Bench[] = [
  drain,
  latency,
  publishOne,
  publishHundred,
  fanOut,
  backlog,
  isolation,
  idle,
  messages,
  drainPostgres,
  latencyPostgres,
  publishPostgres,
  peerPostgres,
];

const { values: flags, positionals: names } = parseArgs({
  allowPositionals: true,
  options: {
    json: { type: 'boolean', default: false },
    nodes: { type: 'string', default: '1' },
    rounds: { type: 'string', default: '5' },
    events: { type: 'string' },
  },
});
const { json } = flags;
const options: RunOptions = {
  nodes: flags.nodes.split(',').map(Number),
  rounds: Number(flags.rounds),
  events: flags.events === undefined ? undefined : Number(flags.events),
};
const unknown = names.filter((name) => !benches.some((bench) => bench.name === name));
if (unknown.length > 0) {
  const known = benches.map((bench) => bench.name).join(', ');
  process.stderr.write(`No benchmark is called ${unknown.join(', ')}; there are ${known}.\n`);
  process.exit(1);
}

// What runs for a benchmark ends when this process exits by itself.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1));

const machine = {
  cores: availableParallelism(),
  fsyncMicros: fsyncMicros(),
  node: process.version,
};
say(`${machine.cores} cores, Node ${machine.node}, one fsync takes ${machine.fsyncMicros} µs\n`);
const figures: (Figure & { median: number; holds: boolean })[] = [];
for (const bench of benches.filter(({ name }) => names.length === 0 || names.includes(name))) {
  say(`\n${bench.name}: ${bench.what}\n`);
  const seen = await bench.run(progress, options);
  progress('');
  for (const figure of seen) {
    say(`  ${line(figure)}\n`);
    figures.push({ ...figure, median: median(figure.values), holds: holds(figure) });
  }
  for (const under of new Set(seen.map((figure) => figure.under))) {
    if (under !== undefined) say(`  on ${under}\n`);
  }
}
if (json) process.stdout.write(`${JSON.stringify({ machine, figures }, undefined, 2)}\n`);
process.exit(figures.every((figure) => figure.holds) ? 0 : 1);

function say(text: string): void {
  (json ? process.stderr : process.stdout).write(text);
}

/** One line that is written over; only where somebody watches. */
function progress(text: string): void {
  if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K${text === '' ? '' : `  … ${text}`}`);
}

/** What the disk takes for a small write to be safe; results depend on it. */
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
