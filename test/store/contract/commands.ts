import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { errorCodeOf } from '../../../src/core/attempt-error.ts';
import type { DeliveredEvent } from '../../../src/core/types.ts';
import type { OwnedStream } from '../../../src/store/port/ownership.ts';
import type { Outcome } from '../../../src/store/port/settlement.ts';
import type { Engine, OpenedStore } from './engine.ts';
import * as model from './model.ts';
import { shownReplay } from './model-replays.ts';
import { compareStandings } from './model-standings.ts';
import { replayCommands } from './replay-commands.ts';
import {
  addTenant,
  leaseMs as nodeLeaseMs,
  newEvent,
  newStream,
  nextClaim,
  start,
} from './fixture.ts';
import {
  anyPick,
  anyStream,
  chance,
  type Step,
  step,
  streamOf,
  type ModelRun,
} from './model-run.ts';

/** Runs random commands on the store and on the model. */
export function modelContract(engine: Engine, runs: number): void {
  describe(`${engine.name}: random commands`, () => {
    test(
      'random commands: the store ends in the same state as the model',
      { tags: ['long'] },
      async () => {
        const scripts = fc.array(command, { minLength: 20, maxLength: 60, size: 'max' });
        const property = fc.asyncProperty(scripts, async (script) => {
          const opened = await engine.open();
          try {
            const modelRun = await createModelRun(opened);
            for (const [index, one] of script.entries()) {
              await one.run(modelRun);
              await compare(modelRun);
              if (index % standingsEvery === 0) await compareStandings(modelRun);
            }
          } finally {
            await opened.close();
          }
        });
        // Each attempt to shrink a script takes a database: the seed and the path show how to repeat
        // it.
        await fc.assert(property, { numRuns: runs, endOnFailure: true });
      },
    );
  });
}

/** Commands between comparisons of the states of streams, which take several queries. */
const standingsEvery = 5;

const limits = { consecutive: 4, total: 6 };
/**
 * Waits of this script are at most 3 s: a row that is due later was written by a clock that was
 * ahead.
 */
const rules = { leaseMs: 2000, longestWaitMs: 4000 };
const types: ReadonlyMap<string, string> = new Map([
  ['est_1', 'a.a'],
  ['est_2', 'b.b'],
]);

async function createModelRun({ store, time }: OpenedStore): Promise<ModelRun> {
  const { id: tenant } = await addTenant(store, 'main');
  const node = await store.ownership.join('node-a', nodeLeaseMs);
  const shared = { store, tenant, node, model: model.createModel(), owned: new Map() };
  const modelRun: ModelRun = {
    ...shared,
    batch: 0,
    tests: 0,
    replays: 0,
    get now() {
      return time.at;
    },
    set now(to) {
      time.at = to;
    },
  };
  for (const id of types.keys()) await create(modelRun, id);
  return modelRun;
}

async function create(modelRun: ModelRun, id: string): Promise<void> {
  const args = newStream(modelRun.tenant, modelRun.now, { id, types: [types.get(id) ?? ''] });
  assert.ok('created' in (await modelRun.store.streams.create(args, { streamsMax: 10 })));
  modelRun.model.streams.set(id, model.newModelStream(modelRun.model, types.get(id) ?? ''));
  await claim(modelRun);
}

/** Claims free streams, as a dispatcher does at a hint about a stream. */
async function claim(modelRun: ModelRun): Promise<void> {
  for (const [id, expected] of modelRun.model.streams) {
    if (!modelRun.owned.has(id)) model.claim(expected, modelRun.now);
  }
  for (const owned of await modelRun.store.ownership.claim(modelRun.node, {
    claim: nextClaim(),
    take: 10,
    ...rules,
  })) {
    assert.equal(modelRun.owned.has(owned.stream.id), false, 'it was free');
    modelRun.owned.set(owned.stream.id, owned);
  }
}

/** Returns an event that the stream has a row for, or one of the log. */
function eventOf(modelRun: ModelRun, id: string, pick: number): DeliveredEvent | undefined {
  const rows = [...streamOf(modelRun, id).rows.values()];
  const logged = modelRun.model.log.filter(({ type }) => type === types.get(id));
  const choices = [
    ...rows.map(({ eventId, offset }) => ({ eventId, offset })),
    ...logged.map(({ id: eventId, offset }) => ({ eventId, offset })),
  ];
  const choice = choices[pick % choices.length];
  if (choice === undefined) return undefined;
  const type = types.get(id) ?? '';
  return {
    id: choice.eventId,
    offset: choice.offset,
    type,
    time: start,
    body: bodyOf(choice.eventId),
  };
}

