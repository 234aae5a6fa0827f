import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createKeyedSerialQueue, createSerialQueue } from '../../src/core/serial-queue.ts';

/** Records when tasks start and end; `b` fails. */
function recordedTasks() {
  const log: string[] = [];
  const task = (name: string) => async (): Promise<string> => {
    log.push(`${name} starts`);
    await Promise.resolve();
    log.push(`${name} ends`);
    if (name === 'b') throw new Error(name);
    return name;
  };
  return { log, task };
}

const inTurn = ['a starts', 'a ends', 'b starts', 'b ends', 'c starts', 'c ends'];

describe('serial queue', () => {
  test('serial queue runs one task at a time, in the order of the calls, also after a failed one', async () => {
    const run = createSerialQueue();
    const { log, task } = recordedTasks();
    const results = await Promise.allSettled([run(task('a')), run(task('b')), run(task('c'))]);
    assert.deepEqual(
      results.map(({ status }) => status),
      ['fulfilled', 'rejected', 'fulfilled'],
    );
    assert.deepEqual(log, inTurn);
  });
});

describe('keyed serial queue', () => {
  test('keyed serial queue runs one task of a key at a time, in the order of the calls, also after a failed one', async () => {
    const { run } = createKeyedSerialQueue();
    const { log, task } = recordedTasks();
    const results = await Promise.allSettled(['a', 'b', 'c'].map((name) => run('key', task(name))));
    assert.deepEqual(
      results.map(({ status }) => status),
      ['fulfilled', 'rejected', 'fulfilled'],
    );
    assert.deepEqual(log, inTurn);
  });

  test('keyed serial queue runs tasks of different keys at the same time', async () => {
    const { run } = createKeyedSerialQueue();
    const { log, task } = recordedTasks();
    await Promise.all(['a', 'c'].map((name) => run(name, task(name))));
    assert.deepEqual(log, ['a starts', 'c starts', 'a ends', 'c ends']);
  });

  test('idle: resolves after the last task, also when it failed', async () => {
    const { run, idle } = createKeyedSerialQueue();
    const { log, task } = recordedTasks();
    const failing = assert.rejects(run('key', task('b')));
    await idle();
    assert.deepEqual(log, ['b starts', 'b ends']);
    await failing;
  });
});
