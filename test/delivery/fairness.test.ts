import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import type { Stream } from '../../src/core/types.ts';
import type { AttemptResult } from '../../src/core/retry.ts';
import type { DeliverySettings } from '../../src/delivery/settings.ts';
import { respondedWith, ok, type ScriptedPost, timedOut } from '../helpers/transport.ts';
import { addTenant, newEvent, newId } from '../store/contract/fixture.ts';
import { createDeliveryFixture, type DeliveryFixture } from './fixture.ts';

const settings: Partial<DeliverySettings> = {
  concurrency: 64,
  streamConcurrency: 16,
  pageEvents: 100,
  settleMax: 64,
  parkAfterEvents: 64,
};

/** Streams of a tenant whose receivers hang, streams that do not, and a second tenant. */
interface Neighbours {
  readonly fixture: DeliveryFixture;
  readonly other: number;
  /** Posts to streams in here stay open. */
  readonly hanging: Set<string>;
  addStreams(tenant: number, count: number, type: string): Promise<Stream[]>;
  publish(tenant: number, count: number, type: string): Promise<void>;
  /** Returns the number of attempts to the stream. */
  sentTo(stream: Stream): number;
}

async function neighbours(
  t: TestContext,
  options: Partial<DeliverySettings> = {},
): Promise<Neighbours> {
  const hanging = new Set<string>();
  const sent = new Map<string, number>();
  const respond = ({ request }: ScriptedPost) => {
    const stream = String(JSON.parse(request.body).svcstream);
    sent.set(stream, (sent.get(stream) ?? 0) + 1);
    return hanging.has(stream) ? undefined : ok;
  };
  const fixture = await createDeliveryFixture(t, {
    settings: { ...settings, ...options },
    respond,
  });
  const { id: other } = await addTenant(fixture.store, 'other');
  await fixture.start();
  return {
    fixture,
    other,
    hanging,
    addStreams: async (tenant, count, type) => {
      const streams: Stream[] = [];
      while (streams.length < count)
        streams.push(await fixture.addStream({ tenant, types: [type] }));
      return streams;
    },
    publish: fixture.publishTo,
    sentTo: ({ id }) => sent.get(id) ?? 0,
  };
}

