import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { describe, test } from 'node:test';
import type { AuditEntry, RecordedEntry } from '../../../src/core/audit-log.ts';
import { managementApiId, type Stream } from '../../../src/core/types.ts';
import type { AuditFilter, RecordingStore } from '../../../src/store/port/audit-log.ts';
import type { Store } from '../../../src/store/port/store.ts';
import { newApi } from './apis.ts';
import { newClient } from './clients.ts';
import type { Engine } from './engine.ts';
import {
  addTenant,
  createFixture,
  failed,
  type Fixture,
  newEvent,
  newStream,
  raiseOf,
} from './fixture.ts';
import { newUser } from './users.ts';

export function auditLogContract(engine: Engine): void {
  describe(`${engine.name}: auditLog.add and get`, () => addContract(engine));
  describe(`${engine.name}: auditLog.list`, () => listContract(engine));
  describe(`${engine.name}: auditLog.prune`, () => pruneContract(engine));
  describe(`${engine.name}: recording`, () => recordingContract(engine));
  describe(`${engine.name}: entries of disabling`, () => disablingContract(engine));
}

let made = 0;

/** Returns an entry with an id that rises with each call. */
export function newEntry(tenant: number, given: Partial<AuditEntry> = {}): AuditEntry {
  made += 1;
  return {
    tenant,
    id: `log_${String(made).padStart(22, '0')}`,
    type: 'sapi',
    description: 'Update a client',
    clientId: 'robot',
    ip: '192.0.2.1',
    userAgent: 'curl/8.1',
    details: { method: 'PATCH', path: '/api/v2/clients/robot', targets: ['robot'] },
    ...given,
  };
}

function addContract(engine: Engine): void {
  test('add: the entry is read as it was, at the time of the store', async (t) => {
    const { store, tenant, now } = await createFixture(engine, t);
    await store.clients.create(newClient(tenant, 'robot', { name: 'Zoë 🤖' }));
    const entry = newEntry(tenant, { details: { targets: ['a', 'b'], changed: ['"\\\n', '🦊'] } });
    await store.auditLog.add([{ entry, count: 3, ageMs: 1000 }]);
    const read = await store.auditLog.get(tenant, entry.id);
    assert.deepEqual(read, { ...entry, at: now - 1000, clientName: 'Zoë 🤖', count: 3 });
  });

  test('add: an entry may have neither client, address nor targets', async (t) => {
    const { store, tenant, now } = await createFixture(engine, t);
    const none = { clientId: undefined, ip: undefined, userAgent: undefined };
    const entry = newEntry(tenant, { ...none, details: { targets: [] } });
    await store.auditLog.add([{ entry, count: 1, ageMs: 0 }]);
    const read = await store.auditLog.get(tenant, entry.id);
    assert.deepEqual(read, { ...entry, at: now, clientName: undefined, count: 1 });
  });

  test('add: the name of the client is that of the time of the entry', async (t) => {
    const { store, tenant } = await createFixture(engine, t);
    await store.clients.create(newClient(tenant, 'robot', { name: 'before' }));
    const entry = newEntry(tenant);
    await store.auditLog.add([{ entry, count: 1, ageMs: 0 }]);
    await store.clients.update(tenant, 'robot', (before) => ({
      after: { ...before, name: 'after' },
    }));
    assert.equal((await store.auditLog.get(tenant, entry.id))?.clientName, 'before');
  });

  test('add: counts of one id add up, also from several callers at once', async (t) => {
    const { store, tenant } = await createFixture(engine, t);
    const entries = Array.from({ length: 5 }, () => newEntry(tenant));
    const calls = Array.from({ length: 20 }, (_, index) => {
      const order = index % 2 === 0 ? entries : entries.toReversed();
      return store.auditLog.add(order.map((entry) => ({ entry, count: 2, ageMs: 0 })));
    });
    await Promise.all(calls);
    const { items } = await store.auditLog.list(tenant, { after: undefined, take: 100 });
    assert.deepEqual(
      items.map(({ count }) => count),
      [40, 40, 40, 40, 40],
    );
  });

  test('add: a tenant that was deleted meanwhile gets no entry, and others get theirs', async (t) => {
    const { store, tenant } = await createFixture(engine, t);
    const gone = await addTenant(store, 'gone');
    const entries = [newEntry(gone.id), newEntry(tenant)];
    await store.tenants.leave(gone.id);
    await store.auditLog.add(entries.map((entry) => ({ entry, count: 1, ageMs: 0 })));
    const found = await Promise.all(
      entries.map((each) => store.auditLog.get(each.tenant, each.id)),
    );
    assert.deepEqual(
      found.map((each) => each?.id),
      [undefined, entries[1]?.id],
    );
  });

  test('get: never returns the entry of another tenant', async (t) => {
    const { store, tenant } = await createFixture(engine, t);
    const other = await addTenant(store, 'other');
    const entry = newEntry(tenant);
    await store.auditLog.add([{ entry, count: 1, ageMs: 0 }]);
    assert.equal(await store.auditLog.get(other.id, entry.id), undefined);
    const filters: AuditFilter[] = [{}, { target: 'robot' }, { client: 'robot' }];
    for (const filter of filters) assert.deepEqual(await idsOf(store, other.id, filter), []);
  });
}

