import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { describe, test, type TestContext } from 'node:test';
import { systemClock } from '../../src/clock.ts';
import { StoreUnavailable } from '../../src/core/errors.ts';
import { type Alert, isStreamAlert } from '../../src/alerting/alert.ts';
import type { Millis } from '../../src/core/clock.ts';
import { createAlertDispatcher } from '../../src/alerting/dispatcher.ts';
import { type AlertChannel, AlertNotSent } from '../../src/alerting/channel.ts';
import { createAlertWebhook } from '../../src/alerting/channels.ts';
import { createMonitor, type MonitorDeps } from '../../src/alerting/monitor.ts';
import { createSystemAlerts } from '../../src/alerting/system-alerts.ts';
import type { NewFailure, NewFailureQuery } from '../../src/store/port/deliveries.ts';
import type { FailingStream } from '../../src/store/port/alert-state.ts';
import { createManualClock, type ManualClock } from '../helpers/clock.ts';
import { startEndpoint } from '../helpers/endpoint.ts';
import { waitFor } from '../helpers/leat.ts';
import { openMemoryCopy } from '../helpers/sqlite.ts';
import { addTenant } from '../store/contract/fixture.ts';

const minute = 60_000;
const limits = { consecutive: 500, total: 5000 };
const settings = { everyMs: minute, leaseMs: 30_000, alone: false, pageFailures: 50 };

/** A failure of a stream; the store has only the state of the checks. */
interface TestFailure {
  readonly stream: string;
  readonly failedAt: Millis;
  readonly eventId: string;
}

