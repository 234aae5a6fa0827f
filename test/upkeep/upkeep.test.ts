import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { StoreOutdated, StoreUnavailable } from '../../src/core/errors.ts';
import type { Stream } from '../../src/core/types.ts';
import { sleep } from '../../src/core/sleep.ts';
import { dayMs } from '../../src/core/units.ts';
import { type RaisedAlert } from '../../src/alerting/system-alerts.ts';
import { createUpkeep, type Upkeep, type UpkeepDeps } from '../../src/upkeep/upkeep.ts';
import type { Store } from '../../src/store/port/store.ts';
import { createManualClock } from '../helpers/clock.ts';
import { openMemoryCopy } from '../helpers/sqlite.ts';
import { newEntry } from '../store/contract/audit-log.ts';
import { addTenant, newEvent, newStream } from '../store/contract/fixture.ts';

const never = new AbortController().signal;
const settings = {
  eventRetentionMs: dayMs,
  attemptRetentionMs: dayMs,
  logRetentionMs: 3 * dayMs,
  lagMaxMs: 10 * dayMs,
  everyMs: 60_000,
  leaseMs: 60_000,
  stepRows: 10,
};

interface Fixture {
  readonly store: Store;
  readonly clock: ReturnType<typeof createManualClock>;
  readonly errors: { readonly error: unknown; readonly job: string }[];
  readonly alerts: RaisedAlert[];
  /** Starts the upkeep of a process; returns a function that stops it. */
  start(options?: Partial<UpkeepDeps>): () => Promise<void>;
  /** Runs one round of upkeep: of the same process, or with these options of another one. */
  round(options?: Partial<UpkeepDeps>): Promise<void>;
}

async function openFixture(t: { after(end: () => Promise<void>): void }): Promise<Fixture> {
  const clock = createManualClock();
  const store = await openMemoryCopy({
    secretKeys: [new Uint8Array(32)],
    random: randomBytes,
    clock,
  });
  t.after(store.close);
  const errors: Fixture['errors'][number][] = [];
  const alerts: RaisedAlert[] = [];
  const create = (options: Partial<UpkeepDeps> = {}): Upkeep =>
    createUpkeep({
      store,
      clock,
      settings,
      leader: 'this',
      mayWork: () => true,
      alerts: {
        raise: (alert, onStored) => {
          alerts.push(alert);
          onStored?.();
        },
      },
      log: { info: () => undefined },
      report: (error, job) => errors.push({ error, job }),
      ...options,
    });
  const own = create();
  const start = (options?: Partial<UpkeepDeps>): (() => Promise<void>) => {
    const end = new AbortController();
    const upkeep = options === undefined ? own : create(options);
    const ended = upkeep.run(end.signal);
    return async () => {
      end.abort();
      await ended;
    };
  };
  return {
    store,
    clock,
    errors,
    alerts,
    start,
    round: async (options) => {
      const end = start(options);
      for (let step = 0; step < 100; step += 1) await clock.advance(1);
      await end();
    },
  };
}

/**
 * Runs the upkeep of a process for some minutes while every round lists tenants 1 to `count`; returns
 * how many steps each of them had. `prune` is such a step.
 */
async function countTurns(
  { store, clock, start }: Fixture,
  {
    minutes,
    count,
    prune,
  }: { minutes: number; count: number; prune: (tenant: number) => Promise<number> },
): Promise<number[]> {
  const turns = Array.from({ length: count }, () => 0);
  const tenants = turns.map((_, index) => index + 1);
  const end = start({
    store: {
      ...store,
      log: {
        prune: (tenant) => {
          turns[tenant - 1] = (turns[tenant - 1] ?? 0) + 1;
          return prune(tenant);
        },
      },
      upkeep: {
        ...store.upkeep,
        tenantsToPrune: () => Promise.resolve({ tenants, next: undefined }),
      },
    },
  });
  await clock.advance(minutes * 60_000);
  const ended = end();
  await clock.advance(60_000);
  await ended;
  return turns;
}