function listContract(engine: Engine): void {
  test('list: newest first, entries of one instant by their ids', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const first = await addOne(fixture);
    fixture.now += 1;
    const types = ['feccft', 'sapi', 'leat_operator'] as const;
    const later = [];
    for (const type of types) later.push(await addOne(fixture, { type }));
    const expected = [...later.toReversed(), first].map(({ id }) => id);
    assert.deepEqual(await idsOf(store, tenant), expected);
  });

  test('list: pages of every size have every entry once', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const all: string[] = [];
    for (let count = 0; count < 12; count += 1) {
      fixture.now += count % 3 === 0 ? 1 : 0;
      const type = count % 2 === 0 ? 'sapi' : 'fapi';
      all.unshift((await addOne(fixture, { type })).id);
    }
    for (const take of [1, 2, 5, 11, 12, 13]) {
      const read: string[] = [];
      let after: string | undefined;
      do {
        const page = await store.auditLog.list(tenant, { after, take });
        assert.ok(page.items.length <= take);
        read.push(...page.items.map(({ id }) => id));
        after = page.next;
      } while (after !== undefined);
      assert.deepEqual(read, all, `take ${take}`);
    }
  });

  test('list: entries that arrive between two pages change nothing of the second', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const [third, second, first] = [
      await addOne(fixture),
      await addOne(fixture),
      await addOne(fixture),
    ];
    const page = await store.auditLog.list(tenant, { after: undefined, take: 1 });
    assert.deepEqual(
      page.items.map(({ id }) => id),
      [first.id],
    );
    fixture.now += 1;
    await addOne(fixture);
    const rest = await store.auditLog.list(tenant, { after: page.next, take: 9 });
    assert.deepEqual(
      rest.items.map(({ id }) => id),
      [second.id, third.id],
    );
  });

  test('list: a position that no page had returns nothing', async (t) => {
    const fixture = await createFixture(engine, t);
    await addOne(fixture);
    const page = await fixture.store.auditLog.list(fixture.tenant, { after: 'x', take: 9 });
    assert.deepEqual(page, { items: [], next: undefined });
  });

  test('list: filters by type, client, target and time, and by all of them', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const details = (...targets: string[]) => ({ details: { targets } });
    const begun = fixture.now;
    const one = await addOne(fixture, { type: 'sapi', clientId: 'a', ...details('x', 'y') });
    fixture.now += 1000;
    const two = await addOne(fixture, { type: 'fapi', clientId: 'a', ...details('y') });
    fixture.now += 1000;
    const three = await addOne(fixture, { type: 'sapi', clientId: 'b', ...details('y') });
    const cases: [AuditFilter, AuditEntry[]][] = [
      [{}, [three, two, one]],
      [{ types: ['sapi'] }, [three, one]],
      [{ types: ['fapi', 'sapi', 'fapi'] }, [three, two, one]],
      [{ types: ['seccft'] }, []],
      [{ types: [] }, []],
      [{ client: 'a' }, [two, one]],
      [{ client: 'A' }, []],
      [{ client: 'a', types: ['fapi'] }, [two]],
      [{ target: 'y' }, [three, two, one]],
      [{ target: 'x' }, [one]],
      [{ target: 'y', types: ['fapi'] }, [two]],
      [{ target: 'y', client: 'b' }, [three]],
      [{ target: 'x', client: 'b' }, []],
      [{ from: begun + 1000 }, [three, two]],
      [{ to: begun + 1000 }, [one]],
      [{ from: begun + 1000, to: begun + 2000 }, [two]],
      [{ from: begun, to: begun + 2000, target: 'y', client: 'a', types: ['sapi'] }, [one]],
    ];
    for (const [filter, expected] of cases) {
      const ids = expected.map(({ id }) => id);
      assert.deepEqual(await idsOf(store, tenant, filter), ids, JSON.stringify(filter));
    }
  });

  test('listNumbered: returns a page and the number of all, as far as it counts', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const ids: string[] = [];
    for (let count = 0; count < 7; count += 1) ids.unshift((await addOne(fixture)).id);
    const page = async (skip: number, take: number, totalMax: number) => {
      const read = await store.auditLog.listNumbered(tenant, { skip, take, totalMax });
      return [read.items.map(({ id }) => id), read.total];
    };
    assert.deepEqual(await page(0, 3, 100), [ids.slice(0, 3), 7]);
    assert.deepEqual(await page(6, 3, 100), [ids.slice(6), 7]);
    assert.deepEqual(await page(7, 3, 100), [[], 7]);
    assert.deepEqual(await page(0, 0, 100), [[], 7]);
    assert.deepEqual(await page(3, 3, 5), [ids.slice(3, 5), 5]);
  });
}

