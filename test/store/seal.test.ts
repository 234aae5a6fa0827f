import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { createSeal, SealBroken } from '../../src/store/seal.ts';

const key = randomBytes(32);
const seal = createSeal(key, randomBytes);

describe('seal', () => {
  test('seal: opens any text that it sealed', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', maxLength: 200 }), (text) => {
        assert.equal(seal.open(seal.seal(text)), text);
      }),
      { numRuns: 200 },
    );
    for (const text of ['', '\u0000', 'x'.repeat(1_000_000)]) {
      assert.equal(seal.open(seal.seal(text)), text);
    }
  });

  test('seal: the sealed form is version, nonce, ciphertext and tag, without any of the text', () => {
    const sealed = seal.seal('a secret');
    assert.equal(sealed.length, 1 + 12 + 'a secret'.length + 16);
    assert.equal(sealed[0], 1);
    assert.ok(!Buffer.from(sealed).includes('secret'));
  });

  test('seal: two sealed forms of one text differ', () => {
    assert.notDeepEqual(seal.seal('same'), seal.seal('same'));
  });

  test('seal: takes its nonce from the random source', () => {
    const nonce = Buffer.alloc(12, 5);
    const counts: number[] = [];
    const fixed = createSeal(key, (count) => (counts.push(count), nonce));
    assert.deepEqual(Buffer.from(fixed.seal('x').subarray(1, 13)), nonce);
    assert.deepEqual(counts, [12]);
  });

  test('seal: opens nothing with a changed bit', () => {
    const sealed = seal.seal('a secret');
    for (let bit = 0; bit < sealed.length * 8; bit++) {
      const damaged = Uint8Array.from(sealed);
      damaged[bit >> 3] = (damaged[bit >> 3] ?? 0) ^ (1 << (bit & 7));
      assert.throws(() => seal.open(damaged), SealBroken, `bit ${bit}`);
    }
  });

  test('seal: opens nothing that was cut or extended', () => {
    const sealed = seal.seal('a secret');
    for (let length = 0; length < sealed.length; length++) {
      assert.throws(() => seal.open(sealed.subarray(0, length)), SealBroken, `${length} bytes`);
    }
    assert.throws(() => seal.open(Buffer.concat([sealed, Buffer.of(0)])), SealBroken);
  });

  test('seal: opens nothing with another key', () => {
    const other = createSeal(randomBytes(32), randomBytes);
    assert.throws(() => other.open(seal.seal('a secret')), SealBroken);
  });

  test('seal: opens a part of a larger buffer, as databases return them', () => {
    const sealed = seal.seal('a secret');
    const larger = Buffer.concat([Buffer.alloc(3, 1), sealed, Buffer.alloc(3, 1)]);
    assert.equal(seal.open(larger.subarray(3, 3 + sealed.length)), 'a secret');
  });

  test('seal: an error has nothing of key or content', () => {
    const sealed = seal.seal('a secret');
    sealed[20] = (sealed[20] ?? 0) ^ 1;
    const message = 'A stored secret does not open: another key, or damaged bytes.';
    assert.throws(() => seal.open(sealed), { message });
  });

  test('seal: requires a key of 32 bytes', () => {
    for (const length of [0, 16, 31, 33, 64]) {
      assert.throws(() => createSeal(randomBytes(length), randomBytes), RangeError);
    }
  });
});