describe('streams that hang', () => {
  test('streams that hang leave another tenant all the slots it needs, also one that begins later', async (t) => {
    const { fixture, other, hanging, addStreams, publish, sentTo } = await neighbours(t);
    for (const { id } of await addStreams(fixture.tenant, 40, 'a.made')) hanging.add(id);
    const [early] = await addStreams(other, 1, 'b.made');
    assert.ok(early);
    await publish(fixture.tenant, 100, 'a.made');
    await publish(other, 300, 'b.made');
    await fixture.clock.advance(500);
    assert.equal(sentTo(early), 300);
    await fixture.clock.advance(2000);
    const [late] = await addStreams(other, 1, 'c.made');
    assert.ok(late);
    await publish(other, 300, 'c.made');
    await fixture.clock.advance(500);
    assert.equal(sentTo(late), 300);
    assert.ok(fixture.transport.open.length > 0, 'the others still hang');
  });

  test('streams that hang leave quick streams of their own tenant all the slots they need', async (t) => {
    const { fixture, hanging, addStreams, publish, sentTo } = await neighbours(t);
    for (const { id } of await addStreams(fixture.tenant, 40, 'a.made')) hanging.add(id);
    const [quick] = await addStreams(fixture.tenant, 1, 'b.made');
    assert.ok(quick);
    await publish(fixture.tenant, 100, 'a.made');
    await publish(fixture.tenant, 300, 'b.made');
    await fixture.clock.advance(500);
    assert.equal(sentTo(quick), 300);
    await fixture.clock.advance(2000);
    await publish(fixture.tenant, 300, 'b.made');
    await fixture.clock.advance(500);
    assert.equal(sentTo(quick), 600);
    assert.ok(fixture.transport.open.length > 0, 'the others still hang');
  });

  test('streams that began to hang at the same moment leave others the slots they need', async (t) => {
    const { fixture, other, hanging, addStreams, publish, sentTo } = await neighbours(t);
    const quick = await addStreams(fixture.tenant, 40, 'a.made');
    const [own] = await addStreams(fixture.tenant, 1, 'b.made');
    const [others] = await addStreams(other, 1, 'c.made');
    assert.ok(own && others);
    await publish(fixture.tenant, 3, 'a.made');
    await publish(fixture.tenant, 3, 'b.made');
    await publish(other, 3, 'c.made');
    await fixture.clock.advance(100);
    for (const { id } of quick) hanging.add(id);
    await publish(fixture.tenant, 100, 'a.made');
    await publish(other, 100, 'c.made');
    await fixture.clock.advance(1000);
    assert.equal(sentTo(others), 103);
    // Their retries and further events do not take all slots that their timeouts free.
    for (const post of fixture.transport.open) post.end(timedOut);
    await fixture.clock.advance(5000);
    await publish(fixture.tenant, 100, 'b.made');
    await fixture.clock.advance(1000);
    assert.equal(sentTo(own), 103);
  });

  test('quick streams may have every slot of the node, and count as slow once they hang', async (t) => {
    const { fixture, hanging, addStreams, publish, sentTo } = await neighbours(t);
    // The only tenant on the node.
    const streams = await addStreams(fixture.tenant, 64, 'a.made');
    const [quick] = await addStreams(fixture.tenant, 1, 'b.made');
    assert.ok(quick);
    await publish(fixture.tenant, 1, 'a.made');
    await publish(fixture.tenant, 1, 'b.made');
    for (const { id } of streams) hanging.add(id);
    await publish(fixture.tenant, 5, 'a.made');
    assert.equal(fixture.transport.open.length, 64);
    await fixture.clock.advance(1500);
    for (const post of fixture.transport.open.slice(0, 8)) post.end(ok);
    await fixture.clock.advance(100);
    assert.equal(
      fixture.transport.open.length,
      56,
      'no slow stream takes a slot of the last quarter',
    );
    await publish(fixture.tenant, 8, 'b.made');
    assert.equal(sentTo(quick), 9);
  });

  test('slots that another tenant releases go to a quick stream, not to those that hang', async (t) => {
    const few = { concurrency: 4, streamConcurrency: 2 };
    const { fixture, other, hanging, addStreams, publish, sentTo } = await neighbours(t, few);
    const [slow] = await addStreams(fixture.tenant, 1, 'a.made');
    const [quick] = await addStreams(fixture.tenant, 1, 'b.made');
    const [others] = await addStreams(other, 1, 'c.made');
    assert.ok(slow && quick && others);
    await publish(fixture.tenant, 1, 'b.made');
    await publish(other, 1, 'c.made');
    for (const { id } of [slow, others]) hanging.add(id);
    await publish(fixture.tenant, 2, 'a.made');
    await publish(other, 1, 'c.made');
    assert.equal(fixture.transport.open.length, 3);
    // With two of four slots a tenant gets no third while one is left.
    await publish(fixture.tenant, 1, 'b.made');
    assert.equal(sentTo(quick), 1);
    fixture.transport.open.at(-1)?.end(ok);
    await fixture.clock.advance(0);
    assert.equal(sentTo(quick), 2);
  });

  test('a stream that hangs has few slots, and all again when it is quick again', async (t) => {
    const { fixture, hanging, addStreams, publish } = await neighbours(t);
    const [stream] = await addStreams(fixture.tenant, 1, 'a.made');
    assert.ok(stream);
    await publish(fixture.tenant, 1, 'a.made');
    hanging.add(stream.id);
    await publish(fixture.tenant, 400, 'a.made');
    assert.equal(fixture.transport.open.length, 16);
    // No retry is due yet, and only few of the slots that timed out are used again.
    await fixture.clock.advance(9_999);
    for (const post of fixture.transport.open) post.end(timedOut);
    await fixture.clock.advance(0);
    assert.equal(fixture.transport.open.length, 4);
    hanging.clear();
    for (const post of fixture.transport.open) post.end(ok);
    await fixture.clock.advance(5000);
    hanging.add(stream.id);
    await publish(fixture.tenant, 400, 'a.made');
    assert.equal(fixture.transport.open.length, 16);
  });

  test('streams that hang do not delay the replays of another tenant', async (t) => {
    const { fixture, other, hanging, addStreams, publish, sentTo } = await neighbours(t);
    const [replaying] = await addStreams(other, 1, 'b.made');
    assert.ok(replaying);
    await publish(other, 50, 'b.made');
    await fixture.clock.advance(100);
    for (const { id } of await addStreams(fixture.tenant, 40, 'a.made')) hanging.add(id);
    await publish(fixture.tenant, 100, 'a.made');
    await fixture.clock.advance(2000);
    const accepted = await fixture.store.replays.create({
      id: newId('rpl'),
      tenant: other,
      stream: replaying.id,
      from: 0,
      to: await fixture.store.log.head(other),
      types: undefined,
    });
    assert.ok('created' in accepted);
    await fixture.clock.advance(3000);
    assert.equal(sentTo(replaying), 100);
  });
});