function pruneContract(engine: Engine): void {
  test('prune: deletes what is older than the retention, with its targets, in steps', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    for (let count = 0; count < 5; count += 1) await addOne(fixture);
    fixture.now += 1000;
    const kept = await addOne(fixture);
    fixture.now += 1000;
    const newest = await addOne(fixture);
    const prune = () => store.auditLog.prune({ olderThanMs: 1500, take: 2 });
    assert.deepEqual([await prune(), await prune(), await prune(), await prune()], [2, 2, 1, 0]);
    assert.deepEqual(await idsOf(store, tenant), [newest.id, kept.id]);
    assert.deepEqual(await idsOf(store, tenant, { target: 'robot' }), [newest.id, kept.id]);
  });

  test('prune: a clock that is ahead removes nothing of the retention before the newest entry', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const old = await addOne(fixture);
    fixture.now += 1000;
    const newest = await addOne(fixture);
    fixture.now += 365 * 86_400_000;
    assert.equal(await store.auditLog.prune({ olderThanMs: 1000, take: 100 }), 0);
    assert.deepEqual(await idsOf(store, tenant), [newest.id, old.id]);
  });
}

/** A change, and the same change where it is refused or finds nothing. */
interface Change {
  readonly make: (recording: RecordingStore, fixture: Prepared) => Promise<unknown>;
  readonly refused: (recording: RecordingStore, fixture: Prepared) => Promise<unknown>;
}

interface Prepared extends Fixture {
  /** An enabled stream with one failure. */
  readonly stream: string;
  readonly failure: string;
}

const nobody = 'nobody';
const streamRules = { streamsMax: 1000 };
const key = (tenant: number, kid: string) => {
  const privateJwk = '{}';
  return { tenant, kid, privateJwk, createdAt: 1, signsFrom: 1 };
};
const rename = <T>(before: T) => ({ after: { ...before, name: 'renamed' } });

type ChangeName = {
  [Part in keyof RecordingStore]: `${Part}.${keyof RecordingStore[Part] & string}`;
}[keyof RecordingStore];

