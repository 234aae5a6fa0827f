import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createTurnQueue } from '../../../src/api/http/turn-queue.ts';

const alone = { atOnce: 1, ofOwner: 1 };

describe('a turn queue', () => {
  test('runs one task at a time and takes the owners in turns', async () => {
    const done: string[] = [];
    let underWay = 0;
    const queue = createTurnQueue(alone);
    const work = async (piece: string): Promise<string> => {
      underWay += 1;
      assert.equal(underWay, 1);
      await Promise.resolve();
      done.push(piece);
      underWay -= 1;
      return piece.toUpperCase();
    };
    const greedy = ['a1', 'a2', 'a3', 'a4'].map((piece) => queue.run(1, () => work(piece)));
    const modest = ['b1', 'b2'].map((piece) => queue.run(2, () => work(piece)));
    assert.deepEqual(await Promise.all(modest), ['B1', 'B2']);
    assert.deepEqual(await Promise.all(greedy), ['A1', 'A2', 'A3', 'A4']);
    assert.deepEqual(done, ['a1', 'a2', 'b1', 'a3', 'b2', 'a4']);
  });

  test('a failed task rejects for its caller only', async () => {
    const queue = createTurnQueue(alone);
    const bad = queue.run(1, async () => {
      throw new Error('refused');
    });
    const good = queue.run(1, async () => 'good');
    await assert.rejects(bad, /refused/);
    assert.equal(await good, 'good');
    assert.equal(await queue.run(1, async () => 'later'), 'later');
  });

  test('runs no more tasks at once than the limits in total and per owner', async () => {
    const underWay: string[] = [];
    let most = 0;
    const ends: (() => void)[] = [];
    const queue = createTurnQueue({ atOnce: 3, ofOwner: 2 });
    const work = async (piece: string): Promise<void> => {
      underWay.push(piece);
      most = Math.max(most, underWay.length);
      await new Promise<void>((resolve) => {
        ends.push(resolve);
      });
      underWay.splice(underWay.indexOf(piece), 1);
    };
    const pieces = ['a1', 'a2', 'a3', 'a4'].map((piece) => queue.run(1, () => work(piece)));
    assert.deepEqual(underWay, ['a1', 'a2']);
    pieces.push(
      queue.run(2, () => work('b1')),
      queue.run(3, () => work('c1')),
    );
    assert.deepEqual(underWay, ['a1', 'a2', 'b1']);
    for (let left = pieces.length; left > 0; left -= 1) {
      ends.shift()?.();
      await new Promise((resolve) => {
        setImmediate(resolve);
      });
    }
    await Promise.all(pieces);
    assert.equal(most, 3);
    assert.deepEqual(underWay, []);
  });
});
