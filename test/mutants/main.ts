import { readFileSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { Command, InvalidArgumentError } from 'commander';
import { guarantees } from '../simulation/guarantees.ts';
import { search } from '../simulation/search.ts';
import { mutants } from './all.ts';
import { type KillingTest, type Mutant, requireFit } from './mutant.ts';
import { runTest } from './run-test.ts';
import { type Kill, withTable } from './table.ts';

/**
 * `npm run mutants`: plants every mutant in turn and runs what is said to kill it. Fails when one
 * survives, and writes the table of docs/simulation.md when all were killed.
 */
const program = new Command('mutants')
  .description('Plants mistakes one at a time and shows which test or seed finds each.')
  .option('--only <text>', 'those whose names contain it; the table stays as it is')
  .option('--seeds <count>', 'histories of the simulation for each', natural, 10_000)
  .option('--jobs <count>', 'how many mutants at once', natural, availableParallelism())
  .addHelpText('after', '\nExample: npm run mutants -- --only "a cursor"');
program.parse();
const options = program.opts<{ only?: string; seeds: number; jobs: number }>();
const document = new URL('../../docs/simulation.md', import.meta.url);

/** A test in which commands race may pass now and then although one of them is wrong. */
const triesMax = 3;

const chosen = mutants.filter(({ name }) => name.includes(options.only ?? ''));
if (chosen.length === 0) program.error(`--only: no mutant has "${options.only}" in its name`);
const titleWidth = Math.max(...chosen.map(({ name }) => name.length));
for (const mutant of chosen) requireFit(mutant);

const flawed = await flawedTests();
const kills = new Map<Mutant, Kill>();
await inParallel(chosen, async (mutant) => {
  const how = await howKilled(mutant);
  const count = `${chosen.length}`.length;
  const by = mutant.killedBy?.file ?? 'simulation';
  if (how !== undefined) kills.set(mutant, { mutant, how });
  const number = `${kills.size}`.padStart(count);
  print(`${number}  ${mutant.name.padEnd(titleWidth)}  ${how ? `${by}: ${how}` : 'SURVIVED'}`);
});
const survivors = chosen.filter((mutant) => !kills.has(mutant));
print(`\n${kills.size} of ${chosen.length} mutants were killed.`);
for (const { name, file } of survivors) print(`SURVIVED: ${name} (${file})`);
if (survivors.length > 0) process.exitCode = 1;
else if (options.only === undefined) await writeTable();

function natural(text: string): number {
  const number = Number(text);
  if (!Number.isSafeInteger(number) || number < 1) throw new InvalidArgumentError('not a number');
  return number;
}

function print(text: string): void {
  process.stdout.write(`${text}\n`);
}

async function inParallel<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const waiting = [...items];
  const next = async (): Promise<void> => {
    for (let item = waiting.shift(); item !== undefined; item = waiting.shift()) await work(item);
  };
  await Promise.all(Array.from({ length: options.jobs }, next));
}

/** Killing tests that fail, or are not there, without any mutant: they prove nothing. */
async function flawedTests(): Promise<ReadonlySet<string>> {
  const tests = new Map<string, KillingTest>();
  for (const { killedBy } of chosen) if (killedBy) tests.set(keyOf(killedBy), killedBy);
  const found = new Set<string>();
  await inParallel([...tests.values()], async (test) => {
    const { passed, failed, errors } = await runTest(test);
    if (failed.length === 0 && passed.length > 0) return;
    found.add(keyOf(test));
    print(
      `Without a mutant: ${test.file} "${test.title}" passed ${passed.length} tests.\n${errors}`,
    );
  });
  return found;
}

function keyOf({ file, title }: KillingTest): string {
  return `${file} ${title}`;
}

/** Returns what found the mutant; `undefined` when it survived. */
async function howKilled({ name, killedBy }: Mutant): Promise<string | undefined> {
  if (killedBy === undefined) {
    const { violation } = await search({ from: 0, to: options.seeds, threads: 1, fault: name });
    return violation && `seed ${violation.seed}: ${guarantees[violation.guarantee]}`;
  }
  if (flawed.has(keyOf(killedBy))) return undefined;
  for (let tries = 0; tries < triesMax; tries += 1) {
    const { passed, failed, errors } = await runTest(killedBy, name);
    if (passed.length + failed.length === 0) print(errors);
    if (failed[0] !== undefined) return failed[0];
  }
  return undefined;
}

async function writeTable(): Promise<void> {
  const table = chosen.flatMap((mutant) => kills.get(mutant) ?? []);
  writeFileSync(document, await withTable(readFileSync(document, 'utf8'), table));
  print('The table in docs/simulation.md is written.');
}