test('a round removes results of dismissals that are older than 30 days', async (t) => {
  const { store, clock, round } = await openFixture(t);
  const { id: tenant } = await addTenant(store, 'main');
  const request = { tenant, streams: undefined, selection: {}, createdBy: 'robot' };
  await store.dismissals.create({ ...request, id: 'dsm_old' });
  await clock.advance(dayMs);
  await store.dismissals.create({ ...request, id: 'dsm_kept' });
  await clock.advance(29 * dayMs + 1);
  await store.log.append(tenant, [newEvent()]);
  await round();
  assert.equal(await store.dismissals.get(tenant, 'dsm_old'), undefined);
  assert.equal((await store.dismissals.get(tenant, 'dsm_kept'))?.status, 'done');
});

test('a round removes rows older than their retention, in steps, and nothing else', async (t) => {
  const { store, clock, errors, round } = await openFixture(t);
  const { id: tenant } = await addTenant(store, 'main');
  const old = Array.from({ length: 35 }, () => newEvent());
  await store.log.append(tenant, old);
  const stream = newStream(tenant, clock.now());
  await store.streams.create(stream, { streamsMax: 1 });
  const replay = { tenant, stream: stream.id, from: 0, to: 0, types: undefined };
  await store.replays.create({ ...replay, id: 'rpl_old' });
  const [oldEntry, keptEntry] = [newEntry(tenant), newEntry(tenant)];
  await store.auditLog.add([{ entry: oldEntry, count: 1, ageMs: dayMs }]);
  await clock.advance(3 * dayMs);
  await store.auditLog.add([{ entry: keptEntry, count: 1, ageMs: dayMs }]);
  await store.log.append(tenant, [newEvent({ id: 'evt_kept' })]);
  await store.replays.create({ ...replay, id: 'rpl_kept' });
  await round();
  const { events } = await store.log.page(tenant, { after: 0, take: 100, bytesMax: 1_000_000 });
  assert.deepEqual(
    events.map(({ id }) => id),
    ['evt_kept'],
  );
  assert.equal(await store.replays.get(tenant, stream.id, 'rpl_old'), undefined);
  assert.equal((await store.replays.get(tenant, stream.id, 'rpl_kept'))?.status, 'done');
  assert.equal(await store.auditLog.get(tenant, oldEntry.id), undefined);
  assert.ok(await store.auditLog.get(tenant, keptEntry.id));
  assert.deepEqual(errors, []);
});

test('an error ends one job of one tenant, and no other', async (t) => {
  const { store, clock, errors, round } = await openFixture(t);
  const tenants = [await addTenant(store, 'one'), await addTenant(store, 'two')];
  for (const { id } of tenants) {
    await store.log.append(id, [newEvent()]);
  }
  await clock.advance(3 * dayMs);
  for (const { id } of tenants) await store.log.append(id, [newEvent()]);
  const [one, two] = tenants;
  assert.ok(one && two);
  const broken = new Error('broken');
  const fails = (): Promise<never> => Promise.reject(broken);
  const log: UpkeepDeps['store']['log'] = {
    prune: (tenant, query) => (tenant === one.id ? fails() : store.log.prune(tenant, query)),
  };
  await round({ store: { ...store, log, deliveries: { pruneAttempts: fails } } });
  assert.deepEqual(
    new Set(errors.map(({ job }) => job)),
    new Set(['history', `events of tenant ${one.id}`]),
  );
  assert.equal(await store.log.firstSince(two.id, 0), 2);
});

test('a store that a newer version has changed ends the round, with one error', async (t) => {
  const { store, clock, errors, round } = await openFixture(t);
  const { id } = await addTenant(store, 'one');
  await store.log.append(id, [newEvent()]);
  await clock.advance(3 * dayMs);
  const outdated = new StoreOutdated('changed');
  const fails = (): Promise<never> => Promise.reject(outdated);
  await round({ store: { ...store, log: { prune: fails }, deliveries: { pruneAttempts: fails } } });
  assert.deepEqual(errors, [{ error: outdated, job: 'round' }]);
});

