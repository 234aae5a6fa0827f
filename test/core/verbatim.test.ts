import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { mayHoldInexactNumber, parseVerbatim, readVerbatim } from '../../src/core/verbatim.ts';

/** Returns the result of JSON.parse, with its source text of each number. */
function byReviver(text: string): unknown {
  const keep = (_name: string, value: unknown, { source }: { source?: string }): unknown =>
    typeof value === 'number' && source !== undefined && String(value) !== source
      ? (JSON as unknown as { rawJSON(text: string): object }).rawJSON(source)
      : value;
  return JSON.parse(text, keep as Parameters<typeof JSON.parse>[1]);
}

const texts = [
  '0',
  '-0',
  '1.10',
  '1E5',
  '1e+5',
  '12345678901234567890',
  '"1.10"',
  ' [ ] ',
  '{ }',
  ' [ 1.0 , { } ,\t"x"\r\n, null,true ,false, -12.50e-3 ] ',
  '{"b":1,"a":1.0,"1":2.0,"b":3.0}',
  '{"__proto__":1.0,"toString":{"__proto__":{"x":-0}}}',
  '{"\\u0061":1.0,"\\"":"\\\\","\\\\":"\\ud800","é":"😀\\n"}',
  '["\\\\",1.0,"\\\\\\"",2.0]',
  '[[[[1.0]]],{"a":{"b":[{},[],{"c":[1.0]}]}}]',
];

describe('parseVerbatim', () => {
  for (const text of texts) {
    test(`parses ${text} like JSON.parse, with numbers as sent`, () => {
      assert.equal(JSON.stringify(parseVerbatim(text)), JSON.stringify(byReviver(text)));
    });
  }

  test('__proto__ does not change the prototype of an object', () => {
    const value = parseVerbatim('{"__proto__":{"x":1.0}}') as object;
    assert.equal(Object.getPrototypeOf(value), Object.prototype);
    assert.deepEqual(Object.keys(value), ['__proto__']);
  });
});

describe('readVerbatim', () => {
  test('readVerbatim finds every number that would be rounded, and no other', () => {
    const large = ['1e400', '-1e999', '9007199254740993', '12345678901234567890', '1e21'];
    const long = ['0.12345678901234567890', '1.00000000000000000001', '1e-400', '1e999999999999'];
    for (const number of [...large, ...long, '9007199254740992']) {
      assert.deepEqual(readVerbatim(`[0,{"a":${number}}]`).rounded, [[1, 'a']], number);
    }
    const kept = ['0', '-0', '0.0', '0e9', '-1.5', '1.50', '1e-7', '0.0000001', '1E5', '100e-2'];
    for (const number of [...kept, '9007199254740991', '1.7976931348623157e-300', '0.1', '12.0']) {
      assert.deepEqual(readVerbatim(`[0,{"a":${number}}]`).rounded, [], number);
    }
  });

  test('readVerbatim finds the first repeated field, however its name is written', () => {
    const repeated: [text: string, path: (string | number)[] | undefined][] = [
      ['{"a":1,"b":{"a":1},"c":[{"a":1},{"a":1}]}', undefined],
      ['{"a":1,"\\u0061":2,"a":3}', ['a']],
      ['[{"x":[0,{"__proto__":1,"__proto__":1}]},{"y":1,"y":1}]', [0, 'x', 1, '__proto__']],
      ['{"toString":1,"constructor":1}', undefined],
      ['{"":1,"":1}', ['']],
    ];
    for (const [text, path] of repeated) assert.deepEqual(readVerbatim(text).repeated, path, text);
  });
});

describe('mayHoldInexactNumber', () => {
  test('mayHoldInexactNumber finds every number that a double changes', () => {
    const numbers = ['-0', '1.0', '1.10', '1e5', '-1E5', '12345678901234567890', '1e400'];
    for (const number of [...numbers, '0.0000001', '-0.00000012']) {
      for (const text of [`[${number}]`, `[1,${number}]`, `{"a":${number}}`, `[ ${number} ]`]) {
        assert.equal(mayHoldInexactNumber(text), true, text);
      }
    }
  });

  test('mayHoldInexactNumber returns false for numbers that a double represents', () => {
    for (const text of ['[0,1,-1,1.5,-0.25,0.000001]', '{"a":"x","b":100}', '[]']) {
      assert.equal(mayHoldInexactNumber(text), false, text);
    }
  });
});
