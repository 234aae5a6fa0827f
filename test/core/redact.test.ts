import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { redact } from '../../src/core/redact.ts';

const never = (): boolean => false;
const late = (): boolean => true;
const withheld = { withheld: 'secret' };

const letters = fc.string({ unit: fc.constantFrom('a', 'b', 'c'), maxLength: 12 });
const anyText = fc.string({ unit: 'binary', maxLength: 40 });
/** Without the space around it, which is not sent. */
const secretOf = (minLength: number, maxLength: number) =>
  fc
    .oneof(
      fc.string({ unit: fc.constantFrom('a', 'b', 'c'), minLength, maxLength }),
      fc.string({ minLength, maxLength }),
    )
    .filter((text) => text.trim() === text && !text.includes('*'));

describe('redact', () => {
  const cases: [name: string, text: string, secrets: string[], expected: string][] = [
    ['each occurrence', 'a secret, a secret', ['secret'], 'a ***, a ***'],
    ['each of two that touch', 'secretsecret', ['secret'], '******'],
    ['the longer of two that begin alike', 'topsecr', ['tops', 'topsecr'], '***'],
    ['one inside the other', 'abcdef', ['bcde', 'abcdef'], '***'],
    ['a secret that looks like the mask', 'a****b', ['****'], 'a***b'],
    ['a secret that looks like a pattern', 'a.c$ abcd', ['a.c$'], '*** abcd'],
    ['a secret of four characters outside the basic plane', 'x🎈🎈🎈🎈y', ['🎈🎈🎈🎈'], 'x***y'],
    ['a secret of four characters read byte by byte', 'x pÃ¤ss', ['päss'], 'x ***'],
    ['a header value without the space around it', 'got [secret]', [' secret '], 'got [***]'],
    ['no secret of four characters in an encoding', '%61%62%63%64', ['abcd'], '%61%62%63%64'],
    ['no secret of three characters', 'abc ab c', ['abc', '  ab ', 'c'], 'abc ab c'],
    ['nothing without secrets', 'a secret', [], 'a secret'],
    ['nothing for an empty secret', 'a secret', [''], 'a secret'],
    ['no beginning of a short secret at the cut', 'token: abcdef', ['abcdefg'], 'token: abcdef'],
  ];
  for (const [name, text, secrets, expected] of cases) {
    test(`redact replaces ${name}`, () => {
      assert.deepEqual(redact(text, secrets, true, never), { text: expected });
      assert.deepEqual(redact(text, secrets.toReversed(), true, never), { text: expected });
    });
  }

  test('redact withholds a text with a secret of eight characters and replaces one of seven', () => {
    assert.deepEqual(redact('12345678', ['12345678'], false, never), withheld);
    assert.deepEqual(redact('1234567', ['1234567'], false, never), { text: '***' });
    assert.deepEqual(redact('a 1234567 b', ['12345678', '1234567'], false, never), {
      text: 'a *** b',
    });
    // Characters, not UTF-16 code units.
    assert.deepEqual(redact('🎈'.repeat(7), ['🎈'.repeat(7)], false, never), { text: '***' });
    assert.deepEqual(redact('🎈'.repeat(8), ['🎈'.repeat(8)], false, never), withheld);
  });

  test('the first eight characters of a secret at the end of a cut text count as the secret', () => {
    const secret = 'abcdefghijkl';
    assert.deepEqual(redact('token: Bearer abcdefgh', [secret], true, never), withheld);
    assert.deepEqual(redact('token: abcdefghijk', [secret], true, never), withheld);
    for (const text of ['token: abcdefg', 'nothing to see', `abcdefgh${' '.repeat(100)}`]) {
      assert.deepEqual(redact(text, [secret], true, never), { text });
    }
  });

  test('the end of a whole text is not changed', () => {
    const text = 'token: abcdefgh';
    assert.deepEqual(redact(text, ['abcdefghijkl'], false, never), { text });
  });

  test('no text with a secret of 8 characters or more is stored', () => {
    const parts = fc.array(fc.oneof(letters, anyText));
    fc.assert(
      fc.property(
        parts,
        secretOf(8, 20),
        parts,
        secretOf(4, 20),
        (before, secret, after, other) => {
          const text = [...before, secret, ...after].join('');
          assert.deepEqual(redact(text, [other, secret], false, never), withheld);
        },
      ),
    );
  });

  test('no secret of 4 to 7 characters is left in any text, and nothing but secrets is removed', () => {
    const secret = secretOf(4, 7);
    fc.assert(
      fc.property(fc.array(fc.oneof(secret, letters)), fc.array(secret), (parts, secrets) => {
        const text = parts.join('');
        const redacted = redact(text, secrets, false, never);
        assert.ok('text' in redacted);
        const clean = redacted.text;
        for (const each of secrets) assert.ok(!clean.includes(each), `${each} in ${clean}`);
        if (!secrets.some((each) => text.includes(each))) assert.equal(clean, text);
        const left = clean.split('***').join('');
        assert.ok(isSubsequence(left, text), `${left} is not out of ${text}`);
      }),
    );
  });

  test('no text that was cut anywhere after eight characters of a secret is stored', () => {
    fc.assert(
      fc.property(anyText, secretOf(8, 40), letters, fc.nat(), (before, secret, after, at) => {
        const text = `${before}${secret}${after}`;
        const cutAt = before.length + 8 + (at % (secret.length - 7));
        assert.deepEqual(redact(text.slice(0, cutAt), [secret], true, never), withheld);
      }),
    );
  });

  const signing = `whsec_${Buffer.from(Array.from({ length: 32 }, (_, n) => n * 7)).toString('base64')}`;
  const secrets = ['8f14e45fceea167a', 'Bearer q7Yw3Lz9Kd', 'q7Yw3Lz9Kd', signing, 'ada', 'käse'];

  const bodies: readonly [name: string, text: string][] = [
    ['a page', '<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<hr>nginx/1.27 &amp; co'],
    ['a problem', '{"type":"about:blank","title":"Not \\"found\\"","trace":"C:\\\\temp\\u0020a"}'],
    ['a query', 'https://example.net/a%20b?c=d+e&f=%7B%22g%22%3A1%7D'],
    ['a certificate', `-----BEGIN-----\n${Buffer.from('x'.repeat(900)).toString('base64')}\n`],
    ['another token', 'Bearer eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJhIn0.c2lnbmVk'],
    ['hexadecimal digits', 'request 5d41402a-bc4b-2a76-b971-9d911017c592, e3b0c44298fc1c149afb'],
    ['prose of 2 KiB', 'The upstream closed the connection. '.repeat(57)],
    [
      'JSON of 2 KiB',
      JSON.stringify(Array.from({ length: 60 }, (_, id) => ({ id, text: 'a"b/c' }))),
    ],
    [
      'base64 of 2 KiB',
      Buffer.from(Array.from({ length: 1536 }, (_, n) => n * n)).toString('base64'),
    ],
    ['whsec_ and a colon', 'expected whsec_: none was configured, x'],
  ];
  for (const [name, text] of bodies) {
    test(`redact leaves a text without secrets as it is, however late it is: ${name}`, () => {
      for (const cut of [false, true]) {
        assert.deepEqual(redact(text, secrets, cut, late), { text });
      }
    });
  }

  test('redact leaves any text without secrets as it is', () => {
    const unit = fc.constantFrom(
      ...'\\"\'&%+;#:= \n/-_aux0419QZ'.split(''),
      '&amp;',
      '%25',
      '\\u00',
    );
    fc.assert(
      fc.property(fc.string({ unit, maxLength: 400 }), fc.boolean(), (text, cut) => {
        assert.deepEqual(redact(text, secrets, cut, never), { text });
      }),
    );
  });

  const hostile: readonly [name: string, part: string][] = [
    ['every escape', '\\u0026%26&#92;+%5c'],
    ['escapes and digits', '\\"+%2b&lt;0123456789abcdef'],
    ['backslashes', '\\'],
    ['escaped percent signs', '%2525'],
    ['plus signs', '+%2B'],
    ['references without an end', '&#1&#x1'],
    ['digits', '0123456789abcdef'],
    ['letters', 'a'],
  ];
  for (const [name, part] of hostile) {
    test(`redact reads no text more than 111 times: ${name}`, () => {
      const text = part.repeat((64 * 1024) / part.length);
      let asked = 0;
      const count = (): boolean => {
        asked += 1;
        return false;
      };
      assert.deepEqual(redact(text, [...secrets, 'a'.repeat(66_000)], false, count), { text });
      assert.ok(asked >= 1 && asked <= 111, String(asked));
    });
  }

  test('redact withholds what it has not searched to its end when the time is over', () => {
    const text = '\\"+%2b&lt;0123456789abcdef'.repeat(78);
    for (const inTime of [0, 1, 7]) {
      let asked = 0;
      const isLate = (): boolean => {
        asked += 1;
        return asked > inTime;
      };
      assert.deepEqual(redact(text, secrets, false, isLate), { withheld: 'time' });
      assert.equal(asked, inTime + 1, 'nothing is read after the time');
    }
    assert.deepEqual(redact(text, ['ada', 'käse'], false, late), { text });
    assert.deepEqual(redact(`${text} 8f14e45fceea167a`, secrets, false, late), withheld);
  });
});

function isSubsequence(part: string, whole: string): boolean {
  let at = 0;
  for (const character of whole) if (character === part[at]) at++;
  return at >= part.length;
}
