import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import { Webhook } from 'standardwebhooks';
import { noKeys } from '../../helpers/transport.ts';
import { systemClock } from '../../../src/clock.ts';
import type { Stream } from '../../../src/core/types.ts';
import { limits } from '../../../src/config.ts';
import { createDispatcher } from '../../../src/delivery/dispatcher.ts';
import { createEgressRule } from '../../../src/delivery/http/egress.ts';
import { createInspector } from '../../../src/delivery/http/inspector.ts';
import { createNameLookups } from '../../../src/delivery/http/name-lookups.ts';
import { createResolver } from '../../../src/delivery/http/resolver.ts';
import { createTransport } from '../../../src/delivery/http/transport.ts';
import { createSigningTransport } from '../../../src/delivery/signing-transport.ts';
import { openStore } from '../../../src/store/open.ts';
import type { Store } from '../../../src/store/port/store.ts';
import { waitFor } from '../../helpers/leat.ts';
import { hang, receiverOf, reply, type Receiver } from '../../helpers/receiver.ts';
import { addTenant, newEvent, newStream } from '../../store/contract/fixture.ts';
import { secret, settings } from '../fixture.ts';

/** A dispatcher on a database in a file, with real sockets and the real clock. */
interface Fixture {
  store(): Store;
  readonly tenant: number;
  start(): Promise<void>;
  /** Stops the dispatcher. */
  stop(): Promise<void>;
  /** Stops the dispatcher and runs a new one on the same file. */
  restart(): Promise<void>;
  addStream(receiver: Receiver, options?: Partial<Stream>): Promise<Stream>;
  publish(count: number): Promise<string[]>;
}

async function createFixture(t: TestContext): Promise<Fixture> {
  const folder = await mkdtemp(join(tmpdir(), 'leat-'));
  const open = (): Promise<Store> =>
    openStore({
      location: { engine: 'sqlite', path: join(folder, 'leat.db') },
      secretKeys: [new Uint8Array(32)],
      random: randomBytes,
      clock: systemClock,
    });
  let store = await open();
  const { id: tenant } = await addTenant(store, 'main');
  let stopNow: (() => Promise<void>) | undefined;

  const start = async (): Promise<void> => {
    const transport = createTransport({
      clock: systemClock,
      egress: createEgressRule({ allow: ['127.0.0.0/8'] }),
      names: createNameLookups({
        clock: systemClock,
        resolve: createResolver({ clock: systemClock, ...limits.resolver }).resolve,
        limits: limits.names,
      }),
      inspector: createInspector({ clock: systemClock, settings: limits.inspector }),
      timeoutMs: 2000,
      connectionMs: 60_000,
      bodyBytesMax: 65_536,
      textBytesMax: 2048,
    });
    const dispatcher = createDispatcher({
      store,
      transport: createSigningTransport(transport, (error) => assert.fail(String(error))),
      webhookKeys: noKeys,
      clock: systemClock,
      settings: { ...settings, attemptTimeoutMs: 2000, retryDelaysMs: [20, 40, 80] },
      report: () => undefined,
    });
    const abort = new AbortController();
    const ended = dispatcher.run(abort.signal);
    stopNow = async () => {
      abort.abort();
      await ended;
      await transport.close();
    };
  };
  const stop = async (): Promise<void> => {
    await stopNow?.();
    stopNow = undefined;
  };
  t.after(async () => {
    await stop();
    await store.close();
    await rm(folder, { recursive: true, force: true });
  });

  return {
    store: () => store,
    tenant,
    start,
    stop,
    restart: async () => {
      await stop();
      await store.close();
      store = await open();
      await start();
    },
    addStream: async ({ origin }, options = {}) => {
      const result = await store.streams.create(
        newStream(tenant, systemClock.now(), {
          signingSecrets: [{ secret, createdAt: 0, expiresAt: undefined }],
          destination: {
            type: 'webhook',
            endpoint: `${origin}/hook`,
            authorization: { method: 'bearer', token: 'kept-secret' },
          },
          ...options,
        }),
        { streamsMax: 100 },
      );
      assert.ok('created' in result);
      return result.created;
    },
    publish: async (count) => {
      const events = Array.from({ length: count }, () => newEvent());
      await store.log.append(tenant, events);
      return events.map(({ id }) => id);
    },
  };
}

const idsAt = ({ requests }: Receiver): string[] =>
  requests.map(({ headers }) => headers['webhook-id'] ?? '');

describe('delivering over sockets', () => {
  test('every event arrives once, with a signature that another library verifies', async (t) => {
    const fixture = await createFixture(t);
    const receiver = await receiverOf(t);
    const stream = await fixture.addStream(receiver);
    const waiting = await fixture.publish(300);
    await fixture.start();
    const live = await fixture.publish(100);
    await waitFor('all of them', () => receiver.requests.length >= 400);
    await fixture.stop();
    assert.deepEqual(idsAt(receiver).toSorted(byText), [...waiting, ...live].toSorted(byText));
    for (const { headers, body } of receiver.requests.slice(0, 20)) {
      assert.equal(headers['authorization'], 'Bearer kept-secret');
      const envelope = new Webhook(secret).verify(body, headers) as { svcstream: string };
      assert.equal(envelope.svcstream, stream.id);
    }
  });

  test('a receiver that is down for a while gets every event by retries', async (t) => {
    const fixture = await createFixture(t);
    const receiver = await receiverOf(t);
    const stream = await fixture.addStream(receiver);
    receiver.respond = reply(503);
    await fixture.start();
    const ids = await fixture.publish(20);
    await waitFor('failing attempts', () => receiver.requests.length >= 20);
    receiver.respond = reply(204);
    const delivered = async (): Promise<boolean> => {
      const { total } = (await fixture.store().streams.health(fixture.tenant, stream.id)) ?? {};
      return total === 0 && new Set(idsAt(receiver)).size === ids.length;
    };
    await waitFor('all delivered', delivered);
    await fixture.stop();
  });

  test('a restart sends what was not acknowledged, and nothing else', async (t) => {
    const fixture = await createFixture(t);
    const receiver = await receiverOf(t);
    await fixture.addStream(receiver);
    await fixture.start();
    await fixture.publish(50);
    await waitFor('the first', () => receiver.requests.length >= 50);
    await fixture.restart();
    const [id] = await fixture.publish(1);
    await waitFor('the next', () => receiver.requests.length >= 51);
    assert.equal(idsAt(receiver).at(-1), id);
    await fixture.stop();
    assert.equal(receiver.requests.length, 51);
  });

  test('an endpoint that hangs delays no other stream, and its attempt ends in time', async (t) => {
    const fixture = await createFixture(t);
    const hanging = await receiverOf(t);
    const healthy = await receiverOf(t);
    hanging.respond = hang;
    await fixture.addStream(hanging);
    await fixture.addStream(healthy);
    await fixture.start();
    const ids = await fixture.publish(200);
    await waitFor('the healthy one', () => healthy.requests.length >= ids.length);
    assert.equal(hanging.requests.length, settings.streamConcurrency);
    await fixture.stop();
    assert.equal(new Set(idsAt(healthy)).size, ids.length);
  });
});

const byText = (a: string, b: string): number => (a < b ? -1 : 1);
