import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { carriedNames } from '../../src/schemas/carried-fields.ts';
import { cursorPages, type ApiFixture, assertInvalid, limits, openApiFixture } from './fixture.ts';

let fixture: ApiFixture;
before(async () => {
  fixture = await openApiFixture();
});
after(() => fixture.close());

let made = 0;
const unique = (): string => `name-${(made += 1)}`;

// oxlint-disable-next-line typescript/no-explicit-any -- a test reads what it expects.
type Shown = any;

interface Resource {
  readonly name: keyof typeof carriedNames;
  readonly path: string;
  /** Returns the fields that a create needs. */
  minimal(): object | Promise<object>;
  idOf(shown: Shown): string;
}

const resources: Resource[] = [
  {
    name: 'client',
    path: '/clients',
    minimal: () => ({ name: unique() }),
    idOf: ({ client_id: id }) => id,
  },
  {
    name: 'api',
    path: '/resource-servers',
    minimal: () => ({ identifier: `urn:${unique()}` }),
    idOf: ({ id }) => id,
  },
  {
    name: 'grant',
    path: '/client-grants',
    minimal: async () => {
      const audience = `urn:${unique()}`;
      await fixture.send('POST', '/resource-servers', { identifier: audience });
      const client = await fixture.send('POST', '/clients', { name: unique() });
      return { client_id: client.body.client_id, audience };
    },
    idOf: ({ id }) => id,
  },
  {
    name: 'role',
    path: '/roles',
    minimal: () => ({ name: unique() }),
    idOf: ({ id }) => id,
  },
];

const allowed: Readonly<Record<string, unknown>> = {
  type: 'tenant',
  subject_type: 'client',
  organization_usage: 'deny',
};

/** Returns a value for each carried field, of different kinds of JSON. */
function valuesOf(names: readonly string[]): Record<string, unknown> {
  const kinds = [['a', 'ä\u0000'], { deep: { list: [{}] }, __proto: null }, 'text', false, 0.5];
  return Object.fromEntries(
    names.map((name, index) => [name, allowed[name] ?? kinds[index % kinds.length]]),
  );
}

async function create({ name, path, minimal }: Resource, more: object): Promise<Shown> {
  const response = await fixture.send('POST', path, { ...(await minimal()), ...more });
  assert.equal(response.status, name === 'role' ? 200 : 201, response.text);
  return without(response.body, 'client_secret');
}

/** Returns the object without one of its fields. */
function without(object: object, field: string): Shown {
  return Object.fromEntries(Object.entries(object).filter(([name]) => name !== field));
}

