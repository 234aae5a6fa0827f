import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  eventQueryOf,
  instantOf,
  isEventType,
  isSearch,
  localOf,
  requestOf,
} from '../../src/console/event-query.ts';

const queryOf = (search: string) => {
  const parameters = new URLSearchParams(search);
  return eventQueryOf({ get: (name) => parameters.get(name) ?? undefined });
};
const presentMs = Date.parse('2026-03-10T10:00:00.000Z');

describe('the query of the list of events', () => {
  const cases: readonly (readonly [search: string, request: object])[] = [
    ['', {}],
    ['types=order.paid,,user.created order.paid', { event_types: 'order.paid,user.created' }],
    ['since=hour', { date_from: '2026-03-10T09:00:00.000Z' }],
    ['since=day', { date_from: '2026-03-09T10:00:00.000Z' }],
    ['since=week&date_to=2026-03-01', { date_from: '2026-03-03T10:00:00.000Z' }],
    ['since=between', {}],
    ['date_to=2026-03-01T00:00:00Z', { date_to: '2026-03-01T00:00:00.000Z' }],
    ['since=toString&date_from=tomorrow', {}],
    ['filter=%7B%22type%22%3A1%7D', { filter: '{"type":1}' }],
  ];
  for (const [search, request] of cases) {
    test(`"${search}" asks for ${JSON.stringify(request)}`, () => {
      const sent = requestOf(queryOf(search), presentMs);
      assert.deepEqual(JSON.parse(JSON.stringify(sent)), request);
    });
  }

  test('a window is searched for, no parameter is not', () => {
    assert.equal(isSearch(queryOf('')), false);
    assert.equal(isSearch(queryOf('since=hour')), true);
    assert.equal(isSearch(queryOf('types=a.b')), true);
  });

  test('a local time is there and back the same instant', () => {
    assert.equal(instantOf(localOf('2026-03-01T09:30:05.000Z')), '2026-03-01T09:30:05.000Z');
    assert.deepEqual([localOf(undefined), instantOf('')], ['', undefined]);
  });

  test('event types have two segments or more', () => {
    assert.ok(isEventType('order.paid') && isEventType('a.b_1.c'));
    assert.ok(!isEventType('order') && !isEventType('Order.paid') && !isEventType('a.b\n'));
  });
});
