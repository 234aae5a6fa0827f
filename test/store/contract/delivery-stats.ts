import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type StatsUnit, unitSums, unitWindow } from '../../../src/core/delivery-stats.ts';
import { runSync } from '../../../src/core/slices.ts';
import { Histogram } from '../../../src/core/histogram.ts';
import type { RecordedMinute } from '../../../src/store/port/delivery-stats.ts';
import { removeTenant } from '../../../src/upkeep/tenant-removal.ts';
import { systemClock } from '../../../src/clock.ts';
import type { Engine } from './engine.ts';
import { addTenant, createFixture, type Fixture, newEvent, start } from './fixture.ts';

const minute = 60_000;
const hour = 60 * minute;
const day = 24 * hour;
/** The start of the hour of {@link start}. */
const hourStart = start - (start % hour);

/** Returns a minute in which some deliveries took so long. */
function counted(
  tenant: number,
  stream: string | undefined,
  at: number,
  options: Partial<RecordedMinute> & { readonly latencies?: readonly number[] } = {},
): RecordedMinute {
  const { latencies = [10], ...counts } = options;
  const histogram = new Histogram();
  for (const ms of latencies) histogram.add(ms);
  const [latency, duration] = [histogram.encode(), histogram.encode()];
  const none = { published: 0, delivered: latencies.length, failed: 0, retried: 0 };
  return { tenant, stream, at, ...none, latency, duration, ...counts };
}

export function deliveryStatsContract(engine: Engine): void {
  describe(`${engine.name}: deliveryStats`, () => {
    recordContract(engine);
    sumContract(engine);
  });
}

function recordContract(engine: Engine): void {
  test('record: a repeated minute replaces the one before, those of two writers add up', async (t) => {
    const { store, tenant, addStream } = await createFixture(engine, t);
    const { id } = await addStream();
    const rows = [counted(tenant, id, start), counted(tenant, undefined, start, { published: 3 })];
    await store.deliveryStats.record('one', rows);
    await store.deliveryStats.record('one', [counted(tenant, id, start, { latencies: [10, 20] })]);
    await store.deliveryStats.record('two', [
      counted(tenant, id, start, { failed: 1, retried: 2 }),
    ]);
    const { read } = totalsOf(store);
    assert.deepEqual(await read(tenant, id, 'minute'), [{ delivered: 3, failed: 1, retried: 2 }]);
    assert.deepEqual(await read(tenant, undefined, 'minute'), [{ published: 3, delivered: 1 }]);
  });

  test('record: leaves out streams and tenants that do not exist', async (t) => {
    const { store, tenant } = await createFixture(engine, t);
    const other = await addTenant(store, 'other');
    await store.deliveryStats.record('one', [
      counted(tenant, 'est_none', start),
      counted(99, undefined, start),
      counted(other.id, undefined, start),
    ]);
    const { read } = totalsOf(store);
    assert.deepEqual(await read(tenant, 'est_none', 'minute'), []);
    assert.deepEqual(await read(99, undefined, 'minute'), []);
    assert.equal((await read(other.id, undefined, 'minute')).length, 1);
  });

  test('record: the counts of a deleted stream are gone, and do not come back', async (t) => {
    const { store, tenant, addStream } = await createFixture(engine, t);
    const { id } = await addStream();
    await store.deliveryStats.record('one', [counted(tenant, id, start)]);
    await store.streams.delete(tenant, id);
    await store.deliveryStats.record('one', [counted(tenant, id, start)]);
    assert.deepEqual(await totalsOf(store).read(tenant, id, 'minute'), []);
  });
}

