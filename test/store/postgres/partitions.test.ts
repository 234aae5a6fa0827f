import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import pg from 'pg';
import type { LogEvent, Offset } from '../../../src/core/types.ts';
import type { Store } from '../../../src/store/port/store.ts';
import { query, sharedPostgres } from '../../helpers/postgres.ts';
import {
  addTenant,
  claimDue,
  delivered,
  failed,
  failuresOf,
  newEvent,
  newId,
  type Fixture as StoreFixture,
  raiseOf,
  retry,
  fixtureOf,
  start,
} from '../contract/fixture.ts';
import { newDatabase, openUrl } from '../engines.ts';

const dayMs = 86_400_000;
const firstDay = Math.floor(start / dayMs);
const days = 12;
const perDay = 3;
const head = days * perDay;
const page = { take: 100, bytesMax: 1e6 };

interface Fixture {
  readonly storeFixture: StoreFixture;
  readonly store: Store;
  readonly tenant: number;
  rows<Row extends object = Record<string, unknown>>(sql: string): Promise<Row[]>;
  /** Appends at the start of a day, the first of which is 0. */
  publishOn(day: number, count?: number, tenant?: number): Promise<void>;
  /** Sets the clock of the store to the start of a day. */
  setDay(day: number): Promise<void>;
  /** Locks the partitions of all days but these: a statement that opens one of them fails. */
  lockDaysBut(...open: number[]): Promise<void>;
}

/** A log of {@link days} days. */
async function openFixture(t: TestContext): Promise<Fixture> {
  const url = await newDatabase();
  const { pathname } = new URL(url);
  await query(url, `alter database ${pathname.slice(1)} set lock_timeout = '500ms'`);
  const store = await openUrl(url);
  const locker = new pg.Client({ connectionString: url });
  await locker.connect();
  t.after(async () => {
    await locker.end();
    await store.close();
    await (await sharedPostgres()).dropDatabase(url);
  });
  const tenant = (await addTenant(store, 'main')).id;
  const fixture: Fixture = {
    storeFixture: fixtureOf(store, tenant),
    store,
    tenant,
    rows: (sql) => query(url, sql),
    setDay: async (day) => {
      await query(url, `update test_time set ms = ${start + day * dayMs}`);
    },
    publishOn: async (day, count = perDay, to = tenant) => {
      await fixture.setDay(day);
      await store.log.append(
        to,
        Array.from({ length: count }, () => newEvent()),
      );
    },
    lockDaysBut: async (...open) => {
      await locker.query('begin');
      for (let day = 0; day < days; day += 1) {
        if (open.includes(day)) continue;
        for (const table of ['events', 'attempts']) {
          const name = `${table}_d${firstDay + day}`;
          await locker.query(`lock table ${name} in access exclusive mode`);
        }
      }
    },
  };
  for (let day = 0; day < days; day += 1) {
    await fixture.publishOn(day);
    await query(
      url,
      `create table attempts_d${firstDay + day} (like attempts including all);
       alter table attempts attach partition attempts_d${firstDay + day}
         for values from (${firstDay + day}) to (${firstDay + day + 1})`,
    );
  }
  return fixture;
}

/** Every event after an offset, page by page. */
async function readAll(
  { store, tenant }: Fixture,
  given: { types?: string[]; take?: number } = {},
): Promise<{ events: LogEvent[]; pages: number }> {
  const events: LogEvent[] = [];
  let pages = 0;
  for (let after = 0; after < (await store.log.head(tenant)); pages += 1) {
    const read = await store.log.page(tenant, { ...page, ...given, after });
    assert.ok(read.scannedTo > after, `page ${pages} goes on`);
    events.push(...read.events);
    after = read.scannedTo;
  }
  return { events, pages };
}

/** Returns the days according to the table, and according to the events. */
async function logDays({ rows }: Fixture): Promise<{ listed: unknown[]; found: unknown[] }> {
  return {
    listed: await rows('select tenant, first_offset, day, former_at from log_days order by 1, 2'),
    found: await rows(`
      select tenant, min("offset") as first_offset, (published_at / ${dayMs})::int as day,
        lag(max(published_at)) over (partition by tenant order by min("offset")) as former_at
      from events group by tenant, 3 order by 1, 2`),
  };
}

