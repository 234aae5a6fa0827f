import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, test, type TestContext } from 'node:test';
import { isAudited } from '../../src/api/audit-entry.ts';
import { describedOperations } from '../../src/api/operations.ts';
import { systemClock } from '../../src/clock.ts';
import type { RecordedEntry } from '../../src/core/audit-log.ts';
import { openStore } from '../../src/store/open.ts';
import type { Store } from '../../src/store/port/store.ts';
import { allEntries } from '../helpers/audit-log.ts';
import { fixtureOf, type Fixture } from '../store/contract/fixture.ts';
import { postgres } from '../store/engines.ts';
import { waitFor } from '../helpers/wait.ts';
import { type AuditedRequest, callAll } from './audited-operations.ts';
import { type ApiFixture, openApiFixture } from './fixture.ts';

interface Opened {
  readonly fixture: ApiFixture;
  readonly storeFixture: Fixture;
  /** File of the store, if it has one. */
  readonly file: string | undefined;
}

const audited = describedOperations().filter(isAudited);

async function openSqlite(t: TestContext): Promise<Opened> {
  const folder = mkdtempSync(join(tmpdir(), 'leat-audited-'));
  const file = join(folder, 'leat.db');
  const open = async () => {
    const location = { engine: 'sqlite', path: file, file } as const;
    const deps = { secretKeys: [randomBytes(32)], random: randomBytes, clock: systemClock };
    const store = await openStore({ location, ...deps });
    return { store, close: () => store.close() };
  };
  return { ...(await openOver(t, open, () => rmSync(folder, { recursive: true }))), file };
}

async function openPostgres(t: TestContext): Promise<Opened> {
  return { ...(await openOver(t, () => postgres.open())), file: undefined };
}

async function openOver(
  t: TestContext,
  open: () => Promise<Pick<Store, 'close'> & { readonly store: Store }>,
  removed: () => void = () => undefined,
): Promise<Omit<Opened, 'file'>> {
  const fixture = await openApiFixture({}, { open });
  t.after(async () => {
    await fixture.close();
    removed();
  });
  return { fixture, storeFixture: fixtureOf(fixture.auth.store, fixture.auth.tenant.id) };
}

function entriesOf(
  { auth }: ApiFixture,
  ...types: ('sapi' | 'fapi' | 'seccft' | 'feccft')[]
): Promise<readonly RecordedEntry[]> {
  return allEntries(auth.store, auth.tenant.id, { types });
}

/** Advances the clock until the recorder has written `count` entries of a type. */
async function waitForRecorder(
  fixture: ApiFixture,
  type: 'fapi' | 'seccft' | 'feccft',
  count: number,
): Promise<readonly RecordedEntry[]> {
  return waitFor(`${count} entries of ${type}`, async () => {
    await fixture.auth.clock.advance(1000);
    const entries = await entriesOf(fixture, type);
    return entries.length >= count ? entries : undefined;
  });
}