function sumContract(engine: Engine): void {
  test('rollUp: hours and days have the counts and histograms of their minutes at every step', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const streams: string[] = [];
    for (let count = 0; count < 25; count += 1) streams.push((await fixture.addStream()).id);
    const ids = [undefined, ...streams.toSorted()];
    const first = hourStart - (hourStart % day) - day;
    const times = [first, first + 59 * minute, first + 5 * hour, first + day + minute];
    for (const [index, at] of times.entries()) {
      const latencies = [10 ** index, 3 * 10 ** index];
      await store.deliveryStats.record(
        `writer ${index % 2}`,
        ids.map((id) => counted(tenant, id, at, { published: index, latencies })),
      );
    }
    fixture.now = first + 3 * day;
    const { read, p95 } = totalsOf(store);
    const seen = async () => {
      const [sums, late] = [[], []] as [unknown[], unknown[]];
      for (const id of [undefined, streams[0], streams[24]]) {
        for (const unit of ['hour', 'day'] as const) {
          sums.push(await read(tenant, id, unit, { from: first, to: first + 2 * day }));
          late.push(await p95(tenant, id, unit, { from: first, to: first + 2 * day }));
        }
      }
      return [sums, late, await latenciesOf(fixture, streams, first)];
    };
    const before = await seen();
    let steps = 0;
    while ((await store.deliveryStats.rollUp()) > 0) {
      steps += 1;
      assert.deepEqual(await seen(), before, `after step ${steps}`);
      assert.ok(steps < 100);
    }
    assert.ok(steps > 5, 'the streams of an hour take several steps');
    assert.equal(await store.deliveryStats.rollUp(), 0);
    const byHour = { from: first, to: first + day };
    assert.deepEqual(await read(tenant, streams[0], 'hour', byHour), [
      { published: 1, delivered: 4 },
      { published: 2, delivered: 2 },
    ]);
  });

  test('rollUp: an hour that was added up while the clock was ahead is added up again at its end', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const { read } = totalsOf(store);
    const rollUpAll = async () => {
      while ((await store.deliveryStats.rollUp()) > 0);
    };
    const [first, late] = [hourStart + 10 * minute, hourStart + 40 * minute];
    await store.deliveryStats.record('one', [counted(tenant, undefined, first)]);
    fixture.now = hourStart + 25 * hour;
    // Also the day of it.
    await store.deliveryStats.record('one', [counted(tenant, undefined, hourStart + 24 * hour)]);
    fixture.now = hourStart + 49 * hour;
    await rollUpAll();
    fixture.now = late;
    await store.deliveryStats.record('one', [counted(tenant, undefined, late)]);
    await rollUpAll();
    const dayStart = hourStart - (hourStart % day);
    const seen = async () => [
      await read(tenant, undefined, 'hour', { from: hourStart, to: hourStart + hour }),
      await read(tenant, undefined, 'day', { from: dayStart, to: dayStart + day }),
    ];
    assert.deepEqual(await seen(), [[{ delivered: 2 }], [{ delivered: 2 }]]);
    fixture.now = hourStart + 49 * hour;
    await rollUpAll();
    assert.deepEqual(await seen(), [[{ delivered: 2 }], [{ delivered: 2 }]]);
  });

  test('rollUp: leaves an hour that is not over', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    await store.deliveryStats.record('one', [counted(tenant, undefined, hourStart)]);
    fixture.now = hourStart + hour + 6 * minute - 1;
    assert.equal(await store.deliveryStats.rollUp(), 0);
    fixture.now = hourStart + hour + 6 * minute;
    assert.ok((await store.deliveryStats.rollUp()) > 0);
  });

  test('prune: removes minutes after a day, hours after 90 and days after 400, once added up', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const { read } = totalsOf(store);
    const at = hourStart;
    await store.deliveryStats.record('one', [counted(tenant, undefined, at)]);
    const window = { from: at, to: at + hour };
    const left = async () => [
      (await read(tenant, undefined, 'minute', window)).length,
      (await read(tenant, undefined, 'hour', window)).length,
      (await read(tenant, undefined, 'day', { from: at - (at % day), to: at + day })).length,
    ];
    const reach = async (now: number) => {
      fixture.now = now;
      // The age is that of the log.
      await store.log.append(tenant, [newEvent()]);
      while ((await store.deliveryStats.prune({ take: 1 })) > 0);
    };
    await reach(at + 2 * day);
    assert.deepEqual(await left(), [1, 1, 1], 'nothing is removed before it was added up');
    while ((await store.deliveryStats.rollUp()) > 0);
    await reach(at + day);
    assert.deepEqual(await left(), [1, 1, 1]);
    await reach(at + day + minute);
    assert.deepEqual(await left(), [0, 1, 1]);
    // The hour after it makes the day complete.
    await store.deliveryStats.record('one', [counted(tenant, undefined, at + 2 * day)]);
    fixture.now = at + 4 * day;
    while ((await store.deliveryStats.rollUp()) > 0);
    await reach(at + 90 * day);
    assert.deepEqual(await left(), [0, 1, 1]);
    await reach(at + 90 * day + hour);
    assert.deepEqual(await left(), [0, 0, 1]);
    await reach(at + 400 * day);
    assert.deepEqual(await left(), [0, 0, 0]);
  });

  test(
    'removal: a tenant that leaves takes its statistics along',
    { tags: ['long'] },
    async (t) => {
      const { store } = await createFixture(engine, t);
      const other = await addTenant(store, 'other');
      await store.deliveryStats.record('one', [counted(other.id, undefined, start)]);
      await store.tenants.leave(other.id);
      await store.deliveryStats.record('one', [counted(other.id, undefined, start + minute)]);
      const end = new AbortController();
      await removeTenant({ store, clock: systemClock }, other.id, () => {}, end.signal);
      assert.deepEqual(await totalsOf(store).read(other.id, undefined, 'minute'), []);
    },
  );
}

async function latenciesOf(
  { store, tenant }: Fixture,
  streams: readonly string[],
  since: number,
): Promise<object> {
  const sums = new Map<string, Histogram>();
  for (const { stream, latency } of await store.deliveryStats.latencies(tenant, streams, since)) {
    const sum = sums.get(stream) ?? new Histogram();
    sum.merge(latency);
    sums.set(stream, sum);
  }
  return Object.fromEntries([...sums].map(([stream, sum]) => [stream, sum.encode()]));
}

/** Reads units that have counts: all that are not 0. */
function totalsOf({ deliveryStats }: Fixture['store']) {
  const sumsOf = async (
    tenant: number,
    stream: string | undefined,
    unit: StatsUnit,
    requested: { readonly from: number; readonly to: number } = { from: start, to: start + minute },
  ) => {
    const window = unitWindow(unit, requested, start);
    const rows = await deliveryStats.read({ tenant, stream }, window);
    return [...runSync(unitSums(window, rows)).values()];
  };
  return {
    read: async (...args: Parameters<typeof sumsOf>) =>
      (await sumsOf(...args))
        .map(({ published, delivered, failed, retried }) =>
          Object.fromEntries(
            Object.entries({ published, delivered, failed, retried }).filter(
              ([, count]) => count > 0,
            ),
          ),
        )
        .filter((sum) => Object.keys(sum).length > 0),
    p95: async (...args: Parameters<typeof sumsOf>) =>
      (await sumsOf(...args)).map(({ latency }) => latency.percentile(0.95)),
  };
}
