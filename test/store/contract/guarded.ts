import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { managementApiId } from '../../../src/core/types.ts';
import type { Guard, GuardedStore } from '../../../src/store/port/guard.ts';
import { newEntry } from './audit-log.ts';
import { newClient } from './clients.ts';
import type { Engine } from './engine.ts';
import { newSession } from './console-sessions.ts';
import { addTenant, createFixture } from './fixture.ts';

export function guardedContract(engine: Engine): void {
  describe(`${engine.name}: guarded`, () => contract(engine));
}

const refusal = new Error('The guard refuses.');

function contract(engine: Engine): void {
  test('guarded: the guard receives what the caller may do now, and whether its key exists', async (t) => {
    const { store, tenant } = await createFixture(engine, t);
    const seen: unknown[] = [];
    const guard = (client: string, signedWith?: string): Guard => ({
      tenant,
      client,
      signedWith,
      check: (...state) => void seen.push(state),
    });
    await store.clients.create(newClient(tenant, 'caller'));
    const scope = ['read:users'];
    const grant = { tenant, id: 'cgr_1', client: 'caller', api: managementApiId, scope };
    await store.grants.create(grant);
    const key = { tenant, kid: 'known', privateJwk: '{}', createdAt: 0, signsFrom: 0 };
    await store.keys.add(key, 0);
    await store.guarded(guard('caller', 'known')).roles.delete(tenant, 'none');
    await store.guarded(guard('caller', 'unknown')).roles.delete(tenant, 'none');
    await store.guarded(guard('nobody')).roles.delete(tenant, 'none');
    const access = await store.clients.access(tenant, 'caller');
    assert.deepEqual(access?.scopes, scope);
    assert.deepEqual(seen, [
      [access, true],
      [access, false],
      [undefined, true],
    ]);
  });

  test('guarded: the guard of a session receives it unless it has ended', async (t) => {
    const { store, tenant } = await createFixture(engine, t);
    const { id: other } = await addTenant(store, 'other');
    const session = newSession(tenant, 'ses_1', {
      role: 'support',
      mapping: 'main/groups:a=support',
    });
    const begun = await store.consoleSessions.begin(session);
    const seen: unknown[] = [];
    const guardOf = (of: number): Guard => ({
      tenant: of,
      session: session.secretHash,
      check: (found) => void seen.push(found),
    });
    await store.guarded(guardOf(tenant)).roles.delete(tenant, 'none');
    await store.guarded(guardOf(other)).roles.delete(other, 'none');
    await store.consoleSessions.end(tenant, session.secretHash);
    await store.guarded(guardOf(tenant)).roles.delete(tenant, 'none');
    assert.deepEqual(seen, [begun, undefined, undefined]);
  });

  test('guarded: nothing is changed or recorded when the guard throws', async (t) => {
    const { store, tenant } = await createFixture(engine, t);
    await store.clients.create(newClient(tenant, 'target'));
    const grant = { tenant, id: 'cgr_1', client: 'target', api: managementApiId, scope: ['a'] };
    await store.grants.create(grant);
    const role = { tenant, id: 'rol_1', name: 'one', description: '', createdAt: 0 };
    await store.roles.create(role);
    const check = (): void => {
      throw refusal;
    };
    const guard: Guard = { tenant, client: 'caller', signedWith: undefined, check };
    const permissions = [{ api: managementApiId, name: 'a' }];
    const changes: ((guarded: GuardedStore) => Promise<unknown>)[] = [
      ({ clients }) => clients.create(newClient(tenant, 'other')),
      ({ clients }) => clients.update(tenant, 'target', (before) => ({ after: before })),
      ({ clients }) => clients.delete(tenant, 'target'),
      ({ grants }) => grants.create({ ...grant, id: 'cgr_2', client: 'other' }),
      ({ grants }) => grants.update(tenant, 'cgr_1', (before) => ({ ...before, scope: [] })),
      ({ grants }) => grants.delete(tenant, 'cgr_1'),
      ({ roles }) => roles.update(tenant, 'rol_1', (before) => ({ ...before, name: 'two' })),
      ({ roles }) => roles.delete(tenant, 'rol_1'),
      ({ roles }) => roles.addPermissions(tenant, 'rol_1', permissions),
      ({ roles }) => roles.removePermissions(tenant, 'rol_1', permissions),
      ({ roles }) => roles.addClients(tenant, 'rol_1', ['target']),
      ({ roles }) => roles.removeClients(tenant, 'rol_1', ['target']),
    ];
    const entries = changes.map(() => newEntry(tenant));
    for (const [index, change] of changes.entries()) {
      await assert.rejects(change(store.guarded(guard, entries[index])), refusal);
    }
    assert.equal((await store.clients.get(tenant, 'target'))?.version, 1);
    assert.deepEqual(await store.grants.get(tenant, 'cgr_1'), grant);
    assert.deepEqual(await store.roles.get(tenant, 'rol_1'), role);
    assert.equal(await store.clients.get(tenant, 'other'), undefined);
    for (const { id } of entries) assert.equal(await store.auditLog.get(tenant, id), undefined);
  });

  test('guarded: a change that the guard lets pass records its entry', async (t) => {
    const { store, tenant } = await createFixture(engine, t);
    const entry = newEntry(tenant);
    const check = (): void => undefined;
    const guard: Guard = { tenant, client: 'caller', signedWith: undefined, check };
    const { clients } = store.guarded(guard, entry);
    assert.ok('created' in (await clients.create(newClient(tenant, 'new'))));
    assert.equal((await store.auditLog.get(tenant, entry.id))?.id, entry.id);
    assert.deepEqual(await clients.delete(tenant, 'new'), true);
  });
}
