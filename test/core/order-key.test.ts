import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { fieldNames } from '../../src/core/field-path.ts';
import { orderKeyOf } from '../../src/core/order-key.ts';
import type { Json } from '../../src/core/filter-values.ts';

/** Returns the key of an envelope; fails when the text is no path. */
function keyOf(envelope: Json, pointer = '/v'): string | undefined {
  const tokens = fieldNames(pointer);
  assert.ok(tokens, `${pointer} is a path`);
  return orderKeyOf(envelope, tokens);
}

const keyOfText = (text: string): string | undefined => keyOf(JSON.parse(text) as Json);

describe('a path into an event', () => {
  const valid: [pointer: string, tokens: string[]][] = [
    ['', []],
    ['/', ['']],
    ['/a/b', ['a', 'b']],
    ['/a//b/', ['a', '', 'b', '']],
    ['/a~1b', ['a/b']],
    ['/m~0n', ['m~n']],
    // Not "/": the escapes are decoded once.
    ['/~01', ['~1']],
    ['/~10', ['/0']],
    ['/ /"/\\/%25/é', [' ', '"', '\\', '%25', 'é']],
    ['a', ['a']],
    ['a.b.0', ['a', 'b', '0']],
    ['a/b.~2', ['a/b', '~2']],
    ['/a.b/c', ['a.b', 'c']],
  ];
  for (const [pointer, tokens] of valid) {
    test(`${JSON.stringify(pointer)} has the tokens ${JSON.stringify(tokens)}`, () => {
      assert.deepEqual(fieldNames(pointer), tokens);
    });
  }

  for (const text of ['.a', 'a.', 'a..b', '.', '/~', '/a~', '/a~2', '/~~0']) {
    test(`${JSON.stringify(text)} is none`, () => {
      assert.equal(fieldNames(text), undefined);
    });
  }

  test('every list of tokens has a pointer that leads to its value', () => {
    const escaped = (token: string): string => token.replaceAll('~', '~0').replaceAll('/', '~1');
    const token = fc.oneof(fc.string(), fc.constantFrom('', '~', '/', '~1', '__proto__', '0'));
    const paths = fc.array(token, { minLength: 1, maxLength: 4 });
    fc.assert(
      fc.property(paths, (tokens) => {
        const pointer = tokens.map((each) => `/${escaped(each)}`).join('');
        assert.deepEqual(fieldNames(pointer), tokens);
        const within = (inner: Json, name: string): Json => Object.fromEntries([[name, inner]]);
        const envelope = tokens.reduceRight<Json>(within, 'value');
        assert.equal(keyOf(envelope, pointer), keyOf({ v: 'value' }));
      }),
    );
  });
});

describe('the key of an event', () => {
  test('two events have the same key exactly when type and value are the same', () => {
    const texts = ['"1"', '1', '"true"', 'true', 'false', '0', '""', '" "', '"null"', '-1', '1.5'];
    const keys = texts.map((text) => keyOfText(`{"v":${text}}`));
    assert.ok(keys.every((key) => key !== undefined));
    assert.equal(new Set(keys).size, texts.length);
    assert.deepEqual(
      texts.map((text) => keyOfText(`{"other":{},"v": ${text} }`)),
      keys,
    );
  });

  test('a number is its value, however it is written; doubles do not tell great ones apart', () => {
    for (const text of ['100', '1e2', '1E+2', '100.0']) {
      assert.equal(keyOfText(`{"v":${text}}`), keyOf({ v: 100 }), text);
    }
    assert.equal(keyOfText('{"v":-0}'), keyOf({ v: 0 }));
    assert.equal(keyOfText('{"v":9007199254740993}'), keyOfText('{"v":9007199254740992}'));
  });

  test('it is a hash of 128 bits that does not contain the value', () => {
    for (const v of ['usr_1', 'x'.repeat(100_000), 7]) {
      assert.match(keyOf({ v }) ?? '', /^[\w-]{22}$/);
    }
  });

  const unordered: [envelope: Json, pointer: string][] = [
    [{}, '/v'],
    [{ v: null }, '/v'],
    [{ v: [] }, '/v'],
    [{ v: ['a'] }, '/v'],
    [{ v: {} }, '/v'],
    [{ v: 'text' }, '/v/length'],
    [{ v: 'text' }, '/v/0'],
    [{ v: 1 }, '/v/w'],
    [{ v: null }, '/v/w'],
    [{ v: 'x' }, '/V'],
    [{ v: 'x' }, '/v/'],
    [{ v: 'x' }, '/'],
    [['a', 'b'], '/2'],
    [['a', 'b'], '/-'],
    [['a', 'b'], '/01'],
    [['a', 'b'], '/00'],
    [['a', 'b'], '/+1'],
    [['a', 'b'], '/1.0'],
    [['a', 'b'], '/1e0'],
    [['a', 'b'], '/ 1'],
    [['a', 'b'], '/-1'],
    [['a', 'b'], '/'],
    [['a', 'b'], '/length'],
    ['whole', '/0'],
  ];
  for (const [envelope, pointer] of unordered) {
    test(`${JSON.stringify(envelope)} has none at ${JSON.stringify(pointer)}`, () => {
      assert.equal(keyOf(envelope, pointer), undefined);
    });
  }

  const ordered: [envelope: Json, pointer: string][] = [
    [['x'], '/0'],
    [{ a: Array.from({ length: 11 }, (_, index) => (index === 10 ? 'x' : 'y')) }, '/a/10'],
    [{ '': 'x' }, '/'],
    [{ a: { '': { b: 'x' } } }, '/a//b'],
    [{ 'a/b': 'x' }, '/a~1b'],
    [{ 'm~n': 'x' }, '/m~0n'],
    [{ '01': 'x' }, '/01'],
    [{ '-': 'x' }, '/-'],
  ];
  for (const [envelope, pointer] of ordered) {
    test(`${JSON.stringify(envelope)} has the value x at ${JSON.stringify(pointer)}`, () => {
      assert.equal(keyOf(envelope, pointer), keyOf({ v: 'x' }));
    });
  }

  for (const name of ['__proto__', 'constructor', 'toString', 'hasOwnProperty']) {
    test(`${name} is a member like others: the event's own, or none`, () => {
      assert.equal(keyOf({}, `/${name}`), undefined);
      assert.equal(keyOf({}, `/${name}/name`), undefined);
      assert.equal(keyOf([], `/${name}`), undefined);
      const own = JSON.parse(`{"${name}":"x"}`) as Json;
      assert.equal(keyOf(own, `/${name}`), keyOf({ v: 'x' }));
    });
  }

  test('the empty pointer gives all envelopes one key, which no value has', () => {
    const key = keyOf({ v: 1 }, '');
    assert.ok(key);
    for (const envelope of [{}, [], null, 'text', 0]) assert.equal(keyOf(envelope, ''), key);
    assert.notEqual(keyOf({ v: '' }), key);
  });
});
