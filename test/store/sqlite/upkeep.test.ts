import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, test, type TestContext } from 'node:test';
import { systemClock } from '../../../src/clock.ts';
import { openStore } from '../../../src/store/open.ts';
import { isShrinkable } from '../../../src/store/engine/sqlite/upkeep.ts';
import { newEntry } from '../contract/audit-log.ts';
import {
  addTenant,
  failed,
  type LoggedEvent,
  newEvent,
  fixtureOf,
  start,
} from '../contract/fixture.ts';

const dayMs = 86_400_000;

/** A store in a file, with a clock that each reading moves forward. */
async function openFile(t: TestContext, tickMs = 0) {
  const folder = mkdtempSync(join(tmpdir(), 'leat-upkeep-'));
  const file = join(folder, 'leat.db');
  let elapsedMs = 0;
  let passedMs = 0;
  let store = await open();
  function open() {
    return openStore({
      location: { engine: 'sqlite', path: file },
      secretKeys: [new Uint8Array(32)],
      random: randomBytes,
      clock: {
        ...systemClock,
        now: () => start + passedMs,
        elapsedMs: () => (elapsedMs += tickMs) + passedMs,
      },
    });
  }
  t.after(async () => {
    await store.close();
    rmSync(folder, { recursive: true });
  });
  return {
    file,
    store: () => store,
    /** The time that the store reads. */
    time: {
      get at() {
        return start + passedMs;
      },
      set at(to) {
        passedMs = to - start;
      },
    },
    /** Advances the time, without a timer. */
    pass: (ms: number) => {
      passedMs += ms;
    },
    /** Closes the store, passes the file to `work`, and opens it again. */
    reopen: async (work: (db: DatabaseSync) => void) => {
      await store.close();
      const db = new DatabaseSync(file);
      work(db);
      db.close();
      store = await open();
      return store;
    },
  };
}

/** Adds a tenant whose log has `count` events of five days ago and one of now. */
async function addOldEvents(
  { store, pass }: Pick<Awaited<ReturnType<typeof openFile>>, 'store' | 'pass'>,
  count: number,
) {
  const tenant = await addTenant(store(), 'main');
  const events = Array.from({ length: count }, () => newEvent());
  await store().log.append(tenant.id, events);
  pass(5 * dayMs);
  await store().log.append(tenant.id, [newEvent()]);
  return tenant;
}