const bodyOf = (eventId: string): string => JSON.stringify({ id: eventId });

// The commands

const append = step(
  'append',
  fc.array(fc.tuple(fc.nat({ max: 300 }), fc.constantFrom('a.a', 'b.b', 'c.c')), { maxLength: 4 }),
  async (modelRun, args) => {
    const events = args.map(([number, type]) => {
      const id = `evt_${number}`;
      return newEvent({ id, type, chosen: true, time: start, body: bodyOf(id) });
    });
    const expected = events.map(({ id, type }) =>
      model.append(modelRun.model, id, type, modelRun.now),
    );
    assert.deepEqual(await modelRun.store.log.append(modelRun.tenant, events), expected);
  },
);

const settle = step(
  'settle',
  fc.record({
    stream: anyStream,
    pick: anyPick,
    result: fc.constantFrom('parked', 'delivered', 'retry', 'failed', 'failed', 'blocked'),
    orderKey: fc.constantFrom(undefined, 'key-1', 'key-2'),
    attempt: fc.integer({ min: 1, max: 4 }),
    waitMs: fc.nat({ max: 3000 }),
    raise: fc.boolean(),
    /** What failed may say that the receiver of this version is gone, or of the one before. */
    gone: fc.oneof({ weight: 9, arbitrary: fc.constant(undefined) }, fc.constantFrom(0, 1)),
    /** An attempt that is parked could not be made. */
    hasEnded: fc.boolean(),
    /** A runner can be wrong about the row once the lease of an attempt has ended. */
    wrongAboutRow: chance(10),
    formerRun: chance(10),
    repeat: chance(5),
  }),
  async (modelRun, args) => {
    const owned = modelRun.owned.get(args.stream);
    const event = eventOf(modelRun, args.stream, args.pick);
    if (owned === undefined || event === undefined) return;
    const expected = streamOf(modelRun, args.stream);
    const row = expected.rows.get(event.id);
    const kind = row?.kind ?? 'first';
    // A blocked event has a key.
    const orderKey = args.orderKey ?? (args.result === 'blocked' ? 'key-1' : undefined);
    const outcome: Outcome = {
      event,
      kind,
      ...(kind === 'first' ? { orderKey } : {}),
      attempt: args.attempt,
      hasRow: (row !== undefined) !== args.wrongAboutRow,
      result: args.result,
      agoMs: 0,
      durationMs: 1,
      status: args.result === 'delivered' ? 200 : 503,
      error: '503',
      delayMs: args.waitMs,
      leaseMs: args.waitMs,
      ...(args.result === 'parked' && args.hasEnded ? { hasEnded: true } : {}),
      ...(args.result === 'failed' && args.gone !== undefined
        ? { goneVersion: expected.version - args.gone }
        : {}),
    };
    const cursor = args.raise ? modelRun.model.head : 0;
    const run = args.formerRun ? expected.run - 1 : expected.run;
    modelRun.batch += 1;
    const settlement = {
      tenant: modelRun.tenant,
      stream: args.stream,
      epoch: expected.epoch,
      run,
      version: expected.version,
      cursor,
      outcomes: [outcome],
    };
    const sendBatch = () =>
      modelRun.store.deliveries.settle(modelRun.node, modelRun.batch, [settlement], limits);
    const result = model.settle(expected, outcome, { cursor, run, now: modelRun.now, limits });
    assert.deepEqual(await sendBatch(), [result]);
    if (args.repeat) await sendBatch();
  },
);

const redeliver = step(
  'redeliver',
  fc.record({ stream: anyStream, pick: anyPick }),
  async (modelRun, args) => {
    const event = eventOf(modelRun, args.stream, args.pick);
    const id = event?.id ?? 'evt_unknown';
    const expected = model.redeliver(
      modelRun.model,
      streamOf(modelRun, args.stream),
      id,
      modelRun.now,
    );
    const result = await modelRun.store.deliveries.redeliver(modelRun.tenant, args.stream, id);
    assert.equal(result, expected);
    await claim(modelRun);
  },
);

