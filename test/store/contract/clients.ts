import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { firstCredentialsVersion } from '../../../src/core/clients.ts';
import { managementApiId, type Client, type Grant } from '../../../src/core/types.ts';
import type { Engine } from './engine.ts';
import { addTenant, createFixture, start, type Fixture } from './fixture.ts';

export function clientsContract(engine: Engine): void {
  describe(`${engine.name}: clients`, () => storedContract(engine));
  describe(`${engine.name}: clients.update and delete`, () => changedContract(engine));
  describe(`${engine.name}: clients.useAssertion`, () => assertionContract(engine));
}

/** With characters that one of the engines could change. */
export const carriedJson = JSON.stringify({
  nul: '\u0000',
  text: 'ä 🤖 "\\',
  list: [1.5, null, {}],
});

function storedContract(engine: Engine): void {
  test('create: the client is read as it was created, at version 1', async (t) => {
    const { store, tenant } = await createFixture(engine, t);
    const given = newClient(tenant, 'robot', {
      name: 'Zoë 🤖 "quoted" \\ \n',
      global: true,
      secretHash: 'h'.repeat(43),
      jwks: JSON.stringify({ keys: [{ kid: 'k'.repeat(10_000) }] }),
    });
    assert.deepEqual(await store.clients.create(given), { created: { ...given, version: 1 } });
    assert.deepEqual(await store.clients.get(tenant, 'robot'), { ...given, version: 1 });
  });

  test('create: a client of an external issuer has neither secret nor keys', async (t) => {
    const { store, tenant } = await createFixture(engine, t);
    await store.clients.create(newClient(tenant, 'guest', { issuer: 'https://idp.example/' }));
    const guest = await store.clients.get(tenant, 'guest');
    assert.equal(guest?.issuer, 'https://idp.example/');
    assert.equal(guest.secretHash, undefined);
    assert.equal(guest.jwks, undefined);
  });

  test('carried fields are stored, replaced and removed', async (t) => {
    const { store, tenant } = await createFixture(engine, t);
    const given = newClient(tenant, 'robot', { carriedJson });
    await store.clients.create(given);
    assert.deepEqual(await store.clients.get(tenant, 'robot'), { ...given, version: 1 });
    for (const changed of ['{"a":1}', undefined]) {
      await store.clients.update(tenant, 'robot', (before) => {
        return { after: { ...before, carriedJson: changed } };
      });
      assert.equal((await store.clients.get(tenant, 'robot'))?.carriedJson, changed);
    }
    const page = await store.clients.list(tenant, { page: 0, perPage: 9 });
    assert.ok('items' in page && !('carriedJson' in (page.items[0] ?? {})));
  });

  test('create: an id is unique, and a refused call changes nothing', async (t) => {
    const { store, tenant } = await createFixture(engine, t);
    await store.clients.create(newClient(tenant, 'robot', { name: 'first' }));
    const results = await Promise.all(
      [1, 2, 3].map((count) =>
        store.clients.create(newClient(tenant, 'robot', { name: `${count}` })),
      ),
    );
    assert.ok(results.every((result) => 'refused' in result && result.refused === 'id_taken'));
    assert.equal((await store.clients.get(tenant, 'robot'))?.name, 'first');
  });

  test("get: never returns another tenant's client", async (t) => {
    const { store, tenant } = await createFixture(engine, t);
    const other = await addTenant(store, 'other');
    await store.clients.create(newClient(tenant, 'robot', { name: 'ours' }));
    assert.equal(await store.clients.get(other.id, 'robot'), undefined);
    await store.clients.create(newClient(other.id, 'robot', { name: 'theirs' }));
    assert.equal((await store.clients.get(tenant, 'robot'))?.name, 'ours');
    const theirs = await store.clients.list(other.id, { page: 0, perPage: 9 });
    assert.equal('items' in theirs && theirs.total, 1);
  });

  test('get: compares ids exactly', async (t) => {
    const { store, tenant } = await createFixture(engine, t);
    await store.clients.create(newClient(tenant, 'Robot'));
    for (const id of ['robot', 'Robot ', '', '%', "Robot' or 1=1 --", 'x'.repeat(100_000)]) {
      assert.equal(await store.clients.get(tenant, id), undefined, JSON.stringify(id.slice(0, 20)));
    }
  });

  test('U+0000 in a text is neither stored nor searched for', async (t) => {
    const { store, tenant } = await createFixture(engine, t);
    // One after the other: one that nothing waits for yet would fail the test.
    for (const refuse of [
      () => store.clients.get(tenant, 'a\0'),
      () => store.clients.create(newClient(tenant, 'robot', { name: 'a\0b' })),
      () => store.clients.delete(tenant, '\0'),
      () => store.roles.list(tenant, { page: 0, perPage: 9, nameFilter: '\0' }),
      () => store.users.byEmail(tenant, 'a\0@example.com'),
    ]) {
      await assert.rejects(refuse, { name: 'StoreTextRefused' });
    }
    assert.equal(await store.clients.get(tenant, 'robot'), undefined);
  });

  test('list: pages in the order of creation, empty after the last', async (t) => {
    const { store, tenant } = await createFixture(engine, t);
    for (const [index, id] of ['c', 'a', 'b', 'e', 'd'].entries()) {
      await store.clients.create(newClient(tenant, id, { createdAt: start + Math.min(index, 3) }));
    }
    const page = async (number: number) => {
      const result = await store.clients.list(tenant, { page: number, perPage: 2 });
      assert.ok('items' in result);
      assert.equal(result.total, 5);
      return result.items.map((client) => client.id);
    };
    assert.deepEqual(await page(0), ['c', 'a']);
    assert.deepEqual(await page(1), ['b', 'd'], 'of one instant: by id');
    assert.deepEqual(await page(2), ['e']);
    assert.deepEqual(await page(3), []);
    assert.deepEqual(await page(Number.MAX_SAFE_INTEGER), []);
  });

  test('list and listFrom: only global clients, or only others', async (t) => {
    const { store, tenant } = await createFixture(engine, t);
    for (const id of ['a', 'b', 'c']) {
      await store.clients.create(newClient(tenant, id, { global: id !== 'b' }));
    }
    for (const [global, ids] of [
      [true, ['a', 'c']],
      [false, ['b']],
      [undefined, ['a', 'b', 'c']],
    ] as const) {
      const result = await store.clients.list(tenant, { page: 0, perPage: 9, global });
      assert.ok('items' in result);
      assert.deepEqual([result.items.map(({ id }) => id), result.total], [ids, ids.length]);
      const { items } = await store.clients.listFrom(tenant, { after: undefined, take: 9, global });
      assert.deepEqual(
        items.map(({ id }) => id),
        ids,
      );
    }
    const first = await store.clients.listFrom(tenant, { after: undefined, take: 1, global: true });
    assert.deepEqual([first.items[0]?.id, first.next], ['a', 'a']);
    const last = await store.clients.listFrom(tenant, { after: 'a', take: 1, global: true });
    assert.deepEqual([last.items[0]?.id, last.next], ['c', undefined]);
  });

  test('list: a page of size 0 returns the total', async (t) => {
    const { store, tenant } = await createFixture(engine, t);
    await store.clients.create(newClient(tenant, 'robot'));
    const page = await store.clients.list(tenant, { page: 0, perPage: 0 });
    assert.deepEqual(page, { items: [], total: 1 });
  });
}