for (const resource of resources) {
  const { name, path, minimal, idOf } = resource;
  const { create: names, patch: patchable } = carriedNames[name];

  describe(`carried fields of a ${name}`, () => {
    test(`a ${name} returns every carried field as it was sent, from create, read and list`, async () => {
      const values = valuesOf(names);
      const shown = await create(resource, values);
      const bare = await create(resource, {});
      assert.deepEqual({ ...shown, ...values }, shown);
      assert.deepEqual(
        Object.keys(shown).toSorted(),
        [...Object.keys(bare), ...names].toSorted(),
        'and no other field',
      );
      assert.deepEqual((await fixture.send('GET', `${path}/${idOf(shown)}`)).body, shown);
      const list = await fixture.send('GET', `${path}?per_page=100`);
      assert.deepEqual(
        list.body.find((one: Shown) => idOf(one) === idOf(shown)),
        shown,
      );
    });

    test(`PATCH of a ${name} replaces a carried field, removes it with null, and keeps the others`, async () => {
      const values = valuesOf(names);
      const shown = await create(resource, values);
      const item = `${path}/${idOf(shown)}`;
      const patch = async (sent: object): Promise<Shown> => {
        const response = await fixture.send('PATCH', item, sent);
        assert.equal(response.status, 200, response.text);
        assert.deepEqual((await fixture.send('GET', item)).body, response.body);
        return response.body;
      };
      assert.deepEqual(await patch({}), shown);
      const [first, second] = patchable;
      if (first === undefined || second === undefined) return;
      assert.deepEqual(await patch({ [first]: { new: 1 } }), { ...shown, [first]: { new: 1 } });
      assert.deepEqual(await patch({ [first]: null }), without(shown, first));
      const none = Object.fromEntries(patchable.map((field) => [field, null]));
      const left = await patch(none);
      assert.deepEqual(
        patchable.filter((field) => Object.hasOwn(left, field)),
        [],
      );
      assert.deepEqual(await patch({ [second]: values[second] }), {
        ...left,
        [second]: values[second],
      });
    });

    test(`a ${name} refuses fields that are neither its own nor carried`, async () => {
      const { body: shown } = await fixture.send('POST', path, await minimal());
      for (const field of ['unknown', 'toString', 'constructor', 'hasOwnProperty', 'carried']) {
        const sent = { ...(await minimal()), [field]: 1 };
        assertInvalid(await fixture.send('POST', path, sent), field);
        assertInvalid(await fixture.send('PATCH', `${path}/${idOf(shown)}`, { [field]: 1 }), field);
      }
      const text = `${JSON.stringify(await minimal()).slice(0, -1)},"__proto__":{"global":true}}`;
      assertInvalid(await fixture.send('POST', path, text), '__proto__');
      const createOnly = names.filter((field) => !(patchable as readonly string[]).includes(field));
      for (const field of createOnly) {
        const sent = { [field]: allowed[field] ?? 'x' };
        assertInvalid(await fixture.send('PATCH', `${path}/${idOf(shown)}`, sent), field);
      }
    });

    test(`the carried fields of a ${name} have at most 64 KiB together, also after a PATCH`, async () => {
      const [first, second] = patchable;
      if (first === undefined || second === undefined) return;
      const long = 'x'.repeat(40_000);
      const tooLong = { ...(await minimal()), [first]: long, [second]: long };
      assertInvalid(await fixture.send('POST', path, tooLong), first);
      const shown = await create(resource, { [first]: long });
      const item = `${path}/${idOf(shown)}`;
      assertInvalid(await fixture.send('PATCH', item, { [second]: long }), second);
      assert.deepEqual((await fixture.send('GET', item)).body, shown, 'nothing was changed');
      const moved = await fixture.send('PATCH', item, { [first]: null, [second]: long });
      assert.equal(moved.status, 200, moved.text);
      const huge = { [first]: 'x'.repeat(900_000) };
      assertInvalid(await fixture.send('PATCH', item, huge), first);
    });

    test(`the carried fields of a ${name} keep depth, and refuse what is no text`, async () => {
      const [first] = patchable;
      if (first === undefined) return;
      const deep = `${'['.repeat(98)}${']'.repeat(98)}`;
      const shown = await create(resource, { [first]: JSON.parse(deep) as unknown });
      const read = await fixture.send('GET', `${path}/${idOf(shown)}`);
      assert.equal(JSON.stringify(read.body[first]), deep);
      const half = await fixture.send('PATCH', `${path}/${idOf(shown)}`, `{"${first}":"\\ud800"}`);
      assertInvalid(half, 'body');
      const changed = `{"${first}":{"__proto__":{"a":[1]},"10":1,"9":2}}`;
      const kept = await fixture.send('PATCH', `${path}/${idOf(shown)}`, changed);
      assert.equal(kept.status, 200, kept.text);
      assert.ok(kept.text.includes('"__proto__":{"a":[1]}'), kept.text);
    });
  });
}

