import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import type { Stream } from '../../src/core/types.ts';
import type { AttemptResult } from '../../src/core/retry.ts';
import type { DeliverySettings } from '../../src/delivery/settings.ts';
import { answered, ok, type ScriptedPost, timedOut } from '../helpers/transport.ts';
import { addTenant, newEvent, newId } from '../store/contract/fixture.ts';
import { createDeliveryScene, type DeliveryScene } from './fixture.ts';

const settings: Partial<DeliverySettings> = {
  concurrency: 64,
  streamConcurrency: 16,
  pageEvents: 100,
  settleMax: 64,
  parkAfterEvents: 64,
};

/** Streams of a tenant whose receivers hang, streams that do not, and a second tenant. */
interface Neighbours {
  readonly scene: DeliveryScene;
  readonly other: number;
  /** Posts to streams in here stay open. */
  readonly hanging: Set<string>;
  addStreams(tenant: number, count: number, type: string): Promise<Stream[]>;
  publish(tenant: number, count: number, type: string): Promise<void>;
  /** How often the stream was sent something. */
  sentTo(stream: Stream): number;
}

async function neighbours(
  t: TestContext,
  given: Partial<DeliverySettings> = {},
): Promise<Neighbours> {
  const hanging = new Set<string>();
  const sent = new Map<string, number>();
  const respond = ({ request }: ScriptedPost) => {
    const stream = String(JSON.parse(request.body).svcstream);
    sent.set(stream, (sent.get(stream) ?? 0) + 1);
    return hanging.has(stream) ? undefined : ok;
  };
  const scene = await createDeliveryScene(t, { settings: { ...settings, ...given }, respond });
  const { id: other } = await addTenant(scene.store, 'other');
  await scene.start();
  return {
    scene,
    other,
    hanging,
    addStreams: async (tenant, count, type) => {
      const streams: Stream[] = [];
      while (streams.length < count) streams.push(await scene.addStream({ tenant, types: [type] }));
      return streams;
    },
    publish: scene.publishTo,
    sentTo: ({ id }) => sent.get(id) ?? 0,
  };
}

