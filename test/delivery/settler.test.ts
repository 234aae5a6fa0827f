import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { StoreContentRefused, StoreUnavailable } from '../../src/core/errors.ts';
import type { Stream } from '../../src/core/types.ts';
import type { Outcome } from '../../src/store/port/settlement.ts';
import type { Store } from '../../src/store/port/store.ts';
import { respondedWith, ok, type ScriptedTransport } from '../helpers/transport.ts';
import {
  createDeliveryFixture,
  settings,
  type DeliveryFixture,
  withDeliveries,
} from './fixture.ts';

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

/** A fixture whose batches are passed to `settle`, and the batches so far. */
async function createSettlerFixture(
  t: TestContext,
  respond: ScriptedTransport['respond'],
  settle: Settle = (args, store) => store.deliveries.settle(...args),
): Promise<{ fixture: DeliveryFixture; batches: Batch[] }> {
  const batches: Batch[] = [];
  const fixture = await createDeliveryFixture(t, {
    respond,
    settings: { streamConcurrency: 32, concurrency: 64 },
    through: (store) =>
      withDeliveries(store, {
        settle: (...args) => {
          batches.push(structuredClone(batchOf(args)));
          return settle(args, store);
        },
      }),
  });
  return { fixture, batches };
}

const outcomesOf = (batch: Batch | undefined) =>
  batch?.settlements.flatMap(({ outcomes }) => outcomes) ?? [];

async function failures(fixture: DeliveryFixture, stream: Stream) {
  const query = { after: undefined, take: 1000 };
  return (await fixture.store.deliveries.listFailures(fixture.tenant, stream.id, query)).items;
}

