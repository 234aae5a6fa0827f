import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { describe, test, type TestContext } from 'node:test';
import { systemClock } from '../../src/clock.ts';
import { StoreUnavailable } from '../../src/core/errors.ts';
import { type Alert, isStreamAlert } from '../../src/alerting/alert.ts';
import type { Millis } from '../../src/core/clock.ts';
import type { Attempt, Failure } from '../../src/core/types.ts';
import { createAlertDispatcher } from '../../src/alerting/dispatcher.ts';
import { type AlertChannel, AlertNotSent } from '../../src/alerting/channel.ts';
import { createAlertWebhook } from '../../src/alerting/webhook-channel.ts';
import { createMonitor, type MonitorDeps } from '../../src/alerting/monitor.ts';
import { createSystemAlerts } from '../../src/alerting/system-alerts.ts';
import { openStore } from '../../src/store/open.ts';
import type { FailureQuery } from '../../src/store/port/deliveries.ts';
import type { FailingStream } from '../../src/store/port/alert-state.ts';
import { createManualClock, type ManualClock } from '../helpers/clock.ts';
import { startEndpoint } from '../helpers/endpoint.ts';
import { waitFor } from '../helpers/leat.ts';
import { addTenant } from '../store/contract/fixture.ts';

const minute = 60_000;
const limits = { consecutive: 500, total: 5000 };
const settings = { everyMs: minute, leaseMs: 30_000, alone: false, pageFailures: 50 };

/** What happened to the streams, as a store would tell it: the looks themselves are really stored. */
interface Trouble {
  readonly stream: string;
  readonly failedAt: Millis;
  readonly eventId: string;
}

async function open(t: TestContext, clock: ManualClock) {
  const store = await openStore({
    location: { engine: 'sqlite', path: ':memory:' },
    secretKey: new Uint8Array(32),
    random: randomBytes,
    clock: systemClock,
  });
  t.after(store.close);
  await addTenant(store, 'main');
  const troubles: Trouble[] = [];
  const told: string[] = [];
  const logged: string[] = [];
  const errors: unknown[] = [];
  let refusing = false;
  const sender: AlertChannel = {
    name: 'webhook',
    send: ({ alert }) => {
      if (refusing) return Promise.reject(new AlertNotSent('no'));
      told.push(brief(alert));
      return Promise.resolve();
    },
  };
  const deps = {
    store: {
      tenants: store.tenants,
      alertState: looksOf(store.alertState, troubles),
      deliveries: listOf(troubles),
    },
    clock,
    dispatcher: dispatcherOf(clock, sender),
    limits,
    settings,
    system: createSystemAlerts(),
    log: {
      info: (fields: object) => logged.push((fields as { eventId: string }).eventId),
      warn: () => undefined,
    },
    report: (error: unknown) => errors.push(error),
  };
  return {
    store,
    deps,
    troubles,
    told,
    logged,
    errors,
    refuse: (is: boolean) => {
      refusing = is;
    },
    /** A process that looks until the test ends, or until the answer is called. */
    start: (over: Partial<MonitorDeps> = {}) => {
      const end = new AbortController();
      const ended = createMonitor({ ...deps, ...over }).run(end.signal);
      const stop = async (): Promise<void> => {
        end.abort();
        await ended;
      };
      t.after(stop);
      return stop;
    },
  };
}

function dispatcherOf(clock: ManualClock, sender: AlertChannel) {
  const patience = { timeoutMs: 10_000, failuresInARowMax: 16, closingMs: 3000 };
  return createAlertDispatcher({
    clock,
    channels: [sender],
    settings: { ...patience, concurrency: 4, runMs: minute, saveEveryMs: 5000 },
    report: () => undefined,
  });
}

function brief(alert: Alert): string {
  if (!isStreamAlert(alert)) return `${alert.tenant} ${alert.kind} ${alert.sentence}`;
  const { kind, stream, newFailures } = alert;
  return `${stream.id} ${kind} ${newFailures}`;
}

