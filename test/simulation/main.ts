import { availableParallelism } from 'node:os';
import { readFileSync } from 'node:fs';
import { Command, InvalidArgumentError } from 'commander';
import { systemClock } from '../../src/clock.ts';
import type { Plan } from './plan.ts';
import { mutants } from '../mutants/all.ts';
import { plant } from '../mutants/plant.ts';
import { createProgress, summary } from './progress.ts';
import { search } from './search.ts';
import { shrink } from './shrink.ts';
import { historyTable } from './table.ts';

/** `npm run simulate`: plays histories of the engine and prints those that violate a guarantee. */
const program = new Command('simulate')
  .description(
    'Plays thousands of histories of the delivery engine with random faults, each from its seed.',
  )
  .option('--seeds <count>', 'how many histories to play', natural, 2000)
  .option('--from <seed>', 'the first seed', natural, 0)
  .option('--threads <count>', 'how many to play at once', natural, availableParallelism())
  .option('--seed <seed>', 'plays this one and prints its history', natural)
  .option('--plan <file>', 'plays the plan in a JSON file and prints its history')
  .option('--fault <name>', 'applies a mutant first, see test/mutants')
  .addHelpText('after', '\nExample: npm run simulate -- --seeds 100000');
program.parse();
const options = program.opts<{
  seeds: number;
  from: number;
  threads: number;
  seed?: number;
  plan?: string;
  fault?: string;
}>();

refuseUnknownFault(options.fault);
if (options.plan !== undefined) await show(planIn(options.plan));
else if (options.seed !== undefined) await show(await planFor(options.seed));
else await playMany();

function natural(text: string): number {
  const number = Number(text);
  if (!Number.isSafeInteger(number) || number < 0) throw new InvalidArgumentError('not a number');
  return number;
}

function refuseUnknownFault(name: string | undefined): void {
  if (name === undefined || mutants.some((mutant) => mutant.name === name)) return;
  const names = mutants.map((mutant) => `  ${mutant.name}`).join('\n');
  program.error(`--fault: there is no mutant "${name}". Choose one of:\n${names}`);
}

function print(text: string): void {
  process.stdout.write(`${text}\n`);
}

/** Applies the requested mutant, if any, and then imports the engine. */
async function engine() {
  if (options.fault !== undefined) plant(options.fault);
  return import('./play.ts');
}

async function planFor(seed: number): Promise<Plan> {
  const { planOf } = await import('./plan.ts');
  return planOf(seed);
}

function planIn(file: string): Plan {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as Plan;
  } catch (error) {
    return program.error(`--plan: ${String(error)}; a failing history prints the JSON of its plan`);
  }
}

async function show(plan: Plan): Promise<void> {
  const { play } = await engine();
  const outcome = await play(plan, { record: true });
  print(historyTable(plan, outcome));
  if (outcome.violation !== undefined) process.exitCode = 1;
}

async function playMany(): Promise<void> {
  const { from, seeds, threads, fault } = options;
  const startedMs = systemClock.elapsedMs();
  const progress = createProgress(process.stderr, systemClock.elapsedMs);
  const counts = await search({
    from,
    to: from + seeds,
    threads,
    fault,
    progress: ({ histories }) => progress.show(histories, seeds),
  });
  progress.end();
  print(summary(counts, systemClock.elapsedMs() - startedMs));
  if (counts.violation === undefined) return print('Every guarantee held.');
  process.exitCode = 1;
  const { seed, guarantee } = counts.violation;
  // It would not end here either.
  if (guarantee === 'ends') return print(`Seed ${seed} is stuck in one step of a node.`);
  await showShrunk(seed);
}

async function showShrunk(seed: number): Promise<void> {
  const { play } = await engine();
  const plan = await planFor(seed);
  const { violation } = await play(plan);
  print(`\nSeed ${seed} violates a guarantee; its history is being shortened.\n`);
  const shrunk = await shrink(plan, async (candidate) => {
    const outcome = await play(candidate);
    return outcome.violation?.guarantee === violation?.guarantee;
  });
  print(historyTable(shrunk, await play(shrunk, { record: true })));
  print(`\nFull history: npm run simulate -- --seed ${seed}`);
  print(`The shortened plan, for --plan: ${JSON.stringify(shrunk)}`);
}
