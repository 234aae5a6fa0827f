import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { describe, test, type TestContext } from 'node:test';
import { waitFor } from '../../helpers/leat.ts';
import { openPull } from '../../helpers/pull.ts';
import { openApiFixture, type ApiFixture } from '../fixture.ts';

const head = [
  'POST /oauth/token HTTP/1.1',
  'Host: localhost',
  'Content-Type: application/json',
  'Content-Length: 4000',
].join('\r\n');

/** Opens an API that cuts off what is under way at the end of the test. */
async function open(
  t: TestContext,
  settings: Parameters<typeof openApiFixture>[0],
): Promise<ApiFixture> {
  const fixture = await openApiFixture(settings);
  t.after(async () => {
    fixture.app.server.closeAllConnections();
    await fixture.close();
  });
  return fixture;
}

/** Begins a request of a client behind the proxy 127.0.0.1 and leaves its body out. */
async function begin(fixture: ApiFixture, client: string): Promise<() => string> {
  const socket = connect(fixture.port, '127.0.0.1');
  let text = '';
  socket.setEncoding('latin1').on('data', (chunk: string) => {
    text += chunk;
  });
  socket.on('error', () => {});
  await once(socket, 'connect');
  // Once it gets 100 Continue, the request is under way.
  socket.write(`${head}\r\nExpect: 100-continue\r\nX-Forwarded-For: ${client}\r\n\r\n`);
  await waitFor('a response', () => text !== '');
  return () => text;
}

describe('clients behind a trusted proxy', () => {
  test('a client gets as many requests under way as it could have connections', async (t) => {
    const fixture = await open(t, { trustProxy: ['127.0.0.1'], maxConnectionsPerAddress: 3 });
    const greedy = '2001:db8:1:2::7';
    for (const client of [greedy, '2001:db8:1:2::8', greedy]) {
      assert.match((await begin(fixture, client))(), /^HTTP\/1\.1 100 Continue\r\n/);
    }
    const rejected = await begin(fixture, greedy);
    assert.match(rejected(), /^HTTP\/1\.1 429 Too Many Requests\r\n/);
    assert.match(rejected(), /^connection: close\r\n/im);
    assert.match(rejected(), /"errorCode":"too_many_requests"/);
    const forwarded = { 'x-forwarded-for': greedy };
    assert.equal((await fixture.raw('GET', '/api/v2/nowhere', undefined, forwarded)).status, 429);
    const other = { 'x-forwarded-for': '2001:db8:1:3::7' };
    assert.equal((await fixture.raw('GET', '/healthz', undefined, other)).status, 200);
    assert.equal((await fixture.raw('GET', '/healthz')).status, 200, 'the proxy itself');
  });

  test('a client may send again once its requests have ended', async (t) => {
    const fixture = await open(t, { trustProxy: ['127.0.0.1'], maxConnectionsPerAddress: 1 });
    const client = { 'x-forwarded-for': '192.0.2.7' };
    for (let count = 0; count < 5; count += 1) {
      await waitFor('an admitted request', async () => {
        return (await fixture.raw('GET', '/healthz', undefined, client)).status === 200;
      });
    }
    const socket = connect(fixture.port, '127.0.0.1');
    await once(socket, 'connect');
    socket.write(`${head}\r\nX-Forwarded-For: 192.0.2.7\r\n\r\n{`);
    await waitFor('the limit', async () => {
      return (await fixture.raw('GET', '/healthz', undefined, client)).status === 429;
    });
    socket.destroy();
    await waitFor('an admitted request after the client has disconnected', async () => {
      return (await fixture.raw('GET', '/healthz', undefined, client)).status === 200;
    });
  });
});

describe('timeouts of requests', () => {
  test('timeouts end an incomplete request, but not a pull', async (t) => {
    const fixture = await open(t, {});
    Object.assign(fixture.app.server, { headersTimeout: 50, requestTimeout: 50 });
    const pull = await openPull(`http://127.0.0.1:${fixture.port}/api/v2/events`, fixture.token);
    const socket = connect(fixture.port, '127.0.0.1');
    let text = '';
    socket.setEncoding('latin1').on('data', (chunk: string) => {
      text += chunk;
    });
    socket.write(`${head}\r\n\r\n{`);
    await once(socket, 'close');
    assert.match(text, /^HTTP\/1\.1 408 Request Timeout\r\n/);
    await fixture.send('POST', '/events', { type: 'a.b', data: {} });
    await waitFor('the event', () => pull.text().includes('"a.b"'));
  });
});
