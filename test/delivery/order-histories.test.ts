import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { StoreContentRefused, StoreUnavailable } from '../../src/core/errors.ts';
import type { DeliveryOptions, Stream } from '../../src/core/types.ts';
import type { Store } from '../../src/store/port/store.ts';
import { createPrng, type Prng } from '../simulation/prng.ts';
import {
  noDescriptor,
  ok,
  respondedWith,
  type ScriptedPost,
  timedOut,
} from '../helpers/transport.ts';
import { newEvent } from '../store/contract/fixture.ts';
import { createDeliveryFixture, type DeliveryFixture } from './fixture.ts';

const users = ['a', 'b', 'c', '-'] as const;

interface Sent {
  readonly id: string;
  /** In the log. */
  readonly offset: number;
  readonly user: string;
  /** Its first delivery ended. */
  isOver: boolean;
  /** An operator has it sent again, beside the order. */
  isRedelivered: boolean;
  /** It may have become a failure without an attempt, or be skipped: the stream was disabled. */
  isExcused: boolean;
  /** Crashes before its last attempt began; `undefined` before the first. */
  incarnation: number | undefined;
}

/** What a receiver sees of a stream that sends in order, and whether it may. */
class Watch {
  readonly events = new Map<string, Sent>();
  /** The newest event of each user that was sent. */
  readonly #newest = new Map<string, Sent>();
  incarnation = 0;
  /** Events were taken by another `order_by`, too: only whether all are sent is known. */
  isLax = false;

  published(id: string, user: string): void {
    const offset = this.events.size + 1;
    const state = { isOver: false, isRedelivered: false, isExcused: false, incarnation: undefined };
    this.events.set(id, { id, offset, user, ...state });
  }

  begun(id: string): void {
    const event = this.events.get(id);
    assert.ok(event);
    if (event.isRedelivered || event.user === '-' || this.isLax) return;
    const name = `${event.user} ${event.offset}`;
    const before = [...this.events.values()].filter(
      ({ user, offset }) => user === event.user && offset < event.offset,
    );
    const early = before.find(({ isOver, isExcused }) => !isOver && !isExcused);
    assert.equal(early?.offset, undefined, `${name} begins before an earlier one is over`);
    const newest = this.#newest.get(event.user);
    if (newest !== undefined) {
      assert.ok(event.offset >= newest.offset, `${name} is repeated, not the newest of its key`);
    }
    if (event.isOver) {
      assert.notEqual(event.incarnation, this.incarnation, `${name} is repeated without a crash`);
    }
    event.isOver = false;
    event.incarnation = this.incarnation;
    this.#newest.set(event.user, event);
  }

  /** What waits for a retry becomes a failure, and what is under way if it fails. */
  disabled(): void {
    for (const event of this.events.values()) {
      if (event.incarnation !== undefined && !event.isOver) event.isExcused = true;
    }
  }

  ended(id: string): void {
    const event = this.events.get(id);
    if (event !== undefined) event.isOver = true;
  }
}

/** What the store does to the commands of the dispatcher. */
interface Faults {
  /** Share of commands that fail before they begin. */
  away: number;
  /** Share of commands whose result is lost. */
  lost: number;
}

interface History {
  readonly faults: Faults;
  readonly fixture: DeliveryFixture;
  readonly watch: Watch;
  readonly prng: Prng;
  /** When the last attempt of each event began. */
  readonly begunMs: Map<string, number>;
  stream: Stream;
}

async function step(history: History): Promise<void> {
  const { fixture, watch, prng } = history;
  const { clock, store, tenant, transport } = fixture;
  // The transport of the test has no timeout.
  for (const post of transport.open) {
    if (clock.elapsedMs() - (history.begunMs.get(post.eventId) ?? 0) > 5000) post.end(timedOut);
  }
  const kind = prng.between(1, 100);
  if (kind <= 35) {
    const events = Array.from({ length: prng.between(1, 8) }, () => {
      const user = prng.pick(users);
      const body = JSON.stringify({ data: user === '-' ? {} : { user } });
      const event = newEvent({ time: clock.now(), body });
      watch.published(event.id, user);
      return event;
    });
    await store.log.append(tenant, events);
  } else if (kind <= 75) {
    const post = transport.open[prng.between(0, 7)];
    const text = prng.chance(0.1) ? refusedText : '';
    if (prng.chance(0.1)) post?.end(noDescriptor);
    else post?.end(prng.chance(0.6) ? ok : respondedWith(prng.chance(0.5) ? 503 : 400, text));
  } else if (kind <= 90) {
    await clock.advance(prng.pick([5, 30, 400, 1100, 2500]));
  } else if (kind <= 92) {
    watch.incarnation += 1;
    await fixture.crash();
  } else if (kind <= 93) {
    await stopGently(history);
  } else if (kind <= 95) {
    await redeliver(history);
  } else {
    await operate(history);
  }
  await clock.advance(0);
}

