import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { FairQueue, type Offer } from '../../src/delivery/fair-queue.ts';

/** Creates a queue with some items of each tenant: `a1`, `a2`, …, `b1`, … */
function queueOf(counts: readonly number[]): FairQueue<string> {
  const queue = new FairQueue<string>();
  counts.forEach((count, tenant) => {
    const name = String.fromCharCode(97 + tenant);
    for (let number = 1; number <= count; number += 1) queue.push(tenant, `${name}${number}`);
  });
  return queue;
}

/** Returns the taken items until none is taken; items that begin with one of the texts are refused. */
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
  test('offers go round robin over tenants, then over the items of each', () => {
    const queue = queueOf([4, 1, 2]);
    assert.deepEqual(takeAll(queue), ['a1', 'b1', 'c1', 'a2', 'c2', 'a3', 'a4']);
    assert.equal(queue.length, 0);
  });

  test('after a refused item, one of the next tenant or of the same tenant is offered', () => {
    const queue = queueOf([2, 2]);
    assert.deepEqual(takeAll(queue, ['a1', 'b']), ['a2']);
    assert.equal(queue.length, 3);
  });

  test('a refused item is offered again only after renew', () => {
    const queue = queueOf([1, 1]);
    assert.deepEqual(takeAll(queue, ['a']), ['b1']);
    assert.equal(queue.isUntried, false);
    assert.deepEqual(takeAll(queue), []);
    queue.renew();
    assert.equal(queue.isUntried, true);
    assert.deepEqual(takeAll(queue), ['a1']);
  });

  test('a new item is offered although all before it were refused', () => {
    const queue = queueOf([3]);
    assert.deepEqual(takeAll(queue, ['a']), []);
    queue.push(1, 'b1');
    assert.deepEqual(takeAll(queue, ['a']), ['b1']);
  });

  test('a call offers at most itemsMax items, the next call continues after them, and each is offered once', () => {
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

  test('a dropped item does not use the turn of its tenant', () => {
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

  test('clear returns all items', () => {
    const queue = queueOf([2, 1]);
    takeAll(queue, ['a', 'b']);
    assert.deepEqual(queue.clear().toSorted(), ['a1', 'a2', 'b1']);
    queue.push(0, 'a9');
    assert.deepEqual(takeAll(queue), ['a9']);
  });
});
