import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import {
  bootstrap,
  type Bootstrapped,
  type BootstrapOptions,
  createTenant,
  renewBootstrap,
} from '../../src/auth/bootstrap.ts';
import {
  type Credentials,
  hashSecret,
  makeClientId,
  makeClientSecret,
  secretMatches,
  hasAllScopes,
} from '../../src/auth/clients.ts';
import { managementScopes } from '../../src/auth/scopes.ts';
import { firstCredentialsVersion } from '../../src/core/clients.ts';
import { StartRefused } from '../../src/core/errors.ts';
import { managementApiId } from '../../src/core/types.ts';
import { entryOfCommand } from '../../src/operator/audit-log.ts';
import type { Store } from '../../src/store/port/store.ts';
import { allEntries } from '../helpers/audit-log.ts';
import { openMemoryStore, random } from './fixture.ts';

const now = Date.parse('2026-03-01T09:30:00.000Z');
const operator = { clientId: 'operator', clientSecret: 'secret-of-the-operator' };

let store: Store;

beforeEach(async () => {
  store = await openMemoryStore();
});
afterEach(() => store.close());

function start(
  options: Partial<BootstrapOptions> = {},
  onStore: Store = store,
): Promise<Bootstrapped> {
  const allOptions = {
    name: 'main',
    domain: 'localhost:8080',
    deliverCredentials: async () => {},
    ...options,
  };
  return bootstrap({ store: onStore, random, now }, allOptions);
}

async function hasSecret(tenant: number, id: string, secret: string): Promise<boolean> {
  return secretMatches(secret, (await store.clients.get(tenant, id))?.secretHash);
}

async function clientIds(tenant: number): Promise<string[]> {
  const { items } = await store.clients.listFrom(tenant, { after: undefined, take: 100 });
  return items.map((client) => client.id);
}

describe('client secret', () => {
  test('a generated secret has 256 bits, needs no escaping, and matches only its own hash', () => {
    const secret = makeClientSecret(random);
    assert.match(secret, /^[A-Za-z0-9_-]{43}$/);
    assert.match(makeClientId(random), /^[0-9a-f]{32}$/);
    const stored = hashSecret(secret);
    assert.equal(secretMatches(secret, stored), true);
    for (const other of ['', secret.slice(1), `${secret}x`, stored, 'ü'.repeat(10_000)]) {
      assert.equal(secretMatches(other, stored), false);
    }
  });

  test('secretMatches: nothing matches a missing or malformed hash', () => {
    for (const stored of [undefined, '', 'short']) {
      for (const sent of ['', 'x']) assert.equal(secretMatches(sent, stored), false);
    }
  });
});

describe('hasAllScopes', () => {
  test('hasAllScopes: true only if the caller has every scope', () => {
    assert.equal(hasAllScopes(['read:users', 'create:users'], ['read:users']), true);
    assert.equal(hasAllScopes(['read:users'], []), true);
    assert.equal(hasAllScopes(['read:users'], ['read:users', 'create:users']), false);
    assert.equal(hasAllScopes([], ['read:users']), false);
    assert.equal(hasAllScopes(managementScopes, managementScopes), true);
  });
});

describe('management scopes', () => {
  test('management scopes: 33 of them, without duplicates', () => {
    assert.equal(managementScopes.length, 33);
    assert.equal(new Set(managementScopes).size, managementScopes.length);
    for (const scope of ['update:event_deliveries', 'create:events', 'delete:role_members']) {
      assert.ok(managementScopes.includes(scope), scope);
    }
  });
});

