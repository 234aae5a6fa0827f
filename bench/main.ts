/**
 * `npm run bench [-- names…]`: measures Leat against bare counterparts on this machine. Figures are
 * ratios within one run, because the speed of the machine says nothing about Leat.
 */
import { closeSync, fdatasyncSync, openSync, rmSync, writeSync } from 'node:fs';
import { availableParallelism, cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import { backlog } from './backlog.ts';
import type { Bench, Figure } from './bench.ts';
import { profileInto } from './child.ts';
import type { Comparison } from './compare.ts';
import { consolePages } from './console.ts';
import { cost } from './cost.ts';
import { drainPostgres } from './drain-postgres.ts';
import { drainTls } from './drain-tls.ts';
import { drain, order, signature } from './drain.ts';
import { facts } from './facts.ts';
import { failing } from './failing.ts';
import { filter } from './filter.ts';
import { health } from './health.ts';
import { hostileRequests } from './hostile-requests.ts';
import { idle } from './idle.ts';
import { isolation } from './isolation.ts';
import { latency, latencyPostgres } from './latency.ts';
import { management } from './management.ts';
import { messages } from './messages.ts';
import { peerPostgres } from './peer-postgres.ts';
import { pull } from './pull.ts';
import { fanOut, publishHundred, publishOne, publishPostgres } from './publish.ts';
import { machineTicks, type MachineTicks } from './proc.ts';
import { comparisonLine, holds, line } from './report.ts';
import { inTurn, median } from './rounds.ts';
import { readArguments } from './options.ts';
import { outage } from './outage.ts';
import {
  compareFigures,
  differences,
  numbersOf,
  type RunFigure,
  runFormat,
  sameFigure,
} from './run-file.ts';
import { sizes } from './sizes.ts';
import { upkeep } from './upkeep.ts';

const benches: readonly Bench[] = [
  drain,
  drainTls,
  cost,
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

const wanted = readArguments(benches);
const { json, options, profiles, before } = wanted;
if (profiles !== undefined) profileInto(profiles);

// Child processes of a benchmark end with this process.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1));

const machine = {
  cores: availableParallelism(),
  processor: cpus()[0]?.model ?? 'unknown',
  platform: `${process.platform} ${process.arch}`,
  fsyncMicros: fsyncMicros(),
  node: process.version,
};
print(`${machine.cores} cores, Node ${machine.node}, one fsync takes ${machine.fsyncMicros} µs\n`);
const run = {
  format: runFormat,
  date: new Date().toISOString(),
  machine,
  names: wanted.benches.map(({ name }) => name),
  options,
  profiled: profiles !== undefined,
} as const;
if (before !== undefined) {
  print(`compared with the run of ${before.date}\n`);
  for (const each of differences(before, run)) print(`  ${each}\n`);
}
const figures: (Figure & RunFigure & { median: number; holds: boolean; before?: Comparison })[] =
  [];
for (const bench of wanted.benches) {
  print(`\n${bench.name}: ${bench.what}\n`);
  const start = await machineTicks();
  const seen = await inTurn(options.threads ?? [undefined], (threads) => runWith(bench, threads));
  const stolen = stolenPercent(start, await machineTicks());
  progress('');
  for (const figure of seen) {
    print(`  ${line(figure, profiles !== undefined)}\n`);
    const { better, ...rest } = figure;
    const made = {
      ...rest,
      bench: bench.name,
      ...(better && { better }),
      values: [...figure.values],
    };
    const comparison = compared(made);
    figures.push({
      ...made,
      median: median(figure.values),
      holds: holds(figure),
      ...(comparison && { before: comparison }),
    });
  }
  for (const under of new Set(seen.map((figure) => figure.under))) {
    if (under !== undefined) print(`  on ${under}\n`);
  }
  if (stolen > 0) {
    print(`  the host gave ${stolen} % of the processor time that was wanted to other machines\n`);
  }
}
if (json) process.stdout.write(`${JSON.stringify({ ...run, figures }, undefined, 2)}\n`);
process.exit(profiles !== undefined || figures.every((figure) => figure.holds) ? 0 : 1);

/** Runs a benchmark with the default number of sender threads, or with another one. */
async function runWith(bench: Bench, threads: number | undefined): Promise<Figure[]> {
  if (threads === undefined) return bench.run(progress, options);
  process.env['LEAT_SENDER_THREADS'] = String(threads);
  const suffix = `, ${threads} sender thread${threads === 1 ? '' : 's'}`;
  const seen = await bench.run(progress, options);
  return seen.map((figure) => ({ ...figure, name: figure.name + suffix }));
}

/** Prints how a figure differs from that of the earlier run. */
function compared(figure: RunFigure): Comparison | undefined {
  if (before === undefined) return undefined;
  const other = sameFigure(before, figure);
  if (other === undefined) {
    print('       the earlier run has no such figure\n');
    return undefined;
  }
  const comparison = compareFigures(other, figure);
  print(`       ${comparisonLine(comparison, { ...other, values: numbersOf(other) })}\n`);
  return comparison;
}

/**
 * Returns how much of the wanted time a virtual machine did not get. Programs that run at the same time
 * lose the most by it, so ratios of a machine with much of it are too low.
 */
function stolenPercent(start: MachineTicks, end: MachineTicks): number {
  const ticks = end.wanted - start.wanted;
  return ticks > 0 ? Math.round(((end.stolen - start.stolen) / ticks) * 100) : 0;
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
