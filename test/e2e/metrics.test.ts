import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { startEndpoint, type Endpoint } from '../helpers/endpoint.ts';
import {
  freePort,
  createTempStore,
  runLeat,
  spawnLeat,
  startLeat,
  waitFor,
  type TempStore,
  type Running,
} from '../helpers/leat.ts';
import { type Exposition, readExposition } from '../helpers/prometheus.ts';
import {
  createStream,
  eventsOf,
  freshType,
  publishAll,
  readStream,
  redeliver,
  waitForFailures,
} from '../helpers/api-client.ts';

let tempStore: TempStore;
let leat: Running;
let endpoint: Endpoint;
let metricsPort: number;

before(async () => {
  tempStore = await createTempStore();
  endpoint = await startEndpoint();
  metricsPort = await freePort();
  leat = await startLeat(tempStore, {
    LEAT_RETRY_DELAYS_MS: '10,20',
    LEAT_DISABLE_CONSECUTIVE: '3',
    LEAT_METRICS_PORT: String(metricsPort),
  });
});
after(async () => {
  await endpoint.close();
  await leat.kill();
  await tempStore.remove();
});

async function scrape(port = metricsPort): Promise<Exposition> {
  const response = await fetch(`http://127.0.0.1:${port}/metrics`);
  assert.equal(response.status, 200);
  assert.equal(response.headers.get('content-type'), 'text/plain; version=0.0.4; charset=utf-8');
  return readExposition(await response.text());
}

/** Waits until the metrics fulfil a condition, and returns them. */
function scrapeUntil(what: string, holds: (text: Exposition) => boolean): Promise<Exposition> {
  return waitFor(what, async () => {
    const text = await scrape();
    return holds(text) && text;
  });
}

/** Returns how much a counter has grown between two scrapes; an absent one is 0. */
function growth(earlier: Exposition, later: Exposition) {
  const at = (text: Exposition, name: string, labels: Readonly<Record<string, string>>): number =>
    text.has(name, labels) ? text.value(name, labels) : 0;
  return (name: string, labels: Readonly<Record<string, string>> = {}): number =>
    at(later, name, labels) - at(earlier, name, labels);
}

describe('the metrics of a running service', () => {
  test('metrics count published, delivered, retried and failed events', async () => {
    const type = freshType();
    const stream = await createStream(leat, endpoint.url, { types: [type] });
    const start = await scrape();
    const attempts = (kind: string, outcome: string) => (text: Exposition) =>
      growth(start, text)('leat_attempts_total', { kind, outcome });
    endpoint.respondWith(204);
    await publishAll(leat, eventsOf(type, 20));
    const delivered = growth(
      start,
      await scrapeUntil('20 deliveries', (text) => attempts('first', 'delivered')(text) === 20),
    );
    assert.equal(delivered('leat_events_published_total'), 20);
    assert.equal(delivered('leat_append_batch_events_sum'), 20);
    assert.equal(delivered('leat_delivery_latency_seconds_count'), 20);
    assert.ok(delivered('leat_delivery_latency_seconds_sum') > 0);
    assert.equal(delivered('leat_attempt_duration_seconds_count', { outcome: 'delivered' }), 20);

    endpoint.respondWith(503);
    const [failing = ''] = await publishAll(leat, eventsOf(type, 1));
    await waitForFailures(leat, stream.id, 1);
    endpoint.respondWith(204);
    await redeliver(leat, stream.id, failing);
    const end = await scrapeUntil(
      'the redelivery to be recorded',
      // More where an attempt took so long that it was parked first.
      (text) =>
        growth(start, text)('leat_settle_batch_results_sum') >= 24 &&
        attempts('redelivery', 'delivered')(text) > 0,
    );
    assert.equal(attempts('redelivery', 'delivered')(end), 1);
    assert.equal(attempts('first', 'retry')(end), 2);
    assert.equal(attempts('first', 'failed')(end), 1);
    const latency = growth(start, end)('leat_delivery_latency_seconds_count');
    assert.equal(latency, 20, 'a redelivery has none');
  });

  test('metrics show the lag of a stream with a slow receiver, and its end', async () => {
    const type = freshType();
    const stream = await createStream(leat, endpoint.url, { types: [type] });
    const labels = { tenant: 'main', stream: stream.id };
    const held = Promise.withResolvers<void>();
    endpoint.respondWith((response) => void held.promise.then(() => response.writeHead(204).end()));
    const arrived = endpoint.arrivals.length;
    await publishAll(leat, eventsOf(type, 4));
    await endpoint.arrival(arrived + 1);
    const late = await scrapeUntil('the lag', (text) => text.value('leat_lag_events') > 0);
    assert.equal(late.value('leat_stream_lag_events', labels), 4);
    assert.ok(late.value('leat_stream_lag_seconds', labels) > 0);
    // The slots of a stream that is not known to be quick.
    assert.equal(late.value('leat_attempts_in_flight'), 4);
    assert.ok(late.value('leat_streams_owned') >= 1);
    held.resolve();
    endpoint.respondWith(204);
    const end = await scrapeUntil(
      'no lag',
      (text) => text.value('leat_stream_lag_events', labels) === 0,
    );
    assert.equal(end.value('leat_stream_lag_seconds', labels), 0);
  });

  test('metrics count a stream that its failures disabled', async () => {
    const type = freshType();
    const stream = await createStream(leat, endpoint.url, { types: [type] });
    endpoint.respondWith(400);
    const start = await scrape();
    await publishAll(leat, eventsOf(type, 4));
    const text = await scrapeUntil(
      'the disabling',
      (now) => growth(start, now)('leat_streams_disabled_total', { reason: 'consecutive' }) === 1,
    );
    assert.equal((await readStream(leat, stream.id)).status, 'disabled');
    const reported = text.samples('leat_stream_lag_events').map(({ labels }) => labels['stream']);
    assert.ok(!reported.includes(stream.id));
  });

  test('metrics count requests by route, never by a path that was sent', async () => {
    const start = await scrape();
    await leat.send('GET', '/api/v2/event-streams/est_1111111111111111111111');
    await leat.send('GET', '/api/v2/no-such-route');
    await leat.send('PUT', '/api/v2/event-streams');
    await fetch(`${leat.url}/healthz`, { method: 'HEAD' });
    await publishAll(leat, eventsOf(freshType(), 3));
    // A response is counted right after it was sent; the client may see it before.
    const timed = { method: 'POST', route: '/api/v2/events' };
    const text = await scrapeUntil(
      'the last response',
      (now) => growth(start, now)('leat_http_request_duration_seconds_count', timed) === 1,
    );
    const of = (method: string, route: string, status: string): number =>
      growth(start, text)('leat_http_requests_total', { method, route, status });
    assert.equal(of('GET', '/api/v2/event-streams/:id', '4xx'), 1);
    assert.equal(of('GET', 'none', '4xx'), 1);
    assert.equal(of('PUT', 'none', '4xx'), 1);
    assert.equal(of('HEAD', '/healthz', '2xx'), 1);
    assert.equal(of('POST', '/api/v2/events', '2xx'), 1);
    assert.ok(text.value('leat_http_request_duration_seconds_sum', timed) > 0);
    const routes = text.samples('leat_http_requests_total').map(({ labels }) => labels['route']);
    assert.ok(
      routes.every((route) => !/est_|no-such/.test(route ?? '')),
      routes.join(' '),
    );
  });

  test('metrics count a pull when it begins, and while it is open', async () => {
    const start = await scrape();
    const pull = await leat.send('GET', '/api/v2/events');
    assert.equal(pull.status, 200);
    const open = await scrapeUntil('the pull', (text) => text.value('leat_pulls_open') === 1);
    const labels = { method: 'GET', route: '/api/v2/events', status: '2xx' };
    assert.equal(growth(start, open)('leat_http_requests_total', labels), 1);
    await pull.body?.cancel();
    const end = await scrapeUntil('its end', (text) => text.value('leat_pulls_open') === 0);
    assert.equal(growth(open, end)('leat_http_requests_total', labels), 0);
  });

  test('metrics are not available on the main listener', async () => {
    for (const host of ['127.0.0.1', `127.0.0.1:${metricsPort}`]) {
      const response = await leat.send('GET', '/metrics', undefined, { 'x-forwarded-host': host });
      assert.equal(response.status, 404);
    }
    const api = await fetch(`http://127.0.0.1:${metricsPort}/api/v2/openapi.json`);
    assert.equal(api.status, 404, 'nor is the API on theirs');
  });
});

