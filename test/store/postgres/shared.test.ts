import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import pg from 'pg';
import { StoreUnavailable } from '../../../src/core/errors.ts';
import { type LogEvent, managementApiId } from '../../../src/core/types.ts';
import type { Hint } from '../../../src/store/port/hints.ts';
import type { Store } from '../../../src/store/port/store.ts';
import { waitFor } from '../../helpers/leat.ts';
import { throughPort, sharedPostgres } from '../../helpers/postgres.ts';
import { startTcpProxy } from '../../helpers/tcp-proxy.ts';
import { newClient } from '../contract/clients.ts';
import { addTenant, newEvent, newStream, start, waitRule } from '../contract/fixture.ts';
import { newDatabase, openUrl } from '../engines.ts';

describe('PostgreSQL: many processes on one database', () => {
  test('an append waits for one that has an offset and has not committed', async (t) => {
    const { first: reader, others, tenant, connect } = await openShared(t, 3);
    const slow = await connect();
    await slow.query('begin');
    const held = newEvent();
    await slow.query(
      `select leat_append($1, array[$2], array[false], array['a.b'], array[1::bigint], array['{}'], '{}', '{}')`,
      [tenant, held.id],
    );
    let committed = false;
    const order: string[] = [];
    const later = others.map(async (store) => {
      const [appended] = await store.log.append(tenant, [newEvent()]);
      order.push(committed ? 'after' : 'before');
      return appended?.offset;
    });
    // Both wait for the lock by now; no reader sees an offset below which another may still commit.
    await waitFor('two appends that wait', async () => (await waiting(slow)) === 2);
    const query = { after: 0, take: 10, bytesMax: Infinity };
    assert.deepEqual(await reader.log.page(tenant, query), { events: [], scannedTo: 0 });
    assert.equal(await reader.log.head(tenant), 0);
    committed = true;
    await slow.query('commit');
    assert.deepEqual(new Set(await Promise.all(later)), new Set([2, 3]));
    assert.deepEqual(order, ['after', 'after']);
    const page = await reader.log.page(tenant, query);
    assert.deepEqual(
      page.events.map(({ offset }) => offset),
      [1, 2, 3],
    );
    assert.equal(page.events[0]?.id, held.id);
  });

  test('a revocation waits for a change of access that its guard has let pass', async (t) => {
    const { first, others, tenant, connect } = await openShared(t, 2);
    const grant = { tenant, id: 'cgr_1', client: 'caller', api: managementApiId, scope: ['a'] };
    await first.clients.create(newClient(tenant, 'caller'));
    await first.grants.create(grant);
    const holder = await connect();
    await holder.query('begin');
    // Lets the guard read, and nobody write.
    await holder.query('lock table clients in share mode');
    const order: string[] = [];
    const guard = { tenant, client: 'caller', signedWith: undefined, check: () => undefined };
    const change = first
      .guarded(guard)
      .clients.create(newClient(tenant, 'new'))
      .then(() => order.push('change'));
    await waitFor('the change to wait', async () => (await waiting(holder)) === 1);
    const revocation = others[0]?.grants
      .delete(tenant, grant.id)
      .then(() => order.push('revocation'));
    await waitFor(
      'the revocation to wait, or to be made',
      async () => order.length > 0 || (await waiting(holder)) === 2,
    );
    assert.deepEqual(order, []);
    await holder.query('commit');
    await Promise.all([change, revocation]);
    assert.deepEqual(order, ['change', 'revocation']);
  });

  test('pages of every kind leave connections for other commands', async (t) => {
    const { first: store, tenant, connect } = await openShared(t, 1);
    const holder = await connect();
    const page = { after: undefined, take: 10 };
    const numbered = { page: 0, perPage: 10 };
    const kinds: Readonly<Record<string, () => Promise<unknown>>> = {
      'clients by number': () => store.clients.list(tenant, numbered),
      clients: () => store.clients.listFrom(tenant, page),
      'grants by number': () => store.grants.list(tenant, numbered),
      grants: () => store.grants.listFrom(tenant, page),
      'users of a role by number': () => store.roles.users(tenant, 'rol_1', numbered),
      'users of a role': () => store.roles.usersFrom(tenant, 'rol_1', page),
      entries: () => store.auditLog.list(tenant, page),
    };
    for (const [kind, list] of Object.entries(kinds)) {
      await holder.query('begin');
      await holder.query(
        'lock table clients, grants, role_users, audit_log in access exclusive mode',
      );
      const lists = Array.from({ length: 4 }, list);
      await waitFor('pages to wait', async () => (await waiting(holder)) !== 0);
      await store.tenants.list();
      await holder.query('commit');
      const results = await Promise.allSettled(lists);
      assert.ok(
        results.every(({ status }) => status === 'fulfilled'),
        kind,
      );
    }
  });

  test(
    'a reader at the head sees every event of many publishers, in order',
    { tags: ['long'] },
    async (t) => {
      const { first: reader, others: publishers, tenant } = await openShared(t, 4);
      const published = new Set<string>();
      const traffic = { isOver: false };
      const work = publishers.map(async (store) => {
        for (let round = 0; round < 60; round++) {
          const events = Array.from({ length: 1 + (round % 5) }, () => newEvent());
          for (const { id } of await store.log.append(tenant, events)) published.add(id);
        }
      });
      const read: LogEvent[] = [];
      const reading = (async () => {
        for (let after = 0; !traffic.isOver || after < (await reader.log.head(tenant));) {
          const page = await reader.log.page(tenant, { after, take: 50, bytesMax: Infinity });
          read.push(...page.events);
          after = page.scannedTo;
        }
      })();
      await Promise.all(work);
      traffic.isOver = true;
      await reading;
      assert.deepEqual(
        read.map(({ offset }) => offset),
        Array.from({ length: published.size }, (_, index) => index + 1),
      );
      assert.deepEqual(new Set(read.map(({ id }) => id)), published);
    },
  );

  test('one of several concurrent publications of a chosen id is the first', async (t) => {
    const { stores, tenant } = await openShared(t, 4);
    for (let round = 0; round < 20; round++) {
      const event = newEvent({ chosen: true });
      const results = await Promise.all(stores.map((store) => store.log.append(tenant, [event])));
      const offsets = results.map(([appended]) => appended?.offset);
      assert.deepEqual(new Set(offsets), new Set([round + 1]));
      assert.equal(results.filter(([appended]) => appended?.repeated === false).length, 1);
    }
  });

  test(
    'a free stream is claimed by one of several concurrent claims',
    { tags: ['long'] },
    async (t) => {
      const { stores, first, tenant } = await openShared(t, 4);
      for (let made = 0; made < 40; made++) {
        await first.streams.create(newStream(tenant, start), { streamsMax: 100 });
      }
      const claimed = await Promise.all(
        stores.map(async (store, index) => {
          const node = await store.ownership.join(`node-${index}`, 60_000);
          return store.ownership.claim(node, { claim: 1, take: 100, ...waitRule });
        }),
      );
      const ids = claimed.flat().map(({ stream }) => stream.id);
      assert.equal(ids.length, 40);
      assert.equal(new Set(ids).size, 40);
    },
  );

  test('a stream that another process is claiming is skipped at once', async (t) => {
    const { first, tenant, connect } = await openShared(t, 1);
    const claiming = newStream(tenant, start);
    const free = newStream(tenant, start);
    for (const stream of [claiming, free]) await first.streams.create(stream, { streamsMax: 9 });
    const other = await connect();
    await other.query('begin');
    await other.query(`update runs set owner = 'node-b' where stream = $1`, [claiming.id]);
    const node = await first.ownership.join('node-a', 60_000);
    const claimed = await first.ownership.claim(node, { claim: 1, take: 100, ...waitRule });
    await other.query('commit');
    assert.deepEqual(
      claimed.map(({ stream }) => stream.id),
      [free.id],
    );
  });

  test('commands whose wait for a lock is cut short reject with StoreUnavailable', async (t) => {
    const { first: store, tenant, connect } = await openShared(t, 1);
    const result = await store.streams.create(newStream(tenant, start), { streamsMax: 1 });
    assert.ok('created' in result);
    const { id } = result.created;
    const holder = await connect();
    await holder.query('begin');
    await holder.query('select 1 from runs for update');
    const commands = [
      () => store.streams.update(tenant, id, () => ({ refused: 'too_many_failures' })),
      () => store.streams.delete(tenant, id),
      () => store.replays.cancel(tenant, id, 'rpl_1'),
      () => store.deliveries.redeliver(tenant, id, 'evt_1'),
      () => store.deliveries.redeliverMany(tenant, id, {}),
      () => store.deliveries.retryNow(tenant, id),
    ];
    for (const command of commands) {
      const rejected = assert.rejects(command(), StoreUnavailable);
      await waitFor('a command that waits', async () => (await waiting(holder)) === 1);
      const cancelled = holder.query(
        'select pg_cancel_backend(pid) from pg_locks where not granted',
      );
      // The responses to all pipelined statements arrive at once.
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 100);
      await Promise.all([cancelled, rejected]);
    }
  });

  test('hints reach other processes but not the sender, and an interruption is reported', async (t) => {
    const { first: one, tenant, openBehind } = await openShared(t, 1);
    const proxy = await startTcpProxy((await sharedPostgres()).port);
    t.after(() => proxy.close());
    const other = await openBehind(proxy.port);
    const received: Hint[] = [];
    other.watch((hint) => received.push(hint));
    const own: Hint[] = [];
    one.watch((hint) => own.push(hint));

    const stream = newStream(tenant, start);
    await one.streams.create(stream, { streamsMax: 1 });
    await one.log.append(tenant, [newEvent(), newEvent()]);
    const head: Hint = { kind: 'head', tenant, head: 2 };
    await waitFor('the hints', () => received.some((hint) => hint.kind === 'head'));
    assert.deepEqual(received, [{ kind: 'stream', tenant, stream: stream.id }, head]);
    assert.deepEqual(
      own.map(({ kind }) => kind),
      ['stream', 'appended'],
    );

    proxy.cut();
    await waitFor('the hint about the interruption', () =>
      received.some(({ kind }) => kind === 'missed'),
    );
    await one.log.append(tenant, [newEvent()]);
    await waitFor('a hint afterwards', () =>
      received.some((hint) => hint.kind === 'head' && hint.head === 3),
    );
  });
});

