import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { type Expectation, Holding, Shares, type Slot } from '../../src/delivery/shares.ts';

const capacity = { slots: 1024, bytes: 1024 * 1000 };

/** Attempts of the tenant until no more are admitted; returns how many were. */
function fill(shares: Shares, holding: Holding, expectation: Expectation, bytes = 1000): number {
  let count = 0;
  for (; shares.admits(holding, expectation, bytes); count += 1) {
    shares.take(holding, expectation, bytes);
  }
  return count;
}

const shared = (): Shares => new Shares(capacity, 4, () => true);
const alone = (): Shares => new Shares(capacity, 4, () => false);

describe('the share of a tenant in the slots of a node', () => {
  test('a tenant alone may have all, if its streams are quick', () => {
    assert.equal(fill(alone(), new Holding(1), 'quick'), 1024);
  });

  test('slow streams leave a quarter to quick ones', () => {
    const shares = alone();
    assert.equal(fill(shares, new Holding(1), 'slow'), 768);
    assert.equal(fill(shares, new Holding(1), 'quick'), 256);
  });

  test('a tenant that shares the node has three quarters at most', () => {
    assert.equal(fill(shared(), new Holding(1), 'quick'), 768);
  });

  test('slow streams leave a quarter of their own tenant to its quick ones', () => {
    const shares = shared();
    const holding = new Holding(1);
    assert.equal(fill(shares, holding, 'slow'), 576);
    assert.equal(fill(shares, holding, 'quick'), 192);
  });

  test('some slots are left for each further tenant', () => {
    const shares = shared();
    const taken = [1, 2, 3, 4].map((tenant) => fill(shares, new Holding(tenant), 'quick'));
    assert.deepEqual(taken, [768, 192, 48, 12]);
  });

  test('a stream without a history may begin although slow ones use their whole part', () => {
    const shares = alone();
    const holding = new Holding(1);
    fill(shares, holding, 'slow');
    assert.ok(shares.admits(holding, 'probe', 1));
    assert.equal(fill(shares, holding, 'probe'), 128);
    assert.equal(fill(shares, holding, 'quick'), 128);
  });

  test('attempts that begin to hang count as slow from then on', () => {
    const shares = alone();
    const holding = new Holding(1);
    const slots = Array.from({ length: 800 }, () => shares.take(holding, 'quick', 1));
    for (const slot of slots) shares.change(slot, { expectation: 'slow' });
    assert.equal(shares.admits(holding, 'slow', 1), false);
    assert.equal(fill(shares, holding, 'quick'), 224);
  });

  test('the last slot can be used', () => {
    for (const slots of [1, 2, 3, 4]) {
      const few = new Shares({ slots, bytes: 1000 }, 4, () => false);
      assert.equal(fill(few, new Holding(1), 'quick', 1), slots);
    }
    const one = new Shares({ slots: 1, bytes: 1000 }, 4, () => true);
    assert.equal(fill(one, new Holding(1), 'slow', 1), 1);
  });
});

describe('the share of a tenant in the bytes under way', () => {
  test('bodies of one tenant leave room for those of another', () => {
    const shares = shared();
    assert.equal(fill(shares, new Holding(1), 'quick', 100_000), 7);
    assert.ok(shares.admits(new Holding(2), 'quick', 100_000));
    assert.equal(shares.bytes, 700_000);
  });

  test('a body that is larger than the capacity is sent alone', () => {
    const shares = alone();
    assert.equal(fill(shares, new Holding(1), 'slow', 10_000_000), 1);
    assert.equal(shares.isFull, true);
  });
});

type Step =
  | {
      readonly do: 'take';
      readonly tenant: number;
      readonly what: Expectation;
      readonly bytes: number;
    }
  | { readonly do: 'release' | 'slow'; readonly at: number };

const steps: fc.Arbitrary<Step[]> = fc.array(
  fc.oneof(
    fc.record({
      do: fc.constant('take' as const),
      tenant: fc.integer({ min: 0, max: 4 }),
      what: fc.constantFrom<Expectation>('quick', 'probe', 'slow'),
      bytes: fc.integer({ min: 0, max: 50 }),
    }),
    fc.record({
      do: fc.constantFrom('release' as const, 'slow' as const),
      at: fc.nat(),
    }),
  ),
  { maxLength: 300 },
);

test('shares: usage stays within the bounds and returns to zero after any history', () => {
  fc.assert(
    fc.property(steps, fc.integer({ min: 1, max: 40 }), (history, slots) => {
      const shares = new Shares({ slots, bytes: 300 }, 4, () => true);
      const holdings = Array.from({ length: 5 }, (_, tenant) => new Holding(tenant));
      let held: Slot[] = [];
      for (const step of history) {
        if (step.do === 'take') {
          const holding = holdings[step.tenant];
          if (holding === undefined || !shares.admits(holding, step.what, step.bytes)) continue;
          const before = holding.all.slots;
          held.push(shares.take(holding, step.what, step.bytes));
          assert.ok(shares.slots <= slots);
          if (held.length > 1) assert.ok(shares.bytes <= 300);
          if (before > 0) assert.ok(holding.all.slots <= 3 * (slots - shares.slots));
          continue;
        }
        const slot = held[step.at % Math.max(1, held.length)];
        if (slot === undefined) continue;
        if (step.do === 'slow') shares.change(slot, { expectation: 'slow' });
        else {
          shares.release(slot);
          held = held.filter((other) => other !== slot);
        }
      }
      assert.equal(shares.slots, held.length);
      for (const slot of held) shares.release(slot);
      assert.deepEqual([shares.slots, shares.bytes], [0, 0]);
      for (const { all, unproven } of holdings) {
        assert.deepEqual([all.slots, all.bytes, unproven.slots, unproven.bytes], [0, 0, 0, 0]);
      }
    }),
  );
});
