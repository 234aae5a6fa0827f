import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import type { AttemptResult } from '../../src/core/retry.ts';
import type { Stream } from '../../src/core/types.ts';
import type { DeliverySettings } from '../../src/delivery/settings.ts';
import { respondedWith, ok, type ScriptedPost, timedOut } from '../helpers/transport.ts';
import { addTenant, newId } from '../store/contract/fixture.ts';
import { createDeliveryFixture } from './fixture.ts';

const refused: AttemptResult = { kind: 'error', cause: 'refused', detail: 'ECONNREFUSED' };
const unresolved: AttemptResult = { kind: 'error', cause: 'dns', detail: 'ETIMEOUT' };

/** 16 slots per stream, 4 of them while its receiver does not respond, and pauses of 250 ms. */
async function createFixture(t: TestContext, options: Partial<DeliverySettings> = {}) {
  const results = new Map<string, (n: number) => AttemptResult | undefined>();
  const sent = new Map<string, number>();
  const fixture = await createDeliveryFixture(t, {
    settings: {
      concurrency: 64,
      streamConcurrency: 16,
      pageEvents: 100,
      settleMax: 64,
      parkAfterEvents: 64,
      ...options,
    },
    respond: (post: ScriptedPost) => {
      const id = String(JSON.parse(post.request.body).svcstream);
      const n = (sent.get(id) ?? 0) + 1;
      sent.set(id, n);
      const resultOf = results.get(id);
      return resultOf === undefined ? ok : resultOf(n);
    },
  });
  await fixture.start();
  const sentTo = ({ id }: Stream): number => sent.get(id) ?? 0;
  return {
    fixture,
    /** Sets the result of the n-th attempt to the stream, from 1; without a result it stays open. */
    respond: ({ id }: Stream, resultOf: (n: number) => AttemptResult | undefined) => {
      results.set(id, resultOf);
    },
    sentTo,
    /** Returns the most attempts to the stream that began within one of `seconds` seconds. */
    mostPerSecond: async (streams: readonly Stream[], seconds: number): Promise<number> => {
      let most = 0;
      for (let second = 0; second < seconds; second += 1) {
        const before = streams.map(sentTo);
        await fixture.clock.advance(1000);
        streams.forEach((stream, n) => {
          most = Math.max(most, sentTo(stream) - (before[n] ?? 0));
        });
      }
      return most;
    },
  };
}

