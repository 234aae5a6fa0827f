import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { FairQueue, type Offer } from '../../src/delivery/fair-queue.ts';

/** A queue with so many items of each tenant: `a1`, `a2`, …, `b1`, … */
function queueOf(counts: readonly number[]): FairQueue<string> {
  const queue = new FairQueue<string>();
  counts.forEach((count, tenant) => {
    const letter = String.fromCharCode(97 + tenant);
    for (let number = 1; number <= count; number += 1) queue.push(tenant, `${letter}${number}`);
  });
  return queue;
}

/** What is taken until nothing is; items that begin with one of the texts are refused. */
function takeAll(queue: FairQueue<string>, refused: readonly string[] = []): string[] {
  const taken: string[] = [];
  const offer = (item: string): Offer => {
    if (refused.some((text) => item.startsWith(text))) return 'refused';
    taken.push(item);
    return 'taken';
  };
  while (queue.offerNext(offer, 100));
  return taken;
}

describe('a fair queue', () => {
  test('takes turns over tenants, then over the items of each', () => {
    const queue = queueOf([4, 1, 2]);
    assert.deepEqual(takeAll(queue), ['a1', 'b1', 'c1', 'a2', 'c2', 'a3', 'a4']);
    assert.equal(queue.length, 0);
  });

  test('takes another item when one is refused, of the next tenant or of the same one', () => {
    const queue = queueOf([2, 2]);
    assert.deepEqual(takeAll(queue, ['a1', 'b']), ['a2']);
    assert.equal(queue.length, 3);
  });

  test('offers a refused item again only after it is renewed', () => {
    const queue = queueOf([1, 1]);
    assert.deepEqual(takeAll(queue, ['a']), ['b1']);
    assert.equal(queue.isUntried, false);
    assert.deepEqual(takeAll(queue), []);
    queue.renew();
    assert.equal(queue.isUntried, true);
    assert.deepEqual(takeAll(queue), ['a1']);
  });

  test('offers a new item although all before it were refused', () => {
    const queue = queueOf([3]);
    assert.deepEqual(takeAll(queue, ['a']), []);
    queue.push(1, 'b1');
    assert.deepEqual(takeAll(queue, ['a']), ['b1']);
  });

  test('offers so many items at most, goes on behind them, and tries each once', () => {
    const queue = queueOf([10, 10]);
    const offered: string[] = [];
    const refuse = (item: string): Offer => {
      offered.push(item);
      return 'refused';
    };
    while (queue.isUntried) {
      const before = offered.length;
      assert.equal(queue.offerNext(refuse, 3), false);
      assert.ok(offered.length - before <= 3);
    }
    assert.equal(offered.length, 20);
    assert.equal(new Set(offered).size, 20);
    assert.equal(queue.length, 20);
  });

  test('drops what needs no turn without using the turn of its tenant', () => {
    const queue = queueOf([3, 1]);
    const seen: string[] = [];
    const offer = (item: string): Offer => {
      seen.push(item);
      return item === 'a1' || item === 'a2' ? 'dropped' : 'taken';
    };
    assert.equal(queue.offerNext(offer, 10), true);
    assert.deepEqual(seen, ['a1', 'a2', 'a3']);
    assert.equal(queue.length, 1);
  });

  test('an item may be pushed again while it is taken', () => {
    const queue = queueOf([1, 1]);
    const taken: string[] = [];
    const offer = (item: string): Offer => {
      taken.push(item);
      if (taken.length < 5) queue.push(item === 'a1' ? 0 : 1, item);
      return 'taken';
    };
    while (queue.offerNext(offer, 10));
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
