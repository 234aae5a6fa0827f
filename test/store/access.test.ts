import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import type { Store } from '../../src/store/port/store.ts';
import { systemClock } from '../../src/clock.ts';
import { openStore } from '../../src/store/open.ts';
import { auditLogContract } from './contract/audit-log.ts';
import { apisContract } from './contract/apis.ts';
import { clientsContract, newClient } from './contract/clients.ts';
import { consoleSessionsContract } from './contract/console-sessions.ts';
import { grantsContract } from './contract/grants.ts';
import { guardedContract } from './contract/guarded.ts';
import { rolesContract } from './contract/roles.ts';
import { keysContract } from './contract/keys.ts';
import { addTenant, newStream, start } from './contract/fixture.ts';
import { pagesContract } from './contract/pages.ts';
import { tenantsContract } from './contract/tenants.ts';
import { usersContract } from './contract/users.ts';
import { sqliteFile, sqliteMemory } from './engines.ts';

for (const engine of [sqliteMemory, sqliteFile]) {
  tenantsContract(engine);
  keysContract(engine);
  clientsContract(engine);
  apisContract(engine);
  grantsContract(engine);
  rolesContract(engine);
  usersContract(engine);
  pagesContract(engine);
  auditLogContract(engine);
  consoleSessionsContract(engine);
  guardedContract(engine);
}

describe('SQLite in a file', () => {
  test('a store keeps its data across a restart', async (t) => {
    const path = pathFor(t);
    const first = await open(path);
    const tenant = await addTenant(first, 'main');
    await first.clients.create(newClient(tenant.id, 'robot', { global: true }));
    await first.keys.add(newKey(tenant.id), start);
    // By the store's own clock.
    const usedUntil = systemClock.now() + 3_600_000;
    await first.clients.useAssertion(tenant.id, 'robot', 'once', usedUntil);
    await first.close();

    const second = await open(path);
    t.after(() => second.close());
    assert.deepEqual(await second.tenants.list(), [tenant]);
    assert.equal((await second.clients.get(tenant.id, 'robot'))?.global, true);
    const [key] = await second.keys.list(tenant.id, start);
    assert.equal(key?.privateJwk, newKey(tenant.id).privateJwk);
    const again = second.clients.useAssertion(tenant.id, 'robot', 'once', usedUntil);
    assert.equal(await again, false);
  });

  test('no secret is readable in the database file or in the WAL', async (t) => {
    const path = pathFor(t);
    const store = await open(path);
    const tenant = await addTenant(store, 'main');
    await store.keys.add(newKey(tenant.id), start);
    await store.streams.create(newStream(tenant.id, start), { streamsMax: 1 });
    const whileOpen = bytesBeside(path);
    await store.close();
    for (const bytes of [whileOpen, bytesBeside(path)]) {
      assert.ok(bytes.includes('hooks.example.net') || bytes.includes('est_'), 'the data is there');
      for (const secret of ['private-part', 'kept-secret', 'whsec_']) {
        assert.ok(!bytes.includes(secret), secret);
      }
    }
  });
});

const secretKey = randomBytes(32);

function open(path: string): Promise<Store> {
  return openStore({
    location: { engine: 'sqlite', path },
    secretKeys: [secretKey],
    random: randomBytes,
    clock: systemClock,
  });
}

function pathFor(t: { after(action: () => void): void }): string {
  const folder = mkdtempSync(join(tmpdir(), 'leat-access-'));
  t.after(() => rmSync(folder, { recursive: true }));
  return join(folder, 'leat.db');
}

function bytesBeside(path: string): Buffer {
  const folder = join(path, '..');
  return Buffer.concat(readdirSync(folder).map((name) => readFileSync(join(folder, name))));
}

function newKey(tenant: number) {
  const privateJwk = JSON.stringify({ kty: 'RSA', d: 'private-part' });
  return { tenant, kid: 'k', privateJwk, createdAt: start, signsFrom: start };
}