describe('outcomes', () => {
  test('the streams of a batch are reported once it is in the store, and not while the store is slow', async (t) => {
    let letThrough = (): void => undefined;
    const slow = new Promise<void>((resolve) => {
      letThrough = resolve;
    });
    const { fixture, batches } = await createSettlerFixture(
      t,
      () => ok,
      async (args, store) => {
        await slow;
        return store.deliveries.settle(...args);
      },
    );
    await fixture.addStream();
    await fixture.start();
    await fixture.publish('user.created');
    await fixture.clock.advance(1_000);
    assert.deepEqual([batches.length, fixture.reported('settled')], [1, []]);
    letThrough();
    await fixture.clock.advance(1_000);
    assert.deepEqual(fixture.reported('settled'), [{ kind: 'settled', outcomes: 1 }]);
  });

  test('outcomes of all streams gather for settleMs and are recorded in one transaction', async (t) => {
    const { fixture, batches } = await createSettlerFixture(t, () => ok);
    await fixture.addStream();
    await fixture.addStream();
    await fixture.start();
    await fixture.publishMany(3);
    assert.equal(batches.length, 0);
    await fixture.clock.advance(settings.settleMs);
    assert.equal(batches.length, 1);
    assert.equal(batches[0]?.settlements.length, 2);
    assert.equal(outcomesOf(batches[0]).length, 6);
  });

  test('settleMax outcomes are recorded without waiting', async (t) => {
    const { fixture, batches } = await createSettlerFixture(t, () => ok);
    await fixture.addStream();
    await fixture.start();
    await fixture.publishMany(settings.settleMax);
    assert.equal(batches.length, 1);
    assert.equal(outcomesOf(batches[0]).length, settings.settleMax);
  });

  test('outcomes are recorded in the order in which the attempts ended', async (t) => {
    const { fixture, batches } = await createSettlerFixture(t, () => undefined);
    await fixture.addStream();
    await fixture.start();
    const ids = await fixture.publishMany(4);
    for (const post of fixture.transport.open.toReversed()) {
      post.end(ok);
      await fixture.clock.advance(0);
    }
    await fixture.clock.advance(settings.settleMs);
    assert.deepEqual(
      outcomesOf(batches[0]).map(({ event }) => event.id),
      ids.toReversed(),
    );
  });

  test('a settlement has the cursor that its outcomes lead to, and no higher one', async (t) => {
    const { fixture, batches } = await createSettlerFixture(t, () => undefined);
    await fixture.addStream();
    await fixture.start();
    await fixture.publishMany(5);
    const [a, b, c] = fixture.transport.open;
    a?.end(ok);
    c?.end(respondedWith(503));
    await fixture.clock.advance(settings.settleMs);
    assert.equal(batches[0]?.settlements[0]?.cursor, 1);
    b?.end(ok);
    await fixture.clock.advance(settings.settleMs);
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
  test('a batch whose commit fails is repeated with its number and its content until it succeeds', async (t) => {
    let away = true;
    const { fixture, batches } = await createSettlerFixture(
      t,
      () => ok,
      (args, store) =>
        away ? Promise.reject(new StoreUnavailable('away')) : store.deliveries.settle(...args),
    );
    const stream = await fixture.addStream();
    await fixture.start();
    await fixture.publishMany(2);
    await fixture.clock.advance(100);
    // Later outcomes do not join it.
    await fixture.publishMany(2);
    await fixture.clock.advance(5000);
    const tries = batches.length;
    assert.ok(tries > 3);
    assert.ok(tries < 20, `${tries} tries within 5 s`);
    assert.ok(batches.every(({ number }) => number === 1));
    for (const batch of batches) assert.deepEqual(timeless(batch), timeless(batches[0]));
    // Only the time since the attempts differs.
    const ages = batches.map((batch) => outcomesOf(batch).map((outcome) => ageOf(outcome)));
    assert.ok(ages.every(([one, other]) => one === other));
    assert.ok(ages.every(([age = 0], index) => index === 0 || age > (ages[index - 1]?.[0] ?? 0)));
    assert.equal(outcomesOf(batches[0]).length, 2);

    away = false;
    await fixture.clock.advance(5000);
    assert.equal(await fixture.cursor(stream), 4);
    assert.deepEqual([...new Set(batches.map(({ number }) => number))], [1, 2]);
  });

  test('a batch counts once when only its result was lost', async (t) => {
    let losing = true;
    const { fixture } = await createSettlerFixture(
      t,
      () => respondedWith(400),
      async (args, store) => {
        const settled = await store.deliveries.settle(...args);
        if (losing) throw new StoreUnavailable('the connection is gone');
        return settled;
      },
    );
    const stream = await fixture.addStream();
    await fixture.start();
    await fixture.publishMany(3);
    await fixture.clock.advance(2000);
    losing = false;
    await fixture.clock.advance(5000);
    const health = await fixture.store.streams.health(fixture.tenant, stream.id);
    assert.deepEqual(health, { consecutive: 3, total: 3 });
    assert.equal((await failures(fixture, stream))[0]?.attempts.length, 1);
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

  test('a refused batch is halved until the culprit is alone, which is recorded without its text', async (t) => {
    const { fixture, batches } = await createSettlerFixture(
      t,
      ({ eventId }) => respondedWith(400, eventId.endsWith('7') ? poison : 'bad'),
      refusing((error) => error.includes(poison)),
    );
    const stream = await fixture.addStream();
    const other = await fixture.addStream();
    await fixture.start();
    await fixture.publishMany(10);
    await fixture.clock.advance(100);
    assert.equal(fixture.reported('settle_culprit').length, 2);
    for (const each of [stream, other]) {
      assert.equal(await fixture.cursor(each), 10);
      const listed = await failures(fixture, each);
      const errors = listed.map(({ attempts }) => attempts[0]?.error);
      assert.equal(errors.filter((error) => error === '400 - bad').length, 9);
      assert.equal(errors.filter((error) => error === '400').length, 1);
    }
    // A number is used for one content only.
    const numbers = batches.map(({ number }) => number);
    assert.deepEqual(numbers, [...new Set(numbers)]);
  });

  test('the parts of a refused batch raise no cursor past an outcome that is not recorded yet', async (t) => {
    let isWatched = false;
    const { fixture, batches } = await createSettlerFixture(
      t,
      ({ eventId }) => respondedWith(400, eventId.endsWith('7') ? poison : 'bad'),
      (args, store) => {
        const { length } = outcomesOf(batchOf(args));
        if (isWatched && length < 10) return Promise.reject(new Error('stop'));
        return refusing((error) => error.includes(poison))(args, store);
      },
    );
    await fixture.addStream();
    await fixture.start();
    isWatched = true;
    await fixture.publishMany(10);
    await fixture.clock.advance(100);
    const halves = batches.filter((batch) => outcomesOf(batch).length < 10);
    assert.ok(halves.length > 0);
    assert.ok(halves.every((batch) => batch.settlements[0]?.cursor === 0));
  });

  test('an outcome that is refused without its text: the stream is dropped, the others continue', async (t) => {
    let attempts = 0;
    const fixtures = await createSettlerFixture(
      t,
      () => {
        attempts += 1;
        return attempts === 7 ? respondedWith(400, 'bad') : ok;
      },
      refusing((error) => error.startsWith('400')),
    );
    const { fixture } = fixtures;
    const stuck = await fixture.addStream({ types: ['a.made'] });
    const other = await fixture.addStream({ types: ['b.made'] });
    await fixture.start();
    const types = Array.from({ length: 20 }, () => 'a.made');
    await fixture.publish(...types);
    await fixture.publish('b.made', 'b.made', 'b.made');
    fixture.transport.respond = () => ok;
    await fixture.clock.advance(30_000);
    assert.equal(fixture.reported('settle_stuck').length, 1);
    assert.deepEqual(fixture.reported('settle_stuck')[0]?.stream, stuck.id);
    assert.equal(await fixture.cursor(other), 23);
    assert.equal(fixture.dispatcher.state().unsettled, 0);
    // The next process sends again the events that were not recorded.
    await fixture.restart();
    await fixture.clock.advance(1000);
    assert.equal(await fixture.cursor(stuck), 23);
    assert.deepEqual(await failures(fixture, stuck), []);
  });
});

describe('a stream that another node owns', () => {
  test('a stream that another node owns is dropped, and its attempts are cut off', async (t) => {
    const { fixture } = await createSettlerFixture(t, () => ok);
    await fixture.addStream();
    await fixture.start();
    await fixture.publishMany(1);
    await fixture.clock.advance(settings.settleMs);
    fixture.transport.respond = () => undefined;
    await fixture.publishMany(10);
    fixture.transport.open[0]?.end(ok);
    // A second process that takes the node's name takes its streams.
    await fixture.store.ownership.join('leat', settings.leaseMs);
    await fixture.clock.advance(settings.settleMs);
    assert.equal(fixture.reported('stream_lost').length, 1);
    assert.ok(fixture.transport.posts.filter((post) => post.cancelled).length >= 8);
    assert.equal(fixture.dispatcher.state().inFlight, 0);
  });
});
