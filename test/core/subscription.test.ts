import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { spanAt, typesNow, withoutPassed, withTypes } from '../../src/core/subscription.ts';
import type { Subscription } from '../../src/core/types.ts';

const changes: Subscription[] = [
  { after: 0, types: ['a.a'] },
  { after: 10, types: ['b.b'] },
  { after: 20, types: ['c.c'] },
];

describe('spanAt', () => {
  test('a change takes effect for the first event after its offset', () => {
    assert.deepEqual(spanAt(changes, 1), { types: ['a.a'], upTo: 10 });
    assert.deepEqual(spanAt(changes, 10), { types: ['a.a'], upTo: 10 });
    assert.deepEqual(spanAt(changes, 11), { types: ['b.b'], upTo: 20 });
    assert.deepEqual(spanAt(changes, 21), { types: ['c.c'], upTo: undefined });
  });

  test('before the first span nothing is wanted', () => {
    assert.deepEqual(spanAt([{ after: 5, types: ['a.a'] }], 5), { types: [], upTo: 5 });
    assert.deepEqual(spanAt([], 5), { types: [], upTo: undefined });
  });
});

describe('withTypes', () => {
  test('the former types stay in force up to the head', () => {
    const next = withTypes(changes, ['d.d'], 30);
    assert.deepEqual(next, [...changes, { after: 30, types: ['d.d'] }]);
    assert.deepEqual(typesNow(next), ['d.d']);
  });

  test('two changes without an event between them are one', () => {
    assert.deepEqual(withTypes(changes, ['d.d'], 20), [
      ...changes.slice(0, 2),
      { after: 20, types: ['d.d'] },
    ]);
    assert.deepEqual(withTypes([{ after: 0, types: ['a.a'] }], [], 0), [{ after: 0, types: [] }]);
  });
});

describe('withoutPassed', () => {
  test('a span leaves once the cursor has reached its end', () => {
    assert.deepEqual(withoutPassed(changes, 9), changes);
    assert.deepEqual(withoutPassed(changes, 10), changes.slice(1));
    assert.deepEqual(withoutPassed(changes, 99), changes.slice(2));
  });

  test('no event after the cursor is judged differently', () => {
    const spans = fc
      .uniqueArray(fc.integer({ min: 0, max: 30 }), { minLength: 1, maxLength: 6 })
      .map((offsets) =>
        offsets
          .toSorted((one, other) => one - other)
          .map((after) => ({ after, types: [`t.${after}`] })),
      );
    fc.assert(
      fc.property(spans, fc.integer({ min: 0, max: 31 }), (subscriptions, cursor) => {
        const trimmed = withoutPassed(subscriptions, cursor);
        for (let offset = cursor + 1; offset <= 35; offset += 1) {
          assert.deepEqual(spanAt(trimmed, offset), spanAt(subscriptions, offset));
        }
      }),
    );
  });
});
