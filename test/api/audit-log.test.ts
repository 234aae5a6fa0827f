import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { AuditEntry } from '../../src/core/audit-log.ts';
import { formatTime } from '../../src/core/date.ts';
import { newEntry } from '../store/contract/audit-log.ts';
import {
  cursorPages,
  type ApiFixture,
  assertNotFound,
  assertNeedsScope,
  assertProblem,
  openApiFixture,
} from './fixture.ts';

let fixture: ApiFixture;
let tenant: number;

before(async () => {
  fixture = await openApiFixture();
  tenant = fixture.auth.tenant.id;
});
after(() => fixture?.close());

/** Stores entries, the last one the newest; returns their ids, newest first. */
async function addEntries(...given: Partial<AuditEntry>[]): Promise<string[]> {
  const ids: string[] = [];
  for (const one of given) {
    const entry = newEntry(tenant, one);
    await fixture.auth.store.auditLog.add([{ entry, count: 1, ageMs: 0 }]);
    ids.unshift(entry.id);
  }
  return ids;
}

const get = (query: string) => fixture.send('GET', `/logs?${query}`);
const idsOf = (logs: { log_id: string }[]): string[] => logs.map(({ log_id: id }) => id);
/** Entries of one test: a client of its own. */
let clients = 0;
const freshClient = (): string => `client-${(clients += 1)}`;

describe('GET /api/v2/logs/:id', () => {
  test('readLog: returns every field', async () => {
    const clientId = freshClient();
    const details = {
      method: 'PATCH',
      path: '/api/v2/clients/x',
      targets: ['x'],
      changed: ['name'],
    };
    const [id] = await addEntries({ clientId, details, type: 'fapi' });
    const { status, body } = await fixture.send('GET', `/logs/${id}`);
    assert.equal(status, 200);
    assert.deepEqual(body, {
      log_id: id,
      date: formatTime(fixture.auth.clock.now()),
      type: 'fapi',
      description: 'Update a client',
      client_id: clientId,
      ip: '192.0.2.1',
      user_agent: 'curl/8.1',
      details,
    });
  });

  test('readLog: shows the count of an entry that stands for several', async () => {
    const entry = newEntry(tenant);
    await fixture.auth.store.auditLog.add([{ entry, count: 7, ageMs: 0 }]);
    assert.equal((await fixture.send('GET', `/logs/${entry.id}`)).body.count, 7);
  });

  test('readLog: 404 for an unknown id and for an entry of another tenant', async () => {
    const entry = newEntry(tenant + 1);
    await fixture.auth.store.auditLog.add([{ entry, count: 1, ageMs: 0 }]);
    for (const id of [entry.id, 'log_', 'x'.repeat(2000)]) {
      const response = await fixture.send('GET', `/logs/${id}`);
      assertNotFound(response, 'entry');
    }
  });

  test('readLog: needs read:logs', async () => {
    await assertNeedsScope(fixture, ['GET', '/logs/log_x', 'read:logs']);
    await assertNeedsScope(fixture, ['GET', '/logs', 'read:logs']);
  });
});