describe('PostgreSQL: a command opens the days that it needs', () => {
  test(
    'append and settle: at the head of the log only the last day is opened',
    { tags: ['long'] },
    async (t) => {
      const fixture = await openFixture(t);
      const { storeFixture, store, tenant, rows } = fixture;
      const last = days - 1;
      const stream = await storeFixture.addStream({ types: ['user.created'] });
      const other = await storeFixture.addStream({ types: ['user.created'], status: 'disabled' });
      const published = await storeFixture.publish('user.created', 'user.created', 'user.created');
      const publishedAt = start + last * dayMs;
      const [first, second, third] = published.map((event) => ({ ...event, publishedAt }));
      assert.ok(first && second && third);
      const owned = await storeFixture.own(stream);
      await storeFixture.settle(owned, {
        outcomes: [failed(first), retry(second)],
        cursor: first.offset,
      });
      // An attempt may have begun on the day before a replay was accepted.
      await fixture.lockDaysBut(last - 1, last);

      const request = {
        tenant,
        stream: stream.id,
        id: newId('rpl'),
        from: head - perDay,
        to: head,
        types: undefined,
      };
      const commands: Record<string, () => Promise<unknown>> = {
        append: () => store.log.append(tenant, [newEvent()]),
        page: () => store.log.page(tenant, { ...page, after: head - 1 }),
        'page of some types': () =>
          store.log.page(tenant, { ...page, after: head - 1, types: ['user.created'] }),
        settle: () =>
          storeFixture.settle(owned, { outcomes: [delivered(third)], cursor: third.offset }),
        claimDue: async () => {
          await rows(`update deliveries set due_at = 1 where state = 'retrying'`);
          assert.equal((await claimDue(storeFixture, owned)).rows.length, 1);
        },
        listFailures: async () => {
          const firstPage = { after: undefined, take: 10 };
          const { items } = await store.deliveries.listFailures(tenant, stream.id, firstPage);
          assert.deepEqual(
            items.map(({ attempts }) => attempts.length),
            [1],
          );
        },
        redeliver: () => store.deliveries.redeliver(tenant, stream.id, first.id),
        replay: async () => {
          assert.ok('created' in (await store.replays.create(request)));
          const raise = { ...raiseOf(owned), cursor: third.offset };
          const materialized = await store.replays.materialize({
            ...raise,
            replay: request.id,
            take: 9,
            waitingMax: 9,
          });
          assert.equal(materialized.materialized, perDay);
        },
        lagging: () => store.upkeep.lagging({ olderThanMs: 0, after: 0 }),
        behind: () => store.overview.behind(tenant, 10),
        enable: () =>
          store.streams.update(tenant, other.id, (before) => ({
            after: { ...before, status: 'enabled' },
          })),
        'events since': async () => {
          // The log is bisected, and the second half is of the last day.
          await rows(`update tenants set pruned_to = ${head - perDay - 1}`);
          assert.equal(await store.log.firstSince(tenant, publishedAt), head - perDay + 1);
        },
      };
      for (const [name, command] of Object.entries(commands)) {
        await t.test(name, async () => {
          await command();
        });
      }
    },
  );

  test(
    'page: in the middle of the log only its own days are opened',
    { tags: ['long'] },
    async (t) => {
      const fixture = await openFixture(t);
      const { store, tenant } = fixture;
      await fixture.lockDaysBut(4, 5);
      const after = 4 * perDay;
      const read = await store.log.page(tenant, { ...page, after, upTo: after + 2 * perDay });
      assert.deepEqual(
        read.events.map(({ offset }) => offset),
        [13, 14, 15, 16, 17, 18],
      );
      const taken = await store.log.page(tenant, { ...page, after: after + 1, take: 5 });
      assert.deepEqual([taken.events.length, taken.scannedTo], [5, 18]);
    },
  );

  test(
    'page: a long stretch for rare types is read some days at a time',
    { tags: ['long'] },
    async (t) => {
      const fixture = await openFixture(t);
      const { store, tenant } = fixture;
      await fixture.lockDaysBut(0, 1, 2, 3, 4, 5, 6, 7);
      const read = await store.log.page(tenant, { ...page, after: 0, types: ['user.deleted'] });
      assert.deepEqual(read, { events: [], scannedTo: 8 * perDay });
    },
  );

  test('firstSince: opens two days', { tags: ['long'] }, async (t) => {
    const fixture = await openFixture(t);
    const { store, tenant } = fixture;
    await fixture.lockDaysBut(6, 7);
    for (const [since, first] of [
      [start + 7 * dayMs - 1, 7 * perDay + 1],
      [start + 7 * dayMs, 7 * perDay + 1],
      [start + 7 * dayMs + 1, 8 * perDay + 1],
    ] as const) {
      assert.equal(await store.log.firstSince(tenant, since), first);
    }
  });

  test(
    'failures and retries of distant days open no day between them',
    { tags: ['long'] },
    async (t) => {
      const fixture = await openFixture(t);
      const { storeFixture, store, tenant, rows } = fixture;
      const stream = await storeFixture.addStream({ types: ['user.created'] });
      const owned = await storeFixture.own(stream);
      for (const day of [0, days - 1]) {
        await fixture.setDay(day);
        const { events } = await store.log.page(tenant, { ...page, after: day * perDay, take: 2 });
        const [one, two] = events;
        assert.ok(one && two);
        await storeFixture.settle(owned, { outcomes: [failed(one), retry(two)] });
      }
      await fixture.lockDaysBut(0, days - 1);
      const firstPage = { after: undefined, take: 10 };
      const { items } = await store.deliveries.listFailures(tenant, stream.id, firstPage);
      assert.deepEqual(
        items.map(({ event, attempts }) => [event.offset, attempts.length]),
        [
          [head - perDay + 1, 1],
          [1, 1],
        ],
      );
      await rows('update deliveries set due_at = "offset" where due_at is not null');
      const claimed = await claimDue(storeFixture, owned);
      assert.deepEqual(
        claimed.rows.map(({ event }) => event.offset),
        [2, head - perDay + 2],
      );
    },
  );

  test('ids are searched in the days of a tenant', { tags: ['long'] }, async (t) => {
    const fixture = await openFixture(t);
    const { store } = fixture;
    const young = (await addTenant(store, 'young')).id;
    await fixture.publishOn(days - 1, 1, young);
    await fixture.lockDaysBut(days - 1);
    const event = newEvent({ chosen: true });
    // A plan that PostgreSQL keeps, after five, locks every day to open those.
    for (let count = 0; count < 3; count += 1) {
      const [appended] = await store.log.append(young, [event]);
      assert.deepEqual(appended, { id: event.id, offset: 2, repeated: count > 0 });
    }
  });
});

