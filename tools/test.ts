import { spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { bundleProgram } from './bundle.ts';

/**
 * `npm run test:only -- [--seed N] [files or options of node --test]`: runs files and tests in random
 * order. Prints the seed before and after, and the command that repeats the order. Tests that start
 * the program start a bundle of the current sources. A file that leaves a handle open fails.
 */
const compiled = 'node_modules/.cache/compiled';
const bundled = new URL('../node_modules/.cache/program/', import.meta.url);
const openHandles = new URL('open-handles.ts', import.meta.url).href;
const everyTest = 'test/**/*.test.ts';
/** More is no faster on two cores; fewer leave them idle while tests wait. */
const filesAtOnce = 4;
/** Ends tests that hang; far above the time of slow tests. */
const hangMs = 20 * 60_000;

const { seed, rest } = readArguments(process.argv.slice(2));
const namesFiles = rest.some((word) => !word.startsWith('-'));
const repeat = `repeat this order with: npm run test:only -- --seed ${seed} ${rest.join(' ')}`;
console.log(`Seed ${seed}; ${repeat}`);
const program = await bundleProgram(bundled);
const child = spawn(
  process.execPath,
  [
    // Not --test-force-exit: it drops results that a file has not yet written.
    `--import=${openHandles}`,
    '--test',
    `--test-random-seed=${seed}`,
    `--test-concurrency=${filesAtOnce}`,
    `--test-timeout=${hangMs}`,
    '--test-reporter=spec',
    ...rest,
    ...(namesFiles ? [] : [everyTest]),
  ],
  {
    stdio: 'inherit',
    env: { NODE_COMPILE_CACHE: compiled, LEAT_TEST_PROGRAM: program, ...process.env },
  },
);
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => child.kill(signal));
child.on('close', (code) => {
  console.log(`Seed ${seed}; ${repeat}`);
  process.exitCode = code ?? 1;
});

function readArguments(words: readonly string[]): { seed: number; rest: string[] } {
  const at = words.indexOf('--seed');
  if (at === -1) return { seed: randomInt(2 ** 32), rest: [...words] };
  const parsed = Number(words[at + 1]);
  if (!Number.isInteger(parsed))
    throw new Error('--seed: needs a whole number, as printed by a run');
  return { seed: parsed, rest: words.toSpliced(at, 2) };
}
