import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { redact } from '../../src/core/redact.ts';
import { decodeSecret } from '../../src/core/sign.ts';

/** Encodes a text; `ways` chooses among the ways of the encoding, character by character. */
type Encode = (text: string, ways: readonly number[]) => string;

/** Writes one character in one of the ways of an encoding. */
type EncodeOne = (character: string, way: number) => string;

const each =
  (one: EncodeOne): Encode =>
  (text, ways) =>
    Array.from(text, (character, at) => one(character, ways[at % ways.length] ?? 0)).join('');

const hex = (number: number, digits: number): string => number.toString(16).padStart(digits, '0');
const units = (character: string): number[] =>
  Array.from({ length: character.length }, (_, at) => character.charCodeAt(at));

const json = each((character, way) => {
  const escaped = units(character).map((unit) => `\\u${hex(unit, 4)}`);
  if (way === 1) return escaped.join('');
  if (way === 2) return escaped.join('').toUpperCase().replaceAll('\\U', '\\u');
  if (way === 3 && character === '/') return '\\/';
  return JSON.stringify(character).slice(1, -1);
});

const html = each((character, way) => {
  const code = character.codePointAt(0) ?? 0;
  if (way === 1) return `&#${code};`;
  if (way === 2) return `&#x${hex(code, 6)};`;
  if (way === 3) return `&#X${hex(code, 2).toUpperCase()};`;
  return (
    { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&apos;' }[character] ?? character
  );
});

const url = each((character, way) => {
  const bytes = [...Buffer.from(character, 'utf8')].map((byte) => `%${hex(byte, 2)}`).join('');
  if (way === 1) return bytes;
  if (way === 2) return bytes.toUpperCase();
  if (way === 3 && character === ' ') return '+';
  return /[%+ ]|[^\0-\x7f]/.test(character) ? bytes : character;
});

const base64: Encode = (text, [way = 0]) => {
  const encoded = Buffer.from(text).toString(way === 1 ? 'base64url' : 'base64');
  if (way === 2) return encoded.replaceAll(/.{16}/g, '$&\r\n');
  return way === 3 ? encoded.replaceAll('=', '') : encoded;
};

const hexDigits: Encode = (text, [way = 0]) => {
  const digits = Array.from(Buffer.from(text), (byte) => hex(byte, 2));
  return way === 1 ? digits.join('').toUpperCase() : digits.join(['', '', ':', ' '][way]);
};

const encoders: readonly [name: string, encode: Encode][] = [
  ['JSON', json],
  ['HTML', html],
  ['percent-encoding', url],
  ['base64', base64],
  ['hexadecimal digits', hexDigits],
];
const plain: Encode = (text) => text;
const nested = encoders.flatMap(([outerName, outer]) => [
  [outerName, plain, outer] as const,
  ...encoders.map(([name, inner]) => [`${name} in ${outerName}`, inner, outer] as const),
]);

const nasty = '" \\ / < > & \' % + = ; # : u x 0 4 a ü € 🎈 \\u0041 &amp; %41 \\\\'.split(' ');
const piece = fc.constantFrom(...nasty, ' ', 'b', 'Z', '.');
const secretText = fc
  .string({ unit: piece, minLength: 8, maxLength: 24 })
  .filter((text) => Array.from(text.trim()).length >= 8);
const surrounding = fc.string({ unit: fc.oneof(piece, fc.constantFrom(',', '\n')), maxLength: 12 });
/** Ends in no escape, as what is before a value in a text that somebody wrote. */
const before = fc
  .tuple(surrounding, fc.constantFrom('"', ' ', ': ', '\n', '>'))
  .map((parts) => parts.join(''));
const ways = fc.array(fc.nat({ max: 3 }), { minLength: 1, maxLength: 12 });

const never = (): boolean => false;
const withheld = { withheld: 'secret' };

describe('redact in escaped texts', () => {
  for (const [name, inner, outer] of nested) {
    test(`redact withholds a text with a secret in any surroundings: ${name}`, () => {
      const surroundings = fc.tuple(before, before, surrounding, surrounding);
      fc.assert(
        fc.property(surroundings, secretText, ways, ways, (around, secret, some, others) => {
          const [first, second, third, last] = around;
          const encoded = outer(`${second}${inner(secret, some)}${third}`, others);
          const text = `${first}${encoded}${last}`;
          assert.deepEqual(redact(text, [secret], false, never), withheld, text);
        }),
        { numRuns: 100 },
      );
    });

    test(`redact withholds a text that was cut after 8 characters of a secret: ${name}`, () => {
      const long = 'k"é&%+🎈/<'.repeat(3);
      fc.assert(
        fc.property(ways, ways, fc.nat(), (some, others, at) => {
          const encode = (part: string): string => outer(inner(part, some), others);
          const text = encode(long);
          const least = encode(Array.from(long).slice(0, 8).join('')).length;
          const cutText = `... ${text.slice(0, least + (at % (text.length - least)))}`;
          assert.deepEqual(redact(cutText, [long], true, never), withheld, cutText);
        }),
        { numRuns: 100 },
      );
    });
  }

  const cases: [name: string, text: string, secret: string][] = [
    ['named references without a semicolon', 'a &ltbcdefgh&gt!', '<bcdefgh>'],
    [
      'numeric references without a semicolon and with zeros',
      'x &#00060bcdefgh&#x003E.',
      '<bcdefgh>',
    ],
    ['escapes of a string literal', "x \\x70\\xe4sswor\\'d", "pässwor'd"],
    ['escapes of the bytes of a literal', 'x p\\xc3\\xa4ssword', 'pässword'],
    ['percent-encoding of ISO 8859-1', 'x p%E4ssword', 'pässword'],
    ['an escape whose backslash seems to be escaped', 'C:\\\\u0070assword', 'password'],
    ['spaces as plus signs next to plain ones', 'a=to+p%20se+cret', 'to p se cret'],
    ['plus signs next to escaped characters', 'a=to+p%2Fsecret', 'to+p/secret'],
    ['characters read byte by byte', 'x pÃ¤ssword', 'pässword'],
    ['characters read byte by byte in JSON', 'x p\\u00c3\\u00a4ssword', 'pässword'],
    ['a header value without the space around it', 'got [password]', ' password '],
  ];
  for (const [name, text, secret] of cases) {
    test(`redact finds ${name}`, () =>
      assert.deepEqual(redact(text, [secret], false, never), withheld));
  }
});

describe('redact in encoded bytes', () => {
  test('redact leaves no secret in base64, whatever is encoded before and after it', () => {
    const bytes = fc.uint8Array({ maxLength: 8 });
    const notation = fc.constantFrom('base64', 'base64url');
    const prefix = fc.constantFrom('', 'a', 'ab', 'abc', '/path/');
    fc.assert(
      fc.property(bytes, secretText, bytes, notation, prefix, (first, secret, last, name, path) => {
        const encoded = Buffer.concat([first, Buffer.from(secret), last]).toString(name);
        const text = `{"echo": "${path}${encoded}"}`;
        assert.deepEqual(redact(text, [secret], false, never), withheld, text);
      }),
    );
  });

  test('redact leaves no secret in base64 with escapes, line breaks, or JSON around the secret', () => {
    const secret = 'sub?ject>"ß"~~~???>>>';
    const encoded = Buffer.from(`ab${secret}`).toString('base64');
    const texts = {
      'PHP escapes slashes': encoded.replaceAll('/', '\\/'),
      '.NET escapes plus signs': encoded.replaceAll('+', '\\u002B'),
      'in a query': encodeURIComponent(encoded),
      'MIME lines': encoded.replaceAll(/.{8}/g, '$&\r\n'),
      'lines of YAML': encoded.replaceAll(/.{8}/g, '$&\n  '),
      'MIME lines in JSON': encoded.replaceAll(/.{8}/g, '$&\\r\\n'),
      JSON: Buffer.from(JSON.stringify({ user: 'ada', secret })).toString('base64'),
      'Basic credentials': Buffer.from(`ada:${secret}`).toString('base64url'),
    };
    assert.match(encoded, /\/.*\+|\+.*\//s);
    for (const [name, text] of Object.entries(texts)) {
      assert.deepEqual(redact(`[${text}]`, [secret], false, never), withheld, name);
    }
  });

  test('redact leaves no secret in hexadecimal digits', () => {
    const separators = fc.constantFrom('', ':', '-', ' ', '%', '\\x');
    const prefix = fc.constantFrom('', 'a', 'bytes ', 'face: ');
    fc.assert(
      fc.property(
        secretText,
        separators,
        prefix,
        fc.boolean(),
        (secret, separator, word, upper) => {
          const bytes = Array.from(Buffer.from(secret), (byte) => hex(byte, 2));
          const digits = bytes.map((byte) => separator + (upper ? byte.toUpperCase() : byte));
          const text = `${word}${digits.join('')}.`;
          assert.deepEqual(redact(text, [secret], false, never), withheld, text);
        },
      ),
    );
  });

  const signing = `whsec_${Buffer.from(Array.from({ length: 32 }, (_, n) => 251 - n)).toString('base64')}`;
  const key = Buffer.from(decodeSecret(signing));
  const keyForms: [name: string, text: string][] = [
    ['as it is', signing],
    ['without its prefix', signing.slice(6)],
    ['in the alphabet of URLs', key.toString('base64url')],
    ['as bytes before others', Buffer.concat([Buffer.from('k'), key]).toString('base64')],
    ['as hexadecimal digits', key.toString('hex').toUpperCase()],
  ];
  for (const [name, text] of keyForms) {
    test(`redact finds the key of a signing secret ${name}`, () => {
      assert.deepEqual(redact(`key "${text}"`, [signing], false, never), withheld);
      assert.deepEqual(redact(`key "${text.slice(0, 20)}`, [signing], true, never), withheld);
    });
  }

  test('redact looks for secrets of up to 7 characters neither in escapes nor in digits and base64', () => {
    const text = '<p>61626364 YWJjZA== &amp; a%20cd</p> &#97;bcd \\u0061bcd a+cd';
    assert.deepEqual(redact(text, ['abcd', 'a cd', 'a', ''], false, never), { text });
  });
});
