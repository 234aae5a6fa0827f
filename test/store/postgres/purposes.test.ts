import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import pg from 'pg';
import { StoreUnavailable } from '../../../src/core/errors.ts';
import { createStoreCommands } from '../../../src/store/commands/store-commands.ts';
import type { Store } from '../../../src/store/port/store.ts';
import { waitFor } from '../../helpers/wait.ts';
import { addTenant, newEvent, newStream, start } from '../contract/fixture.ts';
import { newDatabase, openUrl } from '../engines.ts';

const page = { after: undefined, take: 10 };
const numbered = { page: 0, perPage: 10 };
const bytesMax = 1_000_000;
const failures = { statuses: ['failed'], ...page, bytesMax } as const;
const window = { from: 0, to: start };
const id = 'est_1';
const event = { id: 'evt_1', type: 'a.b', time: 0, body: '{}', offset: 1, publishedAt: 0 };

type Read = (store: Store, tenant: number) => Promise<unknown>;

/** A call of each command that runs on the connections of lists. */
const lists: Readonly<Record<string, Read>> = {
  'streams.list': ({ streams }, t) => streams.list(t, page),
  'streams.opened': ({ streams }, t) => streams.opened(t, [id]),
  'streams.endpointHosts': ({ streams }, t) => streams.endpointHosts(t, [id]),
  'streams.names': ({ streams }, t) => streams.names(t, [id]),
  'streams.facts': ({ streams }, t) => streams.facts(t, id),
  'streams.factsOf': ({ streams }, t) => streams.factsOf(t, [id]),
  'streams.states': ({ streams }, t) => streams.states(t, { lagsOf: 'all' }),
  'streams.mark': ({ streams }, t) => streams.mark(t),
  'streams.retrying': ({ streams }, t) => streams.retrying(t),
  'streams.skipped': ({ streams }, t) => streams.skipped(t, id, page),
  'streams.stats': ({ streams }, t) => streams.stats(t, id, window),
  'streams.statsSums': ({ streams }, t) => streams.statsSums(t, [id], window),
  'deliveries.listFailures': ({ deliveries }, t) => deliveries.listFailures(t, id, page),
  'deliveries.newFailures': ({ deliveries }, t) =>
    deliveries.newFailures(t, id, { ...page, failedAfter: 0 }),
  'deliveries.failure': ({ deliveries }, t) => deliveries.failure(t, id, event.id),
  'dismissals.streams': ({ dismissals }, t) => dismissals.streams(t, undefined),
  'dismissals.groups': ({ dismissals }, t) => dismissals.groups(t, id, {}),
  'eventLog.newest': ({ eventLog }, t) =>
    eventLog.newest(t, { before: 9, after: 0, take: 9, bytesMax }),
  'eventLog.find': ({ eventLog }, t) => eventLog.find(t, event.id),
  'eventLog.offsetsOf': ({ eventLog }, t) => eventLog.offsetsOf(t, [event.id]),
  'eventLog.deliveries': ({ eventLog }, t) => eventLog.deliveries(t, event, page),
  'eventLog.attempts': ({ eventLog }, t) => eventLog.attempts(t, id, page),
  'eventTypes.list': ({ eventTypes }, t) => eventTypes.list(t, { ...page, isSampled: () => true }),
  'failures.list': (store, t) => store.failures.list(t, failures),
  'failures.groups': (store, t) => store.failures.groups(t, page),
  'redeliveries.list': ({ redeliveries }, t) => redeliveries.list(t, page),
  'replays.list': ({ replays }, t) => replays.list(t, id, page),
  'clients.list': ({ clients }, t) => clients.list(t, numbered),
  'clients.listFrom': ({ clients }, t) => clients.listFrom(t, page),
  'apis.list': ({ apis }, t) => apis.list(t, numbered),
  'grants.list': ({ grants }, t) => grants.list(t, numbered),
  'grants.listFrom': ({ grants }, t) => grants.listFrom(t, page),
  'roles.list': ({ roles }, t) => roles.list(t, numbered),
  'roles.permissions': ({ roles }, t) => roles.permissions(t, 'rol_1', numbered),
  'roles.clients': ({ roles }, t) => roles.clients(t, 'rol_1', numbered),
  'roles.users': ({ roles }, t) => roles.users(t, 'rol_1', numbered),
  'roles.usersFrom': ({ roles }, t) => roles.usersFrom(t, 'rol_1', page),
  'users.byEmail': ({ users }, t) => users.byEmail(t, 'a@example.com'),
  'users.list': ({ users }, t) => users.list(t, { ...numbered, counted: true }),
  'users.listFrom': ({ users }, t) => users.listFrom(t, page),
  'auditLog.list': ({ auditLog }, t) => auditLog.list(t, page),
  'auditLog.listNumbered': ({ auditLog }, t) =>
    auditLog.listNumbered(t, { skip: 0, take: 9, totalMax: 9 }),
  'consoleSessions.list': ({ consoleSessions }, t) => consoleSessions.list(t),
  'deliveryStats.read': ({ deliveryStats }, t) =>
    deliveryStats.read({ tenant: t, stream: undefined }, { unit: 'hour', ...window }),
  'deliveryStats.latencies': ({ deliveryStats }, t) => deliveryStats.latencies(t, [id], 0),
  'overview.engine': ({ overview }) => overview.engine(),
  'overview.server': ({ overview }) => overview.server(),
  'overview.faults': ({ overview }) => overview.faults(),
  'overview.size': ({ overview }) => overview.size(),
  'overview.tenant': ({ overview }, t) => overview.tenant(t),
  'overview.behind': ({ overview }, t) => overview.behind(t, 9),
};