function changedContract(engine: Engine): void {
  test('update: decides on the client and its grants, and raises the version', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const { created } = await withGrant(fixture, 'robot');
    const result = await store.clients.update(tenant, 'robot', (before, grants) => {
      assert.deepEqual(before, created);
      assert.deepEqual(
        grants.map((grant) => [grant.api, grant.scope]),
        [[managementApiId, ['read:users']]],
      );
      return { after: { ...before, name: 'renamed', global: true, jwks: undefined } };
    });
    const after = { ...created, name: 'renamed', global: true, jwks: undefined, version: 2 };
    assert.deepEqual(result, { updated: after });
    assert.deepEqual(await store.clients.get(tenant, 'robot'), after);
  });

  test('update: id, tenant, version and time of creation cannot be chosen', async (t) => {
    const { store, tenant } = await createFixture(engine, t);
    const other = await addTenant(store, 'other');
    await store.clients.create(newClient(tenant, 'robot'));
    const result = await store.clients.update(tenant, 'robot', (before) => ({
      after: { ...before, tenant: other.id, id: 'king', version: 99, createdAt: 1 },
    }));
    const expected = { ...newClient(tenant, 'robot'), version: 2 };
    assert.deepEqual(result, { updated: expected });
    assert.deepEqual(await store.clients.get(tenant, 'robot'), expected);
    assert.equal(await store.clients.get(other.id, 'king'), undefined);
  });

  test('update: passes a refusal through and writes nothing', async (t) => {
    const { store, tenant, hints } = await createFixture(engine, t);
    await store.clients.create(newClient(tenant, 'robot'));
    const result = await store.clients.update(tenant, 'robot', () => ({ refused: 'too_much' }));
    assert.deepEqual(result, { refused: 'too_much' });
    assert.equal((await store.clients.get(tenant, 'robot'))?.version, 1);
    assert.equal(hints.length, 1, 'of its creation only');
  });

  test('update: a decision that throws writes nothing and blocks no other call', async (t) => {
    const { store, tenant } = await createFixture(engine, t);
    await store.clients.create(newClient(tenant, 'robot'));
    const bug = new Error('bug');
    const decide = () => {
      throw bug;
    };
    await assert.rejects(store.clients.update(tenant, 'robot', decide), bug);
    const renamed = await store.clients.update(tenant, 'robot', rename('next'));
    assert.ok('updated' in renamed);
    assert.equal(renamed.updated.version, 2);
  });

  test("update: does not decide on an unknown or another tenant's client", async (t) => {
    const { store, tenant } = await createFixture(engine, t);
    const other = await addTenant(store, 'other');
    await store.clients.create(newClient(tenant, 'robot'));
    const decide = () => assert.fail('decided');
    const refused = { refused: 'unknown' };
    assert.deepEqual(await store.clients.update(tenant, 'nobody', decide), refused);
    assert.deepEqual(await store.clients.update(other.id, 'robot', decide), refused);
  });

  test('update: concurrent changes each see the one before', async (t) => {
    const { store, tenant } = await createFixture(engine, t);
    await store.clients.create(newClient(tenant, 'robot', { name: '' }));
    const longer = (before: Client) => ({ after: { ...before, name: `${before.name}x` } });
    await Promise.all([1, 2, 3, 4].map(() => store.clients.update(tenant, 'robot', longer)));
    const robot = await store.clients.get(tenant, 'robot');
    assert.equal(robot?.name, 'xxxx');
    assert.equal(robot.version, 5);
  });

  test('update: the version of the credentials rises when the secret changes or a key is gone', async (t) => {
    const { store, tenant } = await createFixture(engine, t);
    const keys = (...kids: string[]) => JSON.stringify({ keys: kids.map((kid) => ({ kid })) });
    const given = { credentialsVersion: 1_700_000_000_000, secretHash: 'one', jwks: keys('a') };
    await store.clients.create(newClient(tenant, 'robot', given));
    const versionAfter = async (change: Partial<Client>): Promise<number | undefined> => {
      await store.clients.update(tenant, 'robot', (before) => ({
        after: { ...before, ...change },
      }));
      const { credentialsVersion } = (await store.clients.get(tenant, 'robot')) ?? {};
      return credentialsVersion && credentialsVersion - given.credentialsVersion;
    };
    assert.equal(await versionAfter({ name: 'renamed', credentialsVersion: 7 }), 0);
    assert.equal(await versionAfter({ jwks: keys('b', 'a') }), 0);
    assert.equal(await versionAfter({ jwks: keys('b') }), 1);
    assert.equal(await versionAfter({ secretHash: 'two' }), 2);
    assert.equal(await versionAfter({ secretHash: 'two', jwks: keys('c', 'b') }), 2);
    assert.equal(await versionAfter({ jwks: undefined }), 3);
    assert.equal(await versionAfter({ secretHash: undefined }), 4);
  });

  test('delete: checks the client and its grants before, and removes nothing when that throws', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const { created } = await withGrant(fixture, 'robot');
    const refusal = new Error('too much');
    const check = (before: Client, grants: readonly Grant[]): void => {
      assert.deepEqual(before, created);
      assert.deepEqual(
        grants.map(({ scope }) => scope),
        [['read:users']],
      );
      throw refusal;
    };
    await assert.rejects(store.clients.delete(tenant, 'robot', check), refusal);
    assert.ok(await store.grants.of(tenant, 'robot', managementApiId));
    assert.deepEqual(await store.clients.get(tenant, 'robot'), created);
    assert.equal(await store.clients.delete(tenant, 'nobody', check), false);
  });

  test('delete: removes the grants of this client, and no others', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const other = { ...fixture, tenant: (await addTenant(store, 'other')).id };
    await withGrant(fixture, 'robot');
    await withGrant(fixture, 'neighbour');
    await withGrant(other, 'robot');
    assert.equal(await store.clients.delete(tenant, 'robot'), true);
    assert.equal(await store.clients.get(tenant, 'robot'), undefined);
    assert.equal(await store.grants.of(tenant, 'robot', managementApiId), undefined);
    assert.ok(await store.grants.of(tenant, 'neighbour', managementApiId));
    assert.ok(await store.grants.of(other.tenant, 'robot', managementApiId));
    assert.equal(await store.clients.delete(tenant, 'robot'), false);
  });

  test('delete: a later client of the same id has no grant', async (t) => {
    const fixture = await createFixture(engine, t);
    await withGrant(fixture, 'robot');
    await fixture.store.clients.delete(fixture.tenant, 'robot');
    await fixture.store.clients.create(newClient(fixture.tenant, 'robot'));
    assert.equal(
      await fixture.store.grants.of(fixture.tenant, 'robot', managementApiId),
      undefined,
    );
  });

  test('watch: receives a creation, a change and a deletion', async (t) => {
    const { store, tenant, hints } = await createFixture(engine, t);
    await store.clients.create(newClient(tenant, 'robot'));
    await store.clients.create(newClient(tenant, 'robot'));
    const hint = { kind: 'client', tenant, client: 'robot' };
    assert.deepEqual(hints, [hint]);
    await store.clients.update(tenant, 'robot', rename('next'));
    assert.deepEqual(hints, [hint, hint]);
    await store.clients.delete(tenant, 'robot');
    await store.clients.delete(tenant, 'robot');
    assert.deepEqual(hints, [hint, hint, hint]);
  });
}