describe('streams that hang', () => {
  test('leave another tenant all it needs, also one that begins later', async (t) => {
    const { scene, other, hanging, addStreams, publish, sentTo } = await neighbours(t);
    for (const { id } of await addStreams(scene.tenant, 40, 'a.made')) hanging.add(id);
    const [early] = await addStreams(other, 1, 'b.made');
    assert.ok(early);
    await publish(scene.tenant, 100, 'a.made');
    await publish(other, 300, 'b.made');
    await scene.clock.advance(500);
    assert.equal(sentTo(early), 300);
    await scene.clock.advance(2000);
    const [late] = await addStreams(other, 1, 'c.made');
    assert.ok(late);
    await publish(other, 300, 'c.made');
    await scene.clock.advance(500);
    assert.equal(sentTo(late), 300);
    assert.ok(scene.transport.open.length > 0, 'the others still hang');
  });

  test('leave quick streams of their own tenant all they need', async (t) => {
    const { scene, hanging, addStreams, publish, sentTo } = await neighbours(t);
    for (const { id } of await addStreams(scene.tenant, 40, 'a.made')) hanging.add(id);
    const [quick] = await addStreams(scene.tenant, 1, 'b.made');
    assert.ok(quick);
    await publish(scene.tenant, 100, 'a.made');
    await publish(scene.tenant, 300, 'b.made');
    await scene.clock.advance(500);
    assert.equal(sentTo(quick), 300);
    await scene.clock.advance(2000);
    await publish(scene.tenant, 300, 'b.made');
    await scene.clock.advance(500);
    assert.equal(sentTo(quick), 600);
    assert.ok(scene.transport.open.length > 0, 'the others still hang');
  });

  test('leave others what they need after all began to hang in the same moment', async (t) => {
    const { scene, other, hanging, addStreams, publish, sentTo } = await neighbours(t);
    const quick = await addStreams(scene.tenant, 40, 'a.made');
    const [own] = await addStreams(scene.tenant, 1, 'b.made');
    const [others] = await addStreams(other, 1, 'c.made');
    assert.ok(own && others);
    await publish(scene.tenant, 3, 'a.made');
    await publish(scene.tenant, 3, 'b.made');
    await publish(other, 3, 'c.made');
    await scene.clock.advance(100);
    for (const { id } of quick) hanging.add(id);
    await publish(scene.tenant, 100, 'a.made');
    await publish(other, 100, 'c.made');
    await scene.clock.advance(1000);
    assert.equal(sentTo(others), 103);
    // Neither retries nor further events of theirs take all that their time-outs free.
    for (const post of scene.transport.open) post.end(timedOut);
    await scene.clock.advance(5000);
    await publish(scene.tenant, 100, 'b.made');
    await scene.clock.advance(1000);
    assert.equal(sentTo(own), 103);
  });

  test('may have every slot of the node when they are quick, and count as slow once they hang', async (t) => {
    const { scene, hanging, addStreams, publish, sentTo } = await neighbours(t);
    // A tenant that is alone on the node.
    const streams = await addStreams(scene.tenant, 64, 'a.made');
    const [quick] = await addStreams(scene.tenant, 1, 'b.made');
    assert.ok(quick);
    await publish(scene.tenant, 1, 'a.made');
    await publish(scene.tenant, 1, 'b.made');
    for (const { id } of streams) hanging.add(id);
    await publish(scene.tenant, 5, 'a.made');
    assert.equal(scene.transport.open.length, 64);
    await scene.clock.advance(1500);
    for (const post of scene.transport.open.slice(0, 8)) post.end(ok);
    await scene.clock.advance(100);
    assert.equal(
      scene.transport.open.length,
      56,
      'no slow stream takes a slot of the last quarter',
    );
    await publish(scene.tenant, 8, 'b.made');
    assert.equal(sentTo(quick), 9);
  });

  test('leave a quick stream the slots that another tenant gives back', async (t) => {
    const few = { concurrency: 4, streamConcurrency: 2 };
    const { scene, other, hanging, addStreams, publish, sentTo } = await neighbours(t, few);
    const [slow] = await addStreams(scene.tenant, 1, 'a.made');
    const [quick] = await addStreams(scene.tenant, 1, 'b.made');
    const [others] = await addStreams(other, 1, 'c.made');
    assert.ok(slow && quick && others);
    await publish(scene.tenant, 1, 'b.made');
    await publish(other, 1, 'c.made');
    for (const { id } of [slow, others]) hanging.add(id);
    await publish(scene.tenant, 2, 'a.made');
    await publish(other, 1, 'c.made');
    assert.equal(scene.transport.open.length, 3);
    // With two of four slots a tenant gets no third while one is left.
    await publish(scene.tenant, 1, 'b.made');
    assert.equal(sentTo(quick), 1);
    scene.transport.open.at(-1)?.end(ok);
    await scene.clock.advance(0);
    assert.equal(sentTo(quick), 2);
  });

  test('have few slots each, and all again when they are quick again', async (t) => {
    const { scene, hanging, addStreams, publish } = await neighbours(t);
    const [stream] = await addStreams(scene.tenant, 1, 'a.made');
    assert.ok(stream);
    await publish(scene.tenant, 1, 'a.made');
    hanging.add(stream.id);
    await publish(scene.tenant, 400, 'a.made');
    assert.equal(scene.transport.open.length, 16);
    // Nothing of what timed out is due yet, and none of its slots is used again but for few.
    await scene.clock.advance(9_999);
    for (const post of scene.transport.open) post.end(timedOut);
    await scene.clock.advance(0);
    assert.equal(scene.transport.open.length, 4);
    hanging.clear();
    for (const post of scene.transport.open) post.end(ok);
    await scene.clock.advance(5000);
    hanging.add(stream.id);
    await publish(scene.tenant, 400, 'a.made');
    assert.equal(scene.transport.open.length, 16);
  });

  test('do not hold up the replays of another tenant', async (t) => {
    const { scene, other, hanging, addStreams, publish, sentTo } = await neighbours(t);
    const [replaying] = await addStreams(other, 1, 'b.made');
    assert.ok(replaying);
    await publish(other, 50, 'b.made');
    await scene.clock.advance(100);
    for (const { id } of await addStreams(scene.tenant, 40, 'a.made')) hanging.add(id);
    await publish(scene.tenant, 100, 'a.made');
    await scene.clock.advance(2000);
    const accepted = await scene.store.replays.create({
      id: newId('rpl'),
      tenant: other,
      stream: replaying.id,
      from: 0,
      to: await scene.store.log.head(other),
      types: undefined,
    });
    assert.ok('created' in accepted);
    await scene.clock.advance(3000);
    assert.equal(sentTo(replaying), 100);
  });
});

