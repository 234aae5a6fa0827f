import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { StoreContentRefused, StoreTenantGone } from '../../../src/core/errors.ts';
import { userEmail } from '../../../src/core/mailbox.ts';
import type { NewEvent, User } from '../../../src/core/types.ts';
import type { Engine } from './engine.ts';
import { waitFor } from '../../helpers/wait.ts';
import { addTenant, createFixture, newEvent, start, type Fixture } from './fixture.ts';

export function usersContract(engine: Engine): void {
  describe(`${engine.name}: users`, () => storedContract(engine));
  describe(`${engine.name}: users.update and delete`, () => changedContract(engine));
  describe(`${engine.name}: users and the log`, () => eventContract(engine));
  describe(`${engine.name}: lists of users`, () => listContract(engine));
}

function storedContract(engine: Engine): void {
  test('create: the user is read as it was created', async (t) => {
    const fixture = await createFixture(engine, t);
    const user = newUser(fixture.tenant, 'zoë', {
      username: 'ζωή "1" \\ 🧑‍🚀',
      profile: {
        name: 'Zoë',
        email_verified: false,
        nothing: null,
        user_metadata: {
          deep: [{ list: [1.5, 'ü', null] }],
          ['__proto__x']: 1,
          long: 'x'.repeat(1e5),
        },
      },
    });
    assert.deepEqual(await create(fixture, user), { created: user });
    assert.deepEqual(await fixture.store.users.get(fixture.tenant, user.id), user);
  });

  test('create: refuses the e-mail, the username or the id of another user', async (t) => {
    const fixture = await createFixture(engine, t);
    await create(fixture, newUser(fixture.tenant, 'ada', { username: 'Ada' }));
    const refused = { refused: 'duplicate' };
    const attempt = (given: Partial<User>) =>
      create(fixture, newUser(fixture.tenant, 'bob', given));
    assert.deepEqual(await attempt({ email: 'ada@example.com' }), refused);
    assert.deepEqual(await attempt({ username: 'Ada' }), refused);
    assert.deepEqual(await attempt({ id: 'leat|ada' }), refused);
    assert.equal(await fixture.store.log.head(fixture.tenant), 1, 'no event of a refused user');
    assert.deepEqual(await ids(fixture), ['leat|ada']);
  });

  test('create: another connection may have the e-mail and the username, not the id', async (t) => {
    const fixture = await createFixture(engine, t);
    const ada = newUser(fixture.tenant, 'ada', { username: 'Ada' });
    await create(fixture, ada);
    const elsewhere = { ...ada, connection: 'partners' };
    assert.ok('created' in (await create(fixture, { ...elsewhere, id: 'leat|second' })));
    assert.deepEqual(await create(fixture, elsewhere), { refused: 'duplicate' });
  });

  test('create: users without a username do not clash', async (t) => {
    const fixture = await createFixture(engine, t);
    await create(fixture, newUser(fixture.tenant, 'ada'));
    assert.ok('created' in (await create(fixture, newUser(fixture.tenant, 'bob'))));
  });

  test('create: one of several concurrent calls for one e-mail succeeds, with one event', async (t) => {
    const fixture = await createFixture(engine, t);
    const calls = Array.from({ length: 10 }, (_, index) =>
      create(fixture, newUser(fixture.tenant, `u${index}`, { email: 'one@example.com' })),
    );
    const results = await Promise.all(calls);
    assert.equal(results.filter((result) => 'created' in result).length, 1);
    assert.equal(await fixture.store.log.head(fixture.tenant), 1);
  });

  test('get, byEmail and the lists: leave out the users of other tenants', async (t) => {
    const fixture = await createFixture(engine, t);
    const other = { ...fixture, tenant: (await addTenant(fixture.store, 'other')).id };
    const user = newUser(fixture.tenant, 'ada');
    await create(fixture, user);
    const { users } = fixture.store;
    assert.equal(await users.get(other.tenant, user.id), undefined);
    assert.deepEqual(await users.byEmail(other.tenant, user.email), []);
    assert.deepEqual(await users.list(other.tenant, { page: 0, perPage: 9, counted: true }), {
      items: [],
      total: 0,
    });
    assert.deepEqual(await ids(other), []);
    assert.ok('created' in (await create(other, { ...user, tenant: other.tenant })));
  });

  test('byEmail: compares without regard to case, in every connection', async (t) => {
    const fixture = await createFixture(engine, t);
    const ada = newUser(fixture.tenant, 'ada');
    const partner = { ...ada, id: 'leat|a-partner', connection: 'partners' };
    await create(fixture, ada);
    await create(fixture, partner);
    const { users } = fixture.store;
    assert.deepEqual(await users.byEmail(fixture.tenant, 'ADA@Example.COM'), [partner, ada]);
    assert.deepEqual(await users.byEmail(fixture.tenant, 'ada'), []);
    assert.deepEqual(await users.byEmail(fixture.tenant, '%'), []);
  });

  test('byEmail, create, update: a mailbox that an earlier version stored in another form is the same', async (t) => {
    const fixture = await createFixture(engine, t);
    const { users } = fixture.store;
    const stored = ['zoë@xn--bcher-kva.example.', 'zoe\u0308@bücher.example', 'ada@example.com.'];
    for (const [index, email] of stored.entries()) {
      const old = newUser(fixture.tenant, `old-${index}`, { email, connection: `c${index}` });
      assert.deepEqual(await create(fixture, old), { created: old });
      assert.deepEqual(await users.get(fixture.tenant, old.id), old, 'it stays as it is');
      const present = { email: userEmail(email), connection: `c${index}` };
      const second = newUser(fixture.tenant, `new-${index}`, present);
      assert.deepEqual(await create(fixture, second), { refused: 'duplicate' });
    }
    const found = await users.byEmail(fixture.tenant, 'ZOË@BÜCHER.example');
    assert.deepEqual(
      found.map(({ id }) => id),
      ['leat|old-0', 'leat|old-1'],
    );
    for (const [index, email] of ['soft@exam\u00ADple.com', 'ada@x.example..'].entries()) {
      const odd = newUser(fixture.tenant, `odd-${index}`, { email });
      assert.deepEqual(await create(fixture, odd), { created: odd });
      assert.deepEqual(await users.byEmail(fixture.tenant, email.toUpperCase()), [odd]);
    }
    const renamed = await update(fixture, 'leat|old-2', (user) => ({ ...user, username: 'ada' }));
    assert.ok('updated' in renamed && renamed.updated.email === 'ada@example.com.');
    const email = userEmail('ada@example.com.');
    const normal = await update(fixture, 'leat|old-2', (user) => ({ ...user, email }));
    assert.ok('updated' in normal && normal.updated.email === email);
  });
}

