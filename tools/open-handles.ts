import { after } from 'node:test';
import { isMainThread } from 'node:worker_threads';

/**
 * Preload of `tools/test.ts`: ends and fails a test file that left a handle open, such as a server,
 * after its last test. Results that the file reported are not affected. Without it, such a file
 * would run until the timeout of the runner. Fails a file whose process ends before its last test, too:
 * what was exited for would pass, as the runner hears of no test that has not ended.
 */
const graceMs = 10_000;

// Before any test can mock it.
const startTimer = globalThis.setTimeout;

// The runner itself, threads and forked programs load the preload too.
if (isMainThread && process.env['NODE_TEST_CONTEXT'] === 'child-v8') {
  let isOver = false;
  after(() => {
    isOver = true;
    startTimer(endFile, graceMs).unref();
  });
  // A forked program has no tests, and exits as it likes.
  if (process.send === undefined) process.once('exit', () => isOver || failFile());
}

function failFile(): void {
  const [, file = ''] = process.argv;
  process.stderr.write(`${file} ended before its last test\n`);
  process.exitCode = 1;
}

function endFile(): void {
  const [, file = ''] = process.argv;
  const handles = process.getActiveResourcesInfo().join(', ');
  process.stderr.write(`${file} left handles open after its last test: ${handles}\n`);
  // Listeners of `exit` see the exit code of the tests.
  process.once('exit', () => {
    process.exitCode = 1;
  });
  process.exit();
}
