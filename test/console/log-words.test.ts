import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { logCommand, logQuery } from '../../src/console/log-query.ts';
import { choicesWith, doerOf, factsOf, kindChoices, kindOf } from '../../src/console/log-words.ts';
import { auditTypes } from '../../src/core/audit-log.ts';
import type { EntryShown } from '../../src/schemas/audit-log.ts';

/** Fields of an entry; its details may have further ones. */
type Fields = Partial<EntryShown> & { readonly details?: Readonly<Record<string, unknown>> };

const entryOf = (fields: Fields): EntryShown => ({
  log_id: 'log_5xJq2Vn8kYdW3tRbHs7McA',
  date: '2026-03-01T09:30:00.000Z',
  type: 'sapi',
  description: 'Update an event stream',
  details: { targets: [] },
  ...fields,
});

describe('types of entries', () => {
  test('each type has words and can be filtered by alone or with others', () => {
    for (const type of auditTypes) {
      assert.notEqual(kindOf(type), type);
      assert.ok(kindChoices.some(({ value }) => value.split(',').includes(type)));
    }
  });

  test('a type of a newer version is shown as it is', () => {
    assert.equal(kindOf('leat_new'), 'leat_new');
  });

  test('types that the address has are among the choices', () => {
    assert.equal(choicesWith('sapi').length, kindChoices.length);
    assert.deepEqual(choicesWith('sapi,ssa').at(-1), {
      value: 'sapi,ssa',
      text: 'Change, Console session',
    });
  });
});

describe('doerOf', () => {
  const cases: readonly (readonly [what: string, entry: Fields, doer: object])[] = [
    [
      'a user of the console is named with the role',
      { client_id: 'console', details: { targets: [], user: 'ada@example.com', role: 'support' } },
      { name: 'ada@example.com', what: 'support in the console' },
    ],
    [
      'a client is named as it was then',
      { client_id: 'c1', client_name: 'deploy' },
      { name: 'deploy', clientId: 'c1' },
    ],
    ['a client without a name has its id', { client_id: 'c1' }, { name: 'c1', clientId: 'c1' }],
    [
      'a refused sign-in has nobody',
      { type: 'fsa', client_id: 'console' },
      { name: 'Somebody', what: 'at the sign-in of the console' },
    ],
    ['Leat disables streams', { type: 'leat_stream_disabled' }, { name: 'Leat' }],
    [
      'keys are rotated by the operator',
      { type: 'leat_key_rotated' },
      { name: 'Operator', what: 'on the command line' },
    ],
    ['a refused token may have no client', { type: 'feccft' }, { name: 'Unknown client' }],
  ];
  for (const [what, entry, doer] of cases) {
    test(what, () => assert.deepEqual(doerOf(entryOf(entry)), doer));
  }
});

test('factsOf: names known details in words, and shows those of a newer version last', () => {
  const details = {
    newer: { a: 1 },
    role: 'viewer',
    method: 'POST',
    path: '/api/v2/roles',
    targets: ['rol_0123456789abcdef'],
    changed: ['name', 'description'],
  };
  assert.deepEqual(factsOf(entryOf({ details })), [
    { name: 'Fields sent', value: 'name, description' },
    { name: 'Role', value: 'viewer' },
    { name: 'newer', value: '{"a":1}' },
  ]);
});

describe('logQuery', () => {
  const present = Date.parse('2026-03-01T10:00:31.000Z');
  const queryOf = (text: string) => {
    const parameters = new URLSearchParams(text);
    return logQuery({ get: (name) => parameters.get(name) ?? undefined }, present);
  };

  test('a window begins at a full minute', () => {
    assert.equal(queryOf('since=hour')['date_from'], '2026-03-01T09:00:00.000Z');
  });

  test('the command lists the same entries', () => {
    assert.equal(logCommand(queryOf('')), 'leat logs');
    assert.equal(
      logCommand(queryOf('types=sapi&target=leat|1&client=c1&date_to=2026-03-01T09:00:00.000Z')),
      "leat logs --type sapi --client c1 --target 'leat|1' --until 2026-03-01T09:00:00.000Z",
    );
  });
});
