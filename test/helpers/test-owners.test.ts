import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { stallMsDefault } from './wait.ts';

const preload = new URL('../../tools/test-owners.ts', import.meta.url).href;

test('an error that nobody catches fails the test that it comes from, and no other', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'leat-test-owners-'));
  t.after(() => rm(folder, { recursive: true, force: true }));
  const file = join(folder, 'errors.test.ts');
  await writeFile(
    file,
    `import { describe, test } from 'node:test';
    import { setTimeout as sleep } from 'node:timers/promises';
    const fail = () => { throw new Error('nobody catches it'); };
    const never = () => new Promise(() => {});
    describe('a suite', async () => {
      await sleep(1);
      test('passes', () => sleep(5));
      test('a promise', async () => { void sleep(1).then(fail); await never(); });
      test('a timer', async () => { await sleep(1); setTimeout(fail, 1); await never(); });
      test('a microtask', async () => { await sleep(1); queueMicrotask(fail); await never(); });
      test('passes too', () => sleep(5));
    });`,
  );
  // With this variable the run would be a part of this one.
  const env = { ...process.env, NODE_TEST_CONTEXT: undefined };
  const limit = `--test-timeout=${stallMsDefault}`;
  const words = [`--import=${preload}`, limit, '--test-reporter=tap', file];
  const run = spawn(process.execPath, words, { env, stdio: ['ignore', 'pipe', 'inherit'] });
  t.after(() => run.kill('SIGKILL'));
  const [output] = await Promise.all([text(run.stdout), once(run, 'close')]);

  assert.deepEqual(
    Array.from(output.matchAll(/^ +(?<result>(?:not )?ok \d - .*)$/gm), (line) => line[1]),
    [
      'ok 1 - passes',
      'not ok 2 - a promise',
      'not ok 3 - a timer',
      'not ok 4 - a microtask',
      'ok 5 - passes too',
    ],
  );
  assert.equal(output.match(/failureType: 'un(?:caughtException|handledRejection)'/g)?.length, 3);
});