describe('PostgreSQL: partitions', () => {
  test('whole days are dropped once every tenant has pruned them, and bodies are kept', async (t) => {
    const { first: store, tenant: one, connect } = await openShared(t, 1);
    const two = (await addTenant(store, 'other')).id;
    const client = await connect();
    const days = async () => {
      const { rows } = await client.query<{ name: string }>(
        `select inhrelid::regclass::text as name from pg_inherits
         where inhparent = 'events'::regclass and inhrelid::regclass::text = 'events_d20513'`,
      );
      return rows.length;
    };
    await client.query(`update test_time set ms = ${start}`);
    const event = newEvent({ body: '{"kept":true}' });
    await store.log.append(one, [event]);
    await store.log.append(two, [newEvent()]);
    assert.equal(await days(), 1);
    const stream = newStream(one, start, { id: 'est_waits' });
    await store.streams.create(stream, { streamsMax: 1 });
    await client.query(
      `insert into deliveries (tenant, stream, event_id, "offset", type, time, kind, state, attempt, failed_at)
       values ($1, 'est_waits', $2, 1, 'user.created', $3, 'first', 'failed', 4, $3)`,
      [one, event.id, start],
    );
    // The age of earlier events is measured from the newest event.
    await client.query(`update test_time set ms = ${start + 4 * 86_400_000}`);
    await store.log.append(two, [newEvent()]);
    const query = { olderThanMs: 86_400_000, take: 10 };
    assert.equal(await store.log.prune(one, query), 1);
    assert.equal(await store.upkeep.dropEvents(query), 0);
    assert.equal(await days(), 1, 'another tenant has an event there');
    assert.equal(await store.log.prune(two, query), 1);
    await waitFor('the day to go', async () => {
      await store.upkeep.dropEvents(query);
      return (await days()) === 0;
    });
    const failure = await store.deliveries.failure(one, 'est_waits', event.id);
    assert.equal(failure?.event.body, event.body);
    const [appended] = await store.log.append(one, [newEvent()]);
    assert.equal(appended?.offset, 2, 'the day is made again when it is needed');
  });

  test('days are created ahead', { tags: ['long'] }, async (t) => {
    // Not a copy of a database with existing partitions.
    const empty = await (await sharedPostgres()).createDatabase();
    const { connect } = await openShared(t, 1, empty);
    const client = await connect();
    const { rows } = await client.query<{ table: string; ahead: number }>(`
      select inhparent::regclass::text as table,
        count(*) filter (where substring(inhrelid::regclass::text from '\\d+$')::int
          >= floor(extract(epoch from clock_timestamp()) / 86400))::int as ahead
      from pg_inherits where inhparent in ('events'::regclass, 'attempts'::regclass)
      group by inhparent order by 1`);
    assert.deepEqual(rows, [
      { table: 'attempts', ahead: 3 },
      { table: 'events', ahead: 3 },
    ]);
  });
});