test('a round that ends early tells what its jobs did before', async (t) => {
  const { store, errors, round } = await openFixture(t);
  const logged: object[] = [];
  const counts = [3, 0];
  await round({
    store: {
      ...store,
      deliveries: { pruneAttempts: async () => counts.shift() ?? 0 },
      auditLog: { prune: () => Promise.reject(new StoreOutdated('changed')) },
    },
    log: { info: (fields) => logged.push(fields) },
  });
  assert.deepEqual(
    errors.map(({ job }) => job),
    ['round'],
  );
  assert.deepEqual(logged, [{ what: 'history', count: 3 }]);
});

test('tenants whose steps time out do not block others', async (t) => {
  const fixture = await openFixture(t);
  const turns = await countTurns(fixture, {
    minutes: 10,
    count: 10,
    prune: async (tenant) => {
      if (tenant > 5) return 0;
      await sleep(fixture.clock, 10_000, never);
      throw new Error('Query read timeout');
    },
  });
  assert.ok(Math.min(...turns) > 0, `steps by tenant: ${turns.join(', ')}`);
});

test('a round starts after the last tenant that had a step, also one with nothing to prune', async (t) => {
  const fixture = await openFixture(t);
  const turns = await countTurns(fixture, {
    minutes: 10,
    count: 100,
    prune: async () => {
      await sleep(fixture.clock, 500, never);
      return 0;
    },
  });
  assert.ok(
    Math.max(...turns) - Math.min(...turns) <= 1 && Math.min(...turns) > 0,
    `steps by tenant: ${turns.join(', ')}`,
  );
});

test('after a failed step the others wait for at most a second', async (t) => {
  const { clock, start, store } = await openFixture(t);
  const started: number[] = [];
  const end = start({
    store: {
      ...store,
      deliveries: {
        pruneAttempts: async () => {
          await sleep(clock, 10_000, never);
          throw new Error('Query read timeout');
        },
      },
      replays: {
        prune: () => {
          started.push(clock.elapsedMs());
          return Promise.resolve(0);
        },
      },
    },
  });
  await clock.advance(30_000);
  await end();
  // The step of the lag comes before it.
  assert.deepEqual(started, [11_001]);
});

test('all tenants share one turn with the other jobs', async (t) => {
  const { store, clock, round } = await openFixture(t);
  const tenants: number[] = [];
  for (let count = 1; count <= 10; count += 1) {
    tenants.push((await addTenant(store, `tenant-${count}`)).id);
  }
  for (const id of tenants) await store.log.append(id, [newEvent()]);
  await clock.advance(3 * dayMs);
  for (const id of tenants) await store.log.append(id, [newEvent()]);
  const turns: string[] = [];
  await round({
    store: {
      ...store,
      log: {
        prune: (tenant, query) => {
          turns.push('tenant');
          return store.log.prune(tenant, query);
        },
      },
      deliveries: {
        pruneAttempts: () => {
          turns.push('history');
          return Promise.resolve(turns.length < 10 ? 1 : 0);
        },
      },
    },
  });
  assert.deepEqual(turns.slice(0, 4), ['history', 'tenant', 'history', 'tenant']);
  assert.equal(turns.filter((turn) => turn === 'tenant').length, 2 * tenants.length);
  for (const id of tenants) assert.equal(await store.log.firstSince(id, 0), 2);
});

test('a round does nothing while the clock of this process is wrong, or another process has the lease', async (t) => {
  const { store, clock, round } = await openFixture(t);
  const { id: tenant } = await addTenant(store, 'main');
  await store.log.append(tenant, [newEvent()]);
  await clock.advance(3 * dayMs);
  await store.log.append(tenant, [newEvent()]);
  await round({ mayWork: () => false });
  const led = { ...store.upkeep, lead: () => Promise.resolve(false) };
  await round({ store: { ...store, upkeep: led } });
  assert.equal(await store.log.firstSince(tenant, 0), 1);
  await round();
  assert.equal(await store.log.firstSince(tenant, 0), 2);
});

