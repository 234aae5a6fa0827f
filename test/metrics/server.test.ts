import assert from 'node:assert/strict';
import { once } from 'node:events';
import { request } from 'node:http';
import { connect } from 'node:net';
import { describe, test, type TestContext } from 'node:test';
import { openMetricsServer } from '../../src/metrics/server.ts';
import { freePort } from '../helpers/leat.ts';

const contentType = 'text/plain; version=0.0.4; charset=utf-8';

interface Place {
  readonly url: string;
  readonly port: number;
  readonly reported: unknown[];
}

async function serving(
  t: TestContext,
  text: () => Promise<string> = () => Promise.resolve('leat_up 1\n'),
): Promise<Place> {
  const port = await freePort();
  const reported: unknown[] = [];
  const metrics = { contentType, text };
  const report = (error: unknown): void => void reported.push(error);
  const server = await openMetricsServer({ metrics, report }, { host: '127.0.0.1', port });
  t.after(() => server.close());
  return { url: `http://127.0.0.1:${port}`, port, reported };
}

describe('the listener of the metrics', () => {
  test('answers GET with the text, on any Host and with any query', async (t) => {
    const { port } = await serving(t);
    for (const host of ['metrics.example.com', '127.0.0.1', '[::1]:9']) {
      const headers = { host };
      const sent = request({ host: '127.0.0.1', port, path: '/metrics?x=/y', headers }).end();
      const [answer] = await once(sent, 'response');
      let text = '';
      for await (const chunk of answer) text += String(chunk);
      assert.equal(answer.statusCode, 200);
      assert.equal(answer.headers['content-type'], contentType);
      assert.equal(text, 'leat_up 1\n');
    }
  });

  test('answers HEAD with the same head', async (t) => {
    const { url } = await serving(t);
    const answer = await fetch(`${url}/metrics`, { method: 'HEAD' });
    assert.equal(answer.status, 200);
    assert.equal(answer.headers.get('content-length'), '10');
    assert.equal(await answer.text(), '');
  });

  test('refuses other methods and other paths', async (t) => {
    const { url } = await serving(t);
    for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS']) {
      const answer = await fetch(`${url}/metrics`, { method });
      assert.equal(answer.status, 405, method);
      assert.equal(answer.headers.get('allow'), 'GET, HEAD');
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

  test('does not wait for the body of what it refuses', async (t) => {
    const { port } = await serving(t);
    const socket = connect(port, '127.0.0.1');
    socket.write('POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n');
    let answer = '';
    for await (const chunk of socket) answer += String(chunk);
    assert.match(answer, /^HTTP\/1\.1 405 /);
  });

  test('makes one text for all that ask meanwhile, and a new one for the next', async (t) => {
    const asked = Promise.withResolvers<void>();
    const answer = Promise.withResolvers<void>();
    let made = 0;
    const { url } = await serving(t, async () => {
      made += 1;
      asked.resolve();
      await answer.promise;
      return `leat_made ${made}\n`;
    });
    const ask = async (): Promise<string> => (await fetch(`${url}/metrics`)).text();
    const first = ask();
    await asked.promise;
    // The others are with the server once a request that came after them has been answered.
    const others = Array.from({ length: 5 }, ask);
    assert.equal((await fetch(`${url}/elsewhere`)).status, 404);
    answer.resolve();
    const texts = await Promise.all([first, ...others]);
    assert.ok(made < 6, `${made} texts for 6 requests`);
    assert.equal(texts[0], 'leat_made 1\n');
    assert.equal(await ask(), `leat_made ${made}\n`);
  });

  test('says that a text could not be made, and makes the next one', async (t) => {
    let fails = true;
    const { url, reported } = await serving(t, () =>
      fails ? Promise.reject(new Error('a bug')) : Promise.resolve('leat_up 1\n'),
    );
    const refused = await fetch(`${url}/metrics`);
    assert.equal(refused.status, 500);
    assert.doesNotMatch(await refused.text(), /a bug/);
    assert.deepEqual(reported.map(String), ['Error: a bug']);
    fails = false;
    assert.equal((await fetch(`${url}/metrics`)).status, 200);
  });

  test('rejects with what the system says of its address', async (t) => {
    const { port } = await serving(t);
    const metrics = { contentType, text: () => Promise.resolve('') };
    await assert.rejects(
      openMetricsServer({ metrics, report: () => {} }, { host: '127.0.0.1', port }),
      { code: 'EADDRINUSE' },
    );
  });

  test('cuts off at its end who is still connected', async () => {
    const port = await freePort();
    const metrics = { contentType, text: () => Promise.withResolvers<string>().promise };
    const server = await openMetricsServer(
      { metrics, report: () => {} },
      { host: '127.0.0.1', port },
    );
    const socket = connect(port, '127.0.0.1');
    await once(socket, 'connect');
    const gone = Promise.withResolvers<void>();
    socket.on('error', () => {}).on('close', () => gone.resolve());
    socket.write('GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n');
    await server.close();
    await gone.promise;
    await assert.rejects(fetch(`http://127.0.0.1:${port}/metrics`));
  });
});