function assertionContract(engine: Engine): void {
  test('a jti is used once, by each client of each tenant', async (t) => {
    const { store, tenant } = await createFixture(engine, t);
    const use = (owner: number, client: string, jti: string) =>
      store.clients.useAssertion(owner, client, jti, start + 1000);
    assert.equal(await use(tenant, 'robot', 'once'), true);
    assert.equal(await use(tenant, 'robot', 'once'), false);
    assert.equal(await use(tenant, 'robot', 'Once'), true);
    assert.equal(await use(tenant, 'other', 'once'), true);
    assert.equal(await use(tenant + 1, 'robot', 'once'), true);
  });

  test('one of several concurrent uses of a jti succeeds', async (t) => {
    const { store, tenant } = await createFixture(engine, t);
    const uses = Array.from({ length: 16 }, () =>
      store.clients.useAssertion(tenant, 'robot', 'once', start + 1000),
    );
    const results = await Promise.all(uses);
    assert.equal(results.filter(Boolean).length, 1);
  });

  test('a jti may be used again, once, a minute after its expiry', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const use = (now: number) => {
      fixture.now = now;
      return store.clients.useAssertion(tenant, 'robot', 'once', now + 1000);
    };
    assert.equal(await use(start), true);
    // A node whose clock is late accepts the assertion for that much longer.
    assert.equal(await use(start + 60_999), false);
    assert.equal(await use(start + 61_000), true);
    assert.equal(await use(start + 61_001), false);
  });

  test('many assertions that expire together delay no use', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const use = (jti: string, now: number) => {
      fixture.now = now;
      return store.clients.useAssertion(tenant, 'robot', jti, now + 1000);
    };
    for (let count = 0; count < 250; count++) await use(`jti-${count}`, start + (count % 7));
    for (let count = 0; count < 250; count++) {
      assert.equal(await use(`jti-${count}`, start + 61_007), true, `jti-${count}`);
      assert.equal(await use(`jti-${count}`, start + 61_007), false, `jti-${count}`);
    }
  });
}

/** Returns a local client with a secret, created at `start`. */
export function newClient(
  tenant: number,
  id: string,
  given: Partial<Client> = {},
): Omit<Client, 'version'> {
  const none = { issuer: undefined, secretHash: undefined, jwks: undefined };
  return {
    tenant,
    id,
    name: id,
    global: false,
    ...none,
    credentialsVersion: firstCredentialsVersion,
    createdAt: start,
    ...given,
  };
}

function rename(name: string) {
  return (before: Client) => ({ after: { ...before, name } });
}

async function withGrant({ store, tenant }: Fixture, id: string): Promise<{ created: Client }> {
  const result = await store.clients.create(newClient(tenant, id));
  assert.ok('created' in result);
  const grant = { tenant, id: `grant of ${id}`, client: id, api: managementApiId };
  assert.ok('created' in (await store.grants.create({ ...grant, scope: ['read:users'] })));
  return result;
}