describe('PostgreSQL: a tenant that publishes now and then', () => {
  /** One event on the first of all days, and one on the last. */
  async function openQuiet(t: TestContext) {
    const fixture = await openFixture(t);
    const quiet = (await addTenant(fixture.store, 'quiet')).id;
    await fixtureOf(fixture.store, quiet).addStream({ types: ['user.created'] });
    await fixture.publishOn(0, 1, quiet);
    await fixture.publishOn(days - 1, 1, quiet);
    await fixture.rows(`update runs set cursor = 0 where tenant = ${quiet}`);
    return { ...fixture, quiet };
  }

  test(
    'a rare publisher: no command opens the days between its events',
    { tags: ['long'] },
    async (t) => {
      const { store, quiet, lockDaysBut } = await openQuiet(t);
      await lockDaysBut(0, days - 1);
      const commands: Record<string, () => Promise<unknown>> = {
        page: () => store.log.page(quiet, { ...page, after: 0 }),
        'page up to an offset': () => store.log.page(quiet, { ...page, after: 0, upTo: 1 }),
        'page of the last event': () => store.log.page(quiet, { ...page, after: 1 }),
        'page of some types': () =>
          store.log.page(quiet, { ...page, after: 0, types: ['user.deleted'] }),
        lagging: async () => {
          const { streams } = await store.upkeep.lagging({ olderThanMs: dayMs, after: 0 });
          assert.equal(streams.length, 1);
        },
        behind: async () => {
          const [stream] = await store.overview.behind(quiet, 10);
          assert.equal(stream?.since, start);
        },
        'first since': async () => {
          assert.equal(await store.log.firstSince(quiet, start + dayMs), 2);
        },
        overview: () => store.overview.tenant(quiet),
      };
      for (const [name, command] of Object.entries(commands)) {
        await t.test(name, async () => {
          await command();
        });
      }
    },
  );

  test('a rare publisher: a page spans few days, however few events they have', async (t) => {
    const { store, quiet } = await openQuiet(t);
    const first = await store.log.page(quiet, { ...page, after: 0 });
    assert.deepEqual([first.events.length, first.scannedTo], [1, 1]);
    const second = await store.log.page(quiet, { ...page, after: 1 });
    assert.deepEqual([second.events.length, second.scannedTo], [1, 2]);
  });
});

