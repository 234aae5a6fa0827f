import assert from 'node:assert/strict';
import { connect, type Socket } from 'node:net';
import { test, type TestContext } from 'node:test';
import { waitFor } from '../helpers/wait.ts';
import { openMessageApi } from './fixture.ts';

const plain = 'GET /api/messages/public HTTP/1.1\r\nHost: x\r\n\r\n';
/** Served by Node's server, as it has a body. */
const other = 'GET /api/messages/public HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx';

for (const [way, request] of [
  ['fast path', plain],
  ['Node server', other],
] as const) {
  test(`${way}: the header Keep-Alive names the time after which an idle connection is closed`, async (t) => {
    const api = await openMessageApi(undefined, { keepAliveSeconds: 1 });
    t.after(() => api.close());
    const connection = send(t, api.port, request);
    await waitFor('the end', connection.ended);
    assert.match(connection.received(), /^HTTP\/1\.1 200 OK\r\n/);
    assert.match(connection.received(), /\r\nConnection: keep-alive\r\nKeep-Alive: timeout=1\r\n/);
  });

  test(
    `${way}: a client may stay silent for longer than proxies do by default, and is served again`,
    { tags: ['long'] },
    async (t) => {
      const api = await openMessageApi();
      t.after(() => api.close());
      const connection = send(t, api.port, request);
      await waitFor('the response', () => connection.count() === 1);
      // The time is the condition: the clients of proxies poll every 5 to 60 s.
      await new Promise((resolve) => setTimeout(resolve, 65_000));
      connection.socket.write(request);
      await waitFor('the second response', () => connection.count() === 2);
      assert.equal(connection.ended(), false);
    },
  );
}

test('close: the last response of a connection says that the connection ends', async (t) => {
  const api = await openMessageApi();
  const token = await api.token();
  const connection = send(
    t,
    api.port,
    `GET /api/messages/protected HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\n\r\n`,
  );
  // The verification of the first token waits for the keys of the issuer.
  await waitFor('the fetch of the keys', () => api.fetches() === 1);
  await api.close();
  await waitFor('the end', connection.ended);
  assert.match(connection.received(), /\r\nConnection: close\r\n/i);
  assert.doesNotMatch(connection.received(), /keep-alive/i);
});

function send(t: TestContext, port: number, request: string) {
  const socket: Socket = connect({ port, host: '127.0.0.1', noDelay: true });
  t.after(() => socket.destroy());
  let text = '';
  let closed = false;
  socket
    .setEncoding('latin1')
    .on('data', (chunk: string) => (text += chunk))
    .on('error', () => {})
    .on('close', () => (closed = true));
  socket.write(request);
  return {
    socket,
    received: () => text,
    count: () => text.split('HTTP/1.1 ').length - 1,
    ended: () => closed,
  };
}
