import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import type { AttemptResult } from '../../src/core/retry.ts';
import type { Stream } from '../../src/core/types.ts';
import type { DeliverySettings } from '../../src/delivery/settings.ts';
import { answered, ok, type ScriptedPost, timedOut } from '../helpers/transport.ts';
import { addTenant, newId } from '../store/contract/fixture.ts';
import { createDeliveryScene } from './fixture.ts';

const refused: AttemptResult = { kind: 'error', cause: 'refused', detail: 'ECONNREFUSED' };
const unresolved: AttemptResult = { kind: 'error', cause: 'dns', detail: 'ETIMEOUT' };

/** 16 slots per stream, 4 of them while its receiver does not respond, and pauses of 250 ms. */
async function sceneOf(t: TestContext, given: Partial<DeliverySettings> = {}) {
  const results = new Map<string, (n: number) => AttemptResult | undefined>();
  const sent = new Map<string, number>();
  const scene = await createDeliveryScene(t, {
    settings: {
      concurrency: 64,
      streamConcurrency: 16,
      pageEvents: 100,
      settleMax: 64,
      parkAfterEvents: 64,
      ...given,
    },
    respond: (post: ScriptedPost) => {
      const id = String(JSON.parse(post.request.body).svcstream);
      const n = (sent.get(id) ?? 0) + 1;
      sent.set(id, n);
      const resultOf = results.get(id);
      return resultOf === undefined ? ok : resultOf(n);
    },
  });
  await scene.start();
  const sentTo = ({ id }: Stream): number => sent.get(id) ?? 0;
  return {
    scene,
    /** The n-th attempt to the stream, from 1, ends like this; without a result it stays open. */
    respond: ({ id }: Stream, resultOf: (n: number) => AttemptResult | undefined) => {
      results.set(id, resultOf);
    },
    sentTo,
    /** The most attempts to the stream that began within one of so many seconds. */
    mostPerSecond: async (streams: readonly Stream[], seconds: number): Promise<number> => {
      let most = 0;
      for (let second = 0; second < seconds; second += 1) {
        const before = streams.map(sentTo);
        await scene.clock.advance(1000);
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
    test(`begins few attempts a second, whatever waits: its receiver ${name}`, async (t) => {
      const { scene, respond, sentTo } = await sceneOf(t);
      const streams: Stream[] = [];
      while (streams.length < 16) streams.push(await scene.addStream());
      for (const stream of streams) respond(stream, () => result);
      await scene.publishMany(100);
      await scene.clock.advance(4990);
      // Four, and four more after each of the 19 pauses that are over; up to three were under way
      // when the first pause began.
      for (const stream of streams) {
        assert.ok(sentTo(stream) >= 80 && sentTo(stream) <= 83, `${sentTo(stream)} attempts`);
      }
    });
  }

  test('begins fewer attempts the more streams of its tenant do not respond, but no fewer for those of another', async (t) => {
    const { scene, respond, sentTo } = await sceneOf(t, {
      disable: { consecutive: 1e5, total: 1e5 },
    });
    const { id: other } = await addTenant(scene.store, 'other');
    const streams: Stream[] = [];
    while (streams.length < 160) streams.push(await scene.addStream({ types: ['a.made'] }));
    const alone = await scene.addStream({ tenant: other, types: ['b.made'] });
    for (const stream of [...streams, alone]) respond(stream, () => refused);
    await scene.publishTo(scene.tenant, 60, 'a.made');
    await scene.publishTo(other, 500, 'b.made');
    await scene.clock.advance(5000);
    const sum = () => streams.reduce((total, stream) => total + sentTo(stream), 0);
    const before = { all: sum(), alone: sentTo(alone) };
    await scene.clock.advance(20_000);
    const perSecond = (sum() - before.all) / 20;
    assert.ok(perSecond > 200 && perSecond <= 280, `${perSecond} attempts a second`);
    const alonePerSecond = (sentTo(alone) - before.alone) / 20;
    assert.ok(alonePerSecond >= 15, `${alonePerSecond} attempts a second of another tenant`);
  });

  test('begins few attempts a second after it was quick, retries and fresh events together', async (t) => {
    const { scene, respond, mostPerSecond, sentTo } = await sceneOf(t);
    const stream = await scene.addStream();
    await scene.publishMany(50);
    assert.equal(sentTo(stream), 50);
    respond(stream, () => refused);
    await scene.publishMany(500);
    // What was under way when it began to refuse, and what replaced the first three of it.
    assert.ok(sentTo(stream) - 50 <= 16 + 3);
    const most = await mostPerSecond([stream], 20);
    assert.ok(most <= 20, `${most} attempts in a second`);
    const attempts = new Set(scene.reported('attempt').map(({ attempt }) => attempt));
    assert.deepEqual(attempts, new Set([1, 2, 3, 4]));
  });

  test('holds no slot while it pauses', async (t) => {
    const { scene, respond, sentTo } = await sceneOf(t, { concurrency: 16 });
    const stream = await scene.addStream();
    respond(stream, () => refused);
    await scene.publishMany(100);
    assert.ok(sentTo(stream) >= 4);
    const { inFlight, waiting } = scene.dispatcher.state();
    assert.deepEqual({ inFlight, waiting }, { inFlight: 0, waiting: 0 });
  });

  test('has all of its slots again after the first response, of any status', async (t) => {
    const { scene, respond, sentTo } = await sceneOf(t);
    const stream = await scene.addStream();
    await scene.publishMany(10);
    respond(stream, () => refused);
    await scene.publishMany(60);
    await scene.clock.advance(3000);
    const before = sentTo(stream);
    let isFirst = true;
    respond(stream, () => {
      const result = isFirst ? answered(503) : undefined;
      isFirst = false;
      return result;
    });
    await scene.clock.advance(260);
    assert.equal(sentTo(stream) - before, 1 + 16);
    assert.equal(scene.transport.open.length, 16);
  });

  test('goes on at once when an attempt that began before its pause gets a response', async (t) => {
    const { scene, respond, sentTo } = await sceneOf(t);
    const stream = await scene.addStream();
    await scene.publishMany(10);
    respond(stream, (n) => (n === 11 ? undefined : refused));
    await scene.publishMany(100);
    const before = sentTo(stream);
    respond(stream, () => ok);
    scene.transport.open[0]?.end(ok);
    await scene.clock.advance(100);
    assert.ok(sentTo(stream) - before >= 80, `${sentTo(stream) - before} attempts`);
  });

  test('goes on at once when it gets another endpoint', async (t) => {
    const { scene, respond, sentTo } = await sceneOf(t);
    const stream = await scene.addStream();
    respond(stream, () => refused);
    await scene.publishMany(100);
    const before = sentTo(stream);
    respond(stream, () => ok);
    await scene.update(stream, {
      destination: { ...stream.destination, endpoint: 'https://other.test/hook' },
    });
    await scene.clock.advance(100);
    assert.ok(sentTo(stream) - before >= 80, `${sentTo(stream) - before} attempts`);
  });

  test('leaves no timer behind when it is deleted', async (t) => {
    const { scene, respond, sentTo } = await sceneOf(t, { unansweredBackoffMs: 60_000 });
    const stream = await scene.addStream();
    await scene.clock.advance(100);
    const { pending } = scene.clock;
    respond(stream, () => refused);
    await scene.publishMany(4);
    await scene.clock.advance(5000);
    assert.equal(sentTo(stream), 4);
    assert.equal(scene.clock.pending, pending + 1);
    await scene.store.streams.delete(scene.tenant, stream.id);
    await scene.clock.advance(100);
    assert.equal(scene.dispatcher.state().streams, 0);
    assert.equal(scene.clock.pending, pending);
  });

  test('does not hold up the end of the process', async (t) => {
    const { scene, respond, sentTo } = await sceneOf(t);
    const stream = await scene.addStream();
    respond(stream, () => refused);
    await scene.publishMany(100);
    const before = sentTo(stream);
    const startedMs = scene.clock.elapsedMs();
    await scene.stop();
    assert.equal(scene.clock.elapsedMs(), startedMs);
    assert.equal(sentTo(stream), before);
  });

  test('goes on with its replay after a pause', async (t) => {
    const { scene, respond, sentTo } = await sceneOf(t);
    const stream = await scene.addStream();
    await scene.publishMany(50);
    respond(stream, () => refused);
    const accepted = await scene.store.replays.create({
      id: newId('rpl'),
      tenant: scene.tenant,
      stream: stream.id,
      from: 0,
      to: await scene.store.log.head(scene.tenant),
      types: undefined,
    });
    assert.ok('created' in accepted);
    await scene.clock.advance(2000);
    respond(stream, () => ok);
    const before = scene.reported('attempt').filter(({ result }) => result === 'delivered').length;
    await scene.clock.advance(20_000);
    const after = scene.reported('attempt').filter(({ result }) => result === 'delivered').length;
    assert.equal(after - before, 50);
    assert.ok(sentTo(stream) > 100);
  });

  test('is disabled by its failures in a row', async (t) => {
    const { scene, respond } = await sceneOf(t, { disable: { consecutive: 20, total: 1000 } });
    const stream = await scene.addStream();
    respond(stream, () => refused);
    await scene.publishMany(100);
    await scene.clock.advance(20_000);
    assert.equal(scene.reported('stream_disabled').length, 1);
  });
});

describe('a stream whose receiver responds', () => {
  test('has no pause for failures without a response that do not come in a row', async (t) => {
    const { scene, respond, sentTo } = await sceneOf(t);
    const stream = await scene.addStream();
    await scene.publishMany(10);
    respond(stream, (n) => (n % 4 === 0 ? ok : refused));
    await scene.publishMany(400);
    assert.equal(sentTo(stream), 410);
  });

  test('has no pause for time-outs', async (t) => {
    const { scene, respond } = await sceneOf(t);
    const stream = await scene.addStream();
    await scene.publishMany(10);
    respond(stream, () => undefined);
    await scene.publishMany(100);
    for (const post of scene.transport.open) post.end(timedOut);
    await scene.clock.advance(0);
    assert.ok(scene.transport.open.length >= 16);
  });

  test('of another tenant is sent its events beside 20 that do not respond', async (t) => {
    const { scene, respond, sentTo } = await sceneOf(t);
    const { id: other } = await addTenant(scene.store, 'other');
    const dead: Stream[] = [];
    while (dead.length < 20) dead.push(await scene.addStream({ types: ['a.made'] }));
    for (const stream of dead) respond(stream, () => refused);
    const honest = await scene.addStream({ tenant: other, types: ['b.made'] });
    await scene.publishTo(scene.tenant, 200, 'a.made');
    await scene.publishTo(other, 100, 'b.made');
    await scene.clock.advance(100);
    assert.equal(sentTo(honest), 100);
  });
});
