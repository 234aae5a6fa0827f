import assert from 'node:assert/strict';
import fc from 'fast-check';
import * as model from './model-replays.ts';
import { anyPick, anyStream, chance, type Step, step, streamOf } from './model-run.ts';

/** Random commands about replays. */

const startReplay = step(
  'startReplay',
  fc.record({
    stream: anyStream,
    from: anyPick,
    upToHead: fc.boolean(),
    types: fc.constantFrom(undefined, ['a.a'], ['b.b', 'a.a']),
  }),
  async (world, given) => {
    world.replays += 1;
    const { head } = world.model;
    const asked = {
      tenant: world.tenant,
      stream: given.stream,
      id: `rpl_${world.replays}`,
      from: given.from % (head + 1),
      to: given.upToHead ? head : given.from % (2 * head + 1),
      types: given.types,
    };
    const to = Math.min(asked.to, head);
    const one = streamOf(world, given.stream);
    const expected = model.createReplay(world.model, one, { ...asked, to }, world.now);
    const answer = await world.store.replays.create({ ...asked, to });
    if ('refused' in expected) return assert.deepEqual(answer, expected);
    assert.ok('created' in answer);
    assert.equal(answer.created.status, expected.status);
  },
);

const feed = step(
  'feed',
  fc.record({
    stream: anyStream,
    take: fc.integer({ min: 1, max: 4 }),
    waitingMax: fc.integer({ min: 1, max: 4 }),
    raise: fc.boolean(),
    former: chance(10),
  }),
  async (world, given) => {
    if (!world.owned.has(given.stream)) return;
    const one = streamOf(world, given.stream);
    const replay = model.runningOf(one)?.id ?? 'rpl_none';
    const { take, waitingMax } = given;
    const cursor = given.raise ? world.model.head : one.cursor;
    const { epoch, run, version } = one;
    const ref = { tenant: world.tenant, stream: given.stream };
    const ask = { ...ref, epoch, run, version, cursor, replay, take, waitingMax };
    if (given.former) {
      const late = { ...ask, epoch: epoch - 1 };
      const lost = { result: 'lost', cursor: 0, materialized: 0, more: false };
      assert.deepEqual(await world.store.replays.materialize(late), lost);
      return;
    }
    const firstAt = (offset: number) => one.firstAt.get(offset);
    const asked = { cursor, take, waitingMax, wanted: [one.type], firstAt };
    const { ids, ...expected } = model.feed(world.model, one, asked, world.now);
    assert.equal(ids.length, expected.materialized);
    assert.deepEqual(await world.store.replays.materialize(ask), expected);
  },
);

const cancelReplay = step(
  'cancelReplay',
  fc.record({ stream: anyStream, pick: anyPick }),
  async (world, given) => {
    const one = streamOf(world, given.stream);
    const ids = [...one.replays.keys(), 'rpl_unknown'];
    const id = model.runningOf(one)?.id ?? ids[given.pick % ids.length] ?? '';
    const expected = model.cancelReplay(one, id, world.now);
    const answer = await world.store.replays.cancel(world.tenant, given.stream, id);
    assert.equal(answer, expected);
  },
);

export const replayCommands: { weight: number; arbitrary: fc.Arbitrary<Step> }[] = [
  { weight: 6, arbitrary: feed },
  { weight: 3, arbitrary: startReplay },
  { weight: 1, arbitrary: cancelReplay },
];
