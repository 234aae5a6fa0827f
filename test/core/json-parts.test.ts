import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { countParts, membersOf } from '../../src/core/json-parts.ts';

describe('countParts', () => {
  const cases: [text: string, parts: number][] = [
    ['1', 0],
    ['[]', 1],
    ['[[],{},1,"x"]', 3],
    ['{"a":1,"b":[{"c":null}]}', 6],
    ['"[{:"', 0],
    ['["\\"[{:","\\\\",[]]', 2],
  ];
  for (const [text, parts] of cases) {
    test(`finds ${parts} in ${text}`, () => assert.equal(countParts(text), parts));
  }
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
      assert.deepEqual(membersOf(JSON.stringify(object)), expected);
    });
  }
});