describe('first start', () => {
  test('a first start creates a tenant, a signing key and a global client with every scope', async () => {
    const { tenant, generated, formerDomain, secretReplaced } = await start();
    assert.deepEqual([tenant.name, tenant.domain], ['main', 'localhost:8080']);
    assert.deepEqual([formerDomain, secretReplaced], [undefined, false]);
    assert.ok(generated !== undefined);
    assert.equal((await store.keys.list(tenant.id, now)).length, 1);
    const client = await store.clients.get(tenant.id, generated.clientId);
    assert.equal(client?.global, true);
    assert.equal(client.secretHash, hashSecret(generated.clientSecret));
    const grant = await store.grants.of(tenant.id, generated.clientId, managementApiId);
    assert.deepEqual(grant?.scope, managementScopes);
  });

  test('a first start with a client in the environment generates no other', async () => {
    const { tenant, generated, secretReplaced } = await start({ client: operator });
    assert.deepEqual([generated, secretReplaced], [undefined, false]);
    assert.deepEqual(await clientIds(tenant.id), ['operator']);
    assert.ok(await hasSecret(tenant.id, 'operator', operator.clientSecret));
  });

  test('a first start is refused when generated credentials cannot be delivered', async () => {
    await assert.rejects(start({ deliverCredentials: undefined }), (error) => {
      assert.ok(error instanceof StartRefused);
      assert.match(error.message, /^LEAT_BOOTSTRAP_CLIENT_ID: is required .*, for example LEAT_/);
      return true;
    });
    const { generated } = await start({ deliverCredentials: undefined, client: operator });
    assert.equal(generated, undefined);
  });

  test('a first start delivers generated credentials before it stores the client', async () => {
    const delivered: Credentials[] = [];
    const failing = async (credentials: Credentials): Promise<void> => {
      delivered.push(credentials);
      assert.deepEqual(await clientIds(1), []);
      throw new Error('the disk is full');
    };
    await assert.rejects(start({ deliverCredentials: failing }), /the disk is full/);
    const { tenant, generated } = await start({
      deliverCredentials: async (credentials) => {
        delivered.push(credentials);
      },
    });
    assert.deepEqual(generated, delivered[1]);
    assert.deepEqual(await clientIds(tenant.id), [generated?.clientId]);
    await start({ deliverCredentials: failing });
    assert.equal(delivered.length, 2, 'a later start delivers nothing');
  });

  test('a first start that was interrupted anywhere is completed by the next start', async () => {
    const steps = ['tenants.create', 'keys.addFirst', 'clients.create', 'grants.create'];
    for (const step of steps) {
      const fresh = await openMemoryStore();
      await assert.rejects(start({}, breaking(fresh, step)), /power cut/, step);
      const { tenant, generated } = await start({}, fresh);
      assert.ok(generated !== undefined, step);
      assert.equal((await fresh.keys.list(tenant.id, now)).length, 1, step);
      const grant = await fresh.grants.of(tenant.id, generated.clientId, managementApiId);
      assert.deepEqual(grant?.scope, managementScopes, step);
      await fresh.close();
    }
  });
});