function looksOf(alertState: MonitorDeps['store']['alertState'], troubles: readonly Trouble[]) {
  return {
    last: alertState.last,
    record: alertState.record,
    standings: async (tenants: readonly number[]) => {
      const standings = await alertState.standings(tenants);
      return standings.map(({ last }) => ({ last, mayBeFailing: troubles.length > 0 }));
    },
    failingStreams: (_tenant: number, { since }: { readonly since: Millis }) => {
      // PostgreSQL takes nothing else for an instant.
      assert.ok(Number.isInteger(since));
      const ids = [...new Set(troubles.map(({ stream }) => stream))].toSorted();
      const streams = ids.map((id): FailingStream => {
        const own = troubles.filter(({ stream }) => stream === id);
        const news = own.filter(({ failedAt }) => failedAt > since);
        return {
          id,
          name: id,
          status: 'enabled',
          health: { consecutive: own.length, total: own.length },
          disabledAt: undefined,
          failedWithin: news.length > 0,
        };
      });
      return Promise.resolve(streams);
    },
  };
}

function listOf(troubles: readonly Trouble[]): MonitorDeps['store']['deliveries'] {
  const attempt: Attempt = {
    at: 0,
    durationMs: 1,
    outcome: 'failed',
    status: 503,
    error: '503 - busy',
  };
  return {
    listFailures: (_tenant, stream, { after, take, failedAfter = -Infinity }) => {
      const start = Number(after ?? 0);
      const own = troubles
        .filter((trouble) => trouble.stream === stream && trouble.failedAt > failedAfter)
        .toSorted((one, other) => other.failedAt - one.failedAt);
      const items = own.slice(start, start + take).map(({ failedAt, eventId }): Failure => {
        const event = { offset: 1, id: eventId, type: 'a.b', time: 0, body: '{}' };
        return { event, failedAt, attempts: [attempt] };
      });
      const next = start + take < own.length ? String(start + take) : undefined;
      return Promise.resolve({ items, next });
    },
  };
}

let count = 0;
function failureOf(stream: string, failedAt: Millis): Trouble {
  return { stream, failedAt, eventId: `evt_${++count}` };
}

