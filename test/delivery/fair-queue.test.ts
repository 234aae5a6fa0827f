import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { FairQueue, type Offer } from '../../src/delivery/fair-queue.ts';
import { createPrng } from '../simulation/prng.ts';

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

  test('an offer may offer the next item: every item is taken once', () => {
    const queue = queueOf([5, 1]);
    const taken: string[] = [];
    const offer = (item: string): Offer => {
      taken.push(item);
      if (queue.length > 0) assert.equal(queue.offerNext(offer), true, 'the others are offered');
      return 'taken';
    };
    assert.equal(queue.offerNext(offer), true);
    assert.deepEqual([taken.toSorted(), queue.length], [['a1', 'a2', 'a3', 'a4', 'a5', 'b1'], 0]);
  });

  test('a call ends although every offer pushes its item again', () => {
    const queue = queueOf([3, 3]);
    let offers = 0;
    const offer = (item: string): Offer => {
      offers += 1;
      assert.ok(offers < 1000, 'the call ends');
      queue.push(item.startsWith('a') ? 0 : 1, item);
      return 'dropped';
    };
    assert.equal(queue.offerNext(offer), false);
    assert.equal(queue.length, 6);
  });

  test('offers that enter the queue in any way leave it consistent, and every call ends', () => {
    for (let seed = 0; seed < 300; seed += 1) playEntries(seed);
  });
});

/** Calls a queue at random, also within its offers, and compares it with a set of the waiting items. */
function playEntries(seed: number): void {
  const prng = createPrng(seed, 'entries');
  const queue = new FairQueue<number>();
  const waiting = new Map<number, number>();
  let pushed = 0;
  let offers = 0;
  const about = (): string => `seed ${seed}, after ${offers} offers`;
  const push = (tenant: number, item: number): void => {
    waiting.set(item, tenant);
    queue.push(tenant, item);
  };
  const act = (depth: number): void => {
    const action = prng.pick(['push', 'push', 'push', 'offer', 'offer', 'renew', 'clear'] as const);
    if (action === 'push') push(prng.between(0, 3), (pushed += 1));
    else if (action === 'renew') queue.renew();
    else if (action === 'offer') offerSome(depth);
    else if (prng.chance(0.2)) {
      assert.deepEqual(new Set(queue.clear()), new Set(waiting.keys()), about());
      waiting.clear();
    }
  };
  const offerSome = (depth: number): void => {
    if (depth > 3) return;
    const hasUntried = queue.isUntried;
    const itemsMax = prng.pick([1, 4, Infinity]);
    let offered = 0;
    queue.offerNext((item) => {
      offers += 1;
      offered += 1;
      assert.ok(offers < 20_000, `no call ends: ${about()}`);
      const tenant = waiting.get(item);
      assert.ok(tenant !== undefined, `${item} waits: ${about()}`);
      waiting.delete(item);
      assert.equal(queue.length, waiting.size, about());
      for (let acts = prng.between(0, 3); acts > 0; acts -= 1) act(depth + 1);
      const result = prng.pick(['taken', 'dropped', 'refused'] as const);
      if (result === 'refused') waiting.set(item, tenant);
      else if (prng.chance(0.3)) push(tenant, item);
      return result;
    }, itemsMax);
    // Whatever calls are under way, an untried item is found.
    if (hasUntried && itemsMax === Infinity) assert.ok(offered > 0, about());
  };
  for (let acts = 0; acts < 60; acts += 1) act(0);
  queue.renew();
  while (queue.length > 0) {
    const before = waiting.size;
    const took = queue.offerNext((item) => (waiting.delete(item) ? 'taken' : 'refused'));
    assert.ok(took && waiting.size === before - 1, about());
  }
  assert.equal(waiting.size, 0, about());
}
