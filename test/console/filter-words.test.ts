import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Condition, filterWords } from '../../src/console/filter-words.ts';

const cases: readonly [string, Condition, readonly string[]][] = [
  [
    'equal values and operators',
    { type: 'user.created', 'data.object.plan': { $in: ['pro', 'team'] } },
    ['type is “user.created”', 'data.object.plan is one of “pro”, “team”'],
  ],
  [
    'several operators of a field',
    { 'data.n': { $gte: 5, $lt: 9 } },
    ['data.n is at least 5', 'data.n is less than 9'],
  ],
  ['existence', { a: { $exists: true }, b: { $exists: false } }, ['a exists', 'b does not exist']],
  [
    'alternatives',
    { $or: [{ a: 1, b: null }, { c: { $endsWith: '.com' } }] },
    ['one of: (a is 1 and b is null) or (c ends with “.com”)'],
  ],
  ['all of', { $and: [{ a: 1 }, { b: true }] }, ['a is 1', 'b is true']],
  ['negation of a condition', { $not: { a: 1 } }, ['not (a is 1)']],
  ['negation of operators', { a: { $not: { $gt: 5 } } }, ['not (a is greater than 5)']],
  ['objects by value', { a: { b: 1 } }, ['a is {"b":1}']],
];

for (const [title, condition, words] of cases) {
  test(`filterWords: ${title}`, () => assert.deepEqual(filterWords(condition), words));
}
