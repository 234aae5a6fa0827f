import assert from 'node:assert/strict';
import { once } from 'node:events';
import { request } from 'node:http';
import { connect } from 'node:net';
import { describe, test, type TestContext } from 'node:test';
import { systemClock } from '../../src/clock.ts';
import { yieldToEventLoop } from '../../src/core/slices.ts';
import { openMetricsServer } from '../../src/metrics/server.ts';
import { exchange, messageText, readToEnd } from '../helpers/exchange.ts';
import { invalidRequests } from '../helpers/invalid-requests.ts';
import { freePort } from '../helpers/leat.ts';

const contentType = 'text/plain; version=0.0.4; charset=utf-8';

interface Fixture {
  readonly url: string;
  readonly port: number;
  readonly reported: unknown[];
}

async function openFixture(
  t: TestContext,
  text: () => Promise<string> = () => Promise.resolve('leat_up 1\n'),
): Promise<Fixture> {
  const port = await freePort();
  const reported: unknown[] = [];
  const metrics = { contentType, text };
  const report = (error: unknown): void => void reported.push(error);
  const server = await openMetricsServer(
    { metrics, report, clock: systemClock },
    { host: '127.0.0.1', port },
  );
  t.after(() => server.close());
  return { url: `http://127.0.0.1:${port}`, port, reported };
}

describe('the metrics server', () => {
  test('GET returns the text, for any Host and any query', async (t) => {
    const { port } = await openFixture(t);
    for (const host of ['metrics.example.com', '127.0.0.1', '[::1]:9']) {
      const headers = { host };
      const sent = request({ host: '127.0.0.1', port, path: '/metrics?x=/y', headers }).end();
      const [response] = await once(sent, 'response');
      let text = '';
      for await (const chunk of response) text += String(chunk);
      assert.equal(response.statusCode, 200);
      assert.equal(response.headers['content-type'], contentType);
      assert.equal(text, 'leat_up 1\n');
    }
  });

  test('HEAD returns the same headers', async (t) => {
    const { url } = await openFixture(t);
    const response = await fetch(`${url}/metrics`, { method: 'HEAD' });
    assert.equal(response.status, 200);
    assert.equal(response.headers.get('content-length'), '10');
    assert.equal(await response.text(), '');
  });

  test('the metrics server rejects other methods and other paths', async (t) => {
    const { url } = await openFixture(t);
    for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS']) {
      const response = await fetch(`${url}/metrics`, { method });
      assert.equal(response.status, 405, method);
      assert.equal(response.headers.get('allow'), 'GET, HEAD');
    }
    for (const path of [
      '/',
      '/metrics/',
      '/metrics/x',
      '/Metrics',
      '/api/v2/events',
      '//metrics',
    ]) {
      assert.equal((await fetch(url + path)).status, 404, path);
    }
  });

  test('the metrics server does not wait for the body of a rejected request', async (t) => {
    const { port } = await openFixture(t);
    const socket = connect(port, '127.0.0.1');
    socket.write('POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n');
    let response = '';
    for await (const chunk of socket) response += String(chunk);
    assert.match(response, /^HTTP\/1\.1 405 /);
  });

  test('the metrics server accepts the absolute form of a request target', async (t) => {
    const { port } = await openFixture(t);
    const sent = 'GET http://metrics.example.com/metrics?x HTTP/1.1\r\nHost: x\r\n\r\n';
    assert.equal((await exchange(port, sent)).status, 200);
  });

  test('the metrics server rejects invalid requests and closes their connections', async (t) => {
    const { port } = await openFixture(t);
    const next = messageText('GET /metrics HTTP/1.1', ['Host: x']);
    for (const [what, textFor, status] of invalidRequests) {
      const { statuses } = await readToEnd(port, [textFor('/metrics'), next]);
      assert.deepEqual(statuses, [status], what);
    }
    const tunnel = await readToEnd(port, [messageText('CONNECT x:1 HTTP/1.1', ['Host: x']), next]);
    assert.deepEqual(tunnel.statuses, [405]);
    assert.match(tunnel.text, /^allow: GET, HEAD\r$/im);
  });

  test('the metrics server responds to a scrape before it rejects what follows', async (t) => {
    const { port } = await openFixture(t, async () => {
      await yieldToEventLoop();
      return 'leat_up 1\n';
    });
    const scrape = messageText('GET /metrics HTTP/1.1', ['Host: x']);
    for (const [what, textFor, status] of invalidRequests) {
      const { statuses } = await readToEnd(port, scrape + textFor('/metrics'));
      assert.deepEqual(statuses, [200, status], what);
    }
  });

  test('the metrics server creates one text for concurrent requests, and a new one for the next', async (t) => {
    const requested = Promise.withResolvers<void>();
    const release = Promise.withResolvers<void>();
    let made = 0;
    const { url } = await openFixture(t, async () => {
      made += 1;
      requested.resolve();
      await release.promise;
      return `leat_made ${made}\n`;
    });
    const scrape = async (): Promise<string> => (await fetch(`${url}/metrics`)).text();
    const first = scrape();
    await requested.promise;
    // The server has the others once a later request has its response.
    const others = Array.from({ length: 5 }, scrape);
    assert.equal((await fetch(`${url}/elsewhere`)).status, 404);
    release.resolve();
    const texts = await Promise.all([first, ...others]);
    assert.ok(made < 6, `${made} texts for 6 requests`);
    assert.equal(texts[0], 'leat_made 1\n');
    assert.equal(await scrape(), `leat_made ${made}\n`);
  });

  test('the metrics server closes a connection that sends too many requests before the responses', async (t) => {
    const { port, url } = await openFixture(t);
    const sent = 'GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(99);
    const last = 'GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n';
    const { statuses } = await readToEnd(port, sent + last);
    assert.ok(statuses.length <= 64, `${statuses.length} responses`);
    assert.equal((await fetch(`${url}/metrics`)).status, 200);
  });

  test('the metrics server reports that a text could not be created, and creates the next one', async (t) => {
    let fails = true;
    const { url, reported } = await openFixture(t, () =>
      fails ? Promise.reject(new Error('a bug')) : Promise.resolve('leat_up 1\n'),
    );
    const failed = await fetch(`${url}/metrics`);
    assert.equal(failed.status, 500);
    assert.doesNotMatch(await failed.text(), /a bug/);
    assert.deepEqual(reported.map(String), ['Error: a bug']);
    fails = false;
    assert.equal((await fetch(`${url}/metrics`)).status, 200);
  });

  test('the metrics server rejects with the error of the system when its address is in use', async (t) => {
    const { port } = await openFixture(t);
    const metrics = { contentType, text: () => Promise.resolve('') };
    await assert.rejects(
      openMetricsServer(
        { metrics, report: () => {}, clock: systemClock },
        { host: '127.0.0.1', port },
      ),
      { code: 'EADDRINUSE' },
    );
  });

  test('close ends open connections', async () => {
    const port = await freePort();
    const metrics = { contentType, text: () => Promise.withResolvers<string>().promise };
    const server = await openMetricsServer(
      { metrics, report: () => {}, clock: systemClock },
      { host: '127.0.0.1', port },
    );
    const socket = connect(port, '127.0.0.1');
    await once(socket, 'connect');
    const closed = Promise.withResolvers<void>();
    socket.on('error', () => {}).on('close', () => closed.resolve());
    socket.write('GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n');
    await server.close();
    await closed.promise;
    await assert.rejects(fetch(`http://127.0.0.1:${port}/metrics`));
  });
});