for (const [engine, open] of [
  ['SQLite', openSqlite],
  ['PostgreSQL', openPostgres],
] as const) {
  describe(`${engine}: the audit log of the management API`, () => {
    test(
      'audited: each operation that changes something or reads a secret leaves one entry',
      { tags: ['long'] },
      async (t) => {
        const { fixture, storeFixture } = await open(t);
        const requests: AuditedRequest[] = [];
        await callAll(
          fixture,
          storeFixture,
          (name) => name.replaceAll(' ', '-'),
          (request, { status, text }) => {
            assert.ok(status < 300, `${request.operationId}: ${status} ${text}`);
            requests.push(request);
          },
        );
        assert.deepEqual(
          requests.map(({ operationId }) => operationId).toSorted(),
          audited.map(({ operationId }) => operationId).toSorted(),
          'every operation is called',
        );
        const entries = await entriesOf(fixture, 'sapi');
        assert.deepEqual(
          entries.map(({ description }) => description).toSorted(),
          audited.map(({ summary }) => summary).toSorted(),
        );
        for (const { operationId, method, path, targets, body } of requests) {
          const operation = audited.find((each) => each.operationId === operationId);
          const entry = entries.find(
            ({ details }) => details['method'] === method && details['path'] === `/api/v2${path}`,
          );
          assert.ok(entry, `${operationId} left an entry`);
          assert.equal(entry.description, operation?.summary);
          assert.equal(entry.clientId, fixture.auth.manager.clientId);
          assert.equal(entry.clientName, 'Bootstrap client');
          assert.equal(entry.ip, '127.0.0.1');
          for (const target of targets) assert.ok(entry.details.targets.includes(target), target);
          const isRead = operation?.body?.unparsed !== true;
          const changed = body === undefined || !isRead ? undefined : Object.keys(body);
          assert.deepEqual(entry.details['changed'], changed, operationId);
        }
      },
    );

    test('audited: each of them leaves an entry when scopes are missing, and no other operation', async (t) => {
      const { fixture } = await open(t);
      const { clientId, ...credentials } = await fixture.auth.client({}, []);
      const token = await fixture.auth.token({ clientId, ...credentials });
      const headers = { authorization: `Bearer ${token}` };
      for (const { method, path } of describedOperations()) {
        const filled = path.replaceAll(/:\w+/g, 'est_MASi45ub7Qe4ZE36UT5G6c');
        const response = await fixture.send(method, `${filled}?a=b`, undefined, headers);
        assert.equal(response.status, 403, `${method} ${path}`);
      }
      const entries = await waitForRecorder(fixture, 'fapi', audited.length);
      assert.equal(entries.length, audited.length);
      for (const { method, path, summary, scopes } of audited) {
        const filled = path.replaceAll(/:\w+/g, 'est_MASi45ub7Qe4ZE36UT5G6c');
        const entry = entries.find(
          ({ details }) => details['method'] === method && details['path'] === `/api/v2${filled}`,
        );
        assert.equal(entry?.description, summary);
        assert.deepEqual(entry.details['scopes'], scopes);
        assert.equal(entry.clientId, clientId);
      }
    });

    test(
      'audited: a token request whose body cannot be read leaves an entry',
      { tags: ['long'] },
      async (t) => {
        const { fixture } = await open(t);
        const form = 'application/x-www-form-urlencoded';
        const requests: [body: string | Uint8Array<ArrayBuffer>, type: string, status: number][] = [
          ['grant_type=a', 'text/plain', 400],
          [Uint8Array.of(0xff, 0xfe), form, 400],
          ['x'.repeat(100_000), form, 413],
        ];
        for (const [body, type, status] of requests) {
          const response = await fixture.raw('POST', '/oauth/token', body, {
            'content-type': type,
          });
          assert.equal(response.status, status, type);
        }
        const [entry] = await waitForRecorder(fixture, 'feccft', 1);
        assert.equal(entry?.details['error'], 'invalid_request');
        assert.equal(entry.count, requests.length);
      },
    );

    test(
      'audited: no entry has a secret of a request, in any encoding',
      { tags: ['long'] },
      async (t) => {
        const { fixture, storeFixture, file } = await open(t);
        const hidden: string[] = [];
        const secret = (name: string): string => {
          // Beginnings are hidden, too: names of streams and the like are short.
          const text = `${randomBytes(18).toString('hex')}-${name.replaceAll(' ', '-')}`;
          hidden.push(text.slice(0, 36));
          return text;
        };
        await callAll(fixture, storeFixture, secret, ({ operationId }, { status, text, body }) => {
          assert.ok(status < 300, `${operationId}: ${status} ${text}`);
          for (const shown of [body?.client_secret, body?.secret]) {
            if (typeof shown === 'string') hidden.push(shown.replace(/^whsec_/, ''));
          }
        });
        hidden.push(fixture.token.slice(-40), fixture.auth.manager.clientSecret);
        await sendForbidden(fixture, secret);
        await sendTokenRequests(fixture, secret);
        const refused = await waitForRecorder(fixture, 'feccft', 5);
        assert.ok(refused.length > 0 && refused.every(({ clientName }) => clientName !== 'nobody'));
        assert.ok((await waitForRecorder(fixture, 'fapi', 20)).length > 0);
        const stored =
          file === undefined
            ? JSON.stringify(await entriesOf(fixture, 'sapi', 'fapi', 'seccft', 'feccft'))
            : await rowsOf(fixture.auth.store, `${file}.copy`);
        assert.ok(stored.includes('Rotate the signing secret'));
        assert.ok(hidden.length > 100);
        for (const text of hidden) {
          for (const form of formsOf(text)) assert.ok(!stored.includes(form), `${text} as ${form}`);
        }
      },
    );
  });
}