/** The attempts under way end while the node stops. */
async function stopGently({ fixture, watch, faults }: History): Promise<void> {
  faults.away = 0;
  faults.lost = 0;
  const { transport } = fixture;
  watch.incarnation += 1;
  const { respond } = transport;
  const stopped = fixture.stop();
  transport.respond = (post) => {
    respond(post);
    return ok;
  };
  for (const post of transport.open) post.end(ok);
  // A command to the store may wait for its next try.
  for (let count = 0; count < 30; count += 1) await fixture.clock.advance(100);
  await stopped;
  transport.respond = respond;
  await fixture.crash();
}

/** Does what operators do, and stores that fail. */
async function operate(history: History): Promise<void> {
  const { fixture, watch, prng, faults, stream } = history;
  const { clock, store, tenant } = fixture;
  const change = async (wanted: Parameters<DeliveryFixture['update']>[1]) => {
    history.stream = await fixture.update(history.stream, wanted, 'held');
  };
  const kind = prng.between(1, 7);
  if (kind === 1) {
    const paused = stream.paused === undefined ? { at: clock.now() } : undefined;
    await change({ paused });
  } else if (kind === 2) {
    const onFailure = prng.chance(0.5) ? 'block' : 'continue';
    await change({ delivery: { ...stream.delivery, onFailure } });
  } else if (kind === 3) {
    await store.deliveries.retryNow(tenant, stream.id);
  } else if (kind === 4) {
    // A deliverer that reads the log again is like a new one.
    watch.incarnation += 1;
    await change({ types: [...defaultTypes, ...(prng.chance(0.5) ? ['user.deleted'] : [])] });
  } else if (kind === 5) {
    const isOn = stream.status === 'enabled';
    if (isOn) watch.disabled();
    await change({ status: isOn ? 'disabled' : 'enabled' });
  } else if (kind === 6) {
    const isFailing = faults.away + faults.lost > 0;
    faults.away = isFailing ? 0 : prng.pick([0, 0.2]);
    faults.lost = isFailing ? 0 : prng.pick([0.1, 0.4]);
  } else if (watch.isLax) {
    const orderBy = prng.pick([undefined, '/data/user', '/data/other', '']);
    await change({ delivery: { ...stream.delivery, orderBy } });
  }
}

async function redeliver({ fixture, watch, stream }: History, all = false): Promise<void> {
  const { store, tenant } = fixture;
  const { items } = await store.deliveries.listFailures(tenant, stream.id, {
    after: undefined,
    take: all ? 1000 : 1,
  });
  for (const { event } of items) {
    const redelivered = watch.events.get(event.id);
    if (redelivered !== undefined) redelivered.isRedelivered = true;
    await store.deliveries.redeliver(tenant, stream.id, event.id);
  }
}

/** An outcome with this text is refused by the store. */
const refusedText = 'refused';

const defaultTypes = ['user.created'];

function deliveryOf(prng: Prng): DeliveryOptions {
  return {
    orderBy: '/data/user',
    ...(prng.chance(0.3) && { retry: { delaysSeconds: [1, 3] } }),
    ...(prng.chance(0.2) && { perSecond: prng.between(2, 20) }),
    ...(prng.chance(0.2) && { concurrency: prng.between(1, 2) }),
  };
}