function changedContract(engine: Engine): void {
  test('create, update: a username that an earlier version stored in NFD is the same', async (t) => {
    const fixture = await createFixture(engine, t);
    const old = newUser(fixture.tenant, 'old', { username: 'zoe\u0308' });
    assert.deepEqual(await create(fixture, old), { created: old });
    const other = newUser(fixture.tenant, 'other', { username: 'zoë' });
    assert.deepEqual(await create(fixture, other), { refused: 'duplicate' });
    const email = 'new@example.com';
    const kept = await update(fixture, old.id, (user) => ({ ...user, email }));
    assert.ok('updated' in kept && kept.updated.username === old.username);
    const normal = await update(fixture, old.id, (user) => ({ ...user, username: 'zoë' }));
    assert.ok('updated' in normal && normal.updated.username === 'zoë');
  });

  test('update: decides on the current user and returns the changed one', async (t) => {
    const fixture = await createFixture(engine, t);
    const ada = newUser(fixture.tenant, 'ada', { username: 'ada' });
    await create(fixture, ada);
    const changes = {
      email: 'countess@example.com',
      username: undefined,
      passwordHash: '$argon2id$other',
      profileJson: '{"name":"Countess"}',
      updatedAt: start + 5,
    };
    const result = await update(fixture, ada.id, (before) => {
      assert.deepEqual(before, ada);
      return { ...before, ...changes };
    });
    assert.deepEqual(result, { updated: { ...ada, ...changes } });
    assert.deepEqual(await fixture.store.users.get(fixture.tenant, ada.id), { ...ada, ...changes });
  });

  test('update: changes neither connection nor time of creation', async (t) => {
    const fixture = await createFixture(engine, t);
    const ada = newUser(fixture.tenant, 'ada');
    await create(fixture, ada);
    const moved = { tenant: 99, id: 'leat|root', connection: 'partners', createdAt: 1 };
    const result = await update(fixture, ada.id, (before) => ({ ...before, ...moved }));
    assert.deepEqual(result, { updated: ada });
    assert.deepEqual(await ids(fixture), [ada.id]);
  });

  test("update: refuses another user's e-mail or username, and writes nothing", async (t) => {
    const fixture = await createFixture(engine, t);
    await create(fixture, newUser(fixture.tenant, 'ada', { username: 'ada' }));
    const bob = newUser(fixture.tenant, 'bob');
    await create(fixture, bob);
    const refused = { refused: 'duplicate' };
    const change = (given: Partial<User>) =>
      update(fixture, bob.id, (before) => ({ ...before, ...given }));
    assert.deepEqual(await change({ email: 'ada@example.com' }), refused);
    assert.deepEqual(await change({ username: 'ada' }), refused);
    assert.deepEqual(await fixture.store.users.get(fixture.tenant, bob.id), bob);
    assert.equal(await fixture.store.log.head(fixture.tenant), 2);
  });

  test('update: a user may keep its own e-mail and username', async (t) => {
    const fixture = await createFixture(engine, t);
    const ada = newUser(fixture.tenant, 'ada', { username: 'ada' });
    await create(fixture, ada);
    assert.deepEqual(await update(fixture, ada.id, (before) => before), { updated: ada });
  });

  test('update: passes a refusal through, without a write and without an event', async (t) => {
    const fixture = await createFixture(engine, t);
    const ada = newUser(fixture.tenant, 'ada');
    await create(fixture, ada);
    fixture.hints.length = 0;
    const refuse = () => ({ refused: 'connection_differs' as const });
    const result = await fixture.store.users.update(fixture.tenant, ada.id, refuse);
    assert.deepEqual(result, { refused: 'connection_differs' });
    assert.deepEqual(await fixture.store.users.get(fixture.tenant, ada.id), ada);
    assert.equal(await fixture.store.log.head(fixture.tenant), 1);
    assert.deepEqual(fixture.hints, []);
  });

  test("update and delete: never decide on an unknown or another tenant's user", async (t) => {
    const fixture = await createFixture(engine, t);
    const other = await addTenant(fixture.store, 'other');
    await create(fixture, newUser(fixture.tenant, 'ada'));
    const decide = () => assert.fail('decided');
    const { users } = fixture.store;
    for (const [tenant, id] of [[other.id, 'leat|ada'] as const, [fixture.tenant, 'x'] as const]) {
      assert.deepEqual(await users.update(tenant, id, decide), { refused: 'unknown' });
      assert.equal(await users.delete(tenant, id, decide), false);
    }
    assert.equal(await fixture.store.log.head(fixture.tenant), 1);
    assert.equal(await fixture.store.log.head(other.id), 0);
  });

  test('update: concurrent changes each see the one before', async (t) => {
    const fixture = await createFixture(engine, t);
    const ada = newUser(fixture.tenant, 'ada', { profile: { count: 0 } });
    await create(fixture, ada);
    const increment = (before: User) => ({
      ...before,
      profileJson: before.profileJson.replace(/\d+/, (count) => String(Number(count) + 1)),
    });
    await Promise.all(Array.from({ length: 20 }, () => update(fixture, ada.id, increment)));
    const after = await fixture.store.users.get(fixture.tenant, ada.id);
    assert.equal(after?.profileJson, '{"count":20}');
    assert.equal(await fixture.store.log.head(fixture.tenant), 21);
  });

  test('create and update: are refused when the removal of the tenant begins meanwhile', async (t) => {
    const { store } = await createFixture(engine, t);
    const leaving = (await addTenant(store, 'leaving')).id;
    const ada = newUser(leaving, 'ada');
    await store.users.create(ada, newEvent());
    const changed = store.users.update(leaving, ada.id, async (before) => {
      await store.tenants.leave(leaving);
      return { after: before, event: newEvent() };
    });
    await assert.rejects(changed, StoreTenantGone);
    await assert.rejects(store.users.create(newUser(leaving, 'b'), newEvent()), StoreTenantGone);
  });

  test('update: no other call changes or deletes the user during the decision', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const ada = newUser(tenant, 'ada', { profile: { count: 0 } });
    await create(fixture, ada);
    const decided: string[] = [];
    let release = (): void => {};
    const released = new Promise<void>((resolve) => (release = resolve));
    const renamed = (profileJson: string) =>
      store.users.update(tenant, ada.id, async (before) => {
        decided.push(before.profileJson);
        await released;
        return { after: { ...before, profileJson }, event: newEvent() };
      });
    const first = renamed('{"count":1}');
    await waitFor('the first decision', () => decided.length === 1);
    const second = renamed('{"count":2}');
    const deleted = store.users.delete(tenant, ada.id, (before) => {
      decided.push(before.profileJson);
      return newEvent();
    });
    release();
    assert.ok('updated' in (await first));
    // Either of the two may come first; it sees the state that the other one has left.
    const result = await second;
    assert.equal(await deleted, true);
    const after = 'updated' in result ? ['{"count":1}', '{"count":2}'] : ['{"count":1}'];
    assert.deepEqual(decided.slice(1), after);
    assert.equal(await store.users.get(tenant, ada.id), undefined);
  });

  test('delete: emits with the last state, once; then all its names are free', async (t) => {
    const fixture = await createFixture(engine, t);
    const ada = newUser(fixture.tenant, 'ada', { username: 'ada' });
    await create(fixture, ada);
    const emit = (before: User) => newEvent({ body: JSON.stringify(before) });
    const remove = () => fixture.store.users.delete(fixture.tenant, ada.id, emit);
    assert.deepEqual(new Set(await Promise.all([remove(), remove()])), new Set([true, false]));
    assert.equal(await fixture.store.users.get(fixture.tenant, ada.id), undefined);
    const events = await logOf(fixture);
    assert.equal(events.length, 2);
    assert.deepEqual(JSON.parse(events[1]?.body ?? ''), JSON.parse(JSON.stringify(ada)));
    assert.deepEqual(await create(fixture, ada), { created: ada });
  });
}

