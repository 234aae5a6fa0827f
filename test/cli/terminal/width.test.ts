import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { cutTo, widthOf } from '../../../src/cli/terminal/width.ts';

describe('widthOf and cutTo', () => {
  test('widthOf: counts columns, not characters', () => {
    assert.equal(widthOf('abc'), 3);
    assert.equal(widthOf('日本語'), 6);
    assert.equal(widthOf('e\u0301'), 1);
    assert.equal(widthOf('👩‍👩‍👧'), 2);
  });

  test('cutTo: never exceeds the width and never splits a character', () => {
    assert.equal(cutTo('abcdef', 6), 'abcdef');
    assert.equal(cutTo('abcdef', 5), 'abcd…');
    assert.equal(cutTo('日本語', 4), '日…');
    assert.equal(cutTo('abc', 1), '…');
    assert.equal(cutTo('abc', 0), '');
    fc.assert(
      fc.property(
        fc.string({ unit: 'grapheme' }),
        fc.integer({ min: 0, max: 20 }),
        (text, width) => {
          assert.ok(widthOf(cutTo(text, width)) <= width);
        },
      ),
    );
  });
});
