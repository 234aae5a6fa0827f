import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { bootstrap } from '../../src/auth/bootstrap.ts';
import { type Credentials, secretMatches } from '../../src/auth/clients.ts';
import { createKeyring } from '../../src/auth/keys.ts';
import { createTokenEndpoint } from '../../src/auth/token.ts';
import { decodeJwt } from 'jose';
import type { Tenant } from '../../src/core/types.ts';
import type { Store } from '../../src/store/port/store.ts';
import { handClock, openMemory, random } from './fixture.ts';

const audience = 'https://messages.example.com';
const clock = handClock();
const page = { page: 0, perPage: 100 };

let store: Store;
let shown: Credentials[];

beforeEach(async () => {
  store = await openMemory();
  shown = [];
});
afterEach(() => store.close());

async function start(
  over: Store = store,
  wished = audience,
): Promise<{ tenant: Tenant; sampleMade: boolean }> {
  const show = async (made: Credentials): Promise<void> => {
    shown.push(made);
  };
  return bootstrap(
    { store: over, random, now: clock.now() },
    {
      name: 'main',
      domain: 'localhost:8080',
      deliverCredentials: async () => {},
      sample: wished === '' ? undefined : { audience: wished, deliverCredentials: show },
    },
  );
}

/** Names of what there is, of every kind. */
async function inventory(tenant: number): Promise<Record<string, string[]>> {
  const listed = await store.apis.list(tenant, page);
  const apis = 'items' in listed ? listed.items : [];
  const { items: roles } = await store.roles.list(tenant, page);
  const { items: clients } = await store.clients.list(tenant, page);
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

describe('the sample of the message API', () => {
  test('is an API, a role and a client that gets a token with the permission', async () => {
    const { tenant, sampleMade } = await start();
    assert.equal(sampleMade, true);
    assert.deepEqual(await inventory(tenant.id), complete);
    const api = await store.apis.get(tenant.id, audience);
    assert.deepEqual(
      [api?.enforcePolicies, api?.tokenDialect, api?.scopes.map(({ value }) => value)],
      [true, 'access_token_authz', ['read:admin-messages']],
    );
    const [made] = shown;
    assert.ok(made !== undefined && shown.length === 1);
    const client = await store.clients.get(tenant.id, made.clientId);
    assert.equal(client?.global, false);
    assert.ok(secretMatches(made.clientSecret, client.secretHash));

    const watch = store.watch.bind(store);
    const keyring = createKeyring({ keys: store.keys, watch, clock });
    const endpoint = createTokenEndpoint({ store, keyring, plainHttp: () => true });
    const { status, body } = await endpoint.issue({
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
    assert.equal(status, 200);
    const claims = decodeJwt((body as { access_token: string }).access_token);
    assert.deepEqual(claims['permissions'], ['read:admin-messages']);
    assert.equal(claims['scope'], undefined);
    assert.equal(claims.aud, audience);
  });

  test('is made by a first start alone, and never comes back', async () => {
    const { tenant } = await start();
    const [made] = shown;
    assert.equal((await start()).sampleMade, false);
    await store.clients.delete(tenant.id, made?.clientId ?? '');
    assert.equal((await start()).sampleMade, false);
    assert.equal(shown.length, 1);
    assert.deepEqual((await inventory(tenant.id))['clients'], ['Bootstrap client']);
  });

  test('is not made in a tenant that a start without it made', async () => {
    const { tenant } = await start(store, '');
    assert.equal((await start()).sampleMade, false);
    assert.deepEqual((await inventory(tenant.id))['apis'], []);
  });

  test('never takes a name of the management API', async () => {
    for (const taken of [
      'https://localhost:8080/api/v2/',
      'http://localhost:8080/api/v2/',
      '/api/v2/',
    ]) {
      const { tenant, sampleMade } = await start(store, taken);
      assert.equal(sampleMade, false);
      assert.deepEqual((await inventory(tenant.id))['apis'], []);
    }
  });

  test('that was cut off anywhere is completed by the next start, and handed over once', async () => {
    const steps = [
      'apis.create',
      'roles.create',
      'roles.addPermissions',
      'clients.create',
      'grants.create',
      'roles.addClients',
    ];
    for (const step of steps) {
      store = await openMemory();
      shown = [];
      await assert.rejects(start(breaking(store, step)), /power cut/, step);
      const { tenant } = await start();
      assert.deepEqual(await inventory(tenant.id), complete, step);
      const made = shown.at(-1)?.clientId ?? '';
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

/** The store with one command, the first time it is asked for, ending in a power cut. */
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
