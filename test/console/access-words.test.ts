import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { carriedOf, proofOf, tabOf } from '../../src/console/access-words.ts';
import { nextPage, pageQuery } from '../../src/console/numbered-pages.ts';
import { eventsOfUser, userSearch } from '../../src/console/user-search.ts';

describe('tabOf', () => {
  test('an id without a tab is shown where things of its kind are', () => {
    assert.equal(tabOf(undefined, 'cgr_42b868dff918947ed87c0b1c5d8d1586'), 'grants');
    assert.equal(tabOf(undefined, 'api_1pARVH5hFGciH5BQbXwKRx'), 'apis');
    assert.equal(tabOf(undefined, 'rol_ac99c1a14d57b401'), 'roles');
    assert.equal(tabOf(undefined, 'operator'), 'clients');
  });

  test('the tab of the address counts, whatever the id is; an unknown one does not', () => {
    assert.equal(tabOf('apis', 'https://orders.example.com'), 'apis');
    assert.equal(tabOf('secrets', undefined), 'clients');
  });
});

const client = { client_id: 'c1', name: 'deploy', global: false };
const key = { kty: 'EC', crv: 'P-256', x: 'x', y: 'y' } as const;

test('proofOf: a client proves itself by a secret, by keys, or by tokens of its issuer', () => {
  assert.equal(proofOf(client), 'secret');
  assert.equal(proofOf({ ...client, jwks: { keys: [key] } }), 'secret or a key');
  assert.equal(proofOf({ ...client, jwks: { keys: [key, key] } }), 'secret or 2 keys');
  assert.equal(
    proofOf({ ...client, issuer: 'https://id.example/' }),
    'tokens of https://id.example/',
  );
});

test('carriedOf: names fields without effect, never their values', () => {
  const names = carriedOf({ ...client, addons: { azure_sb: { sasKey: 'secret' } }, sso: true });
  assert.deepEqual(names, ['addons', 'sso']);
});

describe('pages by number', () => {
  test('an address that is no number is the first page', () => {
    for (const from of [undefined, '', '-1', '1e3', 'bGVhdA']) {
      assert.equal(pageQuery(from, 50)['page'], 0);
    }
    assert.equal(pageQuery('3', 50)['page'], 3);
  });

  test('the last page, and the end of what the API shows, have no next one', () => {
    assert.equal(nextPage({ start: 0, limit: 50, length: 50, total: 51 }), '1');
    assert.equal(nextPage({ start: 50, limit: 50, length: 1, total: 51 }), undefined);
    assert.equal(nextPage({ start: 950, limit: 50, length: 50, total: 2000 }, 1000), undefined);
    assert.equal(nextPage({ start: 900, limit: 50, length: 50, total: 2000 }, 1000), '19');
  });
});

test('userSearch: whole ids and whole e-mails are searched for', () => {
  assert.deepEqual(userSearch(undefined), { kind: 'all' });
  assert.deepEqual(userSearch('leat|65e1'), { kind: 'id', path: '/users/leat%7C65e1' });
  assert.deepEqual(userSearch('a+b@example.com'), {
    kind: 'email',
    path: '/users-by-email?email=a%2Bb%40example.com',
  });
  assert.deepEqual(userSearch('Ada'), { kind: 'neither' });
});

test('eventsOfUser: leads to the events with the id in their payload', () => {
  const { searchParams } = new URL(eventsOfUser('/console/events', 'leat|1&x'), 'http://localhost');
  assert.equal(searchParams.get('filter'), '{"data.object.user_id":"leat|1&x"}');
});