describe('PostgreSQL: the history of a delivery, for any day of its event', () => {
  test(
    'a failure shows attempts made after the clock was set back',
    { tags: ['long'] },
    async (t) => {
      const fixture = await openFixture(t);
      const { storeFixture, owned, attempts } = await openStream(fixture);
      await fixture.setDay(3);
      await storeFixture.publish('user.created');
      const event = await eventAt(fixture, head + 1);
      await storeFixture.settle(owned, { outcomes: [failed(event)] });
      assert.deepEqual(await attempts(), [['failed', 3]]);
    },
  );

  test(
    'a failure shows attempts made before the clock was set back, and opens no other days',
    { tags: ['long'] },
    async (t) => {
      const fixture = await openFixture(t);
      const { storeFixture, owned, attempts } = await openStream(fixture);
      const event = await eventAt(fixture, 5 * perDay);
      await fixture.setDay(8);
      await storeFixture.settle(owned, { outcomes: [retry(event)] });
      await fixture.setDay(6);
      await storeFixture.settle(owned, { outcomes: [failed(event, { attempt: 2, hasRow: true })] });
      await fixture.lockDaysBut(4, 5, 6, 7, 8);
      assert.deepEqual(await attempts(), [
        ['failed', 8],
        ['failed', 6],
      ]);
    },
  );

  test('a redelivered failure opens the days of its attempts', async (t) => {
    const fixture = await openFixture(t);
    const { storeFixture, stream, owned, attempts } = await openStream(fixture);
    const event = await eventAt(fixture, 2 * perDay + 1);
    await fixture.setDay(3);
    await storeFixture.settle(owned, { outcomes: [failed(event)] });
    await fixture.setDay(4);
    await storeFixture.store.deliveries.redeliver(storeFixture.tenant, stream.id, event.id);
    await fixture.setDay(5);
    const again = { kind: 'redelivery', hasRow: true } as const;
    await storeFixture.settle(owned, { outcomes: [failed(event, again)] });
    await fixture.lockDaysBut(2, 3, 4, 5);
    assert.deepEqual(await attempts(), [
      ['failed', 3],
      ['redelivered', 4],
      ['failed', 5],
    ]);
  });

  test('failures redelivered together show their days', { tags: ['long'] }, async (t) => {
    const fixture = await openFixture(t);
    const { storeFixture, stream, owned, attempts } = await openStream(fixture);
    await fixture.setDay(3);
    await storeFixture.settle(owned, { outcomes: [failed(await eventAt(fixture, head))] });
    await fixture.setDay(1);
    await storeFixture.store.deliveries.redeliverMany(storeFixture.tenant, stream.id, {});
    assert.deepEqual(await attempts(), [
      ['failed', 3],
      ['redelivered', 1],
    ]);
  });

  test('a failure shows an attempt that ended after it', async (t) => {
    const fixture = await openFixture(t);
    const { storeFixture, owned, attempts } = await openStream(fixture);
    const event = await eventAt(fixture, 2 * perDay + 1);
    await fixture.setDay(3);
    await storeFixture.settle(owned, { outcomes: [failed(event)] });
    await fixture.setDay(9);
    await storeFixture.settle(owned, { outcomes: [failed(event, { hasRow: true })] });
    assert.deepEqual(await attempts(), [
      ['failed', 3],
      ['failed', 9],
    ]);
  });

  for (const [how, disable] of [
    ['by its owner', { limits: { consecutive: 1, total: 1 }, isDisabled: false }],
    ['by a change', { limits: undefined, isDisabled: true }],
  ] as const) {
    test(
      `a failure shows that its stream was disabled ${how}, on a day before its attempts`,
      { tags: ['long'] },
      async (t) => {
        const fixture = await openFixture(t);
        const { storeFixture, stream, owned, attempts } = await openStream(fixture);
        await fixture.setDay(8);
        await storeFixture.settle(owned, { outcomes: [retry(await eventAt(fixture, head))] });
        await fixture.setDay(2);
        storeFixture.limits = disable.limits ?? storeFixture.limits;
        const other = await eventAt(fixture, 1);
        if (!disable.isDisabled) await storeFixture.settle(owned, { outcomes: [failed(other)] });
        else {
          await storeFixture.store.streams.update(storeFixture.tenant, stream.id, (before) => ({
            after: { ...before, status: 'disabled' },
          }));
        }
        assert.deepEqual(await attempts(head), [
          ['failed', 8],
          ['failed', 2],
        ]);
      },
    );
  }

  test('a failure of a replay shows earlier attempts of any day', async (t) => {
    const fixture = await openFixture(t);
    const { storeFixture, stream, owned, attempts } = await openStream(fixture);
    const event = await eventAt(fixture, head);
    await fixture.setDay(3);
    await storeFixture.settle(owned, { outcomes: [delivered(event)], cursor: head });
    await fixture.setDay(11);
    const { tenant, store } = storeFixture;
    const range = { from: head - 1, to: head, types: undefined };
    const replay = { tenant, stream: stream.id, id: newId('rpl'), ...range };
    assert.ok('created' in (await store.replays.create(replay)));
    const request = { ...raiseOf(owned), cursor: head, replay: replay.id, take: 9, waitingMax: 9 };
    assert.equal((await store.replays.materialize(request)).materialized, 1);
    const again = { kind: 'replay', hasRow: true } as const;
    await storeFixture.settle(owned, { outcomes: [failed(event, again)] });
    assert.deepEqual(await attempts(), [
      ['delivered', 3],
      ['failed', 11],
    ]);
  });

  test('a test event shows attempts made after the clock was set back', async (t) => {
    const fixture = await openFixture(t);
    const { storeFixture, stream, owned, attempts } = await openStream(fixture);
    const { id, type, time, body } = newEvent();
    const event = { id, type, time, body };
    await storeFixture.store.deliveries.addTest(storeFixture.tenant, stream.id, event);
    await fixture.setDay(3);
    const outcome = failed({ ...event, offset: undefined }, { kind: 'test', hasRow: true });
    await storeFixture.settle(owned, { outcomes: [outcome] });
    assert.deepEqual(await attempts(), [['failed', 3]]);
  });

  test(
    'an event delivered after the clock was set back counts as delivered',
    { tags: ['long'] },
    async (t) => {
      const fixture = await openFixture(t);
      const { storeFixture, stream, owned } = await openStream(fixture);
      const event = await eventAt(fixture, head);
      await fixture.setDay(3);
      await storeFixture.settle(owned, { outcomes: [delivered(event)] });
      const { deliveries } = storeFixture.store;
      assert.equal(
        await deliveries.redeliver(storeFixture.tenant, stream.id, event.id),
        'delivered',
      );
    },
  );
});

