import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { DeliveredEvent } from '../../../src/core/types.ts';
import type { OwnedStream } from '../../../src/store/port/ownership.ts';
import type { Outcome } from '../../../src/store/port/settlement.ts';
import type { Engine, OpenedStore } from './engine.ts';
import * as model from './model.ts';
import { shownReplay } from './model-replays.ts';
import { replayCommands } from './replay-commands.ts';
import {
  addTenant,
  leaseMs as nodeLeaseMs,
  newEvent,
  newStream,
  nextClaim,
  start,
} from './fixture.ts';
import { anyPick, anyStream, chance, type Step, step, streamOf, type World } from './model-run.ts';

/** Random commands do to the store what they do to the model. */
export function modelContract(engine: Engine, runs: number): void {
  describe(`${engine.name}: random commands`, () => {
    test('leave the store as they leave the model', async () => {
      const scripts = fc.array(command, { minLength: 20, maxLength: 60, size: 'max' });
      const property = fc.asyncProperty(scripts, async (script) => {
        const opened = await engine.open();
        try {
          const world = await createWorld(opened);
          for (const one of script) {
            await one.run(world);
            await compare(world);
          }
        } finally {
          await opened.close();
        }
      });
      // Looking for a smaller script takes a database each time: the seed and path say how to.
      await fc.assert(property, { numRuns: runs, endOnFailure: true });
    });
  });
}

const limits = { consecutive: 4, total: 6 };
/** Waits of this script are at most 3 s: what is due later was written by a clock that was ahead. */
const rules = { leaseMs: 2000, longestWaitMs: 4000 };
const types: ReadonlyMap<string, string> = new Map([
  ['est_1', 'a.a'],
  ['est_2', 'b.b'],
]);

