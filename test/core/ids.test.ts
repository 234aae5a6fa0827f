import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { isEventId, keyedEventId, makeId } from '../../src/core/ids.ts';

const shape = /^evt_[1-9A-HJ-NP-Za-km-z]{22}$/;
/** The time of an id ends in the year 6026. */
const millis = fc.integer({ min: 0, max: 58 ** 8 - 1 });
const bytes = fc.uint8Array({ minLength: 10, maxLength: 10 });

describe('makeId', () => {
  test('makeId makes a prefix and 22 base58 characters from any time and any bytes', () => {
    fc.assert(
      fc.property(millis, bytes, (now, random) => {
        assert.match(
          makeId('evt_', now, () => random),
          shape,
        );
      }),
    );
  });

  test('makeId makes ids that sort by time, for any random part', () => {
    fc.assert(
      fc.property(millis, millis, bytes, bytes, (one, other, oneRandom, otherRandom) => {
        fc.pre(one < other);
        const former = makeId('evt_', one, () => oneRandom);
        assert.ok(former < makeId('evt_', other, () => otherRandom));
      }),
    );
  });

  test('makeId uses every random bit', () => {
    fc.assert(
      fc.property(bytes, bytes, (one, other) => {
        const same = Buffer.compare(one, other) === 0;
        const ids = [makeId('', 1, () => one), makeId('', 1, () => other)];
        assert.equal(ids[0] === ids[1], same);
      }),
    );
  });

  test('encodes the largest time and the largest bytes', () => {
    const full = new Uint8Array(10).fill(255);
    assert.match(
      makeId('est_', 58 ** 8 - 1, () => full),
      /^est_zzzzzzzz[1-9A-HJ-NP-Za-km-z]{14}$/,
    );
  });

  test('makeId uses 80 random bits', () => {
    const counts: number[] = [];
    makeId('evt_', 0, (count) => {
      counts.push(count);
      return randomBytes(count);
    });
    assert.deepEqual(counts, [10]);
  });
});

describe('keyedEventId', () => {
  test('keyedEventId returns an event id, and the same one for the same key', () => {
    fc.assert(
      fc.property(fc.string(), (key) => {
        assert.equal(keyedEventId([key]), keyedEventId([key]));
        assert.match(keyedEventId([key]), shape);
      }),
    );
  });

  test('keyedEventId never changes between versions: stored ids depend on it', () => {
    assert.equal(keyedEventId(['order-42-paid']), 'evt_BCkanYMXCtckCF3f2PQd9y');
    assert.equal(keyedEventId(['urn:shop', '42']), 'evt_WpRcPN7CsKGemMevcjtakW');
  });

  test('keyedEventId distinguishes lists of parts that join to the same text', () => {
    const lists = [['ab', 'c'], ['a', 'bc'], ['abc'], ['a', 'b', 'c'], ['', 'abc'], ['a","b', 'c']];
    assert.equal(new Set(lists.map((parts) => keyedEventId(parts))).size, lists.length);
  });

  test('keyedEventId distinguishes lone surrogates', () => {
    assert.notEqual(keyedEventId(['\ud800']), keyedEventId(['\udfff']));
  });
});

describe('isEventId', () => {
  test('isEventId accepts the prefix and exactly 22 letters or digits', () => {
    assert.ok(isEventId(`evt_${'a'.repeat(22)}`));
    for (const text of [
      '',
      'evt_',
      `evt_${'a'.repeat(21)}`,
      `evt_${'a'.repeat(23)}`,
      `EVT_${'a'.repeat(22)}`,
      `est_${'a'.repeat(22)}`,
      `evt_${'a'.repeat(21)}-`,
      `evt_${'a'.repeat(22)}\n`,
      ` evt_${'a'.repeat(22)}`,
    ]) {
      assert.ok(!isEventId(text), JSON.stringify(text));
    }
  });
});
