import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { bootstrap } from '../../src/auth/bootstrap.ts';
import { type Credentials, secretMatches } from '../../src/auth/clients.ts';
import { createKeyring } from '../../src/auth/keys.ts';
import { createTokenEndpoint } from '../../src/auth/token.ts';
import { decodeJwt } from 'jose';
import type { Tenant } from '../../src/core/types.ts';
import type { Store } from '../../src/store/port/store.ts';
import { openMemoryStore, random } from './fixture.ts';
import { createManualClock } from '../helpers/clock.ts';

const audience = 'https://messages.example.com';
const clock = createManualClock();
const page = { page: 0, perPage: 100 };

let store: Store;
let delivered: Credentials[];

beforeEach(async () => {
  store = await openMemoryStore();
  delivered = [];
});
afterEach(() => store.close());

async function start(
  onStore: Store = store,
  sampleAudience = audience,
): Promise<{ tenant: Tenant; sampleCreated: boolean }> {
  const deliver = async (credentials: Credentials): Promise<void> => {
    delivered.push(credentials);
  };
  return bootstrap(
    { store: onStore, random, now: clock.now() },
    {
      name: 'main',
      domain: 'localhost:8080',
      deliverCredentials: async () => {},
      sample:
        sampleAudience === ''
          ? undefined
          : { audience: sampleAudience, deliverCredentials: deliver },
    },
  );
}

/** Returns the names of all APIs, roles and clients. */
async function inventory(tenant: number): Promise<Record<string, string[]>> {
  const listed = await store.apis.list(tenant, page);
  const apis = 'items' in listed ? listed.items : [];
  const { items: roles } = await store.roles.list(tenant, page);
  const { items: clients } = await store.clients.listFrom(tenant, { after: undefined, take: 9 });
  return {
    apis: apis.map(({ identifier }) => identifier),
    roles: roles.map(({ name }) => name),
    clients: clients.map(({ name }) => name).toSorted(),
  };
}

const complete = {
  apis: [audience],
  roles: ['messages-admin'],
  clients: ['Bootstrap client', 'messages-sample'],
};

describe('sample of the message API', () => {
  test('the sample is an API, a role and a client whose token has the permission', async () => {
    const { tenant, sampleCreated } = await start();
    assert.equal(sampleCreated, true);
    assert.deepEqual(await inventory(tenant.id), complete);
    const api = await store.apis.get(tenant.id, audience);
    assert.deepEqual(
      [api?.enforcePolicies, api?.tokenDialect, api?.scopes.map(({ value }) => value)],
      [true, 'access_token_authz', ['read:admin-messages']],
    );
    const [made] = delivered;
    assert.ok(made !== undefined && delivered.length === 1);
    const client = await store.clients.get(tenant.id, made.clientId);
    assert.equal(client?.global, false);
    assert.ok(secretMatches(made.clientSecret, client.secretHash));

    const watch = store.watch.bind(store);
    const keyring = createKeyring({ keys: store.keys, watch, clock });
    const endpoint = createTokenEndpoint({
      store,
      keyring,
      plainHttp: () => true,
      managementTokenSeconds: 60,
    });
    const { response } = await endpoint.issue({
      tenant,
      authorization: undefined,
      contentType: 'application/x-www-form-urlencoded',
      body: new URLSearchParams({
        grant_type: 'client_credentials',
        audience,
        client_id: made.clientId,
        client_secret: made.clientSecret,
      }).toString(),
      now: clock.now(),
    });
    keyring.close();
    assert.equal(response.status, 200);
    const claims = decodeJwt((response.body as { access_token: string }).access_token);
    assert.deepEqual(claims['permissions'], ['read:admin-messages']);
    assert.equal(claims['scope'], undefined);
    assert.equal(claims.aud, audience);
  });

  test('the sample is created by a first start only, and not again after deletion', async () => {
    const { tenant } = await start();
    const [made] = delivered;
    assert.equal((await start()).sampleCreated, false);
    await store.clients.delete(tenant.id, made?.clientId ?? '');
    assert.equal((await start()).sampleCreated, false);
    assert.equal(delivered.length, 1);
    assert.deepEqual((await inventory(tenant.id))['clients'], ['Bootstrap client']);
  });

  test('the sample is not created in a tenant of a start without it', async () => {
    const { tenant } = await start(store, '');
    assert.equal((await start()).sampleCreated, false);
    assert.deepEqual((await inventory(tenant.id))['apis'], []);
  });

  test('the sample never uses an audience of the management API', async () => {
    for (const taken of [
      'https://localhost:8080/api/v2/',
      'http://localhost:8080/api/v2/',
      '/api/v2/',
    ]) {
      const { tenant, sampleCreated } = await start(store, taken);
      assert.equal(sampleCreated, false);
      assert.deepEqual((await inventory(tenant.id))['apis'], []);
    }
  });

  test('a sample that was interrupted anywhere is completed by the next start', async () => {
    const steps = [
      'apis.create',
      'roles.create',
      'roles.addPermissions',
      'clients.create',
      'grants.create',
      'roles.addClients',
    ];
    for (const step of steps) {
      store = await openMemoryStore();
      delivered = [];
      await assert.rejects(start(breaking(store, step)), /power cut/, step);
      const { tenant } = await start();
      assert.deepEqual(await inventory(tenant.id), complete, step);
      const made = delivered.at(-1)?.clientId ?? '';
      const api = await store.apis.get(tenant.id, audience);
      assert.deepEqual(
        await store.roles.permissionsOf(tenant.id, made, api?.id ?? ''),
        ['read:admin-messages'],
        step,
      );
      assert.deepEqual((await store.grants.of(tenant.id, made, api?.id ?? ''))?.scope, [], step);
    }
  });
});

/** Wraps a store so that one command throws instead of running. */
function breaking(whole: Store, step: string): Store {
  const [noun = '', verb = ''] = step.split('.');
  const cut = async (): Promise<never> => {
    throw new Error('power cut');
  };
  return new Proxy(whole, {
    get: (target, name) => {
      const part = Reflect.get(target, name) as object;
      return name === noun ? { ...part, [verb]: cut } : part;
    },
  });
}
