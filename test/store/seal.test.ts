import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { SealBroken, StoreUnavailable } from '../../src/core/errors.ts';
import { createSeal, keyIdOf, type KeyCheck } from '../../src/store/seal.ts';
import { keyCheckPlace, type Place, placeIn } from '../../src/store/sealed-columns.ts';

const key = randomBytes(32);
const former = randomBytes(32);
const place = placeIn('streams', { tenant: 1, row: 'est_1' }, 'destination');
const seal = createSeal([key], randomBytes);
const check = checkOf(key);
const sealed = seal.seal('a secret', place, check);

describe('seal', () => {
  test('seal: opens any text that it sealed', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', maxLength: 200 }), (text) => {
        assert.equal(seal.open(seal.seal(text, place, check), place), text);
      }),
      { numRuns: 200 },
    );
    for (const text of ['', '\u0000', 'x'.repeat(1_000_000)]) {
      assert.equal(seal.open(seal.seal(text, place, check), place), text);
    }
  });

  test('seal: the sealed form is version, key id, nonce, ciphertext and tag, without any of the text', () => {
    assert.equal(sealed.length, 1 + 6 + 12 + 'a secret'.length + 16);
    assert.equal(sealed[0], 2);
    assert.equal(Buffer.from(sealed.subarray(1, 7)).toString('hex'), keyIdOf(key));
    assert.ok(!Buffer.from(sealed).includes('secret'));
  });

  test('seal: two sealed forms of one text differ', () => {
    assert.notDeepEqual(seal.seal('same', place, check), seal.seal('same', place, check));
  });

  test('seal: takes its nonce from the random source', () => {
    const nonce = Buffer.alloc(12, 5);
    const counts: number[] = [];
    const fixed = createSeal([key], (count) => (counts.push(count), nonce));
    assert.deepEqual(Buffer.from(fixed.seal('x', place, check).subarray(7, 19)), nonce);
    assert.deepEqual(counts, [12]);
  });

  for (const [what, other] of Object.entries<Place>({
    'another tenant': { ...place, tenant: 2 },
    'another row': { ...place, row: 'est_2' },
    'another column': { ...place, column: 'signing_secrets' },
    'another table': { ...place, table: 'signing_keys' },
    'the key check': keyCheckPlace,
  })) {
    test(`seal: a value copied to ${what} does not open there`, () => {
      assert.throws(() => seal.open(sealed, other), SealBroken);
      assert.equal(seal.open(sealed, place), 'a secret');
    });
  }

  test('seal: a place cannot be written in two ways', () => {
    const one = seal.seal('x', { ...place, row: 'a","b' }, check);
    assert.throws(() => seal.open(one, { ...place, row: 'a' }), SealBroken);
  });

  test('seal: opens nothing with a changed bit', () => {
    for (let bit = 0; bit < sealed.length * 8; bit++) {
      const damaged = Uint8Array.from(sealed);
      damaged[bit >> 3] = (damaged[bit >> 3] ?? 0) ^ (1 << (bit & 7));
      // In the id the bit names another key.
      const error = bit >= 8 && bit < 56 ? StoreUnavailable : SealBroken;
      assert.throws(() => seal.open(damaged, place), error, `bit ${bit}`);
    }
  });

  test('seal: opens nothing that was cut or extended', () => {
    for (let length = 0; length < sealed.length; length++) {
      assert.throws(() => seal.open(sealed.subarray(0, length), place), SealBroken, `${length}`);
    }
    assert.throws(() => seal.open(Buffer.concat([sealed, Buffer.of(0)]), place), SealBroken);
  });

  test('seal: opens nothing of a key that it lacks, and names the key', () => {
    const other = createSeal([former], randomBytes);
    const message = `A stored secret does not open. LEAT_SECRET_KEY lacks key ${keyIdOf(key)}.`;
    assert.throws(() => other.open(sealed, place), {
      name: 'StoreUnavailable',
      reason: 'key',
      message,
    });
  });

  test('seal: opens with the key that the value names, whatever the order of the keys', () => {
    for (const keys of [
      [key, former],
      [former, key],
    ]) {
      const both = createSeal(keys, randomBytes);
      assert.equal(both.open(sealed, place), 'a secret');
      const older = both.seal('older', place, checkOf(former));
      assert.equal(both.open(older, place), 'older');
      assert.throws(() => seal.open(older, place), StoreUnavailable);
    }
  });

  test('seal: opens a part of a larger buffer, as databases return them', () => {
    const larger = Buffer.concat([Buffer.alloc(3, 1), sealed, Buffer.alloc(3, 1)]);
    assert.equal(seal.open(larger.subarray(3, 3 + sealed.length), place), 'a secret');
  });

  test('seal: an error has nothing of key or content', () => {
    const damaged = Uint8Array.from(sealed);
    damaged[20] = (damaged[20] ?? 0) ^ 1;
    const message = 'A stored secret does not open: another key or place, or damaged bytes.';
    assert.throws(() => seal.open(damaged, place), { message });
  });

  test('seal: requires keys of 32 bytes, and at least one', () => {
    for (const length of [0, 16, 31, 33, 64]) {
      assert.throws(() => createSeal([randomBytes(length)], randomBytes), RangeError);
    }
    assert.throws(() => createSeal([], randomBytes), RangeError);
  });
});

describe('the key check', () => {
  test('key check: says what it said, under each key', () => {
    const both = createSeal([key, former], randomBytes);
    for (const state of [check, checkOf(former), { ...check, former: keyIdOf(former) }]) {
      assert.deepEqual(both.readCheck(both.sealCheck(state)), state);
    }
  });

  test('key check: a store with seals that are not bound to their place is refused, with what to do', () => {
    const problem =
      ', of which some are not bound to their place: start it with commit a060e904, run leat secrets rotate there to its end, stop that and start this version';
    const ofBefore = Buffer.concat([Buffer.of(1), randomBytes(12 + 'Leat'.length + 16)]);
    const left = seal.seal('{"unbound":true}', keyCheckPlace, check);
    for (const bytes of [ofBefore, left]) assert.deepEqual(seal.readCheck(bytes), { problem });
    const bound = seal.seal('{"unbound":false}', keyCheckPlace, check);
    assert.deepEqual(seal.readCheck(bound), check);
  });

  test('key check: the problem names the missing key, also while a rotation is unfinished', () => {
    const both = createSeal([key, former], randomBytes);
    const [id, formerId] = [keyIdOf(key), keyIdOf(former)];
    const old = createSeal([former], randomBytes);
    assert.deepEqual(old.readCheck(both.sealCheck(check)), {
      problem: `, which key ${id} seals: set that key; this is key ${formerId}`,
    });
    const unfinished = both.sealCheck({ ...check, former: formerId });
    assert.deepEqual(seal.readCheck(unfinished), {
      problem: `, of which some are still sealed with key ${formerId}: set both keys, ${id},${formerId}, and run leat secrets rotate to its end; this is key ${id}`,
    });
  });

  test('key check: a value from another place, and damage, are problems', () => {
    for (const bytes of [sealed, Buffer.alloc(0), Buffer.of(2), Buffer.alloc(100, 2)]) {
      assert.ok('problem' in seal.readCheck(bytes));
    }
  });
});

function checkOf(bytes: Uint8Array): KeyCheck {
  return { key: keyIdOf(bytes), former: undefined };
}