/** In this order each one is possible after those before it. Some have a test of their own. */
const changes: Readonly<
  Record<
    Exclude<
      ChangeName,
      | 'deliveries.redeliverMany'
      | 'deliveries.retryNow'
      | `dismissals.${string}`
      | `consoleSessions.${string}`
      | `redeliveries.${string}`
    >,
    Change
  >
> = {
  'clients.create': {
    make: ({ clients }, { tenant }) => clients.create(newClient(tenant, 'added')),
    refused: ({ clients }, { tenant }) => clients.create(newClient(tenant, 'added')),
  },
  'clients.update': {
    make: ({ clients }, { tenant }) => clients.update(tenant, 'added', rename),
    refused: ({ clients }, { tenant }) =>
      clients.update(tenant, 'added', () => ({ refused: 'never' })),
  },
  'apis.create': {
    make: ({ apis }, { tenant }) => apis.create(newApi(tenant, 'api')),
    refused: ({ apis }, { tenant }) => apis.create(newApi(tenant, 'api')),
  },
  'apis.update': {
    make: ({ apis }, { tenant }) => apis.update(tenant, 'api', (before) => before),
    refused: ({ apis }, { tenant }) => apis.update(tenant, nobody, (before) => before),
  },
  'grants.create': {
    make: ({ grants }, { tenant }) =>
      grants.create({ tenant, id: 'g', client: 'added', api: 'api', scope: [] }),
    refused: ({ grants }, { tenant }) =>
      grants.create({ tenant, id: 'h', client: nobody, api: managementApiId, scope: [] }),
  },
  'grants.update': {
    make: ({ grants }, { tenant }) => grants.update(tenant, 'g', () => ({ scope: ['a'] })),
    refused: ({ grants }, { tenant }) => grants.update(tenant, nobody, () => ({ scope: ['a'] })),
  },
  'grants.delete': {
    make: ({ grants }, { tenant }) => grants.delete(tenant, 'g'),
    refused: ({ grants }, { tenant }) => grants.delete(tenant, 'g'),
  },
  'roles.create': {
    make: ({ roles }, { tenant }) =>
      roles.create({ tenant, id: 'r', name: 'r', description: '', createdAt: 1 }),
    refused: ({ roles }, { tenant }) =>
      roles.create({ tenant, id: 's', name: 'r', description: '', createdAt: 1 }),
  },
  'roles.update': {
    make: ({ roles }, { tenant }) => roles.update(tenant, 'r', (before) => before),
    refused: ({ roles }, { tenant }) => roles.update(tenant, nobody, (before) => before),
  },
  'roles.addPermissions': {
    make: ({ roles }, { tenant }) =>
      roles.addPermissions(tenant, 'r', [{ api: managementApiId, name: 'a' }]),
    refused: ({ roles }, { tenant }) =>
      roles.addPermissions(tenant, 'r', [{ api: nobody, name: 'a' }]),
  },
  'roles.removePermissions': {
    make: ({ roles }, { tenant }) =>
      roles.removePermissions(tenant, 'r', [{ api: managementApiId, name: 'a' }]),
    refused: ({ roles }, { tenant }) => roles.removePermissions(tenant, nobody, []),
  },
  'roles.addClients': {
    make: ({ roles }, { tenant }) => roles.addClients(tenant, 'r', ['added']),
    refused: ({ roles }, { tenant }) => roles.addClients(tenant, 'r', [nobody]),
  },
  'roles.removeClients': {
    make: ({ roles }, { tenant }) => roles.removeClients(tenant, 'r', ['added']),
    refused: ({ roles }, { tenant }) => roles.removeClients(tenant, nobody, []),
  },
  'users.create': {
    make: ({ users }, { tenant }) => users.create(newUser(tenant, 'u'), newEvent()),
    refused: ({ users }, { tenant }) => users.create(newUser(tenant, 'u'), newEvent()),
  },
  'users.update': {
    make: ({ users }, { tenant }) =>
      users.update(tenant, 'leat|u', async (before) => ({ after: before, event: newEvent() })),
    refused: ({ users }, { tenant }) =>
      users.update(tenant, 'leat|u', async () => ({ refused: 'never' })),
  },
  'roles.addUsers': {
    make: ({ roles }, { tenant }) => roles.addUsers(tenant, 'r', ['leat|u']),
    refused: ({ roles }, { tenant }) => roles.addUsers(tenant, 'r', [nobody]),
  },
  'roles.removeUsers': {
    make: ({ roles }, { tenant }) => roles.removeUsers(tenant, 'r', ['leat|u']),
    refused: ({ roles }, { tenant }) => roles.removeUsers(tenant, nobody, []),
  },
  'users.delete': {
    make: ({ users }, { tenant }) => users.delete(tenant, 'leat|u', () => newEvent()),
    refused: ({ users }, { tenant }) => users.delete(tenant, 'leat|u', () => newEvent()),
  },
  'roles.delete': {
    make: ({ roles }, { tenant }) => roles.delete(tenant, 'r'),
    refused: ({ roles }, { tenant }) => roles.delete(tenant, 'r'),
  },
  'apis.delete': {
    make: ({ apis }, { tenant }) => apis.delete(tenant, 'api'),
    refused: ({ apis }, { tenant }) => apis.delete(tenant, 'api'),
  },
  'clients.delete': {
    make: ({ clients }, { tenant }) => clients.delete(tenant, 'added'),
    refused: ({ clients }, { tenant }) => clients.delete(tenant, 'added'),
  },
  'keys.add': {
    make: ({ keys }, { tenant }) => keys.add(key(tenant, 'one'), 9),
    refused: ({ keys }, { tenant }) => keys.revoke(tenant, nobody),
  },
  'keys.promote': {
    make: ({ keys }, { tenant }) => keys.promote(tenant, 'one', 1),
    refused: ({ keys }, { tenant }) => keys.promote(tenant, nobody, 1),
  },
  'keys.revoke': {
    make: ({ keys }, { tenant }) => keys.revoke(tenant, 'one'),
    refused: ({ keys }, { tenant }) => keys.revoke(tenant, 'one'),
  },
  'webhookKeys.add': {
    make: ({ webhookKeys }, { tenant }) => webhookKeys.add(key(tenant, 'one'), 9),
    refused: ({ webhookKeys }, { tenant }) => webhookKeys.revoke(tenant, nobody),
  },
  'webhookKeys.promote': {
    make: ({ webhookKeys }, { tenant }) => webhookKeys.promote(tenant, 'one', 1),
    refused: ({ webhookKeys }, { tenant }) => webhookKeys.promote(tenant, nobody, 1),
  },
  'webhookKeys.revoke': {
    make: ({ webhookKeys }, { tenant }) => webhookKeys.revoke(tenant, 'one'),
    refused: ({ webhookKeys }, { tenant }) => webhookKeys.revoke(tenant, 'one'),
  },
  'secrets.finish': {
    make: async ({ secrets }, { store }) => {
      const rotation = await store.secrets.begin(store.secrets.addKey(randomBytes(32)));
      assert.ok('begun' in rotation);
      return secrets.finish(rotation.begun);
    },
    refused: async ({ secrets }, { store }) =>
      secrets.finish({
        state: { ...(await store.secrets.state()), former: 'other' },
        mark: Buffer.of(1),
      }),
  },
  'streams.create': {
    make: ({ streams }, { tenant, now }) =>
      streams.create(newStream(tenant, now, { id: 'est_added' }), streamRules),
    refused: ({ streams }, { tenant, now }) =>
      streams.create(newStream(tenant, now, { name: 'est_added' }), streamRules),
  },
  'deliveries.redeliver': {
    make: ({ deliveries }, { tenant, stream, failure }) =>
      deliveries.redeliver(tenant, stream, failure),
    refused: ({ deliveries }, { tenant, stream, failure }) =>
      deliveries.redeliver(tenant, stream, failure),
  },
  'deliveries.addTest': {
    make: ({ deliveries }, { tenant, stream }) => deliveries.addTest(tenant, stream, newEvent()),
    refused: ({ deliveries }, { tenant }) => deliveries.addTest(tenant, nobody, newEvent()),
  },
  'replays.create': {
    make: ({ replays }, { tenant, stream }) =>
      replays.create({ tenant, stream, id: 'rpl', from: 0, to: 1, types: undefined }),
    refused: ({ replays }, { tenant, stream }) =>
      replays.create({ tenant, stream, id: 'other', from: 0, to: 1, types: undefined }),
  },
  'replays.cancel': {
    make: ({ replays }, { tenant, stream }) => replays.cancel(tenant, stream, 'rpl'),
    refused: ({ replays }, { tenant, stream }) => replays.cancel(tenant, stream, 'rpl'),
  },
  'streams.update': {
    make: ({ streams }, { tenant, stream }) => streams.update(tenant, stream, rename),
    refused: ({ streams }, { tenant }) => streams.update(tenant, nobody, rename),
  },
  'streams.delete': {
    make: ({ streams }, { tenant, stream }) => streams.delete(tenant, stream),
    refused: ({ streams }, { tenant, stream }) => streams.delete(tenant, stream),
  },
  'tenants.rename': {
    make: ({ tenants }, { tenant }) =>
      tenants.rename(tenant, { name: 'new', domain: 'new.example.com' }),
    refused: ({ tenants }) => tenants.rename(99, { name: 'x', domain: 'x.example.com' }),
  },
  'tenants.leave': {
    make: ({ tenants }, { tenant }) => tenants.leave(tenant),
    refused: ({ tenants }, { tenant }) => tenants.leave(tenant),
  },
};