describe('GET /api/v2/logs', () => {
  test('listLogs: a bare array without paging, newest first', async () => {
    const clientId = freshClient();
    const ids = await addEntries({ clientId }, { clientId }, { clientId });
    const { status, body } = await get(`client_id=${clientId}`);
    assert.equal(status, 200);
    assert.deepEqual(idsOf(body), ids);
  });

  test('listLogs: totals', async () => {
    const clientId = freshClient();
    const ids = await addEntries(...Array.from({ length: 5 }, () => ({ clientId })));
    const { body } = await get(`client_id=${clientId}&page=1&per_page=2&include_totals=true`);
    const { logs, ...totals } = body;
    assert.deepEqual(idsOf(logs), ids.slice(2, 4));
    assert.deepEqual(totals, { start: 2, limit: 2, length: 2, total: 5 });
  });

  test('listLogs: pages reach 1,000 entries, and cursors reach all', async () => {
    const clientId = freshClient();
    const entries = Array.from({ length: 1010 }, () => newEntry(tenant, { clientId }));
    await fixture.auth.store.auditLog.add(entries.map((entry) => ({ entry, count: 1, ageMs: 0 })));
    const query = `client_id=${clientId}`;
    const last = await get(`${query}&page=9&per_page=100&include_totals=true`);
    const { logs, ...totals } = last.body;
    assert.deepEqual(totals, { start: 900, limit: 100, length: 100, total: 1000 });
    assert.equal(logs.length, 100);
    const message = 'You can only page through the first 1000 records.';
    for (const beyond of ['page=10&per_page=100', 'page=1000&per_page=1', 'page=2000000000']) {
      assertProblem(await get(`${query}&${beyond}`), 400, message, 'invalid_paging');
    }
    const read: string[] = [];
    for await (const { body } of cursorPages(fixture, `/logs?${query}&take=100`)) {
      read.push(...idsOf(body.logs));
    }
    assert.deepEqual(read, entries.map(({ id }) => id).toReversed());
  });

  test('listLogs: filters by types, client, target and dates', async () => {
    const clientId = freshClient();
    const details = (...targets: string[]) => ({ details: { targets } });
    await addEntries({ clientId, ...details('auth0|a b') });
    await fixture.auth.clock.advance(1000);
    const date = encodeURIComponent(formatTime(fixture.auth.clock.now()));
    const ids = await addEntries(
      { clientId, type: 'fapi', ...details('y') },
      { clientId, type: 'seccft', ...details('y') },
    );
    const query = `client_id=${clientId}`;
    assert.deepEqual(idsOf((await get(`${query}&date_from=${date}`)).body), ids);
    assert.equal((await get(`${query}&date_to=${date}`)).body.length, 1);
    assert.deepEqual(idsOf((await get(`${query}&types=fapi,seccft`)).body), ids);
    assert.deepEqual(idsOf((await get(`${query}&types=seccft&target=y`)).body), ids.slice(0, 1));
    assert.equal((await get(`${query}&target=auth0%7Ca%20b`)).body.length, 1);
    assert.deepEqual((await get('client_id=nobody')).body, []);
  });

  test('listLogs: take and from win where page and totals are sent as well', async () => {
    const clientId = freshClient();
    const ids = await addEntries({ clientId }, { clientId });
    const paged = 'page=0&per_page=50&include_totals=true';
    const first = await get(`client_id=${clientId}&take=1&${paged}`);
    assert.deepEqual(idsOf(first.body.logs), ids.slice(0, 1));
    const second = await get(`client_id=${clientId}&from=${first.body.next}&${paged}`);
    assert.deepEqual(idsOf(second.body.logs), ids.slice(1));
    assert.equal(second.body.next, undefined);
  });

  test('listLogs: returns the fields that are asked for', async () => {
    const clientId = freshClient();
    const [id] = await addEntries({ clientId });
    const query = `client_id=${clientId}`;
    assert.deepEqual((await get(`${query}&fields=log_id,type,nonsense`)).body, [
      { log_id: id, type: 'sapi' },
    ]);
    const rest = (await get(`${query}&take=1&fields=details,date&include_fields=false`)).body;
    const names = ['log_id', 'type', 'description', 'client_id', 'ip', 'user_agent'];
    assert.deepEqual(Object.keys(rest.logs[0]), names);
  });

  test('listLogs: 400 for what it cannot honour', async () => {
    const invalid: [query: string, property: string][] = [
      ['q=type:s', 'q'],
      ['search=robot', 'search'],
      ['sort=date:1', 'sort'],
      ['sort=ip:-1', 'sort'],
      ['types=sapi,nonsense', 'types'],
      ['types=', 'types'],
      ['date_from=yesterday', 'date_from'],
      ['date_from=2026-01-02T00:00:00Z&date_to=2026-01-01T00:00:00Z', 'date_from'],
      ['take=0', 'take'],
      ['per_page=101', 'per_page'],
      ['from=nonsense', 'from'],
      ['client_id=a&client_id=b', 'client_id'],
    ];
    for (const [query, property] of invalid) {
      const { status, body } = await get(query);
      assert.equal(status, 400, query);
      assert.equal(body.errorCode, 'invalid_query_string', query);
      assert.ok(body.message.includes(` on property ${property} `), body.message);
    }
    assert.equal((await get('sort=date:-1&q=&search=')).status, 200);
  });
});
