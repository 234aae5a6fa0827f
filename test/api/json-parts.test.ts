import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { countParts } from '../../src/api/json-parts.ts';

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