/** Tables that an append reads or writes. */
const ofAppends: readonly string[] = ['events', 'log_days', 'store', 'tenants'];

describe('PostgreSQL: connections by purpose', () => {
  test('every command on the connections of lists has a call in this test', () => {
    const found = commandsOnLists();
    assert.ok(found.length > 40);
    assert.deepEqual(Object.keys(lists).toSorted(), [...found, ...ofEngine].toSorted());
  });

  test('lists that wait for a lock leave connections for appends and commands', async (t) => {
    const fixture = await openLocked(t);
    const isWaiting = await fixture.readsWhileLocked([
      'failure_groups',
      'redeliveries',
      'event_types',
    ]);
    assert.ok(isWaiting);
  });

  test(
    'lists that wait for any one table leave connections for appends and commands',
    { tags: ['long'] },
    async (t) => {
      const fixture = await openLocked(t);
      const tables = await fixture.tables();
      assert.ok(tables.length > 30);
      const waited: string[] = [];
      for (const name of tables) if (await fixture.readsWhileLocked([name])) waited.push(name);
      // No list reads the others.
      assert.ok(waited.length > 20, waited.join());
    },
  );
});

/** Those that an engine has in a form of its own. */
const ofEngine = ['engine', 'server', 'faults', 'size'].map((name) => `overview.${name}`);

/** Calls every command that both engines share, and returns those that first use the connections of lists. */
function commandsOnLists(): string[] {
  let used: string | undefined;
  const noting = (purpose: string) =>
    new Proxy({}, { get: () => () => void ((used = purpose), stopped()) });
  const anything: object = new Proxy(() => undefined, {
    get: (_, name) => {
      if (name === Symbol.iterator) return () => [].values();
      return name === Symbol.toPrimitive ? () => '1' : anything;
    },
    apply: () => anything,
  });
  const deps = new Proxy(
    { on: new Proxy({}, { get: (_, purpose) => noting(String(purpose)) }) },
    { get: (given, name) => (name in given ? given.on : anything) },
  );
  const nouns = createStoreCommands(deps as unknown as Parameters<typeof createStoreCommands>[0]);
  return Object.entries(nouns).flatMap(([noun, methods]) =>
    Object.entries(methods as Record<string, (...given: unknown[]) => unknown>).flatMap(
      ([name, method]) => {
        used = undefined;
        try {
          void Promise.resolve(method(anything, anything, anything)).catch(() => undefined);
        } catch {
          // It has said which connections it uses.
        }
        return used === 'lists' ? [`${noun}.${name}`] : [];
      },
    ),
  );
}

function stopped(): never {
  throw new Error('Nothing is read here.');
}

async function openLocked(t: TestContext) {
  const url = await newDatabase();
  const store = await openUrl(url);
  t.after(() => store.close());
  const { id: tenant } = await addTenant(store, 'main');
  await store.streams.create({ ...newStream(tenant, start), id }, { streamsMax: 1 });
  await store.log.append(tenant, [newEvent()]);
  const holder = new pg.Client({ connectionString: url });
  holder.on('error', () => undefined);
  await holder.connect();
  t.after(() => holder.end());
  return {
    /** Returns the tables of the schema, but that of the tests' clock. */
    tables: async () => {
      const { rows } = await holder.query<{ name: string }>(`
        select relname as name from pg_class
        where relkind in ('r', 'p') and not relispartition
          and relnamespace = 'public'::regnamespace and relname <> 'test_time'`);
      return rows.map(({ name }) => name);
    },
    /**
     * Runs every list while tables are locked, and appends and reads what does not need them. Returns
     * whether a list waited for the lock.
     */
    readsWhileLocked: async (tables: readonly string[]): Promise<boolean> => {
      await holder.query(`begin; lock table ${tables.join()} in access exclusive mode`);
      let running = 0;
      const reads = Object.values(lists).map(async (read) => {
        running += 1;
        await read(store, tenant).catch((error: unknown) =>
          assert.ok(error instanceof StoreUnavailable),
        );
        running -= 1;
      });
      let isWaiting = false;
      await waitFor('lists to wait for the lock, or to end', async () => {
        const { rows } = await holder.query('select 1 from pg_locks where not granted');
        isWaiting ||= rows.length > 0;
        return isWaiting || running === 0;
      });
      if (!tables.some((name) => ofAppends.includes(name))) {
        await store.log.append(tenant, [newEvent()]);
      }
      // That a row is not there counts once the store has proved to be the one of this process.
      const isKnown = !tables.includes('store');
      if (isKnown && !tables.includes('apis')) await store.apis.get(tenant, 'api_1');
      if (isKnown && !tables.includes('clients')) await store.clients.get(tenant, 'client');
      await holder.query('commit');
      await Promise.all(reads);
      return isWaiting;
    },
  };
}