function recordingContract(engine: Engine): void {
  test('recording: each change leaves one entry, and none where it is refused', async (t) => {
    const fixture = await prepare(engine, t);
    const { store, tenant } = fixture;
    for (const [name, { make, refused }] of Object.entries(changes)) {
      const entry = newEntry(tenant, { description: name });
      await make(store.recording(entry), fixture);
      assert.equal((await store.auditLog.get(tenant, entry.id))?.description, name);
      const other = newEntry(tenant);
      await refused(store.recording(other), fixture);
      assert.equal(await store.auditLog.get(tenant, other.id), undefined, `${name}, refused`);
    }
  });

  test('recording: redeliverMany leaves an entry only with something to redeliver', async (t) => {
    const { store, tenant, stream } = await prepare(engine, t);
    const [one, other] = [newEntry(tenant), newEntry(tenant)];
    await store.recording(one).deliveries.redeliverMany(tenant, stream, {});
    await store.recording(other).deliveries.redeliverMany(tenant, stream, {});
    assert.ok(await store.auditLog.get(tenant, one.id));
    assert.equal(await store.auditLog.get(tenant, other.id), undefined);
  });

  test('recording: a change whose entry cannot be stored is not made', async (t) => {
    const { store, tenant } = await createFixture(engine, t);
    const entry = newEntry(tenant, { description: undefined as never });
    const change = store.recording(entry).clients.create(newClient(tenant, 'robot'));
    await assert.rejects(change);
    assert.equal(await store.clients.get(tenant, 'robot'), undefined);
    const user = store.recording(entry).users.create(newUser(tenant, 'u'), newEvent());
    await assert.rejects(user);
    assert.equal(await store.users.get(tenant, 'leat|u'), undefined);
  });

  test('recording: concurrent changes of one client leave one entry each', async (t) => {
    const { store, tenant } = await createFixture(engine, t);
    await store.clients.create(newClient(tenant, 'robot'));
    const entries = Array.from({ length: 20 }, () => newEntry(tenant));
    await Promise.all(
      entries.map((entry) => store.recording(entry).clients.update(tenant, 'robot', rename)),
    );
    const read = await idsOf(store, tenant);
    assert.deepEqual(new Set(read), new Set(entries.map(({ id }) => id)));
    assert.equal((await store.clients.get(tenant, 'robot'))?.version, 21);
  });
}

