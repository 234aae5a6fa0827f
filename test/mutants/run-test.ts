import { spawn } from 'node:child_process';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import type { KillingTest } from './mutant.ts';
import type { TestEnd } from './reporter.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));
const preload = new URL('preload.ts', import.meta.url).href;
const openHandles = new URL('../../tools/open-handles.ts', import.meta.url).href;
const reporter = fileURLToPath(new URL('reporter.ts', import.meta.url));

/**
 * A test that waits for what a mutant never does ends after this, and so does its cleanup. What stays
 * open then, such as a server that the mutant keeps from closing, ends with its file: `openHandles`
 * exits 10 s after the last test.
 */
const testTimeoutMs = 60_000;

/** What became of the tests that a title selects. */
export interface TestRun {
  readonly passed: readonly string[];
  readonly failed: readonly string[];
  /** What was printed to the standard error, for a file that cannot be loaded. */
  readonly errors: string;
}

/** Runs the tests of a file that the title selects, with a mutant planted when one is named. */
export async function runTest({ file, title }: KillingTest, mutant?: string): Promise<TestRun> {
  const child = spawn(
    process.execPath,
    [
      `--import=${preload}`,
      `--import=${openHandles}`,
      '--test',
      `--test-timeout=${testTimeoutMs}`,
      `--test-reporter=${reporter}`,
      `--test-name-pattern=${title.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`)}`,
      file,
    ],
    {
      cwd: root,
      stdio: ['ignore', 'pipe', 'pipe'],
      // Where a test runs this, the runner of tests would take the child for one of its files.
      env: { ...process.env, NODE_TEST_CONTEXT: undefined, LEAT_MUTANT: mutant },
    },
  );
  const [output, errors] = await Promise.all([text(child.stdout), text(child.stderr)]);
  const lines = output.split('\n').filter((line) => line.startsWith('{"title":'));
  const ends = lines
    .map((line) => JSON.parse(line) as TestEnd)
    // A file that cannot be loaded counts as one failed test of its name: no test has looked at it.
    .filter((end) => !end.title.endsWith('.test.ts'));
  const titlesOf = (passed: boolean): string[] =>
    ends.filter((end) => end.passed === passed).map((end) => end.title);
  return { passed: titlesOf(true), failed: titlesOf(false), errors };
}