/** Returns a secret as it is and in the usual encodings, in lower case where case does not matter. */
function formsOf(text: string): string[] {
  const bytes = Buffer.from(text);
  // Three positions: base64 depends on what comes before.
  const base64 = [0, 1, 2].map((skipped) =>
    Buffer.concat([Buffer.alloc(skipped), bytes])
      .toString('base64')
      .slice(Math.ceil((skipped * 4) / 3), -4),
  );
  return [text, encodeURIComponent(text), bytes.toString('hex'), ...base64];
}

/** Copies the store, which no other process may open, and returns all rows of the tables of the log. */
async function rowsOf(store: Store, file: string): Promise<string> {
  writeFileSync(file, '');
  assert.ok(store.copy);
  const { signal } = new AbortController();
  await store.copy(file, { progress: () => undefined, signal });
  const db = new DatabaseSync(file, { readOnly: true });
  const rows = ['audit_log', 'audit_targets'].map((table) =>
    db.prepare(`select * from ${table}`).all(),
  );
  db.close();
  return JSON.stringify(rows);
}

/** Sends requests without scopes, with secrets in place of ids and in bodies. */
async function sendForbidden(fixture: ApiFixture, secret: (name: string) => string): Promise<void> {
  const headers = await fixture.headersWith();
  for (const { method, path } of audited) {
    const filled = path.replaceAll(/:\w+/g, () => secret('id'));
    const agent = { 'user-agent': `curl/8.1 (${secret('user-agent')})` };
    const body = method === 'GET' ? undefined : { name: secret('body') };
    const sent = { ...headers, ...agent };
    const response = await fixture.send(method, `${filled}?q=${secret('query')}`, body, sent);
    assert.equal(response.status, 403);
  }
  // A token that may create grants, and none of their scopes.
  const granting = await fixture.headersWith('create:client_grants', 'update:client_grants');
  const { clientId } = await fixture.auth.client({}, []);
  const audience = '/api/v2/';
  for (const scope of [secret('granted scope'), `read:users ${secret('scope')}`]) {
    const grant = { client_id: clientId, audience, scope: [scope.replaceAll(' ', '')] };
    const { status } = await fixture.send('POST', '/client-grants', grant, granting);
    assert.ok(status >= 400);
  }
}

/** Sends token requests with secrets in every field; all are refused. */
async function sendTokenRequests(
  fixture: ApiFixture,
  secret: (name: string) => string,
): Promise<void> {
  const { clientId, clientSecret } = fixture.auth.manager;
  const good = {
    grant_type: 'client_credentials',
    audience: '/api/v2/',
    client_id: clientId,
    client_secret: clientSecret,
  };
  const assertion = 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer';
  const unproven = { ...good, client_secret: undefined };
  const jwt = `${secret('JWT')}.${secret('JWT')}.${secret('JWT')}`;
  const requests: object[] = [
    { ...good, client_secret: secret('client secret') },
    { ...good, client_id: secret('client id') },
    { ...good, audience: secret('audience') },
    { ...good, scope: secret('scope') },
    { ...good, grant_type: secret('grant type') },
    { ...good, [secret('name')]: secret('value'), audience: 'x' },
    { ...unproven, client_assertion: jwt, client_assertion_type: assertion },
    { ...unproven, client_assertion: jwt, client_assertion_type: secret('type') },
    { ...unproven },
  ];
  for (const body of requests) {
    const headers = {
      'content-type': 'application/json',
      'user-agent': `${secret('user-agent')} ${clientSecret}`,
    };
    const path = `/oauth/token?secret=${secret('query')}`;
    const { status, text } = await fixture.raw('POST', path, JSON.stringify(body), headers);
    assert.ok(status >= 400, text);
  }
  for (const [id, password] of [
    [clientId, secret('basic')],
    [secret('basic id'), secret('basic')],
  ]) {
    const basic = Buffer.from(`${id}:${password}`).toString('base64');
    const form = 'grant_type=client_credentials&audience=/api/v2/';
    const { status } = await fixture.raw('POST', '/oauth/token', form, {
      'content-type': 'application/x-www-form-urlencoded',
      authorization: `Basic ${basic}`,
    });
    assert.equal(status, 401);
  }
}
