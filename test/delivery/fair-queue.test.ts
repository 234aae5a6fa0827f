import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { FairQueue } from '../../src/delivery/fair-queue.ts';

/** A queue with so many items of each tenant: `a1`, `a2`, …, `b1`, … */
function queueOf(counts: readonly number[]): FairQueue<string> {
  const queue = new FairQueue<string>();
  counts.forEach((count, tenant) => {
    const letter = String.fromCharCode(97 + tenant);
    for (let number = 1; number <= count; number += 1) queue.push(tenant, `${letter}${number}`);
  });
  return queue;
}

/** What is taken until nothing is. */
function takeAll(queue: FairQueue<string>, held: readonly string[] = []): string[] {
  const taken: string[] = [];
  const offer = (item: string): 'held' | 'taken' => {
    if (held.some((letter) => item.startsWith(letter))) return 'held';
    taken.push(item);
    return 'taken';
  };
  while (queue.offerNext(offer));
  return taken;
}

describe('a fair queue', () => {
  test('takes turns over tenants, then over the items of each', () => {
    const queue = queueOf([4, 1, 2]);
    assert.deepEqual(takeAll(queue), ['a1', 'b1', 'c1', 'a2', 'c2', 'a3', 'a4']);
    assert.equal(queue.length, 0);
  });

  test('passes over a tenant that is held until it is resumed', () => {
    const queue = queueOf([2, 2]);
    assert.deepEqual(takeAll(queue, ['a']), ['b1', 'b2']);
    assert.deepEqual(takeAll(queue), []);
    queue.push(0, 'a3');
    assert.deepEqual(takeAll(queue), [], 'a new item resumes nothing');
    assert.equal(queue.length, 3);
    queue.resume(0);
    assert.deepEqual(takeAll(queue).toSorted(), ['a1', 'a2', 'a3']);
  });

  test('offers a held tenant its other items first when it is resumed', () => {
    const queue = queueOf([2]);
    takeAll(queue, ['a1']);
    queue.resume(0);
    assert.deepEqual(takeAll(queue), ['a2', 'a1']);
  });

  test('drops what needs no turn without using the turn of its tenant', () => {
    const queue = queueOf([3, 1]);
    const seen: string[] = [];
    const offer = (item: string): 'dropped' | 'taken' => {
      seen.push(item);
      return item === 'a1' || item === 'a2' ? 'dropped' : 'taken';
    };
    assert.equal(queue.offerNext(offer), true);
    assert.deepEqual(seen, ['a1', 'a2', 'a3']);
    assert.equal(queue.length, 1);
  });

  test('ends the round when nobody may have anything, and the next tenant is first then', () => {
    const queue = queueOf([1, 1]);
    assert.equal(
      queue.offerNext(() => 'full'),
      false,
    );
    assert.deepEqual(takeAll(queue), ['b1', 'a1']);
  });

  test('an item may be pushed again while it is taken', () => {
    const queue = queueOf([1, 1]);
    const taken: string[] = [];
    const offer = (item: string): 'taken' => {
      taken.push(item);
      if (taken.length < 5) queue.push(item === 'a1' ? 0 : 1, item);
      return 'taken';
    };
    while (queue.offerNext(offer));
    assert.deepEqual(taken, ['a1', 'b1', 'a1', 'b1', 'a1', 'b1']);
  });

  test('gives back all items when it is cleared', () => {
    const queue = queueOf([2, 1]);
    takeAll(queue, ['a', 'b']);
    assert.deepEqual(queue.clear().toSorted(), ['a1', 'a2', 'b1']);
    queue.push(0, 'a9');
    assert.deepEqual(takeAll(queue), ['a9']);
  });
});