describe('a start with LEAT_METRICS_PORT', () => {
  test(
    'a start with LEAT_METRICS_PORT prints the URL of the metrics, with the name of the service',
    { tags: ['long'] },
    async (t) => {
      const own = await createTempStore();
      const port = await freePort();
      const [main, messages] = [await freePort(), await freePort()];
      const { child, output } = spawnLeat(['start'], {
        LEAT_STORE: `sqlite:${own.file}`,
        LEAT_PORT: String(main),
        PORT: String(messages),
        LEAT_METRICS_PORT: String(port),
        LEAT_SERVICE_NAME: 'my-events',
      });
      t.after(async () => {
        const ended = once(child, 'close');
        child.kill('SIGKILL');
        await ended;
        await own.remove();
      });
      await waitFor('the last line of the welcome', () => output().includes('Ctrl-C ends it'));
      assert.match(
        output(),
        new RegExp(`^ +metrics +http://127\\.0\\.0\\.1:${port}/metrics$`, 'm'),
      );
      assert.ok((await scrape(port)).families.has('my_events_attempts_total'));
    },
  );

  test(
    'a start with LEAT_METRICS_PORT fails when the port is taken, and creates nothing',
    { tags: ['long'] },
    async (t) => {
      const taken = createServer().listen(0, '127.0.0.1');
      t.after(() => taken.close());
      await once(taken, 'listening');
      const { port } = taken.address() as { port: number };
      const own = await createTempStore();
      t.after(() => own.remove());
      const env = {
        LEAT_STORE: `sqlite:${own.file}`,
        LEAT_PORT: String(await freePort()),
        LEAT_METRICS_PORT: String(port),
      };
      assert.deepEqual(await runLeat(['serve'], env), {
        code: 1,
        output:
          `LEAT_METRICS_PORT: ${port} on 127.0.0.1 is in use, ` +
          `choose another, for example LEAT_METRICS_PORT=${port + 1}\n`,
      });
      const next = await runLeat(['tenants', 'list'], env);
      assert.doesNotMatch(next.output, /main/, 'no tenant was created');
    },
  );

  test(
    'a start with LEAT_METRICS_PORT fails when the host is not an address of this machine',
    { tags: ['long'] },
    async (t) => {
      const own = await createTempStore();
      t.after(() => own.remove());
      const env = {
        LEAT_STORE: `sqlite:${own.file}`,
        LEAT_PORT: String(await freePort()),
        LEAT_METRICS_PORT: String(await freePort()),
        LEAT_METRICS_HOST: '203.0.113.1',
      };
      const { code, output } = await runLeat(['serve'], env);
      assert.equal(code, 1);
      assert.match(
        output,
        /^LEAT_METRICS_HOST: "203\.0\.113\.1" is not an address of this machine/,
      );
    },
  );
});