describe('later start', () => {
  test('a later start creates nothing again', async () => {
    const first = await start();
    const second = await start({ deliverCredentials: undefined });
    assert.equal(second.generated, undefined);
    assert.equal(second.tenant.id, first.tenant.id);
    assert.equal((await clientIds(first.tenant.id)).length, 1);
    assert.equal((await store.keys.list(first.tenant.id, now)).length, 1);
  });

  test('a later start creates a client only if no client can manage the tenant', async () => {
    const { tenant, generated } = await start();
    await start({ client: operator });
    await store.clients.delete(tenant.id, generated?.clientId ?? '');
    assert.equal((await start()).generated, undefined);
    await store.clients.delete(tenant.id, 'operator');
    assert.ok((await start()).generated !== undefined);
  });

  test('a later start sets the secret of the environment and reports the replacement', async () => {
    const { tenant } = await start({ client: operator });
    assert.equal((await start({ client: operator })).secretReplaced, false);
    const changed = { ...operator, clientSecret: 'another-secret-of-the-operator' };
    assert.equal((await start({ client: changed })).secretReplaced, true);
    assert.ok(await hasSecret(tenant.id, 'operator', changed.clientSecret));
    assert.ok(!(await hasSecret(tenant.id, 'operator', operator.clientSecret)));
  });

  test('a later start does not restore scopes and flag that the operator removed', async () => {
    const { tenant } = await start({ client: operator });
    const grant = await store.grants.of(tenant.id, 'operator', managementApiId);
    await store.grants.update(tenant.id, grant?.id ?? '', () => ({ scope: ['read:users'] }));
    await store.clients.update(tenant.id, 'operator', (before) => ({
      after: { ...before, global: false },
    }));
    await start({ client: operator });
    const after = await store.grants.of(tenant.id, 'operator', managementApiId);
    assert.deepEqual(after?.scope, ['read:users']);
    assert.equal((await store.clients.get(tenant.id, 'operator'))?.global, false);
  });

  test('a start leaves an entry for each client that it creates or grants the management API', async () => {
    const entry = entryOfCommand({ clock: { now: () => now }, random }, 'start');
    const sample = { audience: 'https://messages.example', deliverCredentials: async () => {} };
    const options = { name: 'main', domain: 'localhost:8080', client: operator };
    const { tenant } = await bootstrap({ store, random, now, entry }, { ...options, sample });
    const targets = async (): Promise<string[]> => {
      const entries = await allEntries(store, tenant.id);
      return entries.flatMap(({ details }) => details.targets).toSorted();
    };
    const created = await clientIds(tenant.id);
    assert.equal(created.length, 2);
    assert.deepEqual(await targets(), created);
    const held = await store.grants.of(tenant.id, operator.clientId, managementApiId);
    await store.grants.delete(tenant.id, held?.id ?? '', () => undefined);
    for (const times of ['again', 'and again']) {
      await bootstrap({ store, random, now, entry }, options);
      assert.deepEqual(await targets(), [...created, operator.clientId].toSorted(), times);
    }
  });

  test('a later start is refused when the client of the environment belongs to an external issuer', async () => {
    const { tenant } = await start();
    await store.clients.create({
      tenant: tenant.id,
      id: 'operator',
      name: 'external',
      global: true,
      issuer: 'https://login.example.net/',
      secretHash: undefined,
      jwks: undefined,
      credentialsVersion: firstCredentialsVersion,
      createdAt: now,
    });
    await assert.rejects(start({ client: operator }), /LEAT_BOOTSTRAP_CLIENT_ID: "operator" is a/);
    const client = await store.clients.get(tenant.id, 'operator');
    assert.equal(client?.secretHash, undefined);
  });

  test('a later start renames the first tenant and returns its former domain', async () => {
    const first = await start();
    const moved = await start({ name: 'renamed', domain: 'leat.example.com' });
    assert.equal(moved.tenant.id, first.tenant.id);
    assert.equal(moved.formerDomain, 'localhost:8080');
    assert.deepEqual(await store.tenants.list(), [moved.tenant]);
    assert.equal(
      (await start({ name: 'renamed', domain: 'leat.example.com' })).formerDomain,
      undefined,
    );
  });

  test('a later start is refused when another tenant has the name or domain', async () => {
    await start();
    await createTenant({ store, random, now }, { name: 'other', domain: 'other.example.com' });
    await assert.rejects(start({ name: 'other' }), /^StartRefused: LEAT_TENANT_NAME: "other" is/);
    const domain = 'other.example.com';
    await assert.rejects(start({ domain }), /^StartRefused: LEAT_TENANT_DOMAIN: "other\.example/);
  });
});

describe('created tenant', () => {
  test('a created tenant has its own key and its own client', async () => {
    const first = await start();
    const result = await createTenant({ store, random, now }, { name: 'other', domain: 'o.test' });
    assert.ok('created' in result);
    assert.notEqual(result.created.id, first.tenant.id);
    assert.deepEqual(await clientIds(result.created.id), [result.clientId]);
    assert.ok(await hasSecret(result.created.id, result.clientId, result.clientSecret));
    assert.equal((await store.keys.list(result.created.id, now)).length, 1);
  });

  test('creating a tenant is refused when name or domain are taken', async () => {
    await start();
    const deps = { store, random, now };
    const taken = await createTenant(deps, { name: 'main', domain: 'o.test' });
    assert.deepEqual(taken, { refused: 'name_taken' });
    const domain = await createTenant(deps, { name: 'other', domain: 'LOCALHOST:8080' });
    assert.deepEqual(domain, { refused: 'domain_taken' });
  });
});

describe('renewed bootstrap client', () => {
  test('renewing the bootstrap client deletes the secrets of the former ones and of no other client', async () => {
    const { tenant, generated } = await start();
    await start({ client: operator });
    const deps = { store, random, now };
    const renewed = await renewBootstrap(deps, tenant.id);
    const former = generated?.clientId ?? '';
    assert.equal((await store.clients.get(tenant.id, former))?.secretHash, undefined);
    assert.ok(await hasSecret(tenant.id, renewed.clientId, renewed.clientSecret));
    assert.ok(await hasSecret(tenant.id, 'operator', operator.clientSecret));

    const again = await renewBootstrap(deps, tenant.id, { configuredId: 'operator' });
    for (const id of ['operator', renewed.clientId]) {
      assert.equal((await store.clients.get(tenant.id, id))?.secretHash, undefined, id);
    }
    assert.ok(await hasSecret(tenant.id, again.clientId, again.clientSecret));
  });

  test('renewing the bootstrap client removes the keys that somebody gave to the former ones', async () => {
    const { tenant, generated } = await start();
    const former = generated?.clientId ?? '';
    const keys = '{"keys":[{"kty":"RSA"}]}';
    await store.clients.update(tenant.id, former, (before) => ({
      after: { ...before, jwks: keys, secretHash: undefined },
    }));
    const before = await store.clients.access(tenant.id, former);
    await renewBootstrap({ store, random, now }, tenant.id);
    assert.equal((await store.clients.get(tenant.id, former))?.jwks, undefined);
    const after = await store.clients.access(tenant.id, former);
    assert.notEqual(after?.credentialsVersion, before?.credentialsVersion, 'its tokens ended');
  });
});

describe('interrupted creation of a tenant', () => {
  test('a tenant whose creation was interrupted is completed by renewing its bootstrap client', async () => {
    const options = { name: 'other', domain: 'o.test' };
    for (const step of ['keys.addFirst', 'clients.create', 'grants.create']) {
      const fresh = await openMemoryStore();
      const broken = { store: breaking(fresh, step), random, now };
      await assert.rejects(createTenant(broken, options), /power cut/, step);
      const [tenant = assert.fail('no tenant')] = await fresh.tenants.list();
      const { clientId } = await renewBootstrap({ store: fresh, random, now }, tenant.id);
      assert.equal((await fresh.keys.list(tenant.id, now)).length, 1, step);
      assert.ok(await fresh.grants.of(tenant.id, clientId, managementApiId), step);
      await fresh.close();
    }
  });
});

/** Wraps a store so that one command throws instead of running. */
function breaking(whole: Store, step: string): Store {
  const [noun = '', verb = ''] = step.split('.');
  const commands = whole[noun as 'tenants'];
  const cut = (): Promise<never> => Promise.reject(new Error('power cut'));
  return { ...whole, [noun]: { ...commands, [verb]: cut } };
}