describe('bodies under way', () => {
  /** Events of some 10 kB. */
  async function publishLarge({ scene }: Neighbours, tenant: number, count: number) {
    const body = JSON.stringify({ data: 'x'.repeat(10_000) });
    const time = scene.clock.now();
    await scene.store.log.append(
      tenant,
      Array.from({ length: count }, () => newEvent({ type: 'a.made', time, body })),
    );
    await scene.clock.advance(0);
  }

  test('are bounded, of fresh events and of retries, and what waits goes on later', async (t) => {
    const world = await neighbours(t, { inflightBytesMax: 100_000, claimedBytes: 10_100 });
    const { scene, hanging, addStreams, sentTo } = world;
    const streams = await addStreams(scene.tenant, 10, 'a.made');
    await publishLarge(world, scene.tenant, 1);
    for (const { id } of streams) hanging.add(id);
    let most = 0;
    const watch = async (rounds: number, end: AttemptResult): Promise<void> => {
      for (let round = 0; round < rounds; round += 1) {
        most = Math.max(most, scene.dispatcher.state().inFlightBytes);
        for (const post of scene.transport.open) post.end(end);
        await scene.clock.advance(100);
      }
    };
    await publishLarge(world, scene.tenant, 4);
    await watch(20, answered(503));
    assert.ok(most > 50_000 && most <= 100_000, `${most} bytes`);
    hanging.clear();
    await watch(150, ok);
    for (const stream of streams) assert.ok(sentTo(stream) > 5);
    assert.equal(scene.dispatcher.state().inFlightBytes, 0);
    assert.equal(scene.transport.open.length, 0);
  });

  test('of one tenant leave room for those of another', async (t) => {
    const world = await neighbours(t, { inflightBytesMax: 100_000, claimedBytes: 10_100 });
    const { scene, other, hanging, addStreams, publish, sentTo } = world;
    for (const { id } of await addStreams(scene.tenant, 20, 'a.made')) hanging.add(id);
    const [stream] = await addStreams(other, 1, 'b.made');
    assert.ok(stream);
    await publishLarge(world, scene.tenant, 20);
    await publish(other, 200, 'b.made');
    await scene.clock.advance(500);
    assert.equal(sentTo(stream), 200);
    assert.ok(scene.dispatcher.state().inFlightBytes > 20_000);
  });
});

describe('an attempt whose receiver has to be looked up', () => {
  test('takes no slot while it waits, is asked for once, and begins when that has ended', async (t) => {
    const { scene, addStreams, publish, sentTo, other } = await neighbours(t);
    const pending = Promise.withResolvers<void>();
    const asked: number[] = [];
    let isKnown = false;
    scene.transport.prepare = (tenant) => {
      if (isKnown || tenant === other) return true;
      asked.push(tenant);
      return pending.promise;
    };
    const streams = await addStreams(scene.tenant, 3, 'a.made');
    const [neighbour] = await addStreams(other, 1, 'b.made');
    assert.ok(neighbour);
    await publish(scene.tenant, 50, 'a.made');
    await publish(scene.tenant, 50, 'a.made');
    await publish(other, 50, 'b.made');
    assert.equal(sentTo(neighbour), 50);
    assert.equal(scene.dispatcher.state().inFlight, 0);
    assert.deepEqual(asked, [scene.tenant, scene.tenant, scene.tenant]);
    isKnown = true;
    pending.resolve();
    await scene.clock.advance(500);
    assert.deepEqual(
      streams.map((stream) => sentTo(stream)),
      [100, 100, 100],
    );
  });

  test('is not sent when its stream was disabled meanwhile', async (t) => {
    const { scene, addStreams, publish } = await neighbours(t);
    const pending = Promise.withResolvers<void>();
    scene.transport.prepare = () => pending.promise;
    const [stream] = await addStreams(scene.tenant, 1, 'a.made');
    assert.ok(stream);
    await publish(scene.tenant, 1, 'a.made');
    await scene.update(stream, { status: 'disabled' });
    scene.transport.prepare = () => true;
    pending.resolve();
    await scene.clock.advance(500);
    assert.deepEqual(scene.sent(), []);
  });

  test('does not count the wait as its own time', async (t) => {
    const { scene, addStreams, publish } = await neighbours(t);
    const [stream] = await addStreams(scene.tenant, 1, 'a.made');
    assert.ok(stream);
    scene.transport.respond = () => undefined;
    scene.transport.waitedMs = 700;
    await publish(scene.tenant, 1, 'a.made');
    await scene.clock.advance(750);
    scene.transport.open[0]?.end(ok);
    await scene.clock.advance(100);
    assert.deepEqual(
      scene.reported('attempt').map(({ durationMs }) => durationMs),
      [50],
    );
  });
});