describe('a look', () => {
  test('tells what was recorded since the one before, also what became visible late', async (t) => {
    const clock = createManualClock();
    const { start, troubles, told, logged, errors } = await open(t, clock);
    troubles.push(failureOf('a', clock.now() - 5 * minute));
    start();
    await clock.advance(0);
    assert.deepEqual(told.splice(0), ['a delivery_failures 1']);
    const lookedAt = clock.now();
    // One of the same millisecond and one of half a minute ago, committed after the look.
    troubles.push(failureOf('a', lookedAt), failureOf('b', lookedAt - 30_000));
    await clock.advance(minute);
    assert.deepEqual(told.splice(0), ['a delivery_failures 1', 'b delivery_failures 1']);
    // A node whose clock is ahead.
    troubles.push(failureOf('a', clock.now() + 20_000));
    for (let alertState = 0; alertState < 5; alertState++) await clock.advance(minute);
    assert.deepEqual(told, ['a delivery_failures 1']);
    assert.deepEqual(logged.toSorted(), troubles.map(({ eventId }) => eventId).toSorted());
    assert.deepEqual(errors, []);
  });

  test('reads as many pages as it takes, and remembers them although they are many', async (t) => {
    const clock = createManualClock();
    const { start, troubles, told, logged } = await open(t, clock);
    for (let index = 0; index < 1234; index++) troubles.push(failureOf('a', clock.now() - index));
    start();
    for (let alertState = 0; alertState < 4; alertState++) await clock.advance(minute);
    assert.deepEqual(told.slice(0, 1), ['a delivery_failures 1234']);
    assert.equal(new Set(logged).size, 1234);
    assert.equal(logged.length, 1234);
    assert.equal(told.filter((alert) => alert.includes('delivery_failures')).length, 1);
  });

  test('of a tenant without trouble writes nothing, and finds what comes later in time', async (t) => {
    const clock = createManualClock();
    const site = await open(t, clock);
    const { alertState } = site.deps.store;
    let records = 0;
    const counted: typeof alertState = {
      ...alertState,
      record: (...args) => {
        records += 1;
        return alertState.record(...args);
      },
    };
    site.start({ store: { ...site.deps.store, alertState: counted } });
    await clock.advance(5 * minute);
    assert.equal(records, 0);
    site.troubles.push(failureOf('a', clock.now()));
    await clock.advance(minute);
    assert.deepEqual(site.told, ['a delivery_failures 1']);
    assert.ok(records > 0);
  });

  test('finds trouble of each of many tenants, also of one that is created later', async (t) => {
    const clock = createManualClock();
    const site = await open(t, clock);
    for (let index = 0; index < 250; index += 1) await addTenant(site.store, `tenant-${index}`);
    site.start();
    await clock.advance(0);
    await addTenant(site.store, 'later');
    site.troubles.push(failureOf('a', clock.now()));
    await clock.advance(2 * minute);
    assert.equal(site.told.length, 252);
  });

  test('is made by one process at a time, and by the next when that one is gone', async (t) => {
    const clock = createManualClock();
    const { start, troubles, told, logged } = await open(t, clock);
    const stops = [start(), start(), start()];
    for (let alertState = 1; alertState <= 4; alertState++) {
      troubles.push(failureOf('a', clock.now()));
      await clock.advance(minute);
      assert.equal(told.length, alertState);
    }
    await stops[0]?.();
    troubles.push(failureOf('a', clock.now()));
    await clock.advance(2 * minute);
    assert.equal(told.length, 5);
    assert.equal(new Set(logged).size, logged.length);
  });

  test('is left to the process that is at it, also where the clock of another is behind', async (t) => {
    const clock = createManualClock();
    const { deps, start, troubles, told, logged } = await open(t, clock);
    const failure = failureOf('a', clock.now() - minute);
    troubles.push(failure);
    const reading = Promise.withResolvers<void>();
    const { listFailures } = deps.store.deliveries;
    const deliveries: MonitorDeps['store']['deliveries'] = {
      listFailures: (...question) => reading.promise.then(() => listFailures(...question)),
    };
    start({ store: { ...deps.store, deliveries } });
    await clock.advance(0);
    const behind = createManualClock(clock.now() - 5);
    start({ clock: behind });
    await behind.advance(0);
    reading.resolve();
    await clock.advance(0);
    assert.deepEqual(told, ['a delivery_failures 1']);
    assert.deepEqual(logged, [failure.eventId]);
  });

  test('that was cut short by the store is made anew, and nothing is told twice', async (t) => {
    const clock = createManualClock();
    const site = await open(t, clock);
    const { alertState } = site.deps.store;
    let write = 0;
    /** Which writes fail, 1-indexed from when this was set. */
    let failing: readonly number[] = [];
    const flaky: typeof alertState = {
      ...alertState,
      record: (...args) =>
        failing.includes(++write)
          ? Promise.reject(new StoreUnavailable('gone'))
          : alertState.record(...args),
    };
    const fail = (...writes: number[]): void => {
      write = 0;
      failing = writes;
    };
    site.start({ store: { ...site.deps.store, alertState: flaky } });
    await clock.advance(0);
    // Before it was read, and before the alerts are sent.
    for (const first of [1, 2]) {
      site.troubles.push(failureOf('a', clock.now()));
      fail(first);
      await clock.advance(minute);
      assert.deepEqual([site.told, site.errors.splice(0).length], [[], 1]);
      fail();
      await clock.advance(minute);
      assert.deepEqual(site.told.splice(0), ['a delivery_failures 1']);
    }
    // After they were sent: that is written as soon as the store is back.
    site.troubles.push(failureOf('a', clock.now()));
    fail(3, 4, 5);
    await clock.advance(4 * minute);
    assert.deepEqual(site.told, ['a delivery_failures 1']);
    assert.deepEqual(site.errors, []);
  });

  test('goes on from where the process before was, after a restart', async (t) => {
    const clock = createManualClock();
    const { start, troubles, told, refuse } = await open(t, clock);
    troubles.push(failureOf('a', clock.now()));
    refuse(true);
    const stop = start();
    await clock.advance(minute);
    await stop();
    troubles.push(failureOf('a', clock.now()), failureOf('b', clock.now()));
    await clock.advance(10 * minute);
    refuse(false);
    start();
    await clock.advance(minute);
    // In the order of waiting: the sum of what was refused and what came while nothing ran.
    assert.deepEqual(told, ['a delivery_failures 2', 'b delivery_failures 1']);
  });

  test('of many failures lets other work go on between its pages', async (t) => {
    const clock = createManualClock();
    const { start, deps, troubles, told, logged } = await open(t, clock);
    for (let index = 0; index < 2000; index++) troubles.push(failureOf('a', clock.now() - index));
    const { listFailures } = deps.store.deliveries;
    let workedMs = 0;
    let pages = 0;
    start({
      // The store of one file answers without a pause: each page takes the process for itself.
      clock: { ...clock, elapsedMs: () => clock.elapsedMs() + workedMs },
      store: {
        ...deps.store,
        deliveries: {
          listFailures: (...args) => {
            workedMs += 3;
            pages++;
            return listFailures(...args);
          },
        },
      },
    });
    await waitFor('a pause', () => clock.pending > 0);
    assert.ok(pages < 5, `${pages} pages at a stretch`);
    await clock.advance(0);
    assert.deepEqual(told.slice(0, 1), ['a delivery_failures 2000']);
    assert.equal(logged.length, 2000);
  });

  test('misses nothing when the clock is set back between two looks', async (t) => {
    for (const backMinutes of [2, 4, 10, 600]) {
      const clock = createManualClock();
      const { start, troubles, told } = await open(t, clock);
      let offsetMs = 0;
      const now = (): Millis => clock.now() + offsetMs;
      const everyMs = 5 * minute;
      // As real clocks have it, no whole number.
      const elapsedMs = (): number => clock.elapsedMs() * 1.000_001;
      start({ clock: { ...clock, now, elapsedMs }, settings: { ...settings, everyMs } });
      await clock.advance(2 * everyMs + 1000);
      offsetMs = -backMinutes * minute;
      troubles.push(failureOf('a', now() + 1));
      await clock.advance(minute);
      troubles.push(failureOf('b', now()));
      await clock.advance(2 * everyMs);
      const how = `set back by ${backMinutes} minutes`;
      assert.deepEqual(told, ['a delivery_failures 1', 'b delivery_failures 1'], how);
    }
  });

  test('misses nothing after failures of a clock that was far ahead for a while', async (t) => {
    const clock = createManualClock();
    const { start, troubles, told, logged } = await open(t, clock);
    start();
    await clock.advance(minute);
    for (let index = 0; index < 300; index++) {
      troubles.push(failureOf('a', clock.now() + 60 * minute + index));
    }
    await clock.advance(minute);
    assert.equal(told.shift(), 'a delivery_failures 300');
    await clock.advance(2 * minute);
    told.length = 0;
    const late = failureOf('a', clock.now() + 1);
    troubles.push(late);
    await clock.advance(minute);
    // Too many to be remembered one by one: those beyond are told twice.
    assert.deepEqual(told, ['a delivery_failures 101']);
    assert.equal(logged.filter((id) => id === late.eventId).length, 1);
  });

  test('is made although the clock was set back by a day', async (t) => {
    const clock = createManualClock();
    const { start, troubles, told } = await open(t, clock);
    const stop = start();
    await clock.advance(minute);
    await stop();
    const back = createManualClock(clock.now() - 24 * 60 * minute);
    start({ clock: back });
    troubles.push(failureOf('a', back.now() + 1000));
    await back.advance(2 * minute);
    assert.deepEqual(told, ['a delivery_failures 1']);
  });
});