test('a process without the lease continues requests about failures, and nothing else', async (t) => {
  const { store, round } = await openFixture(t);
  const stepped: string[] = [];
  const workOf = (id: string) => ({
    unfinished: async () => (stepped.includes(id) ? [] : [{ tenant: 1, id }]),
    step: async () => {
      stepped.push(id);
      return 'done' as const;
    },
  });
  const led = { ...store.upkeep, lead: () => Promise.resolve(false) };
  const dismissals = { ...store.dismissals, ...workOf('dsm_1') };
  const redeliveries = { ...store.redeliveries, ...workOf('rdl_1') };
  await round({ store: { ...store, upkeep: led, dismissals, redeliveries } });
  assert.deepEqual(stepped, ['dsm_1', 'rdl_1']);
});

test('a lagging stream is reported once at 50, 75 and 90 %, and then disabled', async (t) => {
  const { store, clock, alerts, round } = await openFixture(t);
  const { id: tenant } = await addTenant(store, 'main');
  const stream = newStream(tenant, clock.now());
  await store.streams.create(stream, { streamsMax: 1 });
  await store.log.append(tenant, [newEvent({ id: 'evt_waits' })]);
  const seen: unknown[] = [];
  for (let day = 1; day <= 10; day += 1) {
    await clock.advance(dayMs);
    await store.log.append(tenant, [newEvent()]);
    await round();
    await round();
    for (const { kind, fields } of alerts.splice(0)) seen.push([day, kind, fields['percent']]);
  }
  assert.deepEqual(seen, [
    [5, 'lag_near', 50],
    [8, 'lag_near', 75],
    [9, 'lag_near', 90],
    [10, 'lag_disabled', undefined],
  ]);
  assert.equal((await store.streams.get(tenant, stream.id))?.status, 'disabled');
  await round();
  assert.ok((await store.log.firstSince(tenant, 0)) > 1, 'it no longer keeps the log');
});

test('a paused stream is reported and disabled as others are, and its events stay until then', async (t) => {
  const { store, clock, alerts, round } = await openFixture(t);
  const { id: tenant } = await addTenant(store, 'main');
  const stream = newStream(tenant, clock.now());
  await store.streams.create(stream, { streamsMax: 9 });
  await store.log.append(tenant, [newEvent({ time: clock.now() })]);
  await store.streams.update(tenant, stream.id, (before) => ({
    after: { ...before, paused: { at: clock.now() } },
  }));
  for (let day = 1; day <= 10; day += 1) {
    await clock.advance(dayMs);
    await store.log.append(tenant, [newEvent({ time: clock.now() })]);
    assert.equal(await store.log.firstSince(tenant, 0), 1, `day ${day}`);
    await round();
    await round();
  }
  const found = alerts.map(({ kind, fields }) => [kind, fields['percent']]);
  assert.deepEqual(found, [
    ['lag_near', 50],
    ['lag_near', 75],
    ['lag_near', 90],
    ['lag_disabled', undefined],
  ]);
  const [after, facts] = [
    await store.streams.get(tenant, stream.id),
    await store.streams.facts(tenant, stream.id),
  ];
  assert.equal(after?.status, 'disabled');
  assert.ok(after.paused, 'the pause stays');
  assert.equal(facts?.disabled.reason, 'lag');
});

test('a clock that is ahead for a while disables no stream and removes none of its events', async (t) => {
  const { store, clock, alerts, round } = await openFixture(t);
  const { id: tenant } = await addTenant(store, 'main');
  const stream = newStream(tenant, clock.now());
  await store.streams.create(stream, { streamsMax: 1 });
  await store.log.append(tenant, [newEvent()]);
  // For the store, days have passed since the last round.
  await clock.advance(11 * dayMs);
  await store.log.append(tenant, [newEvent()]);
  await round();
  await clock.advance(3_600_000);
  await round();
  assert.deepEqual(
    alerts.map(({ kind, fields }) => [kind, fields['percent']]),
    [['lag_near', 90]],
  );
  assert.equal((await store.streams.get(tenant, stream.id))?.status, 'enabled');
  assert.equal(await store.log.firstSince(tenant, 0), 1);
  await clock.advance(6 * 3_600_000);
  await round();
  assert.equal((await store.streams.get(tenant, stream.id))?.status, 'disabled');
});

