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
  withinOwn,
} from '../../src/auth/clients.ts';
import { managementScopes } from '../../src/auth/scopes.ts';
import { StartRefused } from '../../src/core/errors.ts';
import { managementApiId } from '../../src/core/types.ts';
import type { Store } from '../../src/store/port/store.ts';
import { openMemory, random } from './fixture.ts';

const now = Date.parse('2026-03-01T09:30:00.000Z');
const operator = { clientId: 'operator', clientSecret: 'secret-of-the-operator' };

let store: Store;

beforeEach(async () => {
  store = await openMemory();
});
afterEach(() => store.close());

function start(wish: Partial<BootstrapOptions> = {}, over: Store = store): Promise<Bootstrapped> {
  const whole = {
    name: 'main',
    domain: 'localhost:8080',
    deliverCredentials: async () => {},
    ...wish,
  };
  return bootstrap({ store: over, random, now }, whole);
}

async function hasSecret(tenant: number, id: string, secret: string): Promise<boolean> {
  return secretMatches(secret, (await store.clients.get(tenant, id))?.secretHash);
}

async function clientIds(tenant: number): Promise<string[]> {
  const { items } = await store.clients.list(tenant, { page: 0, perPage: 100 });
  return items.map((client) => client.id);
}

describe('a secret', () => {
  test('is 256 bits in letters that need no escaping, and fits its own hash alone', () => {
    const secret = makeClientSecret(random);
    assert.match(secret, /^[A-Za-z0-9_-]{43}$/);
    assert.match(makeClientId(random), /^[0-9a-f]{32}$/);
    const kept = hashSecret(secret);
    assert.equal(secretMatches(secret, kept), true);
    for (const other of ['', secret.slice(1), `${secret}x`, kept, 'ü'.repeat(10_000)]) {
      assert.equal(secretMatches(other, kept), false);
    }
  });

  test('fits nothing when there is nothing to fit', () => {
    for (const kept of [undefined, '', 'short']) {
      for (const sent of ['', 'x']) assert.equal(secretMatches(sent, kept), false);
    }
  });
});

describe('what a caller may grant', () => {
  test('is no more than its own scopes', () => {
    assert.equal(withinOwn(['read:users', 'create:users'], ['read:users']), true);
    assert.equal(withinOwn(['read:users'], []), true);
    assert.equal(withinOwn(['read:users'], ['read:users', 'create:users']), false);
    assert.equal(withinOwn([], ['read:users']), false);
    assert.equal(withinOwn(managementScopes, managementScopes), true);
  });
});

describe('the scopes of the management API', () => {
  test('are those of the contract, each once', () => {
    assert.equal(managementScopes.length, 32);
    assert.equal(new Set(managementScopes).size, managementScopes.length);
    for (const scope of ['update:event_deliveries', 'create:events', 'delete:role_members']) {
      assert.ok(managementScopes.includes(scope), scope);
    }
  });
});

