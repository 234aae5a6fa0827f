import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { membersOf, sizeOf } from '../../src/core/json-parts.ts';
import { atOnce } from '../../src/core/slices.ts';

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
    test(`finds ${parts} parts, ${depth} deep, in ${text.slice(0, 40)}`, () => {
      const size = atOnce(sizeOf(Buffer.from(text)));
      assert.deepEqual({ parts: size.parts, depth: size.depth }, { parts, depth });
    });
  }

  test('finds the same wherever it pauses', () => {
    for (let before = 131_060; before < 131_080; before += 1) {
      const text = `["${'x'.repeat(before)}\\"[",{"a":[]},"\\\\"]`;
      const { parts, depth } = atOnce(sizeOf(Buffer.from(text)));
      assert.deepEqual({ parts, depth }, { parts: 4, depth: 3 });
    }
  });
});

describe('membersOf', () => {
  const objects: object[] = [
    {},
    { ['\\"'.repeat(500_000)]: { a: 1 } },
    { a: 1 },
    { a: '', 'b "\\': { c: [1, { d: '}],{"' }] }, e: [], f: {}, g: 'x\\', h: null },
    { user_metadata: { list: [[], [{}], ','], text: '\u2028 \ud83e\uddd1,"' }, ['__proto__']: [1] },
  ];
  for (const [index, object] of objects.entries()) {
    test(`cuts object ${index} into what JSON.stringify wrote of each member`, () => {
      const expected = Object.entries(object).map(([name, value]) => ({
        name,
        text: `${JSON.stringify(name)}:${JSON.stringify(value)}`,
      }));
      assert.deepEqual(atOnce(membersOf(JSON.stringify(object))), expected);
    });
  }

  test('cuts the same wherever it pauses', () => {
    for (let before = 131_040; before < 131_080; before += 1) {
      const object = { a: 'x'.repeat(before), 'b"': { c: ['\\"', {}] }, d: 1 };
      const texts = atOnce(membersOf(JSON.stringify(object))).map(({ text }) => text);
      assert.equal(`{${texts.join(',')}}`, JSON.stringify(object));
      assert.equal(texts.length, 3);
    }
  });

  test('pauses in what is long', () => {
    const steps = membersOf(JSON.stringify({ a: 'x'.repeat(1024 * 1024) }));
    let pauses = 0;
    while (steps.next().done !== true) pauses += 1;
    assert.equal(pauses, 8);
  });
});