/** Returns a stream whose lag was reported, and which the next round disables. */
async function createLaggingStream({
  store,
  clock,
  alerts,
  round,
}: Fixture): Promise<Pick<Stream, 'tenant' | 'id'>> {
  const { id: tenant } = await addTenant(store, 'main');
  const stream = newStream(tenant, clock.now());
  await store.streams.create(stream, { streamsMax: 1 });
  await store.log.append(tenant, [newEvent()]);
  await clock.advance(9 * dayMs);
  await store.log.append(tenant, [newEvent()]);
  await round();
  await round();
  await clock.advance(dayMs);
  await store.log.append(tenant, [newEvent()]);
  assert.deepEqual(
    alerts.splice(0).map(({ fields }) => fields['percent']),
    [90],
  );
  return stream;
}

test('the alert about a disabled stream is raised by the next process', async (t) => {
  const fixture = await openFixture(t);
  const { store, alerts, round } = fixture;
  const { tenant, id } = await createLaggingStream(fixture);
  const { disableLagging } = store.upkeep;
  const unconfirmed: typeof disableLagging = async (stream) => {
    await disableLagging(stream);
    throw new StoreUnavailable('a commit was not confirmed');
  };
  await round({ store: { ...store, upkeep: { ...store.upkeep, disableLagging: unconfirmed } } });
  assert.equal((await store.streams.get(tenant, id))?.status, 'disabled');
  assert.deepEqual(alerts, []);
  await round();
  await round();
  assert.deepEqual(
    alerts.map(({ kind, fields }) => [kind, fields['lag_days']]),
    [['lag_disabled', 10]],
  );
});

test('an alert about lag is raised again until it is in the store', async (t) => {
  const fixture = await openFixture(t);
  const { alerts, round } = fixture;
  await createLaggingStream(fixture);
  // Like processes that end before their monitor has stored it.
  const unstored = { alerts: { raise: (alert: RaisedAlert) => alerts.push(alert) } };
  await round(unstored);
  await round(unstored);
  for (let count = 0; count < 3; count += 1) await round();
  assert.deepEqual(
    alerts.map(({ kind }) => kind),
    ['lag_disabled', 'lag_disabled', 'lag_disabled'],
  );
});

test('a lagging stream that is enabled again is reported before it is disabled again', async (t) => {
  const fixture = await openFixture(t);
  const { store, alerts, round } = fixture;
  const { tenant, id } = await createLaggingStream(fixture);
  for (const status of ['disabled', 'enabled'] as const) {
    await store.streams.update(tenant, id, (before) => ({
      after: { ...before, status },
      resume: 'held',
    }));
  }
  await round();
  assert.deepEqual(
    alerts.map(({ kind }) => kind),
    ['lag_near'],
  );
  assert.equal((await store.streams.get(tenant, id))?.status, 'enabled');
});

test('a lag that falls is reported again when it grows', async (t) => {
  const { store, clock, alerts, round } = await openFixture(t);
  const { id: tenant } = await addTenant(store, 'main');
  const stream = newStream(tenant, clock.now());
  await store.streams.create(stream, { streamsMax: 1 });
  const node = await store.ownership.join('node', 60_000);
  const [owned] = await store.ownership.claim(node, {
    claim: 1,
    take: 1,
    longestWaitMs: 60_000,
  });
  assert.ok(owned);
  const wait = async (): Promise<void> => {
    await store.log.append(tenant, [newEvent()]);
    await clock.advance(6 * dayMs);
    await store.log.append(tenant, [newEvent()]);
    await round();
  };
  await wait();
  const { epoch, run } = owned;
  const { version } = owned.stream;
  await store.ownership.raiseCursors([
    { tenant, stream: stream.id, epoch, run, version, cursor: 2 },
  ]);
  await round();
  await wait();
  assert.deepEqual(
    alerts.map(({ kind }) => kind),
    ['lag_near', 'lag_near'],
  );
});

