import { spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { bundleProgram } from './bundle.ts';

/**
 * `npm run test:only -- [--seed N] [files or options of node --test]`: runs files and tests in random
 * order. Prints the seed before and after, and the command that repeats the order. Tests that start
 * the program start a bundle of the present sources.
 */
const compiled = 'node_modules/.cache/compiled';
const bundled = new URL('../node_modules/.cache/program/', import.meta.url);
const everyTest = 'test/**/*.test.ts';
/** More ends no earlier on two cores, and fewer leave them idle while tests wait. */
const filesAtOnce = 4;
/** Ends what hangs; slow tests are not its business. */
const hangMs = 20 * 60_000;

const { seed, rest } = readArguments(process.argv.slice(2));
const named = rest.some((word) => !word.startsWith('-'));
const repeat = `repeat this order with: npm run test:only -- --seed ${seed} ${rest.join(' ')}`;
console.log(`Seed ${seed}; ${repeat}`);
const program = await bundleProgram(bundled);
const child = spawn(
  process.execPath,
  [
    '--test',
    // A failed test may leave a server open in its process, which would never end then.
    '--test-force-exit',
    `--test-random-seed=${seed}`,
    `--test-concurrency=${filesAtOnce}`,
    `--test-timeout=${hangMs}`,
    '--test-reporter=spec',
    ...rest,
    ...(named ? [] : [everyTest]),
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
  const given = Number(words[at + 1]);
  if (!Number.isInteger(given)) throw new Error('--seed: give it a whole number, as printed');
  return { seed: given, rest: words.toSpliced(at, 2) };
}
