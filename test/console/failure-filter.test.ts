import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  commandOf,
  type FailureSelection,
  failuresPath,
  filterOf,
  groupsPath,
  instantOf,
  isFiltered,
  localMinute,
  type Repair,
  selectionOf,
} from '../../src/console/failure-filter.ts';

const filterIn = (query: string) => {
  const parameters = new URLSearchParams(query);
  return filterOf({ get: (name) => parameters.get(name) ?? undefined });
};

test('filterOf: an address without parameters selects every open failure', () => {
  const filter = filterIn('from=abc&view=list');
  assert.deepEqual(selectionOf(filter), { all: true });
  assert.equal(isFiltered(filter), false);
  assert.equal(failuresPath(filter), '/deliveries');
  assert.equal(groupsPath(filter, { from: 'abc' }), '/delivery-groups?from=abc');
});

test('filterOf: the list and an action select the same failures', () => {
  const filter = filterIn(
    'stream=est_1&code=http_5xx&types=a.b,%20c.d,&failed_from=2026-03-01T00:00:00.000Z',
  );
  assert.deepEqual(selectionOf(filter), {
    event_stream_ids: ['est_1'],
    error_codes: ['http_5xx'],
    event_types: ['a.b', 'c.d'],
    failed_from: '2026-03-01T00:00:00.000Z',
  });
  const { searchParams } = new URL(failuresPath(filter, 'next'), 'https://leat.example');
  assert.deepEqual(Object.fromEntries(searchParams), {
    event_stream_ids: 'est_1',
    error_codes: 'http_5xx',
    event_types: 'a.b,c.d',
    failed_from: '2026-03-01T00:00:00.000Z',
    from: 'next',
  });
  assert.equal(isFiltered(filter), true);
});

test('isFiltered: deliveries that wait for a retry are not all failures', () => {
  assert.equal(isFiltered(filterIn('status=retrying')), true);
});

const commands: readonly (readonly [Repair, FailureSelection, string | undefined, string])[] = [
  ['redeliver', { all: true }, undefined, 'leat redeliver --all'],
  ['dismiss', { all: true }, undefined, 'leat dismiss --all'],
  ['redeliver', { event_stream_ids: ['est_1'] }, 'crm', 'leat redeliver crm'],
  ['dismiss', { event_stream_ids: ['est_1'] }, 'crm', 'leat dismiss crm --all'],
  [
    'redeliver',
    { event_stream_ids: ['est_1'], error_codes: ['http_503'], event_types: ['a.b', 'c.d'] },
    'crm',
    'leat redeliver crm --cause http_503 --type a.b,c.d',
  ],
  ['dismiss', { error_codes: ['http_4xx'] }, undefined, 'leat dismiss --cause http_4xx'],
  [
    'dismiss',
    { event_stream_ids: ['est_1'], event_ids: ['evt_1', 'evt_2'] },
    'crm',
    'leat dismiss crm evt_1 evt_2',
  ],
];

for (const [repair, selection, stream, expected] of commands) {
  test(`commandOf: ${expected}`, () => {
    assert.equal(commandOf(repair, selection, stream), expected);
  });
}

test('commandOf: no command selects by the time of the failure', () => {
  const selection = { error_codes: ['dns'], failed_to: '2026-03-01T00:00:00.000Z' };
  assert.equal(commandOf('redeliver', selection, undefined), undefined);
});

test('localMinute: a field that is not changed keeps the minute of its instant', () => {
  for (const at of ['2026-03-29T01:30:00.000Z', '2026-07-01T00:00:00.000Z']) {
    assert.equal(instantOf(localMinute(at)), at);
  }
  assert.equal(localMinute(undefined), '');
  assert.equal(localMinute('soon'), '');
  assert.equal(instantOf(''), undefined);
});
