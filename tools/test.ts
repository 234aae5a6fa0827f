import { execFileSync, spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { globSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { finished } from 'node:stream/promises';
import { fileURLToPath } from 'node:url';
import { run } from 'node:test';
import { spec } from 'node:test/reporters';
import { createFileCopy } from '../test/helpers/sqlite.ts';
import { bundlePackages, bundleProgram } from './bundle.ts';
import { filesInOrder } from './test-order.ts';

/**
 * `npm run test:only -- [--seed N] [files or options of node --test]`: runs files and tests in random
 * order, without arguments the longest files first. Prints the seed before and after, and the command that repeats the order. Tests that start
 * the program start a bundle of the current sources, on a copy of empty tables. Test files import the
 * sources, but two packages as bundles. A file that leaves a handle open fails.
 */
const compiled = 'node_modules/.cache/compiled';
const bundled = new URL('../node_modules/.cache/program/', import.meta.url);
const packages = new URL('../node_modules/.cache/packages/', import.meta.url);
const packageNames = ['typebox', 'typebox/compile', 'jose'];
const tables = fileURLToPath(new URL('../node_modules/.cache/tables.db', import.meta.url));
const preloads = ['open-handles.ts', 'bundled-packages.ts'].map(
  (file) => `--import=${new URL(file, import.meta.url).href}`,
);
const build = fileURLToPath(new URL('build-console.ts', import.meta.url));
const everyTest = 'test/**/*.test.ts';
/** More is no faster on two cores; fewer leave them idle while tests wait. */
const filesAtOnce = 4;
/** Ends tests that hang; far above the time of slow tests. */
const hangMs = 20 * 60_000;

const { seed, rest } = readArguments(process.argv.slice(2));
const repeat = `repeat this order with: npm run test:only -- --seed ${seed} ${rest.join(' ')}`;
console.log(`Seed ${seed}; ${repeat}`);
// Of the present sources: tests of its pages would pass for those of before.
execFileSync(process.execPath, [build], { stdio: 'inherit' });
const { program } = await bundleProgram(bundled);
await rm(tables, { force: true });
await createFileCopy(tables);
Object.assign(process.env, {
  NODE_COMPILE_CACHE: compiled,
  LEAT_TEST_PROGRAM: program,
  LEAT_TEST_TABLES: tables,
  LEAT_TEST_PACKAGES: JSON.stringify(await bundlePackages(packageNames, packages)),
  ...process.env,
});
const flags = [...preloads, `--test-random-seed=${seed}`];
await (rest.length === 0 ? runEveryFile() : runAsRequested());
console.log(`Seed ${seed}; ${repeat}`);

/** Not by `node --test`, which has no order of files but random or by name. */
async function runEveryFile(): Promise<void> {
  const files = filesInOrder(globSync(everyTest), seed);
  const results = run({ files, concurrency: filesAtOnce, timeout: hangMs, execArgv: flags });
  results.on('test:fail', ({ todo }) => {
    if (todo === undefined) process.exitCode = 1;
  });
  const report = results.compose(new spec());
  report.pipe(process.stdout, { end: false });
  await finished(report);
}

async function runAsRequested(): Promise<void> {
  const namesFiles = rest.some((word) => !word.startsWith('-'));
  const child = spawn(
    process.execPath,
    [
      // Not --test-force-exit: it drops results that a file has not yet written.
      ...flags,
      '--test',
      `--test-concurrency=${filesAtOnce}`,
      `--test-timeout=${hangMs}`,
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

function readArguments(words: readonly string[]): { seed: number; rest: string[] } {
  const at = words.indexOf('--seed');
  if (at === -1) return { seed: randomInt(2 ** 32), rest: [...words] };
  const parsed = Number(words[at + 1]);
  if (!Number.isInteger(parsed))
    throw new Error('--seed: needs a whole number, as printed by a run');
  return { seed: parsed, rest: words.toSpliced(at, 2) };
}
