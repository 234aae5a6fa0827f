import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createTurnQueue } from '../../../src/api/http/turn-queue.ts';

const alone = { atOnce: 1, ofOwner: 1 };

describe('a turn queue', () => {
  test('a turn queue runs one task at a time and takes the owners in turns', async () => {
    const done: string[] = [];
    let running = 0;
    const queue = createTurnQueue(alone);
    const work = async (task: string): Promise<string> => {
      running += 1;
      assert.equal(running, 1);
      await Promise.resolve();
      done.push(task);
      running -= 1;
      return task.toUpperCase();
    };
    const greedy = ['a1', 'a2', 'a3', 'a4'].map((task) => queue.run(1, () => work(task)));
    const modest = ['b1', 'b2'].map((task) => queue.run(2, () => work(task)));
    assert.deepEqual(await Promise.all(modest), ['B1', 'B2']);
    assert.deepEqual(await Promise.all(greedy), ['A1', 'A2', 'A3', 'A4']);
    assert.deepEqual(done, ['a1', 'a2', 'b1', 'a3', 'b2', 'a4']);
  });

  test('a failed task rejects for its caller only', async () => {
    const queue = createTurnQueue(alone);
    const bad = queue.run(1, async () => {
      throw new Error('failed');
    });
    const good = queue.run(1, async () => 'good');
    await assert.rejects(bad, /failed/);
    assert.equal(await good, 'good');
    assert.equal(await queue.run(1, async () => 'later'), 'later');
  });

  test('a turn queue runs no more tasks at once than the limits in total and per owner', async () => {
    const running: string[] = [];
    let most = 0;
    const ends: (() => void)[] = [];
    const queue = createTurnQueue({ atOnce: 3, ofOwner: 2 });
    const work = async (task: string): Promise<void> => {
      running.push(task);
      most = Math.max(most, running.length);
      await new Promise<void>((resolve) => {
        ends.push(resolve);
      });
      running.splice(running.indexOf(task), 1);
    };
    const tasks = ['a1', 'a2', 'a3', 'a4'].map((task) => queue.run(1, () => work(task)));
    assert.deepEqual(running, ['a1', 'a2']);
    tasks.push(
      queue.run(2, () => work('b1')),
      queue.run(3, () => work('c1')),
    );
    assert.deepEqual(running, ['a1', 'a2', 'b1']);
    for (let left = tasks.length; left > 0; left -= 1) {
      ends.shift()?.();
      await new Promise((resolve) => {
        setImmediate(resolve);
      });
    }
    await Promise.all(tasks);
    assert.equal(most, 3);
    assert.deepEqual(running, []);
  });
});
