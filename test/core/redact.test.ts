import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { redact } from '../../src/core/redact.ts';

describe('redact', () => {
  const cases: [name: string, text: string, secrets: string[], expected: string][] = [
    ['each occurrence', 'a secret, a secret', ['secret'], 'a ***, a ***'],
    ['occurrences that touch, as one', 'secretsecret', ['secret'], '***'],
    ['occurrences of itself that overlap, as one', 'xaaay', ['aa'], 'x***y'],
    ['the longer of two that begin alike', 'topsecret', ['top', 'topsecret'], '***'],
    ['two that overlap, with nothing left of either', 'abcdef', ['abcd', 'cdef'], '***'],
    ['one inside the other', 'abcdef', ['cd', 'abcdef'], '***'],
    ['a secret that looks like the mask', 'a***b', ['***'], 'a***b'],
    ['a secret of one character', 'abab', ['a'], '***b***b'],
    ['a secret that looks like a pattern', 'a.c abc', ['a.c'], '*** abc'],
    ['nothing without secrets', 'a secret', [], 'a secret'],
    ['nothing for an empty secret', 'a secret', [''], 'a secret'],
    ['characters outside the basic plane', 'x🎈🎈y', ['🎈🎈'], 'x***y'],
  ];
  for (const [name, text, secrets, expected] of cases) {
    test(`redact replaces ${name}`, () => {
      assert.equal(redact(text, secrets, false), expected);
      assert.equal(redact(text, secrets.toReversed(), false), expected);
    });
  }

  test('the beginning of a secret at the end of a cut text is replaced', () => {
    assert.equal(redact('token: Bearer abc', ['abcdef'], true), 'token: Bearer ***');
    assert.equal(redact('token: a', ['abcdef'], true), 'token: ***');
    assert.equal(redact('ends with aba', ['ababc'], true), 'ends with ***');
    assert.equal(redact('abcdefab', ['abcdef'], true), '***');
    assert.equal(redact('nothing to see', ['abcdef'], true), 'nothing to see');
  });

  test('redact treats each text, end and list of secrets by itself, also when they come again', () => {
    const secrets = ['abcdef'];
    for (let round = 0; round < 2; round += 1) {
      assert.equal(redact('token: a', secrets, true), 'token: ***');
      assert.equal(redact('token: a', secrets, false), 'token: a');
      assert.equal(redact('token: a', secrets, false), 'token: a');
      assert.equal(redact('token: a', ['token'], false), '***: a');
      assert.equal(redact('token: abcdef', secrets, false), 'token: ***');
    }
  });

  test('the end of a whole text is not changed', () => {
    assert.equal(redact('token: a', ['abcdef'], false), 'token: a');
  });

  const letters = fc.string({ unit: fc.constantFrom('a', 'b', 'c'), minLength: 1, maxLength: 6 });
  const arbitrary = fc.string({ minLength: 1, maxLength: 12 });
  // Without the space around it, which is not sent.
  const secret = fc
    .oneof(letters, arbitrary)
    .map((text) => text.trim())
    .filter((text) => text !== '' && !text.includes('*'));

  test('no secret is left in any text, and nothing but secrets is removed', () => {
    fc.assert(
      fc.property(fc.array(fc.oneof(secret, letters)), fc.array(secret), (parts, secrets) => {
        const text = parts.join('');
        const clean = redact(text, secrets, false);
        for (const each of secrets) assert.ok(!clean.includes(each), `${each} in ${clean}`);
        if (!secrets.some((each) => text.includes(each))) assert.equal(clean, text);
        const left = clean.split('***').join('');
        assert.ok(isSubsequence(left, text), `${left} is not out of ${text}`);
      }),
    );
  });

  test('no beginning of a secret is left at the end of a text that was cut anywhere', () => {
    fc.assert(
      fc.property(letters, secret, letters, fc.nat(), (before, each, after, at) => {
        const text = `${before}${each}${after}`;
        const cutAt = before.length + 1 + (at % each.length);
        const clean = redact(text.slice(0, cutAt), [each], true);
        for (let length = 1; length <= each.length; length++) {
          assert.ok(!clean.endsWith(each.slice(0, length)), `${clean} ends like ${each}`);
        }
      }),
    );
  });

  test('redact is fast with adversarial texts and secrets', () => {
    const secrets = Array.from({ length: 6 }, (_, n) => 'a'.repeat(1000 + n));
    const text = 'a'.repeat(2048);
    assert.equal(redact(text, secrets, true), '***');
    assert.equal(redact(`${text}b`, [...secrets, `${'a'.repeat(1000)}c`], false), '***b');
  });
});

function isSubsequence(part: string, whole: string): boolean {
  let at = 0;
  for (const character of whole) if (character === part[at]) at++;
  return at >= part.length;
}