describe('bodies under way', () => {
  /** Events of some 10 kB. */
  async function publishLarge({ fixture }: Neighbours, tenant: number, count: number) {
    const body = JSON.stringify({ data: 'x'.repeat(10_000) });
    const time = fixture.clock.now();
    await fixture.store.log.append(
      tenant,
      Array.from({ length: count }, () => newEvent({ type: 'a.made', time, body })),
    );
    await fixture.clock.advance(0);
  }

  test('the bytes of bodies under way are bounded for fresh events and retries, and waiting ones are sent later', async (t) => {
    const setup = await neighbours(t, { inflightBytesMax: 100_000, claimedBytes: 10_100 });
    const { fixture, hanging, addStreams, sentTo } = setup;
    const streams = await addStreams(fixture.tenant, 10, 'a.made');
    await publishLarge(setup, fixture.tenant, 1);
    for (const { id } of streams) hanging.add(id);
    let most = 0;
    const watch = async (rounds: number, end: AttemptResult): Promise<void> => {
      for (let round = 0; round < rounds; round += 1) {
        most = Math.max(most, fixture.dispatcher.state().inFlightBytes);
        for (const post of fixture.transport.open) post.end(end);
        await fixture.clock.advance(100);
      }
    };
    await publishLarge(setup, fixture.tenant, 4);
    await watch(20, respondedWith(503));
    assert.ok(most > 50_000 && most <= 100_000, `${most} bytes`);
    hanging.clear();
    await watch(150, ok);
    for (const stream of streams) assert.ok(sentTo(stream) > 5);
    assert.equal(fixture.dispatcher.state().inFlightBytes, 0);
    assert.equal(fixture.transport.open.length, 0);
  });

  test('bodies of one tenant leave room for those of another', async (t) => {
    const setup = await neighbours(t, { inflightBytesMax: 100_000, claimedBytes: 10_100 });
    const { fixture, other, hanging, addStreams, publish, sentTo } = setup;
    for (const { id } of await addStreams(fixture.tenant, 20, 'a.made')) hanging.add(id);
    const [stream] = await addStreams(other, 1, 'b.made');
    assert.ok(stream);
    await publishLarge(setup, fixture.tenant, 20);
    await publish(other, 200, 'b.made');
    await fixture.clock.advance(500);
    assert.equal(sentTo(stream), 200);
    assert.ok(fixture.dispatcher.state().inFlightBytes > 20_000);
  });
});

describe('an attempt whose receiver has to be looked up', () => {
  test('an attempt occupies no slot during its name lookup, which happens once, and begins when that has ended', async (t) => {
    const { fixture, addStreams, publish, sentTo, other } = await neighbours(t);
    const pending = Promise.withResolvers<void>();
    const asked: number[] = [];
    let isKnown = false;
    fixture.transport.prepare = (tenant) => {
      if (isKnown || tenant === other) return true;
      asked.push(tenant);
      return pending.promise;
    };
    const streams = await addStreams(fixture.tenant, 3, 'a.made');
    const [neighbour] = await addStreams(other, 1, 'b.made');
    assert.ok(neighbour);
    await publish(fixture.tenant, 50, 'a.made');
    await publish(fixture.tenant, 50, 'a.made');
    await publish(other, 50, 'b.made');
    assert.equal(sentTo(neighbour), 50);
    assert.equal(fixture.dispatcher.state().inFlight, 0);
    assert.deepEqual(asked, [fixture.tenant, fixture.tenant, fixture.tenant]);
    isKnown = true;
    pending.resolve();
    await fixture.clock.advance(500);
    assert.deepEqual(
      streams.map((stream) => sentTo(stream)),
      [100, 100, 100],
    );
  });

  test('an attempt is not sent when its stream was disabled during the name lookup', async (t) => {
    const { fixture, addStreams, publish } = await neighbours(t);
    const pending = Promise.withResolvers<void>();
    fixture.transport.prepare = () => pending.promise;
    const [stream] = await addStreams(fixture.tenant, 1, 'a.made');
    assert.ok(stream);
    await publish(fixture.tenant, 1, 'a.made');
    await fixture.update(stream, { status: 'disabled' });
    fixture.transport.prepare = () => true;
    pending.resolve();
    await fixture.clock.advance(500);
    assert.deepEqual(fixture.sent(), []);
  });

  test('the duration of an attempt does not include the wait for the name lookup', async (t) => {
    const { fixture, addStreams, publish } = await neighbours(t);
    const [stream] = await addStreams(fixture.tenant, 1, 'a.made');
    assert.ok(stream);
    fixture.transport.respond = () => undefined;
    fixture.transport.waitedMs = 700;
    await publish(fixture.tenant, 1, 'a.made');
    await fixture.clock.advance(750);
    fixture.transport.open[0]?.end(ok);
    await fixture.clock.advance(100);
    assert.deepEqual(
      fixture.reported('attempt').map(({ durationMs }) => durationMs),
      [50],
    );
  });
});