describe('a stream whose receiver does not respond', () => {
  for (const [name, result] of [
    ['cannot be resolved', unresolved],
    ['refuses connections', refused],
    ['resets connections', { kind: 'error', cause: 'reset', detail: undefined }],
    ['is a blocked address', { kind: 'error', cause: 'blocked address', detail: undefined }],
  ] as const) {
    test(`a stream begins few attempts a second, however many events wait: its receiver ${name}`, async (t) => {
      const { fixture, respond, sentTo } = await createFixture(t);
      const streams: Stream[] = [];
      while (streams.length < 16) streams.push(await fixture.addStream());
      for (const stream of streams) respond(stream, () => result);
      await fixture.publishMany(100);
      await fixture.clock.advance(4990);
      // Four, and four more after each of the 19 pauses that have ended; up to three were under way
      // when the first pause began.
      for (const stream of streams) {
        assert.ok(sentTo(stream) >= 80 && sentTo(stream) <= 83, `${sentTo(stream)} attempts`);
      }
    });
  }

  test(
    'the more streams of a tenant do not respond, the fewer attempts each begins; other tenants do not count',
    { tags: ['long'] },
    async (t) => {
      const { fixture, respond, sentTo } = await createFixture(t, {
        disable: { consecutive: 1e5, total: 1e5 },
      });
      const { id: other } = await addTenant(fixture.store, 'other');
      const streams: Stream[] = [];
      while (streams.length < 160) streams.push(await fixture.addStream({ types: ['a.made'] }));
      const alone = await fixture.addStream({ tenant: other, types: ['b.made'] });
      for (const stream of [...streams, alone]) respond(stream, () => refused);
      await fixture.publishTo(fixture.tenant, 60, 'a.made');
      await fixture.publishTo(other, 500, 'b.made');
      await fixture.clock.advance(5000);
      const sum = () => streams.reduce((total, stream) => total + sentTo(stream), 0);
      const before = { all: sum(), alone: sentTo(alone) };
      await fixture.clock.advance(20_000);
      const perSecond = (sum() - before.all) / 20;
      assert.ok(perSecond > 200 && perSecond <= 280, `${perSecond} attempts a second`);
      const alonePerSecond = (sentTo(alone) - before.alone) / 20;
      assert.ok(alonePerSecond >= 15, `${alonePerSecond} attempts a second of another tenant`);
    },
  );

  test('a formerly quick stream begins few attempts a second, retries and fresh events together', async (t) => {
    const { fixture, respond, mostPerSecond, sentTo } = await createFixture(t);
    const stream = await fixture.addStream();
    await fixture.publishMany(50);
    assert.equal(sentTo(stream), 50);
    respond(stream, () => refused);
    await fixture.publishMany(500);
    // Attempts under way when it began to refuse, and those that replaced the first three of them.
    assert.ok(sentTo(stream) - 50 <= 16 + 3);
    const most = await mostPerSecond([stream], 20);
    assert.ok(most <= 20, `${most} attempts in a second`);
    const attempts = new Set(fixture.reported('attempt').map(({ attempt }) => attempt));
    assert.deepEqual(attempts, new Set([1, 2, 3, 4]));
  });

  test('a pausing stream occupies no slot', async (t) => {
    const { fixture, respond, sentTo } = await createFixture(t, { concurrency: 16 });
    const stream = await fixture.addStream();
    respond(stream, () => refused);
    await fixture.publishMany(100);
    assert.ok(sentTo(stream) >= 4);
    const { inFlight, waiting } = fixture.dispatcher.state();
    assert.deepEqual({ inFlight, waiting }, { inFlight: 0, waiting: 0 });
  });

  test('a stream has all of its slots again after the first response, of any status', async (t) => {
    const { fixture, respond, sentTo } = await createFixture(t);
    const stream = await fixture.addStream();
    await fixture.publishMany(10);
    respond(stream, () => refused);
    await fixture.publishMany(60);
    await fixture.clock.advance(3000);
    const before = sentTo(stream);
    let isFirst = true;
    respond(stream, () => {
      const result = isFirst ? respondedWith(503) : undefined;
      isFirst = false;
      return result;
    });
    await fixture.clock.advance(260);
    assert.equal(sentTo(stream) - before, 1 + 16);
    assert.equal(fixture.transport.open.length, 16);
  });

  test('a response to an attempt from before the pause ends the pause', async (t) => {
    const { fixture, respond, sentTo } = await createFixture(t);
    const stream = await fixture.addStream();
    await fixture.publishMany(10);
    respond(stream, (n) => (n === 11 ? undefined : refused));
    await fixture.publishMany(100);
    const before = sentTo(stream);
    respond(stream, () => ok);
    fixture.transport.open[0]?.end(ok);
    await fixture.clock.advance(100);
    assert.ok(sentTo(stream) - before >= 80, `${sentTo(stream) - before} attempts`);
  });

  test('a new endpoint ends the pause', async (t) => {
    const { fixture, respond, sentTo } = await createFixture(t);
    const stream = await fixture.addStream();
    respond(stream, () => refused);
    await fixture.publishMany(100);
    const before = sentTo(stream);
    respond(stream, () => ok);
    await fixture.update(stream, {
      destination: { ...stream.destination, endpoint: 'https://other.test/hook' },
    });
    await fixture.clock.advance(100);
    assert.ok(sentTo(stream) - before >= 80, `${sentTo(stream) - before} attempts`);
  });

  test('a deleted stream leaves no timer', async (t) => {
    const { fixture, respond, sentTo } = await createFixture(t, { unansweredBackoffMs: 60_000 });
    const stream = await fixture.addStream();
    await fixture.clock.advance(100);
    const { pending } = fixture.clock;
    respond(stream, () => refused);
    await fixture.publishMany(4);
    await fixture.clock.advance(5000);
    assert.equal(sentTo(stream), 4);
    assert.equal(fixture.clock.pending, pending + 1);
    await fixture.store.streams.delete(fixture.tenant, stream.id);
    await fixture.clock.advance(100);
    assert.equal(fixture.dispatcher.state().streams, 0);
    assert.equal(fixture.clock.pending, pending);
  });

  test('a pause does not delay the end of the process', async (t) => {
    const { fixture, respond, sentTo } = await createFixture(t);
    const stream = await fixture.addStream();
    respond(stream, () => refused);
    await fixture.publishMany(100);
    const before = sentTo(stream);
    const startedMs = fixture.clock.elapsedMs();
    await fixture.stop();
    assert.equal(fixture.clock.elapsedMs(), startedMs);
    assert.equal(sentTo(stream), before);
  });

  test('a replay continues after a pause', async (t) => {
    const { fixture, respond, sentTo } = await createFixture(t);
    const stream = await fixture.addStream();
    await fixture.publishMany(50);
    respond(stream, () => refused);
    const accepted = await fixture.store.replays.create({
      id: newId('rpl'),
      tenant: fixture.tenant,
      stream: stream.id,
      from: 0,
      to: await fixture.store.log.head(fixture.tenant),
      types: undefined,
    });
    assert.ok('created' in accepted);
    await fixture.clock.advance(2000);
    respond(stream, () => ok);
    const before = fixture
      .reported('attempt')
      .filter(({ result }) => result === 'delivered').length;
    await fixture.clock.advance(20_000);
    const after = fixture.reported('attempt').filter(({ result }) => result === 'delivered').length;
    assert.equal(after - before, 50);
    assert.ok(sentTo(stream) > 100);
  });

  test('a stream that never gets a response is disabled by its consecutive failures', async (t) => {
    const { fixture, respond } = await createFixture(t, {
      disable: { consecutive: 20, total: 1000 },
    });
    const stream = await fixture.addStream();
    respond(stream, () => refused);
    await fixture.publishMany(100);
    await fixture.clock.advance(20_000);
    assert.equal(fixture.reported('stream_disabled').length, 1);
  });
});