/** Returns how many locks are waited for. */
async function waiting(client: pg.Client): Promise<number | null> {
  return (await client.query('select 1 from pg_locks where not granted')).rowCount;
}

interface Shared {
  /** Stores of several processes on one database: the first, the others, and all of them. */
  readonly first: Store;
  readonly others: readonly Store[];
  readonly stores: readonly Store[];
  readonly tenant: number;
  /** Opens one more, which reaches the database by another port. */
  openBehind(port: number): Promise<Store>;
  connect(): Promise<pg.Client>;
}

/** Opens stores on one database, with a tenant. All users of it end before it is dropped. */
async function openShared(t: TestContext, count: number, database?: string): Promise<Shared> {
  const url = database ?? (await newDatabase());
  const stores: Store[] = [];
  const clients: pg.Client[] = [];
  t.after(async () => {
    // First those whose transactions stores may wait for.
    await Promise.all(clients.map((client) => client.end()));
    await Promise.all(stores.map((store) => store.close()));
    await (await sharedPostgres()).dropDatabase(url);
  });
  const open = async (at: string): Promise<Store> => {
    const store = await openUrl(at);
    stores.push(store);
    return store;
  };
  const first = await open(url);
  const others: Store[] = [];
  while (others.length < count - 1) others.push(await open(url));
  return {
    first,
    others,
    stores: [first, ...others],
    tenant: (await addTenant(first, 'main')).id,
    openBehind: (port) => open(throughPort(url, port)),
    connect: async () => {
      const client = new pg.Client({ connectionString: url });
      client.on('error', () => undefined);
      await client.connect();
      clients.push(client);
      return client;
    },
  };
}
