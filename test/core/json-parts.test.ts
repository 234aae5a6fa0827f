import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { fieldsOf, sizeOf } from '../../src/core/json-parts.ts';
import { runSync } from '../../src/core/slices.ts';

describe('sizeOf', () => {
  const long = 'x'.repeat(200_000);
  const cases: [text: string, parts: number, depth: number][] = [
    ['1', 0, 0],
    ['[]', 1, 1],
    ['[[],{},1,"x"]', 3, 2],
    ['{"a":1,"b":[{"c":null}]}', 6, 3],
    ['"[{:"', 0, 0],
    ['["\\"[{:","\\\\",[]]', 2, 2],
    ['["\u00e9\ud83e\uddd1[",{"\u00e9":[]}]', 4, 3],
    [`["${long}[",["${long}\\"]"],{"${long}":[[]]}]`, 6, 4],
  ];
  for (const [text, parts, depth] of cases) {
    test(`sizeOf counts ${parts} parts and depth ${depth} in ${text.slice(0, 40)}`, () => {
      const size = runSync(sizeOf(Buffer.from(text)));
      assert.deepEqual({ parts: size.parts, depth: size.depth }, { parts, depth });
    });
  }

  test('sizeOf counts the same for any position of a pause', () => {
    for (let before = 131_060; before < 131_080; before += 1) {
      const text = `["${'x'.repeat(before)}\\"[",{"a":[]},"\\\\"]`;
      const { parts, depth } = runSync(sizeOf(Buffer.from(text)));
      assert.deepEqual({ parts, depth }, { parts: 4, depth: 3 });
    }
  });
});

describe('fieldsOf', () => {
  const objects: object[] = [
    {},
    { ['\\"'.repeat(500_000)]: { a: 1 } },
    { a: 1 },
    { a: '', 'b "\\': { c: [1, { d: '}],{"' }] }, e: [], f: {}, g: 'x\\', h: null },
    { user_metadata: { list: [[], [{}], ','], text: '\u2028 \ud83e\uddd1,"' }, ['__proto__']: [1] },
  ];
  for (const [index, object] of objects.entries()) {
    test(`fieldsOf splits object ${index} into the JSON text of each field`, () => {
      const expected = Object.entries(object).map(([name, value]) => ({
        name,
        text: `${JSON.stringify(name)}:${JSON.stringify(value)}`,
      }));
      assert.deepEqual(runSync(fieldsOf(JSON.stringify(object))), expected);
    });
  }

  test('fieldsOf splits the same for any position of a pause', () => {
    for (let before = 131_040; before < 131_080; before += 1) {
      const object = { a: 'x'.repeat(before), 'b"': { c: ['\\"', {}] }, d: 1 };
      const texts = runSync(fieldsOf(JSON.stringify(object))).map(({ text }) => text);
      assert.equal(`{${texts.join(',')}}`, JSON.stringify(object));
      assert.equal(texts.length, 3);
    }
  });

  test('pauses every 128 Ki characters', () => {
    const steps = fieldsOf(JSON.stringify({ a: 'x'.repeat(1024 * 1024) }));
    let pauses = 0;
    while (steps.next().done !== true) pauses += 1;
    assert.equal(pauses, 8);
  });
});