/** Content that no engine stores: a field that must be text is none. */
const broken = (): NewEvent => ({ ...newEvent(), type: null as unknown as string });

function eventContract(engine: Engine): void {
  test('each change is one event of the log, in the order of the changes', async (t) => {
    const fixture = await createFixture(engine, t);
    const ada = newUser(fixture.tenant, 'ada');
    const events = ['user.created', 'user.updated', 'user.deleted'].map((type) =>
      newEvent({ type }),
    );
    const [created, updated, deleted] = events;
    assert.ok(created && updated && deleted);
    const { users } = fixture.store;
    await users.create(ada, created);
    fixture.now = start + 1;
    await users.update(fixture.tenant, ada.id, (after) => ({ after, event: updated }));
    fixture.now = start + 2;
    await users.delete(fixture.tenant, ada.id, () => deleted);
    const log = await logOf(fixture);
    assert.deepEqual(
      log.map(({ offset, id, type, publishedAt }) => [offset, id, type, publishedAt - start]),
      events.map(({ id, type }, index) => [index + 1, id, type, index]),
    );
  });

  test('watch: receives each event once its change can be read', async (t) => {
    const fixture = await createFixture(engine, t);
    const seen: string[] = [];
    fixture.store.watch((hint) => {
      if (hint.kind !== 'appended') return;
      for (const { offset, type } of hint.events) seen.push(`${hint.tenant} ${offset} ${type}`);
    });
    await create(fixture, newUser(fixture.tenant, 'ada'));
    await create(fixture, newUser(fixture.tenant, 'ada'));
    await update(fixture, 'leat|ada', (before) => before);
    assert.deepEqual(seen, [
      `${fixture.tenant} 1 user.created`,
      `${fixture.tenant} 2 user.created`,
    ]);
  });

  test('create: a user whose event is refused does not exist', async (t) => {
    const fixture = await createFixture(engine, t);
    const ada = newUser(fixture.tenant, 'ada');
    const refused = fixture.store.users.create(ada, broken());
    await assert.rejects(refused, StoreContentRefused);
    assert.equal(await fixture.store.users.get(fixture.tenant, ada.id), undefined);
    assert.equal(await fixture.store.log.head(fixture.tenant), 0);
    assert.deepEqual(fixture.hints, []);
    assert.ok('created' in (await create(fixture, ada)));
  });

  test('update: a change whose event is refused did not happen', async (t) => {
    const fixture = await createFixture(engine, t);
    const ada = newUser(fixture.tenant, 'ada');
    await create(fixture, ada);
    const decide = (before: User) => ({ after: { ...before, email: 'x@y.z' }, event: broken() });
    const refused = fixture.store.users.update(fixture.tenant, ada.id, decide);
    await assert.rejects(refused, StoreContentRefused);
    assert.deepEqual(await fixture.store.users.get(fixture.tenant, ada.id), ada);
  });

  test('delete: a user whose event is refused, or cannot be made, stays', async (t) => {
    const fixture = await createFixture(engine, t);
    const ada = newUser(fixture.tenant, 'ada');
    await create(fixture, ada);
    const { users } = fixture.store;
    await assert.rejects(users.delete(fixture.tenant, ada.id, broken), StoreContentRefused);
    const bug = new Error('bug');
    const emit = () => {
      throw bug;
    };
    await assert.rejects(users.delete(fixture.tenant, ada.id, emit), bug);
    assert.deepEqual(await users.get(fixture.tenant, ada.id), ada);
    assert.equal(await fixture.store.log.head(fixture.tenant), 1);
  });

  test('create: an event that the database cannot store leaves no user', async (t) => {
    const fixture = await createFixture(engine, t);
    const taken = newEvent();
    await fixture.store.log.append(fixture.tenant, [taken]);
    const ada = newUser(fixture.tenant, 'ada');
    // The id is in the log already, and was not chosen by a client, so no query checks it.
    const refused = fixture.store.users.create(ada, newEvent({ id: taken.id }));
    await assert.rejects(refused, StoreContentRefused);
    assert.equal(await fixture.store.users.get(fixture.tenant, ada.id), undefined);
    assert.equal(await fixture.store.log.head(fixture.tenant), 1);
  });

  test('create: publishing and users take turns on one log without a gap', async (t) => {
    const fixture = await createFixture(engine, t);
    const users = Array.from({ length: 20 }, (_, index) =>
      create(fixture, newUser(fixture.tenant, `u${index}`)),
    );
    const published = Array.from({ length: 20 }, () =>
      fixture.store.log.append(fixture.tenant, [newEvent(), newEvent()]),
    );
    await Promise.all([...users, ...published]);
    const offsets = (await logOf(fixture)).map((event) => event.offset);
    assert.deepEqual(
      offsets,
      Array.from({ length: 60 }, (_, index) => index + 1),
    );
  });
}

