import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { StoreContentRefused, StoreUnavailable } from '../../src/core/errors.ts';
import type { Stream } from '../../src/core/types.ts';
import type { Outcome } from '../../src/store/port/settlement.ts';
import type { Store } from '../../src/store/port/store.ts';
import { answered, ok, type ScriptedTransport } from '../helpers/transport.ts';
import { createDeliveryScene, settings, type DeliveryScene } from './fixture.ts';

type SettleArgs = Parameters<Store['deliveries']['settle']>;
type Settle = (args: SettleArgs, store: Store) => ReturnType<Store['deliveries']['settle']>;

interface Batch {
  readonly node: SettleArgs[0];
  readonly number: SettleArgs[1];
  readonly settlements: SettleArgs[2];
  readonly limits: SettleArgs[3];
}

function batchOf([node, number, settlements, limits]: SettleArgs): Batch {
  return { node, number, settlements, limits };
}

/** A scene whose batches go through `settle`, and the batches that it saw. */
async function settlerScene(
  t: TestContext,
  respond: ScriptedTransport['respond'],
  settle: Settle = (args, store) => store.deliveries.settle(...args),
): Promise<{ scene: DeliveryScene; batches: Batch[] }> {
  const batches: Batch[] = [];
  const scene = await createDeliveryScene(t, {
    respond,
    settings: { streamConcurrency: 32, concurrency: 64 },
    through: (store) => ({
      ...store,
      deliveries: {
        ...store.deliveries,
        settle: (...args) => {
          batches.push(structuredClone(batchOf(args)));
          return settle(args, store);
        },
      },
    }),
  });
  return { scene, batches };
}

const outcomesOf = (batch: Batch | undefined) =>
  batch?.settlements.flatMap(({ outcomes }) => outcomes) ?? [];

async function failures(scene: DeliveryScene, stream: Stream) {
  const query = { after: undefined, take: 1000 };
  return (await scene.store.deliveries.listFailures(scene.tenant, stream.id, query)).items;
}

describe('results', () => {
  test('of all streams gather for a moment and go into one transaction', async (t) => {
    const { scene, batches } = await settlerScene(t, () => ok);
    await scene.addStream();
    await scene.addStream();
    await scene.start();
    await scene.publishMany(3);
    assert.equal(batches.length, 0);
    await scene.clock.advance(settings.settleMs);
    assert.equal(batches.length, 1);
    assert.equal(batches[0]?.settlements.length, 2);
    assert.equal(outcomesOf(batches[0]).length, 6);
  });

  test('do not wait once they are many', async (t) => {
    const { scene, batches } = await settlerScene(t, () => ok);
    await scene.addStream();
    await scene.start();
    await scene.publishMany(settings.settleMax);
    assert.equal(batches.length, 1);
    assert.equal(outcomesOf(batches[0]).length, settings.settleMax);
  });

  test('are in the order in which the attempts ended', async (t) => {
    const { scene, batches } = await settlerScene(t, () => undefined);
    await scene.addStream();
    await scene.start();
    const ids = await scene.publishMany(4);
    for (const post of scene.transport.open.toReversed()) {
      post.end(ok);
      await scene.clock.advance(0);
    }
    await scene.clock.advance(settings.settleMs);
    assert.deepEqual(
      outcomesOf(batches[0]).map(({ event }) => event.id),
      ids.toReversed(),
    );
  });

  test('go with the cursor that they bring, and no further', async (t) => {
    const { scene, batches } = await settlerScene(t, () => undefined);
    await scene.addStream();
    await scene.start();
    await scene.publishMany(5);
    const [a, b, c] = scene.transport.open;
    a?.end(ok);
    c?.end(answered(503));
    await scene.clock.advance(settings.settleMs);
    assert.equal(batches[0]?.settlements[0]?.cursor, 1);
    b?.end(ok);
    await scene.clock.advance(settings.settleMs);
    assert.equal(batches[1]?.settlements[0]?.cursor, 3);
  });
});

const ageOf = (outcome: Outcome): number => ('agoMs' in outcome ? outcome.agoMs : 0);

function timeless(batch: Batch | undefined): object {
  const settlements = batch?.settlements.map((settlement) => ({
    ...settlement,
    outcomes: settlement.outcomes.map((outcome) => ({ ...outcome, agoMs: 0 })),
  }));
  return { ...batch, settlements };
}

