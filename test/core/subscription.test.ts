import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import {
  changedAfter,
  differWithin,
  firstChangeFrom,
  firstSubscription,
  sameSelection,
  selectionNow,
  spanAt,
  withoutPassed,
  withSelection,
} from '../../src/core/subscription.ts';
import type { Subscription } from '../../src/core/types.ts';

const changes: Subscription[] = [
  { after: 0, types: ['a.a'] },
  { after: 10, types: ['b.b'] },
  { after: 20, types: ['c.c'] },
];

describe('spanAt', () => {
  test('a change applies from the first event after its offset', () => {
    assert.deepEqual(spanAt(changes, 1), { types: ['a.a'], upTo: 10 });
    assert.deepEqual(spanAt(changes, 10), { types: ['a.a'], upTo: 10 });
    assert.deepEqual(spanAt(changes, 11), { types: ['b.b'], upTo: 20 });
    assert.deepEqual(spanAt(changes, 21), { types: ['c.c'], upTo: undefined });
  });

  test('no types apply before the first span', () => {
    assert.deepEqual(spanAt([{ after: 5, types: ['a.a'] }], 5), { types: [], upTo: 5 });
    assert.deepEqual(spanAt([], 5), { types: [], upTo: undefined });
  });
});

describe('withSelection', () => {
  test('the former selection applies up to the head', () => {
    const next = withSelection(changes, { types: ['d.d'] }, 30);
    assert.deepEqual(next, [...changes, { after: 30, types: ['d.d'] }]);
    assert.deepEqual(selectionNow(next), { types: ['d.d'] });
  });

  test('a change replaces a former one at the same offset', () => {
    assert.deepEqual(withSelection(changes, { types: ['d.d'] }, 20), [
      ...changes.slice(0, 2),
      { after: 20, types: ['d.d'] },
    ]);
    assert.deepEqual(withSelection([{ after: 0, types: ['a.a'] }], { types: [] }, 0), [
      { after: 0, types: [] },
    ]);
  });
});

describe('filters of subscriptions', () => {
  const filter = '{"data.object.plan":"pro"}';

  test('a filter applies to the events of its span', () => {
    const changed = withSelection(changes, { types: ['c.c'], filter }, 30);
    assert.deepEqual(spanAt(changed, 30), { types: ['c.c'], upTo: 30 });
    assert.deepEqual(spanAt(changed, 31), { types: ['c.c'], filter, upTo: undefined });
    assert.deepEqual(selectionNow(changed), { types: ['c.c'], filter });
  });

  test('selections with the same types and another filter are not the same', () => {
    const types = ['a.a'];
    assert.equal(sameSelection({ types, filter }, { types, filter }), true);
    assert.equal(sameSelection({ types, filter }, { types }), false);
    assert.equal(sameSelection({ types }, { types, filter: undefined }), true);
    const changed = withSelection(changes, { types: ['c.c'], filter }, 30);
    assert.equal(differWithin(changes, changed, { after: 0, upTo: 30 }), false);
    assert.equal(differWithin(changes, changed, { after: 0, upTo: 31 }), true);
  });
});

describe('firstChangeFrom', () => {
  test('firstChangeFrom returns the first change that the cursor has not passed', () => {
    assert.equal(firstChangeFrom(changes, 5), 10);
    assert.equal(firstChangeFrom(changes, 10), 10);
    assert.equal(firstChangeFrom(changes, 11), 20);
    assert.equal(firstChangeFrom(changes, 21), undefined);
  });

  test('the subscriptions of a new stream are not a change, one made in an empty log is', () => {
    const first = firstSubscription({ types: ['a.a'] });
    assert.equal(firstChangeFrom(first, 0), undefined);
    assert.equal(firstChangeFrom(withSelection(first, { types: ['b.b'] }, 0), 0), 0);
  });
});

describe('changedAfter', () => {
  const selections = fc.constantFrom(['a.a'], ['b.b'], ['a.a', 'b.b']);
  const history = fc.array(fc.record({ types: selections, events: fc.nat(3) }), { maxLength: 8 });

  test('known subscriptions apply up to the offset, and the present ones after it', () => {
    fc.assert(
      fc.property(history, fc.nat(8), fc.nat(20), fc.nat(9), (made, knownCount, upTo, cursor) => {
        let head = 0;
        let present = firstSubscription({ types: ['a.a'] });
        let known = present;
        for (const [index, { types, events }] of made.entries()) {
          head += events;
          present = withSelection(present, { types }, head);
          if (index < knownCount) known = present;
        }
        // Each change drops what the cursor has passed.
        present = withoutPassed(present, cursor);
        const after = changedAfter(present, { subscriptions: known, upTo });
        for (let offset = cursor + 1; offset <= head + 3; offset += 1) {
          const expected = spanAt(offset <= upTo ? known : present, offset);
          assert.ok(sameSelection(spanAt(after, offset), expected), `at ${offset}`);
        }
        const offsets = after.map((one) => one.after);
        assert.deepEqual(
          offsets,
          [...new Set(offsets)].toSorted((one, other) => one - other),
        );
      }),
    );
  });

  test('subscriptions that are all known stay the same', () => {
    assert.deepEqual(changedAfter(changes, { subscriptions: changes, upTo: 30 }), changes);
  });
});

describe('differWithin', () => {
  const later = [...changes, { after: 30, types: ['d.d'] }];

  test('two lists differ where their types do', () => {
    assert.equal(differWithin(changes, later, { after: 0, upTo: 30 }), false);
    assert.equal(differWithin(changes, later, { after: 0, upTo: 31 }), true);
    assert.equal(differWithin(changes, later, { after: 31, upTo: 31 }), false);
  });

  test('differWithin gives the same result as comparing the types of each event', () => {
    const list = fc
      .uniqueArray(fc.tuple(fc.nat({ max: 12 }), fc.constantFrom('a.a', 'b.b')), {
        selector: ([after]) => after,
      })
      .map((pairs) =>
        pairs
          .toSorted(([one], [other]) => one - other)
          .map(([after, type]) => ({ after, types: [type] })),
      );
    fc.assert(
      fc.property(
        list,
        list,
        fc.nat({ max: 12 }),
        fc.nat({ max: 14 }),
        (one, other, after, upTo) => {
          let expected = false;
          for (let offset = after + 1; offset <= upTo; offset += 1) {
            const [first] = spanAt(one, offset).types;
            if (first !== spanAt(other, offset).types[0]) expected = true;
          }
          assert.equal(differWithin(one, other, { after, upTo }), expected);
        },
      ),
    );
  });
});

describe('withoutPassed', () => {
  test('a span is dropped once the cursor has reached its end', () => {
    assert.deepEqual(withoutPassed(changes, 9), changes);
    assert.deepEqual(withoutPassed(changes, 10), changes.slice(1));
    assert.deepEqual(withoutPassed(changes, 99), changes.slice(2));
  });

  test('withoutPassed keeps the types of every event after the cursor', () => {
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