describe('a condition of a node or the store', () => {
  const skew = {
    kind: 'clock_skew',
    sentence: 'The clock is wrong.',
    fields: { skew_seconds: 3600 },
    key: 'clock_skew a-1',
  } as const;

  test('is sent at once, although the next look is not due, and once an hour at most', async (t) => {
    const clock = createManualClock();
    const { start, deps, told, errors } = await open(t, clock);
    start();
    await clock.advance(1000);
    deps.system.raise(skew);
    await clock.advance(1);
    assert.deepEqual(told.splice(0), ['main clock_skew The clock is wrong.']);
    deps.system.raise(skew);
    await clock.advance(10 * minute);
    assert.deepEqual(told, []);
    await clock.advance(60 * minute);
    deps.system.raise(skew);
    await clock.advance(1);
    assert.equal(told.length, 1);
    assert.deepEqual(errors, []);
  });

  test('is sent once when several nodes raise it, and once per tenant when it names tenants', async (t) => {
    const clock = createManualClock();
    const { store, start, deps, told } = await open(t, clock);
    await addTenant(store, 'other');
    const nodes = [createSystemAlerts(), createSystemAlerts(), createSystemAlerts()];
    for (const system of nodes) start({ system });
    await clock.advance(1000);
    for (const system of nodes) {
      for (const { id } of await store.tenants.list()) system.raise({ ...skew, tenant: id });
    }
    await clock.advance(10 * minute);
    assert.deepEqual(told.toSorted(), [
      'main clock_skew The clock is wrong.',
      'other clock_skew The clock is wrong.',
    ]);
    assert.deepEqual(
      nodes.map((system) => system.queued({ id: 1, name: '', domain: '' }, true)),
      [[], [], []],
    );
    assert.equal(deps.system.raised, 0);
  });

  test('stays queued while the store is away', async (t) => {
    const clock = createManualClock();
    const site = await open(t, clock);
    const { alertState } = site.deps.store;
    let isAway = true;
    const flaky: typeof alertState = {
      ...alertState,
      record: (...args) =>
        isAway ? Promise.reject(new StoreUnavailable('gone')) : alertState.record(...args),
    };
    site.start({ store: { ...site.deps.store, alertState: flaky } });
    site.deps.system.raise(skew);
    await clock.advance(minute);
    assert.deepEqual(site.told, []);
    isAway = false;
    await clock.advance(minute);
    assert.deepEqual(site.told, ['main clock_skew The clock is wrong.']);
  });
});