async function createWorld({ store, time }: OpenedStore): Promise<World> {
  const { id: tenant } = await addTenant(store, 'main');
  const node = await store.ownership.join('node-a', nodeLeaseMs);
  const shared = { store, tenant, node, model: model.createModel(), owned: new Map() };
  const world: World = {
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
  for (const id of types.keys()) await create(world, id);
  return world;
}

async function create(world: World, id: string): Promise<void> {
  const given = newStream(world.tenant, world.now, { id, types: [types.get(id) ?? ''] });
  assert.ok('created' in (await world.store.streams.create(given, { streamsMax: 10 })));
  world.model.streams.set(id, model.newModelStream(world.model, types.get(id) ?? ''));
  await claim(world);
}

/** Claims what is free, as a dispatcher does whenever it hears of a stream. */
async function claim(world: World): Promise<void> {
  for (const [id, expected] of world.model.streams) {
    if (!world.owned.has(id)) model.claim(expected, world.now);
  }
  for (const owned of await world.store.ownership.claim(world.node, {
    claim: nextClaim(),
    take: 10,
    ...rules,
  })) {
    assert.equal(world.owned.has(owned.stream.id), false, 'it was free');
    world.owned.set(owned.stream.id, owned);
  }
}

/** An event that the stream has a row for, or one of the log. */
function eventOf(world: World, id: string, pick: number): DeliveredEvent | undefined {
  const rows = [...streamOf(world, id).rows.values()];
  const logged = world.model.log.filter(({ type }) => type === types.get(id));
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
  async (world, given) => {
    const events = given.map(([number, type]) => {
      const id = `evt_${number}`;
      return newEvent({ id, type, chosen: true, time: start, body: bodyOf(id) });
    });
    const expected = events.map(({ id, type }) => model.append(world.model, id, type, world.now));
    assert.deepEqual(await world.store.log.append(world.tenant, events), expected);
  },
);

const settle = step(
  'settle',
  fc.record({
    stream: anyStream,
    pick: anyPick,
    result: fc.constantFrom('parked', 'delivered', 'retry', 'failed', 'failed'),
    attempt: fc.integer({ min: 1, max: 4 }),
    waitMs: fc.nat({ max: 3000 }),
    raise: fc.boolean(),
    /** A runner can be wrong about the row once the lease of an attempt has ended. */
    wrongAboutRow: chance(10),
    formerRun: chance(10),
    repeat: chance(5),
  }),
  async (world, given) => {
    const owned = world.owned.get(given.stream);
    const event = eventOf(world, given.stream, given.pick);
    if (owned === undefined || event === undefined) return;
    const expected = streamOf(world, given.stream);
    const row = expected.rows.get(event.id);
    const outcome: Outcome = {
      event,
      kind: row?.kind ?? 'first',
      attempt: given.attempt,
      hasRow: (row !== undefined) !== given.wrongAboutRow,
      result: given.result,
      agoMs: 0,
      durationMs: 1,
      status: given.result === 'delivered' ? 200 : 503,
      error: '503',
      delayMs: given.waitMs,
      leaseMs: given.waitMs,
    };
    const cursor = given.raise ? world.model.head : 0;
    const run = given.formerRun ? expected.run - 1 : expected.run;
    world.batch += 1;
    const settlement = {
      tenant: world.tenant,
      stream: given.stream,
      epoch: expected.epoch,
      run,
      version: expected.version,
      cursor,
      outcomes: [outcome],
    };
    const sendBatch = () =>
      world.store.deliveries.settle(world.node, world.batch, [settlement], limits);
    const answer = model.settle(expected, outcome, { cursor, run, now: world.now, limits });
    assert.deepEqual(await sendBatch(), [answer]);
    if (given.repeat) await sendBatch();
  },
);

const redeliver = step(
  'redeliver',
  fc.record({ stream: anyStream, pick: anyPick }),
  async (world, given) => {
    const event = eventOf(world, given.stream, given.pick);
    const id = event?.id ?? 'evt_unknown';
    const expected = model.redeliver(world.model, streamOf(world, given.stream), id, world.now);
    const answer = await world.store.deliveries.redeliver(world.tenant, given.stream, id);
    assert.equal(answer, expected);
    await claim(world);
  },
);

const redeliverMany = step('redeliverMany', anyStream, async (world, id) => {
  const expected = streamOf(world, id);
  const failed = [...expected.rows.values()].filter((row) => row.state === 'failed');
  for (const row of failed) model.redeliver(world.model, expected, row.eventId, world.now);
  const count = await world.store.deliveries.redeliverMany(world.tenant, id, {});
  assert.equal(count, failed.length);
  await claim(world);
});

const addTest = step('addTest', anyStream, async (world, id) => {
  world.tests += 1;
  const eventId = `test_${world.tests}`;
  const event = { id: eventId, type: types.get(id) ?? '', time: start, body: bodyOf(eventId) };
  const answer = await world.store.deliveries.addTest(world.tenant, id, event);
  const { enabled, rows } = streamOf(world, id);
  assert.equal(answer, enabled ? 'accepted' : 'disabled');
  if (enabled) rows.set(eventId, { ...untried, eventId, dueAt: world.now });
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
  fc.record({ stream: anyStream, take: fc.integer({ min: 1, max: 4 }) }),
  async (world, given) => {
    if (!world.owned.has(given.stream)) return;
    const { store, tenant, now } = world;
    const one = streamOf(world, given.stream);
    const ask = { tenant, stream: given.stream, epoch: one.epoch, take: given.take };
    const [answer] = await store.deliveries.claimDue([ask], rules);
    const expected = model.claimDue(one, now, rules, given.take);
    assert.deepEqual(
      { taken: answer?.rows.map(({ event }) => event.id), nextDueInMs: answer?.nextDueInMs },
      expected,
    );
    for (const { event, attempt, kind } of answer?.rows ?? []) {
      const row = one.rows.get(event.id);
      assert.deepEqual([event.body, attempt, kind], [bodyOf(event.id), row?.attempt, row?.kind]);
    }
  },
);

const disable = step('disable', anyStream, async (world, id) => {
  const expected = streamOf(world, id);
  if (!expected.enabled) return;
  model.disable(expected, world.now);
  await switchTo(world, id, 'disabled', undefined);
});

const enable = step(
  'enable',
  fc.record({ stream: anyStream, resume: fc.constantFrom('latest', 'held') }),
  async (world, given) => {
    const expected = streamOf(world, given.stream);
    if (expected.enabled || model.healthOf(expected).total >= limits.total) return;
    const skipped = model.enable(world.model, expected, given.resume);
    assert.equal(await switchTo(world, given.stream, 'enabled', given.resume), skipped);
    await claim(world);
  },
);

async function switchTo(
  world: World,
  id: string,
  status: 'enabled' | 'disabled',
  resume: 'latest' | 'held' | undefined,
): Promise<number> {
  const answer = await world.store.streams.update(world.tenant, id, (before) => ({
    after: { ...before, status },
    resume,
  }));
  assert.ok('updated' in answer);
  return answer.skipped;
}

const recreate = step('recreate', anyStream, async (world, id) => {
  assert.equal(await world.store.streams.delete(world.tenant, id), true);
  world.owned.delete(id);
  await create(world, id);
});

/** The node's process ends and another takes its place. */
const restart = step('restart', fc.constant(undefined), async (world) => {
  world.node = await world.store.ownership.join('node-a', nodeLeaseMs);
  world.batch = 0;
  world.owned.clear();
  await claim(world);
});

const prune = step(
  'prune',
  fc.record({ take: fc.integer({ min: 1, max: 20 }), agoMs: fc.nat({ max: 5000 }) }),
  async (world, { take, agoMs }) => {
    // Ages are those at the newest event, or now when the clock was set back behind it.
    const newest = world.model.log.at(-1)?.publishedAt ?? 0;
    const before = Math.min(world.now, newest) - agoMs;
    const expected = model.prune(world.model, before, take);
    const query = { olderThanMs: agoMs, take };
    assert.equal(await world.store.log.prune(world.tenant, query), expected);
  },
);

const wait = step('wait', fc.integer({ min: 1, max: 3000 }), async (world, ms) => {
  world.now += ms;
});

/** The clock of the store was ahead, and is right again. */
const setBack = step('setBack', fc.integer({ min: 1, max: 60_000 }), async (world, ms) => {
  world.now -= ms;
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

// What can be seen from outside

async function compare(world: World): Promise<void> {
  const { store, tenant } = world;
  assert.equal(await store.log.head(tenant), world.model.head);
  const page = await store.log.page(tenant, { after: 0, take: 10_000, bytesMax: Infinity });
  assert.deepEqual(
    page.events.map(({ id, type, offset, publishedAt }) => ({ id, type, offset, publishedAt })),
    world.model.log,
  );
  for (const [id, expected] of world.model.streams) await compareStream(world, id, expected);
}

async function compareStream(
  { store, tenant, node, owned, now }: World,
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

const runOf = ({ epoch, run, cursor, waiting, nextDueInMs, replay, rowsAbove }: OwnedStream) => ({
  epoch,
  run,
  cursor,
  waiting,
  nextDueInMs,
  replay,
  rowsAbove,
});