describe('a batch whose commit fails', () => {
  test('is repeated with its number and its content until it goes through', async (t) => {
    let away = true;
    const { scene, batches } = await settlerScene(
      t,
      () => ok,
      (args, store) =>
        away ? Promise.reject(new StoreUnavailable('away')) : store.deliveries.settle(...args),
    );
    const stream = await scene.addStream();
    await scene.start();
    await scene.publishMany(2);
    await scene.clock.advance(100);
    // Later results do not slip into it.
    await scene.publishMany(2);
    await scene.clock.advance(5000);
    const tries = batches.length;
    assert.ok(tries > 3);
    assert.ok(tries < 20, `${tries} tries within 5 s`);
    assert.ok(batches.every(({ number }) => number === 1));
    for (const batch of batches) assert.deepEqual(timeless(batch), timeless(batches[0]));
    // All that differs is how long ago it was.
    const ages = batches.map((batch) => outcomesOf(batch).map((outcome) => ageOf(outcome)));
    assert.ok(ages.every(([one, other]) => one === other));
    assert.ok(ages.every(([age = 0], index) => index === 0 || age > (ages[index - 1]?.[0] ?? 0)));
    assert.equal(outcomesOf(batches[0]).length, 2);

    away = false;
    await scene.clock.advance(5000);
    assert.equal(await scene.cursor(stream), 4);
    assert.deepEqual([...new Set(batches.map(({ number }) => number))], [1, 2]);
  });

  test('counts once when only its answer was lost', async (t) => {
    let losing = true;
    const { scene } = await settlerScene(
      t,
      () => answered(400),
      async (args, store) => {
        const settled = await store.deliveries.settle(...args);
        if (losing) throw new StoreUnavailable('the connection is gone');
        return settled;
      },
    );
    const stream = await scene.addStream();
    await scene.start();
    await scene.publishMany(3);
    await scene.clock.advance(2000);
    losing = false;
    await scene.clock.advance(5000);
    const health = await scene.store.streams.health(scene.tenant, stream.id);
    assert.deepEqual(health, { consecutive: 3, total: 3 });
    assert.equal((await failures(scene, stream))[0]?.attempts.length, 1);
  });
});

describe('a batch that is refused for its content', () => {
  const poison = 'poison';
  const refusing =
    (isRefused: (error: string) => boolean): Settle =>
    (args, store) => {
      const errors = outcomesOf(batchOf(args)).map((outcome) =>
        'error' in outcome ? outcome.error : '',
      );
      return errors.some(isRefused)
        ? Promise.reject(new StoreContentRefused('a text'))
        : store.deliveries.settle(...args);
    };

  test('is halved until the culprit stands alone, which is recorded without its text', async (t) => {
    const { scene, batches } = await settlerScene(
      t,
      ({ eventId }) => answered(400, eventId.endsWith('7') ? poison : 'bad'),
      refusing((error) => error.includes(poison)),
    );
    const stream = await scene.addStream();
    const other = await scene.addStream();
    await scene.start();
    await scene.publishMany(10);
    await scene.clock.advance(100);
    assert.equal(scene.reported('settle_culprit').length, 2);
    for (const each of [stream, other]) {
      assert.equal(await scene.cursor(each), 10);
      const listed = await failures(scene, each);
      const errors = listed.map(({ attempts }) => attempts[0]?.error);
      assert.equal(errors.filter((error) => error === '400 - bad').length, 9);
      assert.equal(errors.filter((error) => error === '400').length, 1);
    }
    // A number is used for one content only.
    const numbers = batches.map(({ number }) => number);
    assert.deepEqual(numbers, [...new Set(numbers)]);
  });

  test('raises no cursor past a result that is not recorded yet', async (t) => {
    let isWatched = false;
    const { scene, batches } = await settlerScene(
      t,
      ({ eventId }) => answered(400, eventId.endsWith('7') ? poison : 'bad'),
      (args, store) => {
        const { length } = outcomesOf(batchOf(args));
        if (isWatched && length < 10) return Promise.reject(new Error('stop'));
        return refusing((error) => error.includes(poison))(args, store);
      },
    );
    await scene.addStream();
    await scene.start();
    isWatched = true;
    await scene.publishMany(10);
    await scene.clock.advance(100);
    const halves = batches.filter((batch) => outcomesOf(batch).length < 10);
    assert.ok(halves.length > 0);
    assert.ok(halves.every((batch) => batch.settlements[0]?.cursor === 0));
  });

  test('for more than a text: the stream is left alone, the others go on', async (t) => {
    let attempts = 0;
    const scenes = await settlerScene(
      t,
      () => {
        attempts += 1;
        return attempts === 7 ? answered(400, 'bad') : ok;
      },
      refusing((error) => error.startsWith('400')),
    );
    const { scene } = scenes;
    const stuck = await scene.addStream({ types: ['a.made'] });
    const other = await scene.addStream({ types: ['b.made'] });
    await scene.start();
    const types = Array.from({ length: 20 }, () => 'a.made');
    await scene.publish(...types);
    await scene.publish('b.made', 'b.made', 'b.made');
    scene.transport.respond = () => ok;
    await scene.clock.advance(30_000);
    assert.equal(scene.reported('settle_stuck').length, 1);
    assert.deepEqual(scene.reported('settle_stuck')[0]?.stream, stuck.id);
    assert.equal(await scene.cursor(other), 23);
    assert.equal(scene.dispatcher.state().unsettled, 0);
    // What was not recorded is sent again by the next process.
    await scene.restart();
    await scene.clock.advance(1000);
    assert.equal(await scene.cursor(stuck), 23);
    assert.deepEqual(await failures(scene, stuck), []);
  });
});

describe('a stream that another owner has', () => {
  test('is left, and what is under way for it is cut off', async (t) => {
    const { scene } = await settlerScene(t, () => ok);
    await scene.addStream();
    await scene.start();
    await scene.publishMany(1);
    await scene.clock.advance(settings.settleMs);
    scene.transport.respond = () => undefined;
    await scene.publishMany(10);
    scene.transport.open[0]?.end(ok);
    // A second process that takes the node's name takes its streams.
    await scene.store.ownership.join('leat', settings.leaseMs);
    await scene.clock.advance(settings.settleMs);
    assert.equal(scene.reported('stream_lost').length, 1);
    assert.ok(scene.transport.posts.filter((post) => post.cancelled).length >= 8);
    assert.equal(scene.dispatcher.state().inFlight, 0);
  });
});