describe('the first start', () => {
  test('makes a tenant, a signing key and a global client with every scope', async () => {
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

  test('takes the client of the environment, and then shows nothing', async () => {
    const { tenant, generated, secretReplaced } = await start({ client: operator });
    assert.deepEqual([generated, secretReplaced], [undefined, false]);
    assert.deepEqual(await clientIds(tenant.id), ['operator']);
    assert.ok(await hasSecret(tenant.id, 'operator', operator.clientSecret));
  });

  test('is refused where a generated secret could not be shown', async () => {
    await assert.rejects(start({ deliverCredentials: undefined }), (error) => {
      assert.ok(error instanceof StartRefused);
      assert.match(error.message, /^LEAT_BOOTSTRAP_CLIENT_ID: is required .*, for example LEAT_/);
      return true;
    });
    const { generated } = await start({ deliverCredentials: undefined, client: operator });
    assert.equal(generated, undefined);
  });

  test('hands the generated client over before it is stored, so that no secret gets lost', async () => {
    const shown: Credentials[] = [];
    const failing = async (made: Credentials): Promise<void> => {
      shown.push(made);
      assert.deepEqual(await clientIds(1), []);
      throw new Error('the disk is full');
    };
    await assert.rejects(start({ deliverCredentials: failing }), /the disk is full/);
    const { tenant, generated } = await start({
      deliverCredentials: async (made) => {
        shown.push(made);
      },
    });
    assert.deepEqual(generated, shown[1]);
    assert.deepEqual(await clientIds(tenant.id), [generated?.clientId]);
    await start({ deliverCredentials: failing });
    assert.equal(shown.length, 2, 'a later start has nothing to hand over');
  });

  test('that was cut off anywhere is completed by the next one', async () => {
    const steps = ['tenants.create', 'keys.add', 'clients.create', 'grants.create'];
    for (const step of steps) {
      const fresh = await openMemory();
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

describe('a later start', () => {
  test('makes nothing anew', async () => {
    const first = await start();
    const second = await start({ deliverCredentials: undefined });
    assert.equal(second.generated, undefined);
    assert.equal(second.tenant.id, first.tenant.id);
    assert.equal((await clientIds(first.tenant.id)).length, 1);
    assert.equal((await store.keys.list(first.tenant.id, now)).length, 1);
  });

  test('makes no client when another one can manage the tenant, and one when nobody can', async () => {
    const { tenant, generated } = await start();
    await start({ client: operator });
    await store.clients.delete(tenant.id, generated?.clientId ?? '');
    assert.equal((await start()).generated, undefined);
    await store.clients.delete(tenant.id, 'operator');
    assert.ok((await start()).generated !== undefined);
  });

  test('puts the secret of the environment in the place of another and says so', async () => {
    const { tenant } = await start({ client: operator });
    assert.equal((await start({ client: operator })).secretReplaced, false);
    const changed = { ...operator, clientSecret: 'another-secret-of-the-operator' };
    assert.equal((await start({ client: changed })).secretReplaced, true);
    assert.ok(await hasSecret(tenant.id, 'operator', changed.clientSecret));
    assert.ok(!(await hasSecret(tenant.id, 'operator', operator.clientSecret)));
  });

  test('leaves the scopes and the flag that the operator took from the client', async () => {
    const { tenant } = await start({ client: operator });
    const grant = await store.grants.of(tenant.id, 'operator', managementApiId);
    await store.grants.update(tenant.id, grant?.id ?? '', ['read:users']);
    await store.clients.update(tenant.id, 'operator', (before) => ({
      after: { ...before, global: false },
    }));
    await start({ client: operator });
    const after = await store.grants.of(tenant.id, 'operator', managementApiId);
    assert.deepEqual(after?.scope, ['read:users']);
    assert.equal((await store.clients.get(tenant.id, 'operator'))?.global, false);
  });

  test('is refused when the client of the environment belongs to an external issuer', async () => {
    const { tenant } = await start();
    await store.clients.create({
      tenant: tenant.id,
      id: 'operator',
      name: 'external',
      global: true,
      issuer: 'https://login.example.net/',
      secretHash: undefined,
      jwks: undefined,
      createdAt: now,
    });
    await assert.rejects(start({ client: operator }), /LEAT_BOOTSTRAP_CLIENT_ID: "operator" is a/);
    const client = await store.clients.get(tenant.id, 'operator');
    assert.equal(client?.secretHash, undefined);
  });

  test('gives the first tenant its new name and domain, and tells the former domain', async () => {
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

  test('is refused when name or domain are those of another tenant', async () => {
    await start();
    await createTenant({ store, random, now }, { name: 'other', domain: 'other.example.com' });
    await assert.rejects(start({ name: 'other' }), /^StartRefused: LEAT_TENANT_NAME: "other" is/);
    const domain = 'other.example.com';
    await assert.rejects(start({ domain }), /^StartRefused: LEAT_TENANT_DOMAIN: "other\.example/);
  });
});

describe('a tenant that is created', () => {
  test('has its own key and its own client', async () => {
    const first = await start();
    const answer = await createTenant({ store, random, now }, { name: 'other', domain: 'o.test' });
    assert.ok('created' in answer);
    assert.notEqual(answer.created.id, first.tenant.id);
    assert.deepEqual(await clientIds(answer.created.id), [answer.clientId]);
    assert.ok(await hasSecret(answer.created.id, answer.clientId, answer.clientSecret));
    assert.equal((await store.keys.list(answer.created.id, now)).length, 1);
  });

  test('is refused when its name or domain are taken', async () => {
    await start();
    const deps = { store, random, now };
    const taken = await createTenant(deps, { name: 'main', domain: 'o.test' });
    assert.deepEqual(taken, { refused: 'name_taken' });
    const domain = await createTenant(deps, { name: 'other', domain: 'LOCALHOST:8080' });
    assert.deepEqual(domain, { refused: 'domain_taken' });
  });
});

describe('a renewed bootstrap client', () => {
  test('ends the secrets of those before it and of no other client', async () => {
    const { tenant, generated } = await start();
    await start({ client: operator });
    const deps = { store, random, now };
    const renewed = await renewBootstrap(deps, tenant.id);
    const former = generated?.clientId ?? '';
    assert.equal((await store.clients.get(tenant.id, former))?.secretHash, undefined);
    assert.ok(await hasSecret(tenant.id, renewed.clientId, renewed.clientSecret));
    assert.ok(await hasSecret(tenant.id, 'operator', operator.clientSecret));

    const again = await renewBootstrap(deps, tenant.id, 'operator');
    for (const id of ['operator', renewed.clientId]) {
      assert.equal((await store.clients.get(tenant.id, id))?.secretHash, undefined, id);
    }
    assert.ok(await hasSecret(tenant.id, again.clientId, again.clientSecret));
  });
});

describe('a tenant whose making was cut off', () => {
  test('is completed by renewing its bootstrap client', async () => {
    const wish = { name: 'other', domain: 'o.test' };
    for (const step of ['keys.add', 'clients.create', 'grants.create']) {
      const fresh = await openMemory();
      const broken = { store: breaking(fresh, step), random, now };
      await assert.rejects(createTenant(broken, wish), /power cut/, step);
      const [tenant = assert.fail('no tenant')] = await fresh.tenants.list();
      const { clientId } = await renewBootstrap({ store: fresh, random, now }, tenant.id);
      assert.equal((await fresh.keys.list(tenant.id, now)).length, 1, step);
      assert.ok(await fresh.grants.of(tenant.id, clientId, managementApiId), step);
      await fresh.close();
    }
  });
});

/** A store in which one command throws instead of being carried out. */
function breaking(whole: Store, step: string): Store {
  const [noun = '', verb = ''] = step.split('.');
  const commands = whole[noun as 'tenants'];
  const cut = (): Promise<never> => Promise.reject(new Error('power cut'));
  return { ...whole, [noun]: { ...commands, [verb]: cut } };
}