describe('SQLite: upkeep', () => {
  test('upkeep: a step of the audit log ends once its time is over', async (t) => {
    const { store, pass } = await openFile(t, 10);
    const tenant = await addTenant(store(), 'main');
    const entries = Array.from({ length: 30 }, () => newEntry(tenant.id));
    await store().auditLog.add(entries.map((entry) => ({ entry, count: 1, ageMs: 0 })));
    pass(2 * dayMs);
    await store().auditLog.add([{ entry: newEntry(tenant.id), count: 1, ageMs: 0 }]);
    const removed: number[] = [];
    for (let step = 0; step < 4; step += 1) {
      removed.push(await store().auditLog.prune({ olderThanMs: dayMs, take: 500 }));
    }
    assert.deepEqual(removed, [10, 10, 10, 0]);
  });

  test('upkeep: the file shrinks after events were pruned', async (t) => {
    const { file, store, pass, reopen } = await openFile(t);
    const tenant = await addTenant(store(), 'main');
    const body = JSON.stringify({ text: 'x'.repeat(20_000) });
    for (let part = 0; part < 10; part += 1) {
      const events = Array.from({ length: 100 }, () => newEvent({ body }));
      await store().log.append(tenant.id, events);
    }
    pass(2 * dayMs);
    await store().log.append(tenant.id, [newEvent()]);
    await reopen((db) => assert.ok(isShrinkable(db)));
    const before = statSync(file).size;
    const query = { olderThanMs: dayMs, take: 1_000_000 };
    while ((await store().log.prune(tenant.id, query)) > 0);
    while ((await store().upkeep.shrink()) > 0);
    await reopen(() => undefined);
    const after = statSync(file).size;
    assert.ok(before > 20_000_000 && after < before / 2, `${before} bytes became ${after}`);
  });

  test('upkeep: a file without auto_vacuum keeps its size', async (t) => {
    const { store, reopen } = await openFile(t);
    await addTenant(store(), 'main');
    await reopen((db) => {
      db.exec('pragma auto_vacuum = none; vacuum');
      assert.ok(!isShrinkable(db));
    });
    assert.equal(await store().upkeep.shrink(), 0);
  });

  test('upkeep: each step ends when its time is over, however much there is to do', async (t) => {
    // Every reading of the clock takes 3 ms, so the third one is after the end of a step.
    const { store, pass, reopen } = await openFile(t, 3);
    const tenant = await addOldEvents({ store, pass }, 2000);
    await reopen((db) =>
      db.exec(`
        with recursive numbers(value) as (
          select 1 union all select value + 1 from numbers where value < 300000)
        insert into attempts (stream_key, event_key, at, duration_ms, outcome)
        select 1, value, ${start} + value, 1.5, 1 from numbers`),
    );
    const query = { olderThanMs: dayMs, take: 1_000_000 };
    const events = await store().log.prune(tenant.id, query);
    assert.ok(events > 0 && events < 100, `${events} events in one step`);
    assert.equal(await store().deliveries.pruneAttempts(query), 1, 'nothing is open');
    const attempts = await store().deliveries.pruneAttempts(query);
    assert.ok(attempts > 0 && attempts < 500, `${attempts} attempts in one step`);
  });

  test('upkeep: a step does a part of its work even when the process is blocked at its start', async (t) => {
    // Every reading of the clock takes longer than a step.
    const { store, pass } = await openFile(t, 10);
    const tenant = await addOldEvents({ store, pass }, 50);
    const query = { olderThanMs: dayMs, take: 1000 };
    let removed = 0;
    for (;;) {
      const events = await store().log.prune(tenant.id, query);
      removed += events;
      if (events === 0) break;
    }
    assert.equal(removed, 50);
  });

  test('upkeep: old history is removed from its beginning, however many tenants there are', async (t) => {
    const { store, pass, reopen } = await openFile(t);
    for (let number = 0; number < 50; number += 1) await addTenant(store(), `tenant-${number}`);
    pass(5 * dayMs);
    await store().log.append(1, [newEvent()]);
    await reopen((db) =>
      db.exec(`
        with recursive numbers(value) as (
          select 1 union all select value + 1 from numbers where value < 20000)
        insert into attempts (stream_key, event_key, at, duration_ms, outcome)
        select value % 50, value, ${start} + value, 1.5, 1 from numbers`),
    );
    // A step does what it removes: there are no steps that only walk.
    let steps = 0;
    let removed = 0;
    for (;;) {
      const count = await store().deliveries.pruneAttempts({ olderThanMs: dayMs, take: 1000 });
      if (count === 0) break;
      steps += 1;
      removed += count;
    }
    assert.equal(removed, 20_001);
    assert.ok(steps < 20_000 / 50 + 2, `${steps} steps`);
  });

  test('upkeep: one pass removes kept rows that no delivery needs', async (t) => {
    const { store, time, reopen } = await openFile(t);
    const fixture = fixtureOf(store(), (await addTenant(store(), 'main')).id, time);
    const stream = await fixture.addStream();
    const owned = await fixture.own(stream);
    const events = await fixture.publish(...Array.from({ length: 120 }, () => 'user.created'));
    await fixture.settle(owned, {
      outcomes: events.map((event) => failed(event, { status: 500 })),
    });
    await reopen((db) =>
      db.exec(`
        insert into kept_events (tenant, offset, id, body)
        select tenant, offset, event_id, '{}' from deliveries
        union all select 9, value, 'evt_' || value, '{}' from json_each('[1, 2, 3]');
        insert into attempts_kept (stream_key, event_key, at, duration_ms, outcome)
        select stream_key, event_key, at, duration_ms, outcome from attempts order by rowid;
        insert into attempts_kept (stream_key, event_key, at, duration_ms, outcome)
        select 99, value, 1, 1, 2 from json_each('[1, 2, 3]')`),
    );
    const steps: number[] = [];
    do steps.push(await store().upkeep.releaseKept({ take: 50 }));
    while (steps.at(-1) !== 0);
    await reopen((db) =>
      assert.deepEqual(keptIn(db), { bodies: 120, attempts: 120 }, `steps: ${steps.join(', ')}`),
    );
  });

  test('upkeep: history is pruned and kept in order, even after its table was empty', async (t) => {
    const { store, pass, time, reopen } = await openFile(t);
    const fixture = fixtureOf(store(), (await addTenant(store(), 'main')).id, time);
    const stream = await fixture.addStream();
    const owned = await fixture.own(stream);
    const upkeep = async (): Promise<void> => {
      const query = { olderThanMs: 3 * dayMs, take: 1000 };
      for (let step = 0; step < 20; step += 1) await store().deliveries.pruneAttempts(query);
    };
    const failOnce = async (event: LoggedEvent, status: number, again = {}): Promise<void> => {
      const outcomes = [failed(event, { status, ...again })];
      await fixture.settle(owned, { outcomes, cursor: event.offset });
    };
    const statusesOf = async ({ id }: LoggedEvent) => {
      const failure = await store().deliveries.failure(fixture.tenant, stream.id, id);
      return failure?.attempts.map(({ status }) => status);
    };
    const days = async (count: number): Promise<void> => {
      pass(count * dayMs);
      await fixture.publish('other');
      await upkeep();
    };

    const [first, second] = await fixture.publish('user.created', 'user.created');
    assert.ok(first && second);
    await failOnce(first, 500);
    await days(5);
    assert.deepEqual(await statusesOf(first), [500]);
    await failOnce(second, 501);
    await failOnce(first, 502, { kind: 'redelivery', attempt: 2, hasRow: true });
    assert.deepEqual(await statusesOf(first), [500, 502], 'kept entries come first');
    await days(5);
    assert.deepEqual(await statusesOf(first), [500, 502]);
    assert.deepEqual(await statusesOf(second), [501]);
    await days(5);
    await store().upkeep.releaseKept({ take: 1000 });
    assert.deepEqual(await statusesOf(second), [501]);
    await store().streams.delete(fixture.tenant, stream.id);
    await store().upkeep.releaseKept({ take: 1000 });
    await reopen((db) => assert.deepEqual(keptIn(db), { bodies: 0, attempts: 0 }));
  });
});

/** Returns how many bodies and attempts are kept for open deliveries. */
function keptIn(db: DatabaseSync): object {
  const counted = db.prepare(`
    select (select count(*) from kept_events) as bodies,
      (select count(*) from attempts_kept) as attempts`);
  return { ...counted.get() };
}
