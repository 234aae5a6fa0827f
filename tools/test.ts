import { execFileSync, spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { globSync, mkdirSync } from 'node:fs';
import { rm, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { createFileCopy } from '../test/helpers/sqlite.ts';
import { bundlePackages, bundleProgram } from './bundle.ts';
import { runUnits, type TestResult } from './test-run.ts';
import { type Tier, unitsInOrder } from './test-units.ts';

/**
 * `npm run test:only -- [--seed N] [--long] [--results FILE]`: runs the quick tests, or with `--long` those with
 * the tag `long`, files and tests in random order. Prints the seed before and after, failures, and the files
 * that took longest; `--results` writes a line of JSON for each test.
 *
 * `npm run test:only -- [--seed N] files or options of node --test`: runs all tests of these files.
 *
 * Tests that start the program start a bundle of the current sources, on a copy of empty tables. Test files
 * import the sources, but two packages as bundles. A file that leaves a handle open fails.
 */
const cache = new URL('../node_modules/.cache/', import.meta.url);
const packageNames = ['typebox', 'typebox/compile', 'jose'];
const tables = fileURLToPath(new URL('tables.db', cache));
const preloads = ['test-owners.ts', 'open-handles.ts', 'bundled-packages.ts'].map(
  (file) => `--import=${new URL(file, import.meta.url).href}`,
);
const build = fileURLToPath(new URL('build-console.ts', import.meta.url));
const everyTest = 'test/**/*.test.ts';
/** More is no faster on two cores; fewer leave them idle while tests wait. */
const atOnce = { waiting: 6, computing: 2 };
/** Ends tests that hang: far above the time of slow files on a machine that eight other programs keep busy. */
const timeoutMs = 60 * 60_000;
const slowestShown = 10;

const { seed, tier, resultsFile, rest } = readArguments(process.argv.slice(2));
const repeat = `repeat this order with: npm run test:only -- --seed ${seed}${tier === 'long' ? ' --long' : ''} ${rest.join(' ')}`;
console.log(`Seed ${seed}; ${repeat}`);
// Of the present sources: tests of its pages would pass for those of before.
execFileSync(process.execPath, [build], { stdio: 'inherit' });
const { program } = await bundleProgram(new URL('program/', cache));
await rm(tables, { force: true });
await createFileCopy(tables);
Object.assign(process.env, {
  NODE_COMPILE_CACHE: fileURLToPath(new URL('compiled', cache)),
  LEAT_TEST_PROGRAM: program,
  LEAT_TEST_TABLES: tables,
  LEAT_TEST_PACKAGES: JSON.stringify(
    await bundlePackages(packageNames, new URL('packages/', cache)),
  ),
  ...process.env,
});
const flags = [
  ...preloads,
  `--test-random-seed=${seed}`,
  // Tags are experimental.
  '--disable-warning=ExperimentalWarning',
  // Tests leave much short-lived garbage: a tenth less processor time.
  '--min-semi-space-size=32',
  '--max-semi-space-size=64',
  // As `npm start` does: every process has a thread for each core, and the cores are taken.
  '--v8-pool-size=0',
];
await (rest.length === 0 ? runTier() : runAsRequested());
console.log(`Seed ${seed}; ${repeat}`);

/** Not by `node --test`, which runs each file in its own process, all as many at once. */
async function runTier(): Promise<void> {
  const folder = new URL('tests/', cache);
  mkdirSync(folder, { recursive: true });
  const units = unitsInOrder(globSync(everyTest), tier, seed);
  const startedAtMs = performance.now();
  const results: TestResult[] = [];
  const files: { readonly file: string; readonly ms: number }[] = [];
  let done = 0;
  await runUnits(units, atOnce, { tier, flags, timeoutMs, folder }, (unit, result) => {
    done += 1;
    results.push(...result.results);
    files.push(...result.files);
    const count = result.results.filter(({ isSuite }) => !isSuite).length;
    const mark = result.failures === '' ? 'ok    ' : 'FAILED';
    console.log(`${mark} ${done}/${units.length} ${unit.name}: ${count} tests`);
    if (result.failures !== '') console.log(result.failures);
  });
  if (resultsFile !== undefined) {
    await writeFile(resultsFile, results.map((result) => `${JSON.stringify(result)}\n`).join(''));
  }
  summarize(results, files, performance.now() - startedAtMs);
}

function summarize(
  results: readonly TestResult[],
  files: readonly { readonly file: string; readonly ms: number }[],
  ms: number,
): void {
  const tests = results.filter(({ isSuite }) => !isSuite);
  const failed = results.filter(({ passed }) => !passed);
  const skipped = tests.filter((result) => result.skipped);
  console.log('The slowest files:');
  for (const slow of files.toSorted((one, other) => other.ms - one.ms).slice(0, slowestShown)) {
    console.log(`${secondsOf(slow.ms).padStart(7)} s ${slow.file}`);
  }
  for (const { file, title } of failed) console.log(`failed: ${file}: ${title}`);
  console.log(
    `${tests.length} ${tier} tests in ${secondsOf(ms)} s, ${failed.length} failed, ${skipped.length} skipped`,
  );
  if (failed.length > 0 || tests.length === 0) process.exitCode = 1;
}

function secondsOf(ms: number): string {
  return (ms / 1000).toFixed(1);
}

async function runAsRequested(): Promise<void> {
  const namesFiles = rest.some((word) => !word.startsWith('-'));
  const child = spawn(
    process.execPath,
    [
      // Not --test-force-exit: it drops results that a file has not yet written.
      ...flags,
      '--test',
      `--test-concurrency=${atOnce.computing}`,
      `--test-timeout=${timeoutMs}`,
      '--test-reporter=spec',
      ...rest,
      ...(namesFiles ? [] : [everyTest]),
    ],
    { stdio: 'inherit' },
  );
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => child.kill(signal));
  const [code] = (await once(child, 'close')) as [number | null];
  process.exitCode = code ?? 1;
}

interface Arguments {
  readonly seed: number;
  readonly tier: Tier;
  readonly resultsFile: string | undefined;
  /** For `node --test`. */
  readonly rest: readonly string[];
}

function readArguments(words: readonly string[]): Arguments {
  const left = [...words];
  const take = (option: string, values: number): string[] | undefined => {
    const at = left.indexOf(option);
    return at === -1 ? undefined : left.splice(at, 1 + values).slice(1);
  };
  const named = take('--seed', 1);
  const chosen = named === undefined ? randomInt(2 ** 32) : Number(named[0]);
  if (!Number.isInteger(chosen))
    throw new Error('--seed: needs a whole number, as printed by a run');
  return {
    seed: chosen,
    tier: take('--long', 0) === undefined ? 'quick' : 'long',
    resultsFile: take('--results', 1)?.[0],
    rest: left,
  };
}