const redeliverMany = step('redeliverMany', anyStream, async (modelRun, id) => {
  const expected = streamOf(modelRun, id);
  const failed = [...expected.rows.values()].filter((row) => row.state === 'failed');
  for (const row of failed) model.redeliver(modelRun.model, expected, row.eventId, modelRun.now);
  const count = await modelRun.store.deliveries.redeliverMany(modelRun.tenant, id, {});
  assert.equal(count, failed.length);
  await claim(modelRun);
});

const addTest = step('addTest', anyStream, async (modelRun, id) => {
  modelRun.tests += 1;
  const eventId = `test_${modelRun.tests}`;
  const event = { id: eventId, type: types.get(id) ?? '', time: start, body: bodyOf(eventId) };
  const result = await modelRun.store.deliveries.addTest(modelRun.tenant, id, event);
  const { enabled, rows } = streamOf(modelRun, id);
  assert.equal(result, enabled ? 'accepted' : 'disabled');
  if (enabled) rows.set(eventId, { ...untried, eventId, dueAt: modelRun.now });
});

const untried = {
  offset: undefined,
  kind: 'test',
  state: 'retrying',
  attempt: 1,
  failedAt: undefined,
} as const;

const claimDue = step(
  'claimDue',
  fc.record({
    stream: anyStream,
    take: fc.integer({ min: 1, max: 4 }),
    key: fc.constantFrom(undefined, 'key-1', 'key-2'),
  }),
  async (modelRun, args) => {
    if (!modelRun.owned.has(args.stream)) return;
    const { store, tenant, now } = modelRun;
    const one = streamOf(modelRun, args.stream);
    const request = { tenant, stream: args.stream, epoch: one.epoch, take: args.take };
    const keys = args.key === undefined ? [] : [args.key];
    const [result] = await store.deliveries.claimDue([{ ...request, keys, ...rules }]);
    const expected = model.claimDue(one, now, rules, args.take, keys);
    assert.deepEqual(
      { taken: result?.rows.map(({ event }) => event.id), nextDueInMs: result?.nextDueInMs },
      expected,
    );
    for (const { event, attempt, kind } of result?.rows ?? []) {
      const row = one.rows.get(event.id);
      assert.deepEqual([event.body, attempt, kind], [bodyOf(event.id), row?.attempt, row?.kind]);
    }
  },
);

const disable = step('disable', anyStream, async (modelRun, id) => {
  const expected = streamOf(modelRun, id);
  if (!expected.enabled) return;
  model.disable(expected, modelRun.now);
  await switchTo(modelRun, id, 'disabled', undefined);
});

const enable = step(
  'enable',
  fc.record({ stream: anyStream, resume: fc.constantFrom('latest', 'held') }),
  async (modelRun, args) => {
    const expected = streamOf(modelRun, args.stream);
    if (expected.enabled || model.healthOf(expected).total >= limits.total) return;
    const skipped = model.enable(modelRun.model, expected, args.resume);
    assert.equal(await switchTo(modelRun, args.stream, 'enabled', args.resume), skipped);
    await claim(modelRun);
  },
);

async function switchTo(
  modelRun: ModelRun,
  id: string,
  status: 'enabled' | 'disabled',
  resume: 'latest' | 'held' | undefined,
): Promise<number> {
  const result = await modelRun.store.streams.update(modelRun.tenant, id, (before) => ({
    after: { ...before, status },
    resume,
  }));
  assert.ok('updated' in result);
  return result.skipped;
}

const recreate = step('recreate', anyStream, async (modelRun, id) => {
  assert.equal(await modelRun.store.streams.delete(modelRun.tenant, id), true);
  modelRun.owned.delete(id);
  await create(modelRun, id);
});

/** The node's process ends and another one starts under its id. */
const restart = step('restart', fc.constant(undefined), async (modelRun) => {
  modelRun.node = await modelRun.store.ownership.join('node-a', nodeLeaseMs);
  modelRun.batch = 0;
  modelRun.owned.clear();
  await claim(modelRun);
});

const prune = step(
  'prune',
  fc.record({ take: fc.integer({ min: 1, max: 20 }), agoMs: fc.nat({ max: 5000 }) }),
  async (modelRun, { take, agoMs }) => {
    // Ages are those at the newest event, or now when the clock was set back before it.
    const newest = modelRun.model.log.at(-1)?.publishedAt ?? 0;
    const before = Math.min(modelRun.now, newest) - agoMs;
    const expected = model.prune(modelRun.model, before, take);
    const query = { olderThanMs: agoMs, take };
    assert.equal(await modelRun.store.log.prune(modelRun.tenant, query), expected);
  },
);