/** Adds a stream whose client certificate expires after these days. */
async function addCertificate(
  { store, clock }: Fixture,
  tenant: number,
  days: number,
): Promise<Parameters<Store['streams']['create']>[0]> {
  const stream = newStream(tenant, clock.now(), { name: 'crm' });
  const { destination } = stream;
  const clientCertificate = {
    certificate: 'certificate',
    privateKey: 'key',
    expiresAt: clock.now() + days * dayMs,
  };
  const created = { ...stream, destination: { ...destination, clientCertificate } };
  await store.streams.create(created, { streamsMax: 9 });
  return created;
}

test('a client certificate is reported once 14 days before it expires, and once when it has expired', async (t) => {
  const fixture = await openFixture(t);
  const { store, clock, alerts, round } = fixture;
  const { id: tenant } = await addTenant(store, 'main');
  const stream = await addCertificate(fixture, tenant, 20);
  const startedAt = clock.now();
  const seen: [number, RaisedAlert][] = [];
  for (let day = 1; day <= 30; day += 1) {
    await clock.advance(dayMs);
    await round();
    await round();
    for (const alert of alerts.splice(0)) seen.push([day, alert]);
  }
  const expiry = new Date(startedAt + 20 * dayMs).toISOString();
  const [expiresAt, subject] = [
    startedAt + 20 * dayMs,
    { tenant, stream: { id: stream.id, name: 'crm' } },
  ];
  const remedy =
    'replace it with leat streams update, --certificate-file and --certificate-key-file';
  assert.deepEqual(seen, [
    [
      6,
      {
        ...subject,
        key: `certificate ${stream.id} ${expiresAt} near`,
        kind: 'certificate_near',
        sentence: `its client certificate expires at ${expiry}, in 14 days: ${remedy}`,
        fields: { expires_at: expiry, days_left: 14 },
      },
    ],
    [
      20,
      {
        ...subject,
        key: `certificate ${stream.id} ${expiresAt} expired`,
        kind: 'certificate_expired',
        sentence: `its client certificate expired at ${expiry}, so all attempts fail: ${remedy}`,
        fields: { expires_at: expiry },
      },
    ],
  ]);
});

test('a client certificate that is replaced in time is not reported as expired, and the new one is', async (t) => {
  const fixture = await openFixture(t);
  const { store, clock, alerts, round } = fixture;
  const { id: tenant } = await addTenant(store, 'main');
  const { id } = await addCertificate(fixture, tenant, 1);
  const seen: unknown[] = [];
  for (let day = 0; day <= 12; day += 1) {
    if (day === 1) {
      await store.streams.update(tenant, id, (before) => {
        const { clientCertificate } = before.destination;
        assert.ok(clientCertificate);
        const renewed = { ...clientCertificate, expiresAt: clock.now() + 10 * dayMs };
        return {
          after: { ...before, destination: { ...before.destination, clientCertificate: renewed } },
        };
      });
    }
    await round();
    await round();
    for (const { kind, fields } of alerts.splice(0)) seen.push([day, kind, fields['days_left']]);
    await clock.advance(dayMs);
  }
  assert.deepEqual(seen, [
    [0, 'certificate_near', 1],
    [1, 'certificate_near', 10],
    [11, 'certificate_expired', undefined],
  ]);
});

test('an alert about a client certificate is raised again until it is in the store, and no more afterwards', async (t) => {
  const fixture = await openFixture(t);
  const { store, alerts, round } = fixture;
  const { id: tenant } = await addTenant(store, 'main');
  await addCertificate(fixture, tenant, 0);
  // Like processes that end before their monitor has stored it.
  const unstored = { alerts: { raise: (alert: RaisedAlert) => alerts.push(alert) } };
  await round(unstored);
  await round(unstored);
  for (let count = 0; count < 3; count += 1) await round();
  assert.deepEqual(
    alerts.map(({ kind }) => kind),
    ['certificate_expired', 'certificate_expired', 'certificate_expired'],
  );
});
