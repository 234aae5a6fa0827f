import assert from 'node:assert/strict';
import { test } from 'node:test';
import { limits } from '../../src/config.ts';
import { createEgressRule } from '../../src/delivery/http/egress.ts';
import { createInspector } from '../../src/delivery/http/inspector.ts';
import { createNameLookups, timedOut } from '../../src/delivery/http/name-lookups.ts';
import { createTransport, type Transport } from '../../src/delivery/http/transport.ts';
import { attempted } from '../helpers/sender.ts';
import { newEvent } from '../store/contract/fixture.ts';
import { createDeliveryFixture, withDeliveries } from './fixture.ts';

/**
 * The dispatcher with the real transport and the real queue of lookups, for names without a response.
 * Each claim takes a while, as it does under load or over a network.
 */
for (const claimMs of [50, 1100]) {
  test(`no attempt for a silent name waits for its lookup while it occupies a slot (claims take ${claimMs} ms)`, async (t) => {
    let real: Transport | undefined;
    const open = new Map<string, number>();
    let twice = 0;
    let longestMs = 0;
    const fixture = await createDeliveryFixture(t, {
      settings: {
        concurrency: 1024,
        inflightBytesMax: 268_435_456,
        streamConcurrency: 64,
        retryDelaysMs: [1300, 2700, 4100],
        settleMax: 256,
        parkAfterEvents: 256,
        pageEvents: 1000,
        claimedBytes: 1000,
      },
      through: (store) =>
        withDeliveries(store, {
          claimDue: async (...args) => {
            const rows = await store.deliveries.claimDue(...args);
            const { promise, resolve } = Promise.withResolvers<void>();
            fixture.clock.after(claimMs, resolve);
            await promise;
            return rows;
          },
        }),
      respond: (post) => {
        const { clock } = fixture;
        const key = `${post.request.origin} ${post.eventId}`;
        const startedMs = clock.elapsedMs();
        const before = open.get(key) ?? 0;
        if (before > 0) twice += 1;
        open.set(key, before + 1);
        const send = async (transport: Transport): Promise<void> => {
          const result = attempted(await transport.post(post.request).ended);
          longestMs = Math.max(longestMs, clock.elapsedMs() - startedMs);
          open.set(key, (open.get(key) ?? 1) - 1);
          post.end(result);
        };
        if (real !== undefined) void send(real);
        return undefined;
      },
    });
    const names = createNameLookups({
      clock: fixture.clock,
      limits: limits.names,
      resolve: (_, timeoutMs) =>
        new Promise((_resolve, reject) => {
          fixture.clock.after(timeoutMs, () =>
            reject(Object.assign(new Error('x'), { code: timedOut })),
          );
        }),
    });
    real = createTransport({
      clock: fixture.clock,
      egress: createEgressRule({ allow: [] }),
      names,
      inspector: createInspector({ clock: fixture.clock, settings: limits.inspector }),
      timeoutMs: 10_000,
      connectionMs: 60_000,
      bodyBytesMax: 65_536,
      textBytesMax: 2048,
    });
    t.after(() => real?.close());
    fixture.transport.prepare = (tenant, origin) => real?.prepare(tenant, origin) ?? true;
    fixture.transport.isReady = (origin) => real?.isReady(origin) ?? true;
    await fixture.start();
    for (let n = 0; n < 100; n += 1) {
      await fixture.addStream({
        types: ['a.made'],
        destination: {
          endpoint: `http://silent-${n}.test/hook`,
          authorization: { method: 'bearer', token: 'x' },
        },
      } as never);
    }
    for (let tick = 0; tick < 240; tick += 1) {
      if (tick % 8 === 0) {
        await fixture.store.log.append(fixture.tenant, [
          newEvent({ type: 'a.made', time: fixture.clock.now() }),
        ]);
      }
      await fixture.clock.advance(470 + (tick % 7) * 11);
    }
    assert.ok(fixture.transport.posts.length > 100);
    assert.equal(twice, 0, 'an event was sent while an attempt for it was under way');
    assert.equal(longestMs, 0);
  });
}
