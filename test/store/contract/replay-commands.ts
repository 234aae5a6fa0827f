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
  async (modelRun, args) => {
    modelRun.replays += 1;
    const { head } = modelRun.model;
    const replay = {
      tenant: modelRun.tenant,
      stream: args.stream,
      id: `rpl_${modelRun.replays}`,
      from: args.from % (head + 1),
      to: args.upToHead ? head : args.from % (2 * head + 1),
      types: args.types,
    };
    const to = Math.min(replay.to, head);
    const one = streamOf(modelRun, args.stream);
    const expected = model.createReplay(modelRun.model, one, { ...replay, to }, modelRun.now);
    const result = await modelRun.store.replays.create({ ...replay, to });
    if ('refused' in expected) return assert.deepEqual(result, expected);
    assert.ok('created' in result);
    assert.equal(result.created.status, expected.status);
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
  async (modelRun, args) => {
    if (!modelRun.owned.has(args.stream)) return;
    const one = streamOf(modelRun, args.stream);
    const replay = model.runningOf(one)?.id ?? 'rpl_none';
    const { take, waitingMax } = args;
    const cursor = args.raise ? modelRun.model.head : one.cursor;
    const { epoch, run, version } = one;
    const ref = { tenant: modelRun.tenant, stream: args.stream };
    const request = { ...ref, epoch, run, version, cursor, replay, take, waitingMax };
    if (args.former) {
      const late = { ...request, epoch: epoch - 1 };
      const lost = { result: 'lost', cursor: 0, materialized: 0, more: false };
      assert.deepEqual(await modelRun.store.replays.materialize(late), lost);
      return;
    }
    const firstAt = (offset: number) => one.firstAt.get(offset);
    const query = { cursor, take, waitingMax, wanted: [one.type], firstAt };
    const { ids, ...expected } = model.materialize(modelRun.model, one, query, modelRun.now);
    assert.equal(ids.length, expected.materialized);
    assert.deepEqual(await modelRun.store.replays.materialize(request), expected);
  },
);

const cancelReplay = step(
  'cancelReplay',
  fc.record({ stream: anyStream, pick: anyPick }),
  async (modelRun, args) => {
    const one = streamOf(modelRun, args.stream);
    const ids = [...one.replays.keys(), 'rpl_unknown'];
    const id = model.runningOf(one)?.id ?? ids[args.pick % ids.length] ?? '';
    const expected = model.cancelReplay(one, id, modelRun.now);
    const result = await modelRun.store.replays.cancel(modelRun.tenant, args.stream, id);
    assert.equal(result, expected);
  },
);

export const replayCommands: { weight: number; arbitrary: fc.Arbitrary<Step> }[] = [
  { weight: 6, arbitrary: feed },
  { weight: 3, arbitrary: startReplay },
  { weight: 1, arbitrary: cancelReplay },
];
