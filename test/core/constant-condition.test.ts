import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { matchesEveryEvent } from '../../src/core/constant-condition.ts';
import { parseFilter } from '../../src/core/filter.ts';
import type { Json } from '../../src/core/filter-values.ts';

const every: Json[] = [
  {},
  { $and: [{}, {}] },
  { $or: [{ 'data.a': 1 }, {}] },
  { $not: { $not: {} } },
  { 'data.a': { $nin: [] } },
  { $not: { 'data.a': { $in: [] } } },
  { 'data.a': { $not: { $in: [] } } },
  { specversion: '1.0' },
  { '/specversion': { $in: ['2.0', '1.0'] } },
  { specversion: { $ne: '2.0' } },
  { type: { $exists: true }, data: { $exists: true }, id: { $ne: null } },
  { 'time.hours': { $exists: false } },
  { data: { $nin: [1, 'a', null, []] } },
  { $or: [{ 'data.a': { $exists: true } }, { '/data/a': { $exists: false } }] },
  { $or: [{ 'data.a': 1 }, { 'data.a': { $ne: 1 } }] },
  { $or: [{ 'data.a': { $gt: 1 } }, { 'data.a': { $not: { $gt: 1 } } }] },
  { $or: [{ 'data.a': 1, 'data.b': 2 }, { $not: { 'data.b': 2, 'data.a': 1 } }] },
  { $not: { 'data.a': 1, $and: [{ 'data.a': { $ne: 1 } }] } },
];

const some: Json[] = [
  { 'data.a': 1 },
  { type: 'a.b' },
  { specversion: '2.0' },
  { specversion: { $ne: '1.0' } },
  { $not: {} },
  { $or: [{ $not: {} }, { 'data.a': 1 }] },
  { 'data.a': { $in: [] } },
  { 'data.a': { $exists: true } },
  { 'data.a': { $ne: 1 } },
  { data: { $ne: {} } },
  { data: {} },
  { subject: { $ne: null } },
  { subject: { $exists: false } },
  { type: { $ne: 'a.b' } },
  { 'type.a': { $ne: 1 }, type: { $exists: false } },
  { $or: [{ 'data.a': { $gt: 1 } }, { 'data.a': { $lte: 1 } }] },
  { $or: [{ 'data.a': 1 }, { 'data.b': { $ne: 1 } }] },
];

/** Events that tell the conditions apart; the attributes are those that every event has. */
const events: Json[] = [undefined, 1, 2, null, 'x', [1]].flatMap((a) =>
  ['a.b', 'c.d'].map((type) => ({
    id: 'evt_1',
    source: 'urn:leat:',
    specversion: '1.0',
    type,
    time: '2026-01-01T00:00:00.000Z',
    data: a === undefined ? {} : { a, b: 1 },
    ...(type === 'a.b' ? {} : { subject: null }),
  })),
);

function matches(condition: Json): boolean {
  const parsed = parseFilter(condition);
  assert.ok('filter' in parsed, JSON.stringify(parsed));
  return events.every((event) => {
    const found = parsed.filter.matches(event);
    let step = found.next();
    while (step.done !== true) step = found.next();
    return step.value;
  });
}

describe('matchesEveryEvent', () => {
  for (const condition of every) {
    test(`${JSON.stringify(condition)} matches every event, as the filter itself does`, () => {
      assert.equal(matchesEveryEvent(condition), true);
      assert.equal(matches(condition), true);
    });
  }

  for (const condition of some) {
    test(`${JSON.stringify(condition)} does not match every event, as the filter itself does`, () => {
      assert.equal(matchesEveryEvent(condition), false);
      assert.equal(matches(condition), false);
    });
  }

  test('what is no condition does not match every event', () => {
    const none: Json[] = [null, 1, 'x', [], [{}], { $or: {} }, { $nor: [{}] }, { a: { $in: 1 } }];
    for (const value of none) assert.equal(matchesEveryEvent(value), false);
  });
});