function listContract(engine: Engine): void {
  test('list: sorts by id by default', async (t) => {
    const fixture = await createFixture(engine, t);
    await createThree(fixture);
    assert.deepEqual(await sortedBy(fixture), ['a', 'b', 'c']);
    assert.deepEqual(await sortedBy(fixture, 'user_id', true), ['c', 'b', 'a']);
  });

  test('list: sorts by columns and by fields of the profile, in both directions', async (t) => {
    const fixture = await createFixture(engine, t);
    await createThree(fixture);
    const expected: Record<string, string[]> = {
      created_at: ['b', 'c', 'a'],
      updated_at: ['c', 'a', 'b'],
      email: ['b', 'a', 'c'],
      username: ['a', 'c', 'b'],
      name: ['c', 'b', 'a'],
      logins: ['b', 'a', 'c'],
    };
    for (const [field, order] of Object.entries(expected)) {
      assert.deepEqual(await sortedBy(fixture, field), order, field);
      assert.deepEqual(await sortedBy(fixture, field, true), order.toReversed(), `${field}:-1`);
    }
  });

  test('list: users with the same value are in the order of their ids, in both directions', async (t) => {
    const fixture = await createFixture(engine, t);
    for (const id of ['b', 'a', 'c']) await create(fixture, newUser(fixture.tenant, id));
    for (const field of ['created_at', 'updated_at', 'username', 'name']) {
      assert.deepEqual(await sortedBy(fixture, field), ['a', 'b', 'c'], field);
    }
    for (const field of ['created_at', 'updated_at', 'username']) {
      assert.deepEqual(await sortedBy(fixture, field, true), ['c', 'b', 'a'], `${field}:-1`);
    }
    assert.deepEqual(await sortedBy(fixture, 'name', true), ['a', 'b', 'c']);
  });

  test('list: refuses to sort many users, or large ones, by a field without an index', async (t) => {
    const fixture = await createFixture(engine, t);
    const name = 'x'.repeat(1000);
    for (const id of ['a', 'b', 'c']) {
      await create(fixture, newUser(fixture.tenant, id, { profile: { name } }));
    }
    const listed = (field: string, users: number, bytes: number) => {
      const sort = { field, descending: false, max: { users, bytes } };
      return fixture.store.users.list(fixture.tenant, {
        page: 0,
        perPage: 9,
        sort,
        counted: false,
      });
    };
    const refused = { refused: 'too_many_to_sort' };
    assert.deepEqual(await listed('name', 2, 9000), refused);
    assert.deepEqual(await listed('name', 3, 2999), refused);
    assert.notDeepEqual(await listed('name', 3, 9000), refused);
    for (const field of ['created_at', 'updated_at', 'email', 'user_id', 'username']) {
      assert.notDeepEqual(await listed(field, 0, 0), refused, field);
    }
  });

  test('list: a field that no user has sorts by id, whatever its name is', async (t) => {
    const fixture = await createFixture(engine, t);
    await createThree(fixture);
    const hostile = [
      'nobody_has_it',
      'password_hash',
      'passwordHash',
      'tenant',
      '',
      '$.name',
      `name'), (select password_hash from users) --`,
      'name"]; drop table users; --',
      "') or 1=1",
      '\u0000',
      'x'.repeat(100_000),
    ];
    for (const field of hostile) {
      assert.deepEqual(await sortedBy(fixture, field, true), ['a', 'b', 'c'], field.slice(0, 40));
    }
  });

  test('list: a field with an object or a list sorts without an error', async (t) => {
    const fixture = await createFixture(engine, t);
    for (const [id, value] of [['a', { x: 1 }] as const, ['b', [1]] as const, ['c', 2] as const]) {
      await create(fixture, newUser(fixture.tenant, id, { profile: { user_metadata: value } }));
    }
    assert.equal((await sortedBy(fixture, 'user_metadata')).length, 3);
  });

  test('list: pages with the total, empty after the last', async (t) => {
    const fixture = await createFixture(engine, t);
    await createThree(fixture);
    const page = async (number: number, perPage: number) => {
      const sort = { field: 'created_at', descending: true, max };
      const query = { page: number, perPage, sort, counted: true };
      const result = await fixture.store.users.list(fixture.tenant, query);
      assert.ok(!('refused' in result));
      return [localIds(result.items).join(), result.total];
    };
    assert.deepEqual(await page(0, 2), ['a,c', 3]);
    assert.deepEqual(await page(1, 2), ['b', 3]);
    assert.deepEqual(await page(2, 2), ['', 3]);
    assert.deepEqual(await page(0, 0), ['', 3]);
  });

  test('listFrom: has each user once, while others are created and deleted', async (t) => {
    const fixture = await createFixture(engine, t);
    for (const id of ['a', 'b', 'c', 'd', 'e']) await create(fixture, newUser(fixture.tenant, id));
    const page = async (after: string | undefined) => {
      const { items, next } = await fixture.store.users.listFrom(fixture.tenant, {
        after,
        take: 2,
      });
      return [localIds(items).join(), next];
    };
    assert.deepEqual(await page(undefined), ['a,b', 'leat|b']);
    await fixture.store.users.delete(fixture.tenant, 'leat|b', () => newEvent());
    await create(fixture, newUser(fixture.tenant, 'aa'));
    assert.deepEqual(await page('leat|b'), ['c,d', 'leat|d']);
    assert.deepEqual(await page('leat|d'), ['e', undefined]);
  });
}