/** Fails commands of the dispatcher, before or after they had their effect. */
function failing(store: Store, faults: Faults, prng: Prng): Store {
  const through =
    <A extends unknown[], R>(command: (...args: A) => Promise<R>) =>
    async (...args: A): Promise<R> => {
      if (prng.chance(faults.away)) throw new StoreUnavailable('away');
      const result = await command(...args);
      if (prng.chance(faults.lost)) throw new StoreUnavailable('lost');
      return result;
    };
  const settle: Store['deliveries']['settle'] = async (node, batch, settlements, limits) => {
    const outcomes = settlements.flatMap((each) => each.outcomes);
    if (outcomes.some((each) => 'error' in each && each.error.includes(refusedText))) {
      throw new StoreContentRefused('refused');
    }
    return store.deliveries.settle(node, batch, settlements, limits);
  };
  const { claimDue, releaseWaiting, bringForward } = store.deliveries;
  const { owned, claim, raiseCursors } = store.ownership;
  return {
    ...store,
    deliveries: {
      ...store.deliveries,
      settle: through(settle),
      claimDue: through(claimDue),
      releaseWaiting: through(releaseWaiting),
      bringForward: through(bringForward),
    },
    ownership: {
      ...store.ownership,
      owned: through(owned),
      claim: through(claim),
      raiseCursors: through(raiseCursors),
    },
  };
}

async function begin(t: TestContext, seed: number): Promise<History> {
  const watch = new Watch();
  const prng = createPrng(seed, 'order');
  const begunMs = new Map<string, number>();
  const respond = ({ eventId }: ScriptedPost) => {
    watch.begun(eventId);
    begunMs.set(eventId, fixture.clock.elapsedMs());
    return undefined;
  };
  const faults = { away: 0, lost: 0 };
  const delivery = deliveryOf(prng);
  watch.isLax = prng.chance(0.1);
  const fixture = await createDeliveryFixture(t, {
    respond,
    through: (store) => failing(store, faults, prng),
    settings: {
      retryDelaysMs: [300, 1500],
      streamConcurrency: 3,
      pageEvents: 10,
      // Outages begin early.
      ...(delivery.retry && { disable: { consecutive: 6, total: 5000 } }),
    },
  });
  const push = fixture.reports.push.bind(fixture.reports);
  fixture.reports.push = (...reports) => {
    for (const report of reports) {
      const isOver = report.kind === 'attempt' && report.result !== 'retry';
      if (isOver && report.deliveryKind === 'first') watch.ended(report.eventId);
    }
    return push(...reports);
  };
  const stream = await fixture.addStream({ delivery });
  await fixture.start();
  return { fixture, faults, watch, prng, begunMs, stream };
}

/** Lets the receiver accept everything until nothing is left to send. */
async function finish(history: History): Promise<void> {
  const { fixture, watch, faults } = history;
  const { transport, clock } = fixture;
  faults.away = 0;
  faults.lost = 0;
  fixture.transport.respond = ({ eventId }) => {
    watch.begun(eventId);
    return ok;
  };
  await fixture.update(history.stream, { paused: undefined, status: 'enabled' }, 'held');
  for (const post of transport.open) post.end(ok);
  await clock.advance(100_000);
  // A redelivery frees a key that a failure blocks, whose next event may be another failure's.
  for (let count = 0; count < 3; count += 1) {
    await redeliver(history, true);
    await clock.advance(20_000);
  }
}

describe('histories of a stream that sends in order', () => {
  const histories = Number(process.env['ORDER_HISTORIES'] ?? 20);
  const first = Number(process.env['ORDER_SEED'] ?? 1);
  for (let seed = first; seed < first + histories; seed += 1) {
    test(`seed ${seed}: no key's events are swapped or overlap; all are sent`, async (t) => {
      const history = await begin(t, seed);
      for (let count = 0; count < 80; count += 1) await step(history);
      await finish(history);
      const { fixture, watch, stream } = history;
      const sent = new Set(fixture.sent());
      for (const { id, offset } of watch.events.values()) assert.ok(sent.has(id), `${offset} sent`);
      assert.equal(await fixture.cursor(stream), watch.events.size);
      const unexpected = fixture.reported('unexpected').map(({ error }) => error);
      assert.deepEqual(unexpected, []);
      const { inFlight, unsettled, queuedBytes } = fixture.dispatcher.state();
      assert.deepEqual([inFlight, unsettled, queuedBytes], [0, 0, 0]);
    });
  }
});
