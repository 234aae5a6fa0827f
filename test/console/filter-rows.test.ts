import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  type FilterRow,
  hasValue,
  problemOfText,
  rowsOf,
  textOfRows,
} from '../../src/console/filter-rows.ts';
import { parseFilter } from '../../src/core/filter.ts';

const row = (path: string, operator: FilterRow['operator'], value = ''): FilterRow => ({
  path,
  operator,
  value,
});

const cases: readonly (readonly [name: string, rows: readonly FilterRow[], condition: object])[] = [
  ['a text', [row('data.object.plan', '$eq', 'pro')], { 'data.object.plan': 'pro' }],
  ['a number', [row('data.object.n', '$eq', '5')], { 'data.object.n': 5 }],
  ['a text of a digit', [row('data.object.n', '$eq', '"5"')], { 'data.object.n': '5' }],
  ['null', [row('data.object.n', '$ne', 'null')], { 'data.object.n': { $ne: null } }],
  ['a quote', [row('data.object.n', '$eq', 'a "b" \\')], { 'data.object.n': 'a "b" \\' }],
  ['a list', [row('type', '$in', '["a, b","c"]')], { type: { $in: ['a, b', 'c'] } }],
  ['an object', [row('data.o', '$eq', '{"a":1}')], { 'data.o': { $eq: { a: 1 } } }],
  ['existence', [row('data.a', 'exists')], { 'data.a': { $exists: true } }],
  ['absence', [row('data.a', 'missing')], { 'data.a': { $exists: false } }],
  [
    'a range of one field',
    [row('data.n', '$gte', '1'), row('data.n', '$lt', '9')],
    { 'data.n': { $gte: 1, $lt: 9 } },
  ],
  [
    'one field and operator twice',
    [row('data.tags', '$contains', 'a'), row('data.tags', '$contains', 'b')],
    { 'data.tags': { $contains: 'a' }, $and: [{ 'data.tags': { $contains: 'b' } }] },
  ],
];

describe('rows of conditions', () => {
  for (const [name, rows, condition] of cases) {
    test(`${name}: there and back, and the server takes it`, () => {
      const text = textOfRows(rows);
      assert.deepEqual(JSON.parse(text), condition);
      assert.ok('filter' in parseFilter(JSON.parse(text)));
      assert.deepEqual(rowsOf(text), rows);
    });
  }

  test('values between commas are a list', () => {
    assert.equal(
      textOfRows([row('data.n', '$in', 'a, 5,true,')]),
      '{"data.n":{"$in":["a",5,true]}}',
    );
  });

  test('a number that a text has to start with is a text', () => {
    assert.equal(
      textOfRows([row('data.n', '$startsWith', '49')]),
      '{"data.n":{"$startsWith":"49"}}',
    );
  });

  test('rows without a field count for nothing', () => {
    assert.equal(textOfRows([row(' ', '$eq', 'a')]), '');
    assert.deepEqual(rowsOf(' '), []);
  });

  for (const text of ['{"$or":[{"type":"a.b"}]}', '{"a":{"$not":{"$eq":1}}}', '{', '[]', '{}']) {
    test(`${text} has no rows`, () => assert.equal(rowsOf(text), undefined));
  }

  test('existence has no value', () => {
    assert.deepEqual(
      [hasValue('exists'), hasValue('missing'), hasValue('$eq')],
      [false, false, true],
    );
  });

  test('says why a text is no condition', () => {
    assert.equal(problemOfText(''), undefined);
    assert.equal(problemOfText('{"type":"a.b"}'), undefined);
    assert.match(problemOfText('[1]') ?? '', /JSON object/);
    assert.match(problemOfText('{"type"') ?? '', /not JSON/);
  });
});