function disablingContract(engine: Engine): void {
  for (const [limits, reason] of [
    [{ consecutive: 2, total: 100 }, 'consecutive_failures'],
    [{ consecutive: 100, total: 2 }, 'open_failures'],
  ] as const) {
    test(`settle: a stream that is disabled for ${reason} leaves one entry`, async (t) => {
      const fixture = await createFixture(engine, t);
      fixture.limits = limits;
      const stream = await fixture.addStream();
      const owned = await fixture.own(stream);
      const events = await fixture.publish('user.created', 'user.created', 'user.created');
      const [first, ...others] = events;
      assert.ok(first);
      await fixture.settle(owned, { outcomes: [failed(first)] });
      assert.deepEqual(await entriesAbout(fixture, stream.id), []);
      await fixture.settle(owned, { outcomes: others.map((event) => failed(event)) });
      const [entry, ...more] = await entriesAbout(fixture, stream.id);
      assert.deepEqual(more, []);
      assert.equal(entry?.type, 'leat_stream_disabled');
      assert.deepEqual(entry.details, { targets: [stream.id], reason });
      assert.equal(entry.count, 1);
    });
  }

  test('settle: each disabling of a stream leaves an entry of its own', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    fixture.limits = { consecutive: 1, total: 100 };
    const stream = await fixture.addStream();
    const enable = (before: Stream) => ({ after: { ...before, status: 'enabled' as const } });
    for (let count = 0; count < 2; count += 1) {
      await store.streams.update(tenant, stream.id, enable);
      const [event] = await fixture.publish('user.created');
      assert.ok(event);
      const owned = await fixture.own(stream);
      await fixture.settle(owned, { outcomes: [failed(event)] });
      await store.ownership.release(await fixture.node(), [raiseOf(owned)]);
    }
    assert.equal((await entriesAbout(fixture, stream.id)).length, 2);
  });

  test('disableLagging: leaves an entry, and none where nothing was disabled', async (t) => {
    const fixture = await createFixture(engine, t);
    const { upkeep } = fixture.store;
    const stream = await fixture.addStream();
    await fixture.publish('user.created');
    fixture.now += 2 * 86_400_000;
    await fixture.publish('user.created');
    const { streams } = await upkeep.lagging({ olderThanMs: 86_400_000, after: 0 });
    const [lag] = streams;
    assert.ok(lag);
    assert.equal(await upkeep.disableLagging({ ...lag, cursor: lag.cursor + 1 }), false);
    assert.deepEqual(await entriesAbout(fixture, stream.id), []);
    assert.equal(await upkeep.disableLagging(lag), true);
    const entries = await entriesAbout(fixture, stream.id);
    assert.deepEqual(
      entries.map(({ type, details }) => [type, details['reason']]),
      [['leat_stream_disabled', 'lag']],
    );
  });
}