describe('carried fields', () => {
  test('fields selects carried fields too', async () => {
    const [clientResource, apiResource] = resources;
    assert.ok(clientResource !== undefined && apiResource !== undefined);
    const client = await create(clientResource, { description: 'a', callbacks: ['b'] });
    const path = `/clients/${client.client_id}`;
    const only = await fixture.send('GET', `${path}?fields=description,name`);
    assert.deepEqual(only.body, { name: client.name, description: 'a' });
    const others = await fixture.send('GET', `${path}?fields=callbacks&include_fields=false`);
    assert.deepEqual(others.body, without(client, 'callbacks'));
    const listed = await fixture.send('GET', '/clients?fields=callbacks&take=100');
    assert.ok(listed.body.clients.every((one: object) => Object.keys(one).join().length < 10));
    const api = await create(apiResource, { signing_alg: 'RS256' });
    const algorithm = await fixture.send('GET', `/resource-servers/${api.id}?fields=signing_alg`);
    assert.deepEqual(algorithm.body, { signing_alg: 'RS256' });
  });

  test('carried fields change nothing about what a client may do', async () => {
    const credentials = await fixture.auth.client({}, ['read:users']);
    const path = `/clients/${credentials.clientId}`;
    const restrictive = {
      grant_types: [],
      token_endpoint_auth_method: 'none',
      jwt_configuration: { scopes: { 'delete:users': 'x' }, lifetime_in_seconds: 1 },
      client_metadata: { global: true, scope: 'delete:users' },
      is_first_party: false,
    };
    const changed = await fixture.send('PATCH', path, restrictive);
    assert.equal(changed.status, 200, changed.text);
    const headers = { authorization: `Bearer ${await fixture.auth.token(credentials)}` };
    assert.equal((await fixture.send('GET', '/users', undefined, headers)).status, 200);
    assert.equal((await fixture.send('DELETE', '/users/x', undefined, headers)).status, 403);
  });

  test('changing carried fields needs the scopes of the client, and ends none of its tokens', async () => {
    const scopes = ['read:users', 'delete:users'];
    const client = await fixture.auth.client({}, scopes);
    const token = await fixture.auth.token(client);
    const sent = { description: 'x', callbacks: [] };
    const path = `/clients/${client.clientId}`;
    const less = await fixture.headersWith('update:clients');
    assert.equal((await fixture.send('PATCH', path, sent, less)).status, 403);
    const headers = await fixture.headersWith('update:clients', ...scopes);
    assert.equal((await fixture.send('PATCH', path, sent, headers)).status, 200);
    assert.equal((await fixture.send('PATCH', path, sent, less)).status, 200, 'nothing changes');
    const own = { authorization: `Bearer ${token}` };
    assert.equal((await fixture.send('GET', '/users', undefined, own)).status, 200);
  });

  test('allow_all_scopes grants nothing', async () => {
    const credentials = await fixture.auth.client({}, []);
    const grants = await fixture.send('GET', `/client-grants?client_id=${credentials.clientId}`);
    const [{ id }] = grants.body.client_grants;
    const patched = await fixture.send('PATCH', `/client-grants/${id}`, { allow_all_scopes: true });
    assert.deepEqual([patched.body.scope, patched.body.allow_all_scopes], [[], true]);
    const headers = { authorization: `Bearer ${await fixture.auth.token(credentials)}` };
    assert.equal((await fixture.send('GET', '/users', undefined, headers)).status, 403);
  });

  const refused: [path: string, sent: object, field: string, reason: string][] = [
    ['/client-grants', { subject_type: 'user' }, 'subject_type', 'tokens for users'],
    ['/client-grants', { organization_usage: 'require' }, 'organization_usage', 'an organization'],
    ['/client-grants', { default_for: 'third_party_clients' }, 'default_for', 'many clients'],
    ['/roles', { type: 'organization' }, 'type', 'an organization'],
    ['/roles', { owner_id: 'org_1' }, 'owner_id', 'an organization'],
    ['/resource-servers', { signing_secret: 'x' }, 'signing_secret', 'a secret'],
    ['/clients', { client_secret: 'x'.repeat(40) }, 'client_secret', 'a secret'],
    ['/clients', { addons: { wams: { masterkey: 'x' } } }, 'addons', 'a secret'],
    ['/clients', { client_metadata: { n: 2 ** 60 } }, 'client_metadata.n', 'a rounded number'],
  ];
  for (const [path, sent, field, what] of refused) {
    test(`POST ${path} refuses ${field}: ${what}`, async () => {
      const resource = resources.find((one) => one.path === path);
      const response = await fixture.send('POST', path, {
        ...(await resource?.minimal()),
        ...sent,
      });
      assertInvalid(response, field);
    });
  }

  test('PATCH refuses secrets of others and says what to do instead', async () => {
    const [clientResource, apiResource] = resources;
    assert.ok(clientResource !== undefined && apiResource !== undefined);
    const { client_id: id } = await create(clientResource, {});
    const secret = await fixture.send('PATCH', `/clients/${id}`, { client_secret: 'x'.repeat(40) });
    assertInvalid(secret, 'client_secret');
    assert.match(secret.body.message, /'Not supported'.*rotate-secret/);
    assert.ok(!secret.text.includes('xxxx'), secret.text);
    const api = await create(apiResource, {});
    const signing = await fixture.send('PATCH', `/resource-servers/${api.id}`, {
      signing_secret: null,
    });
    assertInvalid(signing, 'signing_secret');
  });
});

describe('pages of carried fields', () => {
  test('a page of more than 8 MiB is 400 by number, and ends early by cursor', async (t) => {
    const other = await openApiFixture({ limits: { ...limits, pageBytesMax: 200_000 } });
    t.after(() => other.close());
    const callbacks = 'x'.repeat(60_000);
    for (let index = 0; index < 5; index += 1) {
      const client = await other.send('POST', '/clients', { name: `${index}`, callbacks });
      const identifier = `urn:${index}`;
      const consent_policy = callbacks;
      await other.send('POST', '/resource-servers', { identifier, consent_policy });
      const { client_id } = client.body;
      const allow_any_organization = callbacks;
      const grant = { client_id, audience: identifier, allow_any_organization };
      assert.equal((await other.send('POST', '/client-grants', grant)).status, 201);
    }
    for (const path of ['/clients', '/resource-servers', '/client-grants']) {
      const large = await other.send('GET', `${path}?per_page=50`);
      assert.equal(large.body.errorCode, 'invalid_paging', large.text);
      assert.equal((await other.send('GET', `${path}?per_page=2`)).status, 200);
    }
    for (const path of ['/clients', '/client-grants']) {
      const seen = new Set<string>();
      for await (const { text, body } of cursorPages(other, `${path}?take=100`)) {
        assert.ok(text.length < 250_000, `${text.length}`);
        const items: { id?: string; client_id: string }[] = body.clients ?? body.client_grants;
        for (const item of items) seen.add(item.id ?? item.client_id);
      }
      assert.equal(seen.size, 6, 'five, and one of the bootstrap client');
    }
  });
});
