import assert from 'node:assert/strict';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { connect, createServer, type Server } from 'node:net';
import { describe, test } from 'node:test';
import { systemClock } from '../../src/clock.ts';
import { limits } from '../../src/config.ts';
import type { Clock } from '../../src/core/clock.ts';
import { type Service, type ServiceDeps, startService } from '../../src/program/service.ts';
import { bootstrapClient, freePort, waitFor } from '../helpers/leat.ts';
import { readExposition } from '../helpers/prometheus.ts';
import { configOf, depsOf, hurriedClock, sendHead } from './fixture.ts';

describe('a service that stops', () => {
  test('a stop does not wait for a request that never ends', { tags: ['long'] }, async () => {
    const service = await start({ clock: hurriedClock });
    const { hostname, port } = new URL(service.url);
    const stuck = connect(Number(port), hostname);
    const gone = once(stuck, 'close');
    stuck.on('error', () => {});
    await sendHead(stuck, 'application/json', 9);

    await service.stop();
    await service.work;
    await gone;
  });
});

describe('a request in progress when the service stops', () => {
  test('a request in progress gets its response, and then its connection is closed', async () => {
    const service = await start();
    const { hostname, port } = new URL(service.url);
    const socket = connect(Number(port), hostname);
    const body = 'grant_type=other';
    await sendHead(socket, 'application/x-www-form-urlencoded', body.length);

    const stopped = service.stop();
    socket.write(body);
    let response = '';
    for await (const chunk of socket) response += String(chunk);
    assert.match(response, /unsupported_grant_type/);
    assert.match(response, /\r\nconnection: close\r\n/i);
    await stopped;
  });
});

describe('background work that ends unexpectedly', () => {
  test('background work that fails rejects `work`, so that the program can end', async () => {
    const after: Clock['after'] = (delayMs, action) => {
      if (delayMs === limits.upkeep.everyMs) throw new Error('a bug in upkeep');
      return systemClock.after(delayMs, action);
    };
    const service = await start({ clock: { ...systemClock, after } });
    await assert.rejects(service.work, /a bug in upkeep/);
    await assert.rejects(service.stop(), /a bug in upkeep/);
    await assert.rejects(fetch(`${service.url}/healthz`), 'the listener is closed');
  });
});

describe('a service on localhost', () => {
  test('a request in progress on a further address gets its response before the service stops', async (t) => {
    const addressesOf = async (): Promise<string[]> => ['127.0.0.1', '127.0.0.2'];
    const service = await start({ host: 'localhost', addressesOf });
    t.after(() => service.stop().catch(() => {}));
    const { port } = new URL(service.url);
    assert.equal((await fetch(`http://127.0.0.1:${port}/healthz`)).status, 200);
    const sent = request({
      host: '127.0.0.2',
      port,
      path: '/oauth/token',
      method: 'POST',
      agent: false,
      headers: { 'content-type': 'application/json', expect: '100-continue' },
    });
    sent.flushHeaders();
    await once(sent, 'continue');
    const stopped = service.stop();
    await waitFor('the first address to be closed', () =>
      fetch(`http://127.0.0.1:${port}/healthz`).then(
        () => false,
        () => true,
      ),
    );
    const body = {
      grant_type: 'client_credentials',
      client_id: bootstrapClient.id,
      client_secret: bootstrapClient.secret,
      audience: '/api/v2/',
    };
    sent.end(JSON.stringify(body));
    const [response] = (await once(sent, 'response')) as [IncomingMessage];
    assert.equal(response.statusCode, 200);
    response.resume();
    await stopped;
  });
});

describe('connections of one address', () => {
  test(
    'connections of one address are limited over all addresses of localhost together, and counted',
    { tags: ['long'] },
    async (t) => {
      const metricsPort = await freePort();
      const service = await start({
        host: 'localhost',
        addressesOf: async () => ['127.0.0.1', '127.0.0.2'],
        settings: {
          LEAT_MAX_CONNECTIONS_PER_ADDRESS: '3',
          LEAT_METRICS_PORT: String(metricsPort),
        },
      });
      t.after(() => service.stop());
      const port = Number(new URL(service.url).port);
      let open = 0;
      for (const host of ['127.0.0.1', '127.0.0.2', '127.0.0.1', '127.0.0.2', '127.0.0.2']) {
        open += 1;
        const socket = connect({ host, port, localAddress: '127.0.0.66' });
        t.after(() => socket.destroy());
        socket.on('error', () => {}).on('close', () => (open -= 1));
      }
      await waitFor('the connections above the limit to end', () => open === 3);
      assert.equal(
        (await fetch(`${service.url.replace('localhost', '127.0.0.2')}/healthz`)).status,
        200,
      );
      const metrics = await fetch(`http://127.0.0.1:${metricsPort}/metrics`);
      const text = readExposition(await metrics.text());
      assert.equal(text.value('leat_connections_refused_total', {}), 2);
    },
  );
});

describe('the listener of the metrics', () => {
  test('the service has no metrics listener without LEAT_METRICS_PORT', async (t) => {
    const ports = new Set<number>();
    const onListen = (message: unknown): void => {
      const address = (message as { server: Server }).server.address();
      if (typeof address === 'object' && address !== null) ports.add(address.port);
    };
    const channel = 'tracing:net.server.listen:asyncEnd';
    subscribe(channel, onListen);
    t.after(() => unsubscribe(channel, onListen));
    const settings = { LEAT_METRICS_HOST: '127.0.0.1' };
    const service = await start({ settings });
    t.after(() => service.stop());
    assert.equal(service.metricsUrl, undefined);
    assert.deepEqual([...ports], [Number(new URL(service.url).port)]);
  });

  test('the metrics listener closes with the service', async () => {
    const url = `http://127.0.0.1:${await freePort()}/metrics`;
    const settings = { LEAT_METRICS_PORT: new URL(url).port };
    const service = await start({ settings });
    assert.equal(service.metricsUrl, url);
    const text = readExposition(await (await fetch(url)).text());
    assert.equal(text.value('leat_build_info', { version: 'test' }), 1);
    await service.stop();
    await assert.rejects(fetch(url));
  });

  test('the metrics listener closes when the service cannot listen', async (t) => {
    const taken = createServer().listen(0, '127.0.0.1');
    t.after(() => taken.close());
    await once(taken, 'listening');
    const { port } = taken.address() as { port: number };
    const metricsPort = await freePort();
    const settings = { LEAT_PORT: String(port), LEAT_METRICS_PORT: String(metricsPort) };
    await assert.rejects(start({ settings }), { code: 'start_refused' });
    await assert.rejects(fetch(`http://127.0.0.1:${metricsPort}/metrics`));
  });
});

/** Starts a service in memory on a free port. */
async function start({
  host = '127.0.0.1',
  settings = {},
  ...deps
}: Partial<Pick<ServiceDeps, 'clock' | 'addressesOf'>> & {
  readonly host?: string;
  readonly settings?: Readonly<Record<string, string>>;
} = {}): Promise<Service> {
  const config = configOf({ LEAT_HOST: host, ...settings }, await freePort());
  return startService({ ...depsOf(config), ...deps });
}