async function openFixture(t: TestContext, clock: ManualClock) {
  const store = await openMemoryCopy({
    secretKeys: [new Uint8Array(32)],
    random: randomBytes,
    clock: systemClock,
  });
  t.after(store.close);
  await addTenant(store, 'main');
  const failures: TestFailure[] = [];
  const alerts: string[] = [];
  const logged: string[] = [];
  const errors: unknown[] = [];
  let isRejecting = false;
  const sender: AlertChannel = {
    name: 'webhook',
    send: ({ alert }) => {
      if (isRejecting) return Promise.reject(new AlertNotSent('no'));
      alerts.push(brief(alert));
      return Promise.resolve();
    },
  };
  const deps = {
    store: {
      tenants: store.tenants,
      alertState: alertStateOf(store.alertState, failures),
      deliveries: listOf(failures),
      failures: store.failures,
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
    failures,
    alerts,
    logged,
    errors,
    setRejecting: (value: boolean) => {
      isRejecting = value;
    },
    /** Starts the monitor of a process; it runs until the test ends or the returned function is called. */
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
  const limitsOfChannel = { timeoutMs: 10_000, failuresInARowMax: 16, closingMs: 3000 };
  return createAlertDispatcher({
    clock,
    channels: [sender],
    urlOf: (domain: string) => `https://${domain}/`,
    settings: { ...limitsOfChannel, concurrency: 4, runMs: minute, saveEveryMs: 5000 },
    report: () => undefined,
  });
}

function brief(alert: Alert): string {
  if (!isStreamAlert(alert)) return `${alert.tenant} ${alert.kind} ${alert.sentence}`;
  const { kind, stream, newFailures } = alert;
  return `${stream.id} ${kind} ${newFailures}`;
}

function alertStateOf(
  alertState: MonitorDeps['store']['alertState'],
  failures: readonly TestFailure[],
) {
  return {
    last: alertState.last,
    record: alertState.record,
    standings: async (tenants: readonly number[]) => {
      const standings = await alertState.standings(tenants);
      return standings.map(({ last }) => ({ last, mayBeFailing: failures.length > 0 }));
    },
    failingStreams: (_tenant: number, { since }: { readonly since: Millis }) => {
      // PostgreSQL accepts only integers for an instant.
      assert.ok(Number.isInteger(since));
      const ids = [...new Set(failures.map(({ stream }) => stream))].toSorted();
      const streams = ids.map((id): FailingStream => {
        const own = failures.filter(({ stream }) => stream === id);
        const recent = own.filter(({ failedAt }) => failedAt > since);
        return {
          id,
          name: id,
          status: 'enabled',
          health: { consecutive: own.length, total: own.length },
          disabledAt: undefined,
          disabledReason: undefined,
          failedWithin: recent.length > 0,
        };
      });
      return Promise.resolve(streams);
    },
  };
}

function listOf(failures: readonly TestFailure[]): MonitorDeps['store']['deliveries'] {
  return {
    newFailures: (_tenant, stream, { after, take, failedAfter }) => {
      const start = Number(after ?? 0);
      const own = failures
        .filter((failure) => failure.stream === stream && failure.failedAt > failedAfter)
        .toSorted((one, other) => other.failedAt - one.failedAt);
      const items = own.slice(start, start + take).map(({ failedAt, eventId }): NewFailure => {
        const attempt = { attempts: 1, status: 503, error: '503 - busy' };
        return { eventId, eventType: 'a.b', failedAt, ...attempt };
      });
      const next = start + take < own.length ? String(start + take) : undefined;
      return Promise.resolve({ items, next });
    },
  };
}

let count = 0;
function failureOf(stream: string, failedAt: Millis): TestFailure {
  return { stream, failedAt, eventId: `evt_${++count}` };
}

describe('a check', () => {
  test('a check reports failures since the last check, also those that became visible late', async (t) => {
    const clock = createManualClock();
    const { start, failures, alerts, logged, errors } = await openFixture(t, clock);
    failures.push(failureOf('a', clock.now() - 5 * minute));
    start();
    await clock.advance(0);
    assert.deepEqual(alerts.splice(0), ['a delivery_failures 1']);
    const checkedAt = clock.now();
    // One of the same millisecond and one of half a minute ago, committed after the check.
    failures.push(failureOf('a', checkedAt), failureOf('b', checkedAt - 30_000));
    await clock.advance(minute);
    assert.deepEqual(alerts.splice(0), ['a delivery_failures 1', 'b delivery_failures 1']);
    // Of a node whose clock is ahead.
    failures.push(failureOf('a', clock.now() + 20_000));
    for (let check = 0; check < 5; check++) await clock.advance(minute);
    assert.deepEqual(alerts, ['a delivery_failures 1']);
    assert.deepEqual(logged.toSorted(), failures.map(({ eventId }) => eventId).toSorted());
    assert.deepEqual(errors, []);
  });

  test('a check reads all pages of many failures, and reports them once', async (t) => {
    const clock = createManualClock();
    const { start, failures, alerts, logged } = await openFixture(t, clock);
    for (let index = 0; index < 1234; index++) failures.push(failureOf('a', clock.now() - index));
    start();
    for (let check = 0; check < 4; check++) await clock.advance(minute);
    assert.deepEqual(alerts.slice(0, 1), ['a delivery_failures 1234']);
    assert.equal(new Set(logged).size, 1234);
    assert.equal(logged.length, 1234);
    assert.equal(alerts.filter((alert) => alert.includes('delivery_failures')).length, 1);
  });

  test('a check of a healthy tenant writes nothing; a later failure is reported', async (t) => {
    const clock = createManualClock();
    const fixture = await openFixture(t, clock);
    const { alertState } = fixture.deps.store;
    let records = 0;
    const counted: typeof alertState = {
      ...alertState,
      record: (...args) => {
        records += 1;
        return alertState.record(...args);
      },
    };
    fixture.start({ store: { ...fixture.deps.store, alertState: counted } });
    await clock.advance(5 * minute);
    assert.equal(records, 0);
    fixture.failures.push(failureOf('a', clock.now()));
    await clock.advance(minute);
    assert.deepEqual(fixture.alerts, ['a delivery_failures 1']);
    assert.ok(records > 0);
  });

  test('a check reports failures of each of many tenants, also of one that is created later', async (t) => {
    const clock = createManualClock();
    const fixture = await openFixture(t, clock);
    for (let index = 0; index < 250; index += 1) await addTenant(fixture.store, `tenant-${index}`);
    fixture.start();
    await clock.advance(0);
    await addTenant(fixture.store, 'later');
    fixture.failures.push(failureOf('a', clock.now()));
    await clock.advance(2 * minute);
    assert.equal(fixture.alerts.length, 252);
  });

  test('a check runs in one process at a time, and in another one when that process has ended', async (t) => {
    const clock = createManualClock();
    const { start, failures, alerts, logged } = await openFixture(t, clock);
    const stops = [start(), start(), start()];
    for (let check = 1; check <= 4; check++) {
      failures.push(failureOf('a', clock.now()));
      await clock.advance(minute);
      assert.equal(alerts.length, check);
    }
    await stops[0]?.();
    failures.push(failureOf('a', clock.now()));
    await clock.advance(2 * minute);
    assert.equal(alerts.length, 5);
    assert.equal(new Set(logged).size, logged.length);
  });

  test('a check runs once while a process has the lease, also when the clock of another is behind', async (t) => {
    const clock = createManualClock();
    const { deps, start, failures, alerts, logged } = await openFixture(t, clock);
    const failure = failureOf('a', clock.now() - minute);
    failures.push(failure);
    const reading = Promise.withResolvers<void>();
    const { newFailures } = deps.store.deliveries;
    const deliveries: MonitorDeps['store']['deliveries'] = {
      newFailures: (...query) => reading.promise.then(() => newFailures(...query)),
    };
    start({ store: { ...deps.store, deliveries } });
    await clock.advance(0);
    const behind = createManualClock(clock.now() - 5);
    start({ clock: behind });
    await behind.advance(0);
    reading.resolve();
    await clock.advance(0);
    assert.deepEqual(alerts, ['a delivery_failures 1']);
    assert.deepEqual(logged, [failure.eventId]);
  });

  test('a check repeats after a store outage, and no alert is sent twice', async (t) => {
    const clock = createManualClock();
    const fixture = await openFixture(t, clock);
    const { alertState } = fixture.deps.store;
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
    fixture.start({ store: { ...fixture.deps.store, alertState: flaky } });
    await clock.advance(0);
    // Before the failures are read, and before the alerts are sent.
    for (const first of [1, 2]) {
      fixture.failures.push(failureOf('a', clock.now()));
      fail(first);
      await clock.advance(minute);
      assert.deepEqual([fixture.alerts, fixture.errors.splice(0).length], [[], 1]);
      fail();
      await clock.advance(minute);
      assert.deepEqual(fixture.alerts.splice(0), ['a delivery_failures 1']);
    }
    // After the alerts were sent: the state is saved as soon as the store is available.
    fixture.failures.push(failureOf('a', clock.now()));
    fail(3, 4, 5);
    await clock.advance(4 * minute);
    assert.deepEqual(fixture.alerts, ['a delivery_failures 1']);
    assert.deepEqual(fixture.errors, []);
  });

  test('continues from the saved state after a restart', async (t) => {
    const clock = createManualClock();
    const { start, failures, alerts, setRejecting } = await openFixture(t, clock);
    failures.push(failureOf('a', clock.now()));
    setRejecting(true);
    const stop = start();
    await clock.advance(minute);
    await stop();
    failures.push(failureOf('a', clock.now()), failureOf('b', clock.now()));
    await clock.advance(10 * minute);
    setRejecting(false);
    start();
    await clock.advance(minute);
    // Oldest first: the sum of the rejected alert and of the failures while no process ran.
    assert.deepEqual(alerts, ['a delivery_failures 2', 'b delivery_failures 1']);
  });

  test('a check of many failures yields to other work between pages', async (t) => {
    const clock = createManualClock();
    const { start, deps, failures, alerts, logged } = await openFixture(t, clock);
    for (let index = 0; index < 2000; index++) failures.push(failureOf('a', clock.now() - index));
    const { newFailures } = deps.store.deliveries;
    let workedMs = 0;
    let pages = 0;
    start({
      // SQLite is synchronous: each page blocks the process.
      clock: { ...clock, elapsedMs: () => clock.elapsedMs() + workedMs },
      store: {
        ...deps.store,
        deliveries: {
          newFailures: (...args) => {
            workedMs += 3;
            pages++;
            return newFailures(...args);
          },
        },
      },
    });
    await waitFor('a pause', () => clock.pending > 0);
    assert.ok(pages < 5, `${pages} pages without a pause`);
    await clock.advance(0);
    assert.deepEqual(alerts.slice(0, 1), ['a delivery_failures 2000']);
    assert.equal(logged.length, 2000);
  });

  test('a check misses no failure when the clock is set back between two checks', async (t) => {
    for (const backMinutes of [2, 4, 10, 600]) {
      const clock = createManualClock();
      const { start, failures, alerts } = await openFixture(t, clock);
      let offsetMs = 0;
      const now = (): Millis => clock.now() + offsetMs;
      const everyMs = 5 * minute;
      // Like a real clock, no integer.
      const elapsedMs = (): number => clock.elapsedMs() * 1.000_001;
      start({ clock: { ...clock, now, elapsedMs }, settings: { ...settings, everyMs } });
      await clock.advance(2 * everyMs + 1000);
      offsetMs = -backMinutes * minute;
      failures.push(failureOf('a', now() + 1));
      await clock.advance(minute);
      failures.push(failureOf('b', now()));
      await clock.advance(2 * everyMs);
      const message = `set back by ${backMinutes} minutes`;
      assert.deepEqual(alerts, ['a delivery_failures 1', 'b delivery_failures 1'], message);
    }
  });

  test('a check misses no failure after failures of a clock that was far ahead', async (t) => {
    const clock = createManualClock();
    const { start, failures, alerts, logged } = await openFixture(t, clock);
    start();
    await clock.advance(minute);
    for (let index = 0; index < 300; index++) {
      failures.push(failureOf('a', clock.now() + 60 * minute + index));
    }
    await clock.advance(minute);
    assert.equal(alerts.shift(), 'a delivery_failures 300');
    await clock.advance(2 * minute);
    alerts.length = 0;
    const late = failureOf('a', clock.now() + 1);
    failures.push(late);
    await clock.advance(minute);
    // Too many to be remembered: those beyond the limit are reported twice.
    assert.deepEqual(alerts, ['a delivery_failures 101']);
    assert.equal(logged.filter((id) => id === late.eventId).length, 1);
  });

  test('a check runs although the clock was set back by a day', async (t) => {
    const clock = createManualClock();
    const { start, failures, alerts } = await openFixture(t, clock);
    const stop = start();
    await clock.advance(minute);
    await stop();
    const back = createManualClock(clock.now() - 24 * 60 * minute);
    start({ clock: back });
    failures.push(failureOf('a', back.now() + 1000));
    await back.advance(2 * minute);
    assert.deepEqual(alerts, ['a delivery_failures 1']);
  });
});

describe('a condition of a node or the store', () => {
  const skew = {
    kind: 'clock_skew',
    sentence: 'The clock is wrong.',
    fields: { skew_seconds: 3600 },
    key: 'clock_skew a-1',
  } as const;

  test('a condition is sent at once, before the next check is due, and at most once an hour', async (t) => {
    const clock = createManualClock();
    const { start, deps, alerts, errors } = await openFixture(t, clock);
    start();
    await clock.advance(1000);
    deps.system.raise(skew);
    await clock.advance(1);
    assert.deepEqual(alerts.splice(0), ['main clock_skew The clock is wrong.']);
    deps.system.raise(skew);
    await clock.advance(10 * minute);
    assert.deepEqual(alerts, []);
    await clock.advance(60 * minute);
    deps.system.raise(skew);
    await clock.advance(1);
    assert.equal(alerts.length, 1);
    assert.deepEqual(errors, []);
  });

  test('a condition is sent once when several nodes raise it, and once for each tenant that it names', async (t) => {
    const clock = createManualClock();
    const { store, start, deps, alerts } = await openFixture(t, clock);
    await addTenant(store, 'other');
    const nodes = [createSystemAlerts(), createSystemAlerts(), createSystemAlerts()];
    for (const system of nodes) start({ system });
    await clock.advance(1000);
    for (const system of nodes) {
      for (const { id } of await store.tenants.list()) system.raise({ ...skew, tenant: id });
    }
    await clock.advance(10 * minute);
    assert.deepEqual(alerts.toSorted(), [
      'main clock_skew The clock is wrong.',
      'other clock_skew The clock is wrong.',
    ]);
    assert.deepEqual(
      nodes.map((system) => system.queued({ id: 1, name: '', domain: '' }, true)),
      [[], [], []],
    );
    assert.equal(deps.system.raised, 0);
  });

  test('a condition stays queued during a store outage', async (t) => {
    const clock = createManualClock();
    const fixture = await openFixture(t, clock);
    const { alertState } = fixture.deps.store;
    let isOut = true;
    const flaky: typeof alertState = {
      ...alertState,
      record: (...args) =>
        isOut ? Promise.reject(new StoreUnavailable('gone')) : alertState.record(...args),
    };
    fixture.start({ store: { ...fixture.deps.store, alertState: flaky } });
    fixture.deps.system.raise(skew);
    await clock.advance(minute);
    assert.deepEqual(fixture.alerts, []);
    isOut = false;
    await clock.advance(minute);
    assert.deepEqual(fixture.alerts, ['main clock_skew The clock is wrong.']);
  });
});

test(
  'ten thousand streams that fail at once: one alert each, at most 4 in flight',
  { tags: ['long'] },
  async (t) => {
    const clock = createManualClock();
    const fixture = await openFixture(t, clock);
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
    const many = Array.from({ length: 10_000 }, (_, index) =>
      failureOf(`est_${index}`, clock.now()),
    );
    const byStream = new Map(many.map((one) => [one.stream, one]));
    const failingStreams = many.map(({ stream: id }): FailingStream => {
      const health = { consecutive: 1, total: 1 };
      return {
        id,
        name: id,
        status: 'enabled',
        health,
        disabledAt: undefined,
        disabledReason: undefined,
        failedWithin: true,
      };
    });
    const { store } = fixture.deps;
    const deliveries = {
      newFailures: (tenant: number, stream: string, query: NewFailureQuery) =>
        listOf([byStream.get(stream) ?? failureOf('', 0)]).newFailures(tenant, stream, query),
    };
    const alertState = {
      ...store.alertState,
      failingStreams: () => Promise.resolve(failingStreams),
      standings: (tenants: readonly number[]) =>
        Promise.resolve(tenants.map(() => ({ last: undefined, mayBeFailing: true }))),
    };
    const sender = createAlertWebhook({ fetch, url: endpoint.url, userAgent: 'Leat/1.2.3' });
    fixture.start({
      dispatcher: dispatcherOf(clock, sender),
      store: { ...store, alertState, deliveries },
    });
    await waitFor('all alerts', () => posted.size === 10_000, {
      progress: () => posted.size,
    });
    const state = await waitFor('the end of the check', async () => {
      const last = await fixture.store.alertState.last(1);
      return last?.state.includes('"outbox":{}') === true ? last.state : undefined;
    });
    assert.ok(most <= 4, `${most} at once`);
    assert.ok([...posted.values()].every((times) => times === 1));
    assert.ok(state.length < 2_000_000, `${state.length} characters`);
    assert.deepEqual(fixture.errors, []);
  },
);