test('ten thousand streams that fail at once are one alert each, a handful at a time', async (t) => {
  const clock = createManualClock();
  const site = await open(t, clock);
  let underWay = 0;
  let most = 0;
  const posted = new Map<string, number>();
  const endpoint = await startEndpoint((response, { body }) => {
    most = Math.max(most, ++underWay);
    const { stream } = JSON.parse(body) as { stream: { id: string } };
    posted.set(stream.id, (posted.get(stream.id) ?? 0) + 1);
    response.on('close', () => underWay--);
    response.writeHead(200).end();
  });
  t.after(() => endpoint.close());
  const many = Array.from({ length: 10_000 }, (_, index) => failureOf(`est_${index}`, clock.now()));
  const byStream = new Map(many.map((one) => [one.stream, one]));
  const failingStreams = many.map(({ stream: id }): FailingStream => {
    const health = { consecutive: 1, total: 1 };
    return { id, name: id, status: 'enabled', health, disabledAt: undefined, failedWithin: true };
  });
  const { store } = site.deps;
  const deliveries = {
    listFailures: (tenant: number, stream: string, query: FailureQuery) =>
      listOf([byStream.get(stream) ?? failureOf('', 0)]).listFailures(tenant, stream, query),
  };
  const alertState = {
    ...store.alertState,
    failingStreams: () => Promise.resolve(failingStreams),
    standings: (tenants: readonly number[]) =>
      Promise.resolve(tenants.map(() => ({ last: undefined, mayBeFailing: true }))),
  };
  const sender = createAlertWebhook({ fetch, url: endpoint.url, userAgent: 'Leat/1.2.3' });
  site.start({
    dispatcher: dispatcherOf(clock, sender),
    store: { ...store, alertState, deliveries },
  });
  await waitFor('all of them', () => posted.size === 10_000, {
    progress: () => posted.size,
  });
  const kept = await waitFor('the look to be over', async () => {
    const last = await site.store.alertState.last(1);
    return last?.state.includes('"outbox":{}') === true ? last.state : undefined;
  });
  assert.ok(most <= 4, `${most} at once`);
  assert.ok([...posted.values()].every((times) => times === 1));
  assert.ok(kept.length < 2_000_000, `${kept.length} characters`);
  assert.deepEqual(site.errors, []);
});