async function entriesAbout(
  { store, tenant }: Fixture,
  target: string,
): Promise<readonly RecordedEntry[]> {
  return (await store.auditLog.list(tenant, { target, after: undefined, take: 100 })).items;
}

async function prepare(engine: Engine, t: Parameters<typeof createFixture>[1]): Promise<Prepared> {
  const fixture = await createFixture(engine, t);
  const added = await fixture.addStream();
  const owned = await fixture.own(added);
  const [event] = await fixture.publish('user.created');
  assert.ok(event);
  await fixture.settle(owned, { cursor: event.offset, outcomes: [failed(event)] });
  await fixture.retire();
  return Object.assign(fixture, { stream: added.id, failure: event.id });
}

async function addOne(
  { store, tenant }: Fixture,
  given: Partial<AuditEntry> = {},
): Promise<AuditEntry> {
  const entry = newEntry(tenant, given);
  await store.auditLog.add([{ entry, count: 1, ageMs: 0 }]);
  return entry;
}

async function idsOf(
  store: Pick<Store, 'auditLog'>,
  tenant: number,
  filter: AuditFilter = {},
): Promise<string[]> {
  const { items } = await store.auditLog.list(tenant, { ...filter, after: undefined, take: 100 });
  return items.map(({ id }: RecordedEntry) => id);
}
