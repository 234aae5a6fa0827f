import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { invisibleIn, nameForm, storedNames } from '../../src/core/name.ts';

describe('names', () => {
  test('nameForm: one form for texts that look the same', () => {
    assert.equal(nameForm('Cafe\u0301'), 'Café');
    assert.equal(nameForm('a\u00A0b\u2003c\u202Fd'), 'a b c d');
    assert.equal(nameForm('山田\u3000太郎'), '山田\u3000太郎');
    assert.deepEqual(storedNames('Café'), ['Café', 'Cafe\u0301']);
    assert.deepEqual(storedNames('crm'), ['crm']);
  });

  const seen = [
    'crm',
    'Café',
    'Cafe\u0301',
    'naïve – “x” №1',
    '山田\u3000太郎',
    'שלום',
    'สวัสดี',
    'می\u200Cخواهم',
    'क्\u200Dष',
    'ක්\u200Dෂ',
    '葛\u{E0100}',

    '❤️',
    '❤\u200D🔥',
    '1️⃣',
    '👩‍💻',
    '👁️‍🗨️',
    '👨‍👩‍👧‍👦 family',
    '👍🏽',
    '🇩🇪',
    '🏴\u{E0067}\u{E0062}\u{E0065}\u{E006E}\u{E0067}\u{E007F}',
  ];
  for (const text of seen) {
    test(`invisibleIn: "${text}" shows all its characters`, () => {
      assert.equal(invisibleIn(text), undefined);
      assert.equal(invisibleIn(nameForm(text)), undefined);
    });
  }

  const hidden: [text: string, character: string][] = [
    ['a\u200Bb', 'U+200B'],
    ['pay\u00ADment', 'U+00AD'],
    ['crm\u2800', 'U+2800'],
    ['a\uFEFFb', 'U+FEFF'],
    ['a\u202Eb', 'U+202E'],
    ['a\u2066b', 'U+2066'],
    ['a\u061Cb', 'U+061C'],
    ['a\u2060b', 'U+2060'],
    ['a\u034Fb', 'U+034F'],
    ['\u3164', 'U+3164'],
    ['a\u0001', 'U+0001'],
    ['a\nb', 'U+000A'],
    ['a\u2028b', 'U+2028'],
    ['a\u{E0041}', 'U+E0041'],
    // Joiners that join nothing, and selectors that select nothing.
    ['pa\u200Cy', 'U+200C'],
    ['x\u0302\u200Dy', 'U+200D'],
    ['1\u200D2', 'U+200D'],
    ['\u200Cم', 'U+200C'],
    ['م\u200C', 'U+200C'],
    ['م\u200C\u200Cم', 'U+200C'],
    ['👩\u200D', 'U+200D'],
    ['1\uFE0F', 'U+FE0F'],
    ['😀\uFE0F', 'U+FE0F'],
    ['a\u{E0100}', 'U+E0100'],
  ];
  for (const [text, character] of hidden) {
    test(`invisibleIn: ${JSON.stringify(text)} has ${character}`, () => {
      assert.equal(invisibleIn(text), character);
    });
  }
});
