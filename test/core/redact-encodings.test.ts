import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { redact } from '../../src/core/redact.ts';
import { decodeSecret } from '../../src/core/sign.ts';

/** Writes one character in one of the ways of an encoding; `way` chooses. */
type EncodeOne = (character: string, way: number) => string;

const hex = (number: number, digits: number): string => number.toString(16).padStart(digits, '0');
const units = (character: string): number[] =>
  Array.from({ length: character.length }, (_, at) => character.charCodeAt(at));

const json: EncodeOne = (character, way) => {
  const escaped = units(character).map((unit) => `\\u${hex(unit, 4)}`);
  if (way === 1) return escaped.join('');
  if (way === 2) return escaped.join('').toUpperCase().replaceAll('\\U', '\\u');
  if (way === 3 && character === '/') return '\\/';
  return JSON.stringify(character).slice(1, -1);
};

const html: EncodeOne = (character, way) => {
  const code = character.codePointAt(0) ?? 0;
  if (way === 1) return `&#${code};`;
  if (way === 2) return `&#x${hex(code, 6)};`;
  if (way === 3) return `&#X${hex(code, 2).toUpperCase()};`;
  return (
    { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&apos;' }[character] ?? character
  );
};

const url: EncodeOne = (character, way) => {
  const bytes = [...Buffer.from(character, 'utf8')].map((byte) => `%${hex(byte, 2)}`).join('');
  if (way === 1) return bytes;
  if (way === 2) return bytes.toUpperCase();
  if (way === 3 && character === ' ') return '+';
  return /[%+ ]|[^\0-\x7f]/.test(character) ? bytes : character;
};

const encode = (one: EncodeOne, text: string, ways: readonly number[]): string =>
  Array.from(text, (character, at) => one(character, ways[at % ways.length] ?? 0)).join('');

// The decoders share nothing with the code under test.

type Decode = (text: string) => string;

const fromJson: Decode = (text) =>
  text.replaceAll(/\\(?:u([0-9a-fA-F]{4})|(["\\/]))/g, (_, code: string, plain: string) =>
    plain === undefined ? String.fromCharCode(Number.parseInt(code, 16)) : plain,
  );

const named: Readonly<Record<string, string>> = {
  amp: '&',
  lt: '<',
  gt: '>',
  quot: '"',
  apos: "'",
};
const fromHtml: Decode = (text) =>
  text.replaceAll(
    /&(?:#[xX]([0-9a-fA-F]+);?|#([0-9]+);?|(amp|lt|gt|quot|apos);?)/g,
    (whole, base16: string, base10: string, name: string) => {
      if (name !== undefined) return named[name] ?? whole;
      const code = base16 === undefined ? Number(base10) : Number.parseInt(base16, 16);
      return code <= 0x10_ffff ? String.fromCodePoint(code) : whole;
    },
  );

const fromUrl: Decode = (text) =>
  text.replaceAll(/(?:%[0-9a-fA-F]{2})+/g, (bytes) =>
    Buffer.from(bytes.replaceAll('%', ''), 'hex').toString('utf8'),
  );
const fromForm: Decode = (text) => fromUrl(text.replaceAll('+', ' '));

/** Returns whether some part of the text, wherever it begins, is decoded to the secret. */
function isDecodable(text: string, secret: string, decode: Decode): boolean {
  return text.split('').some((_, at) => decode(text.slice(at)).includes(secret));
}

const nasty = '" \\ / < > & \' % + = ; # : u x 0 4 a ü € 🎈 \\u0041 &amp; %41 \\\\'.split(' ');
const piece = fc.constantFrom(...nasty, ' ', 'b', 'Z', '.');
const secretText = fc.string({ unit: piece, minLength: 1, maxLength: 12 });
const surrounding = fc.string({ unit: fc.oneof(piece, fc.constantFrom(',', '\n')), maxLength: 12 });
const ways = fc.array(fc.nat({ max: 3 }), { minLength: 1, maxLength: 12 });

const encodings: [name: string, encoders: EncodeOne[], decode: Decode][] = [
  ['JSON', [json], fromJson],
  ['HTML', [html], fromHtml],
  ['percent-encoding', [url], fromUrl],
  ['a form', [url], fromForm],
  ['JSON in JSON', [json, json], (text) => fromJson(fromJson(text))],
  ['JSON in HTML', [json, html], (text) => fromJson(fromHtml(text))],
  ['HTML in JSON', [html, json], (text) => fromHtml(fromJson(text))],
  ['JSON in percent-encoding', [json, url], (text) => fromJson(fromUrl(text))],
  ['percent-encoding in JSON', [url, json], (text) => fromUrl(fromJson(text))],
  ['percent-encoding twice', [url, url], (text) => fromUrl(fromUrl(text))],
];

describe('redact in escaped texts', () => {
  for (const [name, encoders, decode] of encodings) {
    const encoded = fc.record({ secret: secretText, chosen: ways }).map(({ secret, chosen }) => ({
      secret,
      text: encoders.reduce((text, one) => encode(one, text, chosen), secret),
    }));

    test(`redact leaves no secret that is decodable: ${name}, any characters escaped`, () => {
      fc.assert(
        fc.property(surrounding, encoded, surrounding, (before, { secret, text }, after) => {
          const clean = redact(`${before}${text}${after}`, [secret], false);
          assert.ok(clean.includes('***'), `nothing is hidden in ${clean}`);
          assert.ok(!isDecodable(clean, secret, decode), `${secret} is in ${clean}`);
        }),
        { numRuns: 300 },
      );
    });

    test(`redact leaves no beginning of a secret where ${name} was cut off`, () => {
      const long = 'k"é&%+🎈/<'.repeat(2);
      fc.assert(
        fc.property(ways, fc.nat(), (chosen, at) => {
          const encodeAll = (text: string): string =>
            encoders.reduce((part, one) => encode(one, part, chosen), text);
          const text = encodeAll(long);
          // Less than one character of the secret cannot be told from anything else.
          const first = encodeAll('k').length;
          const cutAt = first + (at % (text.length - first));
          assert.equal(redact(`... ${text.slice(0, cutAt)}`, [long], true), '... ***');
        }),
        { numRuns: 300 },
      );
    });
  }

  const cases: [name: string, text: string, secret: string, expected: string][] = [
    ['named references without a semicolon', 'a &ltb&gt!', '<b>', 'a ***!'],
    [
      'numeric references without a semicolon and with zeros',
      'x &#00060b&#x003E.',
      '<b>',
      'x ***.',
    ],
    ['escapes of a string literal', "x \\x70\\u00e4ss\\'", "päss'", 'x ***'],
    ['the escape of JavaScript', 'x p%E4ss%u20ac', 'päss€', 'x ***'],
    ['an escape whose backslash seems to be escaped', 'C:\\\\u0070ass', 'pass', 'C:***'],
    ['spaces as plus signs next to plain ones', 'a=to+p%20se+cret', 'to p se cret', 'a=***'],
    ['characters read byte by byte', 'x pÃ¤ss', 'päss', 'x ***'],
    ['characters that were replaced', 'x p\ufffdssword, p?ssword', 'pässword', 'x ***, ***'],
    ['a header value without the space around it', 'got [secret]', ' secret ', 'got [***]'],
  ];
  for (const [name, text, secret, expected] of cases) {
    test(`redact finds ${name}`, () => assert.equal(redact(text, [secret], false), expected));
  }
});

const binarySecret = fc
  .string({ unit: piece, minLength: 4, maxLength: 24 })
  .filter((text) => Buffer.byteLength(text.trim()) >= 4);
const base64Text = fc.record({
  before: fc.uint8Array({ maxLength: 8 }),
  secret: binarySecret,
  after: fc.uint8Array({ maxLength: 8 }),
  notation: fc.constantFrom('base64', 'base64url'),
  padded: fc.boolean(),
});

function base64Runs(text: string): string[] {
  const runs = text.match(/[A-Za-z0-9+/_-]+/g) ?? [];
  return runs.flatMap((run) => [0, 1, 2, 3].map((skip) => run.slice(skip)));
}

describe('redact in encoded bytes', () => {
  test('redact leaves no secret in base64, whatever is encoded before and after it', () => {
    fc.assert(
      fc.property(base64Text, ({ before, secret, after, notation, padded }) => {
        const bytes = Buffer.concat([before, Buffer.from(secret), after]);
        const encoded = bytes.toString(notation);
        const text = `{"echo": "${padded ? encoded : encoded.replaceAll('=', '')}"}`;
        const clean = redact(text, [secret], false);
        const left = base64Runs(clean).map((run) => Buffer.from(run, 'base64'));
        const wanted = Buffer.from(secret.trim());
        assert.ok(!left.some((each) => each.includes(wanted)), `${secret} is in ${clean}`);
        assert.ok(clean.startsWith('{"echo": "') && clean.endsWith('"}'), clean);
      }),
    );
  });

  test('redact leaves no secret in base64 with escapes, line breaks, or JSON around the secret', () => {
    const secret = 'sub?ject>"ß"~~~???>>>';
    const plain = Buffer.from(`ab${secret}`).toString('base64');
    const texts = {
      'PHP escapes slashes': plain.replaceAll('/', '\\/'),
      '.NET escapes plus signs': plain.replaceAll('+', '\\u002B'),
      'in a query': encodeURIComponent(plain),
      'MIME lines': plain.replaceAll(/.{8}/g, '$&\r\n'),
      'MIME lines in JSON': plain.replaceAll(/.{8}/g, '$&\\r\\n'),
      JSON: Buffer.from(JSON.stringify({ user: 'ada', secret })).toString('base64'),
      'Basic credentials': Buffer.from(`ada:${secret}`).toString('base64url'),
    };
    assert.match(plain, /\/.*\+|\+.*\//s);
    for (const [name, text] of Object.entries(texts)) {
      const clean = redact(`[${text}]`, [secret], false);
      assert.ok(clean.includes('***'), `${name}: nothing is hidden in ${clean}`);
      for (const run of base64Runs(clean)) {
        assert.ok(!Buffer.from(run, 'base64').includes('ject'), `${name}: ${clean}`);
      }
    }
  });

  test('redact leaves no secret in hexadecimal digits', () => {
    const separators = fc.constantFrom('', ':', '-', ' ', '%', '\\x');
    fc.assert(
      fc.property(binarySecret, separators, fc.boolean(), (secret, separator, upper) => {
        const bytes = [...Buffer.from(secret)].map((byte) => hex(byte, 2));
        const digits = bytes.map((each) => (upper ? each.toUpperCase() : each)).join(separator);
        const clean = redact(`bytes: ${digits}.`, [secret], false);
        const left = clean.replaceAll(/[^0-9a-fA-F]/g, '').toLowerCase();
        const wanted = Buffer.from(secret.trim()).toString('hex');
        assert.ok(!left.includes(wanted), `${secret} is in ${clean}`);
      }),
    );
  });

  test('redact leaves no beginning of encoded bytes at the end of a text that was cut off', () => {
    const secret = 'tök-4f9a1c77';
    const bytes = Buffer.from(secret);
    for (let length = 2; length <= 12; length++) {
      const digits = bytes.toString('hex').slice(0, length);
      assert.equal(redact(`! ${digits}`, [secret], true), '! ***');
      for (const before of ['', 'u', 'uv']) {
        const encoded = Buffer.from(`${before}${secret}`)
          .toString('base64')
          .slice(0, 4 + length);
        const clean = redact(`! ${encoded}`, [secret], true);
        const left = Buffer.from(clean.slice(2).replace('***', ''), 'base64').toString('latin1');
        assert.ok(clean.endsWith('***') && !left.includes('t'), clean);
      }
    }
  });

  const signing = `whsec_${Buffer.from(Array.from({ length: 32 }, (_, n) => 251 - n)).toString('base64')}`;
  const key = Buffer.from(decodeSecret(signing));
  const keyForms: [name: string, text: string, expected: string][] = [
    ['as it is', signing, '***'],
    ['without its prefix', signing.slice(6), '***'],
    ['in the alphabet of URLs', key.toString('base64url'), '***'],
    ['as bytes before others', Buffer.concat([Buffer.from('k'), key]).toString('base64'), 'a***'],
    ['as hexadecimal digits', key.toString('hex').toUpperCase(), '***'],
  ];
  for (const [name, text, expected] of keyForms) {
    test(`redact finds the key of a signing secret ${name}`, () =>
      assert.equal(redact(`key "${text}"`, [signing], false), `key "${expected}"`));
  }

  test('redact looks for secrets of 1 to 3 bytes in escapes, but not in digits and base64', () => {
    const page = '<p>616263 YWJj &amp; a%20c</p> &#97;bc \\u0061b a+b';
    const clean = '<p>616263 YWJj &amp; a%20c</p> *** \\u0061b a+b';
    assert.equal(redact(page, ['abc'], false), clean);
    assert.equal(redact('a?b \ufffd ü', ['ü'], false), 'a?b \ufffd ***');
    assert.equal(redact('QQ== 41 &#65; A', ['A'], false), 'QQ== 41 *** ***');
  });
});