/** Creates an owned stream. */
async function openStream({ storeFixture }: Fixture) {
  const stream = await storeFixture.addStream({ types: ['user.created'] });
  const owned = await storeFixture.own(stream);
  return {
    storeFixture,
    stream,
    owned,
    /**
     * Returns outcomes and days of the attempts of a failure: of the only one, unless its offset is
     * passed.
     */
    attempts: async (offset?: Offset) => {
      const failures = await failuresOf(storeFixture, stream);
      const found = failures.find(({ event }) => offset === undefined || event.offset === offset);
      return found?.attempts.map(({ outcome, at }) => [outcome, Math.floor(at / dayMs) - firstDay]);
    },
  };
}

/** Returns an event of the log. */
async function eventAt({ store, tenant }: Fixture, offset: Offset): Promise<LogEvent> {
  const { events } = await store.log.page(tenant, { ...page, after: offset - 1, take: 1 });
  assert.ok(events[0]);
  return events[0];
}

describe('PostgreSQL: the days of a log', () => {
  test(
    'log_days: lists days as events arrive, with clocks that go back and days without events',
    { tags: ['long'] },
    async (t) => {
      const fixture = await openFixture(t);
      const { store } = fixture;
      const other = (await addTenant(store, 'other')).id;
      await fixture.publishOn(20);
      await fixture.publishOn(3);
      await fixture.publishOn(5, 2, other);
      await fixture.publishOn(21);
      await fixture.publishOn(4, 1, other);
      const { listed, found } = await logDays(fixture);
      assert.equal(listed.length, days + 2 + 1);
      assert.deepEqual(listed, found);
    },
  );

  test(
    'log_days: pruning removes days, except that of the oldest event',
    { tags: ['long'] },
    async (t) => {
      const fixture = await openFixture(t);
      const { store, tenant, rows } = fixture;
      const listed = () => rows<{ day: number }>('select day from log_days order by day');
      const prune = async (olderThanMs: number) => {
        while ((await store.log.prune(tenant, { olderThanMs, take: 1 })) > 0);
        const left = await listed();
        return left.map(({ day }) => day - firstDay);
      };
      assert.deepEqual(await prune(2 * dayMs), [9, 10, 11]);
      assert.deepEqual(await prune(-1), [11]);
      await fixture.publishOn(15);
      assert.deepEqual(await prune(0), [15]);
      const { events } = await store.log.page(tenant, { ...page, after: 0 });
      assert.equal(events.length, perDay);
    },
  );

  test('log_days: missing days are restored from the events', async (t) => {
    const fixture = await openFixture(t);
    const other = (await addTenant(fixture.store, 'other')).id;
    await fixture.publishOn(14, 2, other);
    const before = await logDays(fixture);
    await fixture.rows('delete from log_days where day % 2 = 0');
    await fixture.rows('select leat_fill_log_days()');
    assert.deepEqual(await logDays(fixture), before);
  });

  for (const [what, missing] of [
    ['all', 'true'],
    ['the oldest', `day < ${firstDay + 5}`],
    ['some', 'day % 3 = 0'],
    ['the newest', `day > ${firstDay + 5}`],
  ]) {
    test(
      `log_days: every result is the same where ${what} are missing`,
      { tags: ['long'] },
      async (t) => {
        const fixture = await openFixture(t);
        const { store, tenant } = fixture;
        const results = async () => {
          const firsts: Offset[] = [];
          for (let day = -1; day <= days; day += 1) {
            firsts.push(await store.log.firstSince(tenant, start + day * dayMs));
          }
          const overview = await store.overview.tenant(tenant);
          const all = await readAll(fixture);
          const some = await readAll(fixture, { types: ['user.created'], take: 7 });
          return { firsts, overview, all: all.events, some: some.events };
        };
        const before = await results();
        assert.equal(before.all.length, head);
        await fixture.rows(`delete from log_days where ${missing}`);
        assert.deepEqual(await results(), before);
        const { id } = before.all[0] ?? newEvent();
        const [appended] = await store.log.append(tenant, [newEvent({ id, chosen: true })]);
        assert.deepEqual(appended, { id, offset: 1, repeated: true });
      },
    );
  }
});
