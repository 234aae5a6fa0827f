import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import type { Stream } from '../../src/core/types.ts';
import { createPrng, type Prng } from '../simulation/prng.ts';
import { ok, respondedWith, type ScriptedPost, timedOut } from '../helpers/transport.ts';
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
  /** Crashes before its last attempt began; `undefined` before the first. */
  incarnation: number | undefined;
}

/** What a receiver sees of a stream that sends in order, and whether it may. */
class Watch {
  readonly events = new Map<string, Sent>();
  /** The newest event of each user that was sent. */
  readonly #newest = new Map<string, Sent>();
  incarnation = 0;

  published(id: string, user: string): void {
    const offset = this.events.size + 1;
    const state = { isOver: false, isRedelivered: false, incarnation: undefined };
    this.events.set(id, { id, offset, user, ...state });
  }

  begun(id: string): void {
    const event = this.events.get(id);
    assert.ok(event);
    if (event.isRedelivered || event.user === '-') return;
    const name = `${event.user} ${event.offset}`;
    const before = [...this.events.values()].filter(
      ({ user, offset }) => user === event.user && offset < event.offset,
    );
    const early = before.find(({ isOver }) => !isOver);
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

  ended(id: string): void {
    const event = this.events.get(id);
    if (event !== undefined) event.isOver = true;
  }
}

interface History {
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
    post?.end(prng.chance(0.6) ? ok : respondedWith(prng.chance(0.5) ? 503 : 400));
  } else if (kind <= 90) {
    await clock.advance(prng.pick([5, 30, 400, 1100, 2500]));
  } else if (kind <= 93) {
    watch.incarnation += 1;
    await fixture.crash();
  } else if (kind <= 95) {
    watch.incarnation += 1;
    // The attempts under way end while it stops.
    const { respond } = transport;
    const stopped = fixture.stop();
    transport.respond = (post) => {
      respond(post);
      return ok;
    };
    for (const post of transport.open) post.end(ok);
    await stopped;
    transport.respond = respond;
    await fixture.crash();
  } else if (kind <= 97) {
    await redeliver(history);
  } else if (kind <= 98) {
    const paused = history.stream.paused === undefined ? { at: clock.now() } : undefined;
    history.stream = await fixture.update(history.stream, { paused });
  } else {
    const onFailure = prng.chance(0.5) ? 'block' : 'continue';
    const delivery = { ...history.stream.delivery, onFailure } as const;
    history.stream = await fixture.update(history.stream, { delivery });
  }
  await clock.advance(0);
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

async function begin(t: TestContext, seed: number): Promise<History> {
  const watch = new Watch();
  const prng = createPrng(seed, 'order');
  const begunMs = new Map<string, number>();
  const respond = ({ eventId }: ScriptedPost) => {
    watch.begun(eventId);
    begunMs.set(eventId, fixture.clock.elapsedMs());
    return undefined;
  };
  const fixture = await createDeliveryFixture(t, {
    respond,
    settings: { retryDelaysMs: [300, 1500], streamConcurrency: 3, pageEvents: 10 },
  });
  const push = fixture.reports.push.bind(fixture.reports);
  fixture.reports.push = (...reports) => {
    for (const report of reports) {
      const isOver = report.kind === 'attempt' && report.result !== 'retry';
      if (isOver && report.deliveryKind === 'first') watch.ended(report.eventId);
    }
    return push(...reports);
  };
  const stream = await fixture.addStream({ delivery: { orderBy: '/data/user' } });
  await fixture.start();
  return { fixture, watch, prng, begunMs, stream };
}

/** Lets the receiver accept everything until nothing is left to send. */
async function finish(history: History): Promise<void> {
  const { fixture, watch } = history;
  const { transport, clock } = fixture;
  fixture.transport.respond = ({ eventId }) => {
    watch.begun(eventId);
    return ok;
  };
  await fixture.update(history.stream, { paused: undefined });
  for (const post of transport.open) post.end(ok);
  await clock.advance(20_000);
  // A redelivery frees a key that a failure blocks, whose next event may be another failure's.
  await redeliver(history, true);
  await clock.advance(20_000);
}

describe('histories of a stream that sends in order', () => {
  const histories = Number(process.env['ORDER_HISTORIES'] ?? 60);
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
    });
  }
});