/** Returns a user without a username, created at `start`. */
export function newUser(
  tenant: number,
  id: string,
  { profile = {}, ...given }: Partial<User> & { readonly profile?: object } = {},
): User {
  return {
    tenant,
    id: `leat|${id}`,
    connection: 'Username-Password-Authentication',
    email: `${id}@example.com`,
    username: undefined,
    passwordHash: '$argon2id$v=19$m=65536,t=3,p=1$c2FsdA$aGFzaA',
    profileJson: JSON.stringify(profile),
    createdAt: start,
    updatedAt: start,
    ...given,
  };
}

function create(fixture: Fixture, user: User) {
  return fixture.store.users.create(user, newEvent());
}

function update(fixture: Fixture, id: string, change: (before: User) => User) {
  const decide = (before: User) => ({ after: change(before), event: newEvent() });
  return fixture.store.users.update(fixture.tenant, id, decide);
}

async function logOf({ store, tenant }: Fixture) {
  return (await store.log.page(tenant, { after: 0, take: 1000, bytesMax: Infinity })).events;
}

async function ids({ store, tenant }: Fixture): Promise<string[]> {
  const { items } = await store.users.listFrom(tenant, { after: undefined, take: 100 });
  return items.map((user) => user.id);
}

function localIds(users: readonly Pick<User, 'id'>[]): string[] {
  return users.map((user) => user.id.slice('leat|'.length));
}

/** Three users whose fields come in six different orders. */
async function createThree(fixture: Fixture): Promise<void> {
  const three = [
    { id: 'a', createdAt: start + 3, updatedAt: start + 12, email: 'm@x.y', username: 'A' },
    { id: 'b', createdAt: start + 1, updatedAt: start + 13, email: 'a@x.y', username: 'b' },
    { id: 'c', createdAt: start + 2, updatedAt: start + 11, email: 'z@x.y', username: 'a' },
  ];
  const names = { a: 'Zoë', b: 'Kim', c: 'Ann' };
  const logins = { a: 9, b: -1, c: 10 };
  for (const { id, ...given } of three) {
    const key = id as keyof typeof names;
    const profile = { name: names[key], logins: logins[key] };
    await create(fixture, newUser(fixture.tenant, id, { ...given, profile }));
  }
}

const max = { users: 100, bytes: 1_000_000 };

async function sortedBy(fixture: Fixture, field?: string, descending = false): Promise<string[]> {
  const sort = field === undefined ? undefined : { field, descending, max };
  const query = { page: 0, perPage: 50, sort, counted: false };
  const result = await fixture.store.users.list(fixture.tenant, query);
  assert.ok(!('refused' in result));
  return localIds(result.items);
}