describe('a stream whose receiver responds', () => {
  test('failures without a response that are not in a row cause no pause', async (t) => {
    const { fixture, respond, sentTo } = await createFixture(t);
    const stream = await fixture.addStream();
    await fixture.publishMany(10);
    respond(stream, (n) => (n % 4 === 0 ? ok : refused));
    await fixture.publishMany(400);
    assert.equal(sentTo(stream), 410);
  });

  test('timeouts cause no pause', async (t) => {
    const { fixture, respond } = await createFixture(t);
    const stream = await fixture.addStream();
    await fixture.publishMany(10);
    respond(stream, () => undefined);
    await fixture.publishMany(100);
    for (const post of fixture.transport.open) post.end(timedOut);
    await fixture.clock.advance(0);
    assert.ok(fixture.transport.open.length >= 16);
  });

  test('a stream of another tenant is sent its events along with 20 that do not respond', async (t) => {
    const { fixture, respond, sentTo } = await createFixture(t);
    const { id: other } = await addTenant(fixture.store, 'other');
    const dead: Stream[] = [];
    while (dead.length < 20) dead.push(await fixture.addStream({ types: ['a.made'] }));
    for (const stream of dead) respond(stream, () => refused);
    const honest = await fixture.addStream({ tenant: other, types: ['b.made'] });
    await fixture.publishTo(fixture.tenant, 200, 'a.made');
    await fixture.publishTo(other, 100, 'b.made');
    await fixture.clock.advance(100);
    assert.equal(sentTo(honest), 100);
  });
});
