import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { describe, test, type TestContext } from 'node:test';
import pg from 'pg';
import { systemClock } from '../../src/clock.ts';
import type { LogEvent } from '../../src/core/types.ts';
import { openStore } from '../../src/store/open.ts';
import type { Hint, Store } from '../../src/store/port.ts';
import { waitFor } from '../helpers/leat.ts';
import { behindPort, sharedPostgres } from '../helpers/postgres.ts';
import { startTcpProxy } from '../helpers/tcp-proxy.ts';
import { addTenant, newEvent, newStream, start } from './contract/scene.ts';

const secretKey = randomBytes(32);

describe('PostgreSQL: many processes on one database', () => {
  test('an append waits for one that has an offset and has not committed', async (t) => {
    const { stores, url } = await openShared(t, 3);
    const [one, two, reader] = stores;
    assert.ok(one && two && reader);
    const tenant = (await addTenant(one, 'main')).id;
    const slow = await connect(t, url);
    await slow.query('begin');
    const held = newEvent();
    await slow.query(
      `select leat_append($1, $2, array[$3], array[false], array['a.b'], array[1::bigint], array['{}'])`,
      [tenant, Date.now(), held.id],
    );
    let committed = false;
    const order: string[] = [];
    const later = [one, two].map(async (store) => {
      const [appended] = await store.log.append(tenant, [newEvent()], start);
      order.push(committed ? 'after' : 'before');
      return appended?.offset;
    });
    // Both wait for the lock by now; nobody sees an offset that may still be passed by another.
    await waitFor('two appends that wait', async () => {
      const { rows } = await slow.query<{ waiting: number }>(
        `select count(*)::int as waiting from pg_locks where not granted`,
      );
      return rows[0]?.waiting === 2;
    });
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

  test('a reader at the head sees every event of many publishers, in order', async (t) => {
    const { stores } = await openShared(t, 4);
    const [reader, ...publishers] = stores;
    assert.ok(reader);
    const tenant = (await addTenant(reader, 'main')).id;
    const published = new Set<string>();
    const traffic = { isOver: false };
    const work = publishers.map(async (store) => {
      for (let round = 0; round < 60; round++) {
        const events = Array.from({ length: 1 + (round % 5) }, () => newEvent());
        for (const { id } of await store.log.append(tenant, events, start)) published.add(id);
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
  });

  test('of one chosen id that several publish at once, one is the first', async (t) => {
    const { stores } = await openShared(t, 4);
    const [first] = stores;
    assert.ok(first);
    const tenant = (await addTenant(first, 'main')).id;
    for (let round = 0; round < 20; round++) {
      const event = newEvent({ chosen: true });
      const answers = await Promise.all(
        stores.map((store) => store.log.append(tenant, [event], start)),
      );
      const offsets = answers.map(([appended]) => appended?.offset);
      assert.deepEqual(new Set(offsets), new Set([round + 1]));
      assert.equal(answers.filter(([appended]) => appended?.repeated === false).length, 1);
    }
  });

  test('a stream that is free is claimed by one of those that ask at once', async (t) => {
    const { stores } = await openShared(t, 4);
    const [first] = stores;
    assert.ok(first);
    const tenant = (await addTenant(first, 'main')).id;
    for (let made = 0; made < 40; made++) {
      await first.streams.create(newStream(tenant, start), { streamsMax: 100 });
    }
    const claimed = await Promise.all(
      stores.map(async (store, index) => {
        const node = await store.ownership.join(`node-${index}`, 60_000);
        return store.ownership.claim(node, { claim: 1, take: 100 }, start);
      }),
    );
    const ids = claimed.flat().map(({ stream }) => stream.id);
    assert.equal(ids.length, 40);
    assert.equal(new Set(ids).size, 40);
  });

  test('hints reach the others, not oneself, and a break in between is told', async (t) => {
    const server = await sharedPostgres();
    const proxy = await startTcpProxy(server.port);
    t.after(() => proxy.close());
    const { stores, url } = await openShared(t, 1);
    const [one] = stores;
    assert.ok(one);
    const proxied = behindPort(url, proxy.port);
    const other = await open(t, proxied);
    const heard: Hint[] = [];
    other.watch((hint) => heard.push(hint));
    const own: Hint[] = [];
    one.watch((hint) => own.push(hint));

    const tenant = (await addTenant(one, 'main')).id;
    const stream = newStream(tenant, start);
    await one.streams.create(stream, { streamsMax: 1 });
    await one.log.append(tenant, [newEvent(), newEvent()], start);
    const head: Hint = { kind: 'head', tenant, head: 2 };
    await waitFor('the hints', () => heard.some((hint) => hint.kind === 'head'));
    assert.deepEqual(heard, [{ kind: 'stream', tenant, stream: stream.id }, head]);
    assert.deepEqual(
      own.map(({ kind }) => kind),
      ['stream', 'appended'],
    );

    proxy.cut();
    await waitFor('the news of the break', () => heard.some(({ kind }) => kind === 'missed'));
    await one.log.append(tenant, [newEvent()], start);
    await waitFor('a hint afterwards', () =>
      heard.some((hint) => hint.kind === 'head' && hint.head === 3),
    );
  });
});

describe('PostgreSQL: partitions', () => {
  test('whole days are dropped once every tenant has pruned them, and bodies are kept', async (t) => {
    const { stores, url } = await openShared(t, 1);
    const [store] = stores;
    assert.ok(store);
    const [one, two] = [await addTenant(store, 'main'), await addTenant(store, 'other')];
    const client = await connect(t, url);
    const days = async () => {
      const { rows } = await client.query<{ name: string }>(
        `select inhrelid::regclass::text as name from pg_inherits
         where inhparent = 'events'::regclass and inhrelid::regclass::text = 'events_d20513'`,
      );
      return rows.length;
    };
    const event = newEvent({ body: '{"kept":true}' });
    await store.log.append(one.id, [event], start);
    await store.log.append(two.id, [newEvent()], start);
    assert.equal(await days(), 1);
    const stream = newStream(one.id, start, { id: 'est_waits' });
    await store.streams.create(stream, { streamsMax: 1 });
    await client.query(
      `insert into deliveries (tenant, stream, event_id, "offset", type, time, kind, state, attempt, failed_at)
       values ($1, 'est_waits', $2, 1, 'user.created', $3, 'first', 'failed', 4, $3)`,
      [one.id, event.id, start],
    );
    const before = start + 3 * 86_400_000;
    assert.equal(await store.log.prune(one.id, { before, take: 10 }), 1);
    assert.equal(await days(), 1, 'another tenant has an event there');
    assert.equal(await store.log.prune(two.id, { before, take: 10 }), 1);
    assert.equal(await days(), 0);
    const failure = await store.deliveries.failure(one.id, 'est_waits', event.id);
    assert.equal(failure?.event.body, event.body);
    const [appended] = await store.log.append(one.id, [newEvent()], start);
    assert.equal(appended?.offset, 2, 'the day is made again when it is needed');
  });

  test('days are made ahead', async (t) => {
    const { url } = await openShared(t, 1);
    const client = await connect(t, url);
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

async function openShared(
  t: TestContext,
  count: number,
): Promise<{ stores: Store[]; url: string }> {
  const server = await sharedPostgres();
  const url = await server.createDatabase();
  t.after(() => server.dropDatabase(url));
  const stores: Store[] = [];
  for (let opened = 0; opened < count; opened++) stores.push(await open(t, url));
  return { stores, url };
}

async function open(t: TestContext, url: string): Promise<Store> {
  const location = { engine: 'postgres', url } as const;
  const store = await openStore({ location, secretKey, random: randomBytes, clock: systemClock });
  t.after(() => store.close());
  return store;
}

async function connect(t: TestContext, url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  client.on('error', () => undefined);
  t.after(() => client.end());
  return client;
}