const wait = step('wait', fc.integer({ min: 1, max: 3000 }), async (modelRun, ms) => {
  modelRun.now += ms;
});

/** The clock of the store was ahead, and is right again. */
const setBack = step('setBack', fc.integer({ min: 1, max: 60_000 }), async (modelRun, ms) => {
  modelRun.now -= ms;
});

const command: fc.Arbitrary<Step> = fc.oneof(
  { weight: 12, arbitrary: settle },
  { weight: 5, arbitrary: append },
  { weight: 4, arbitrary: redeliver },
  { weight: 4, arbitrary: claimDue },
  { weight: 4, arbitrary: wait },
  { weight: 1, arbitrary: setBack },
  { weight: 3, arbitrary: enable },
  { weight: 2, arbitrary: addTest },
  { weight: 2, arbitrary: prune },
  { weight: 1, arbitrary: redeliverMany },
  { weight: 1, arbitrary: disable },
  { weight: 1, arbitrary: recreate },
  { weight: 1, arbitrary: restart },
  ...replayCommands,
);

// State that is visible through the port

async function compare(modelRun: ModelRun): Promise<void> {
  const { store, tenant } = modelRun;
  assert.equal(await store.log.head(tenant), modelRun.model.head);
  const page = await store.log.page(tenant, { after: 0, take: 10_000, bytesMax: Infinity });
  assert.deepEqual(
    page.events.map(({ id, type, offset, publishedAt }) => ({ id, type, offset, publishedAt })),
    modelRun.model.log,
  );
  for (const [id, expected] of modelRun.model.streams) await compareStream(modelRun, id, expected);
  await compareGroups(modelRun);
}

/** Compares the counters of failures by cause with a count of the failures by their histories. */
async function compareGroups({ store, tenant, model: { streams } }: ModelRun): Promise<void> {
  const query = { after: undefined, take: 1000 };
  const counted: Record<string, number> = {};
  for (const id of streams.keys()) {
    for (const { attempts } of (await store.deliveries.listFailures(tenant, id, query)).items) {
      const last = attempts.findLast(({ outcome }) => outcome === 'failed');
      const key = `${id} ${last && errorCodeOf(last)}`;
      counted[key] = (counted[key] ?? 0) + 1;
    }
  }
  const { items } = await store.failures.groups(tenant, query);
  const groups = items.map(({ stream, code, count }) => [`${stream} ${code}`, count] as const);
  assert.deepEqual(Object.fromEntries(groups), counted);
}

async function compareStream(
  { store, tenant, node, owned, now }: ModelRun,
  id: string,
  expected: model.ModelStream,
): Promise<void> {
  const seen = await store.streams.get(tenant, id);
  assert.equal(seen?.status, expected.enabled ? 'enabled' : 'disabled');
  assert.equal(seen.version, expected.version);
  assert.deepEqual(await store.streams.health(tenant, id), model.healthOf(expected));
  const query = { after: undefined, take: 1000 };
  const { items } = await store.deliveries.listFailures(tenant, id, query);
  assert.deepEqual(
    items.map(({ event, failedAt, attempts }) => ({
      id: event.id,
      body: event.body,
      failedAt,
      outcomes: attempts.map(({ outcome }) => outcome),
    })),
    model.failures(expected).map((eventId) => ({
      id: eventId,
      body: bodyOf(eventId),
      failedAt: expected.rows.get(eventId)?.failedAt,
      outcomes: expected.history.get(eventId) ?? [],
    })),
  );
  for (const replay of expected.replays.values()) {
    assert.deepEqual(await store.replays.get(tenant, id, replay.id), shownReplay(replay));
  }
  const [run] = await store.ownership.owned(node, [{ tenant, stream: id }], rules);
  assert.equal(run !== undefined, owned.has(id));
  if (run !== undefined) assert.deepEqual(runOf(run), model.runOf(expected, now, rules));
}

const runOf = ({ stream: _, tenantName: __, keys, ...state }: OwnedStream) => ({
  ...state,
  keys: keys.toSorted((one, other) => (one.key < other.key ? -1 : 1)),
});
