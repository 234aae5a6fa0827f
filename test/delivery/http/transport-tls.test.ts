import assert from 'node:assert/strict';
import { connect, createServer, type Socket } from 'node:net';
import { once } from 'node:events';
import { describe, test, type TestContext } from 'node:test';
import { createServer as createTlsServer } from 'node:tls';
import type { AttemptResult } from '../../../src/core/retry.ts';
import {
  authority,
  expired,
  ofAnotherHost,
  selfSigned,
  trusted,
} from '../../helpers/certificates.ts';
import { waitFor } from '../../helpers/leat.ts';
import { rawThenEnd, receiverOf, startReceiver } from '../../helpers/receiver.ts';
import { createSender, timeoutMs, type Sender } from '../../helpers/sender.ts';

function senderOf(t: TestContext): Sender {
  return createSender(t, { tls: { ca: authority } });
}

const toLoopback = (): Promise<readonly string[]> => Promise.resolve(['127.0.0.1']);

const delivered: AttemptResult = { kind: 'response', status: 204, text: '', retryAfter: undefined };
const tlsBroken = (detail: string): AttemptResult => ({ kind: 'error', cause: 'tls', detail });

describe('https', () => {
  test('https delivers to a receiver with a trusted certificate, by name and by address', async (t) => {
    const receiver = await receiverOf(t, { tls: trusted });
    const { send } = senderOf(t);
    assert.deepEqual(await send(receiver.origin), delivered);
    assert.deepEqual(await send(`https://localhost:${receiver.port}`), delivered);
    assert.deepEqual(await send(receiver.origin), delivered);
    assert.equal(receiver.connections, 2);
  });

  test('the trailing dot of a name is ignored in the check of the certificate', async (t) => {
    const receiver = await receiverOf(t, { tls: trusted });
    const { send } = createSender(t, { tls: { ca: authority }, resolve: toLoopback });
    assert.deepEqual(await send(`https://localhost.:${receiver.port}`), delivered);
    const other = await send(`https://other.localhost.:${receiver.port}`);
    assert.deepEqual(other, tlsBroken('ERR_TLS_CERT_ALTNAME_INVALID'));
  });

  test('https offers only HTTP/1.1 and sends the server name in the handshake, never an address', async (t) => {
    const seen: [servername: unknown, protocol: unknown][] = [];
    const server = createTlsServer({ ...trusted, ALPNProtocols: ['h2', 'http/1.1'] }, (socket) => {
      // The server side has the name the client sent.
      const { servername } = socket as unknown as { servername: unknown };
      seen.push([servername, socket.alpnProtocol]);
      socket.on('error', () => undefined);
      socket.end('HTTP/1.1 204 No Content\r\n\r\n');
    });
    const port = await listening(t, server);
    const { send } = createSender(t, { tls: { ca: authority }, resolve: toLoopback });
    await send(`https://localhost:${port}`);
    await send(`https://localhost.:${port}`);
    await send(`https://127.0.0.1:${port}`);
    assert.deepEqual(seen, [
      ['localhost', 'http/1.1'],
      ['localhost', 'http/1.1'],
      [false, 'http/1.1'],
    ]);
  });

  const refused: readonly (readonly [string, typeof trusted, string])[] = [
    ['signed by itself', selfSigned, 'DEPTH_ZERO_SELF_SIGNED_CERT'],
    ['of another host', ofAnotherHost, 'ERR_TLS_CERT_ALTNAME_INVALID'],
    ['that has ended', expired, 'CERT_HAS_EXPIRED'],
  ];
  for (const [name, tls, detail] of refused) {
    test(`a certificate ${name} is refused every time, and nothing is sent`, async (t) => {
      const receiver = await receiverOf(t, { tls });
      const { send, transport } = senderOf(t);
      for (let round = 0; round < 3; round++) {
        assert.deepEqual(await send(receiver.origin), tlsBroken(detail));
      }
      assert.equal(receiver.requests.length, 0);
      assert.equal(transport.count().connections, 0);
    });
  }

  test('a certificate of an untrusted authority is refused', async (t) => {
    const receiver = await receiverOf(t, { tls: trusted });
    const result = await createSender(t).send(receiver.origin);
    assert.deepEqual(result, tlsBroken('UNABLE_TO_VERIFY_LEAF_SIGNATURE'));
  });

  test('an untrusted certificate is refused also with NODE_TLS_REJECT_UNAUTHORIZED=0', async (t) => {
    const receiver = await receiverOf(t, { tls: selfSigned });
    process.env['NODE_TLS_REJECT_UNAUTHORIZED'] = '0';
    t.after(() => delete process.env['NODE_TLS_REJECT_UNAUTHORIZED']);
    const result = await createSender(t).send(receiver.origin);
    assert.deepEqual(result, tlsBroken('DEPTH_ZERO_SELF_SIGNED_CERT'));
  });

  test('a certificate is checked again for each connection', async (t) => {
    const first = await startReceiver({ tls: trusted, respond: rawThenEnd(closing) });
    const { send } = senderOf(t);
    assert.equal((await send(first.origin)).kind, 'response');
    await first.close();
    await receiverOf(t, { tls: ofAnotherHost, port: first.port });
    assert.deepEqual(await send(first.origin), tlsBroken('ERR_TLS_CERT_ALTNAME_INVALID'));
  });

  test('https to a server of plain HTTP is an error of TLS', async (t) => {
    const receiver = await receiverOf(t, {
      greet: (wire) => void wire.write('HTTP/1.1 400 Bad Request\r\n\r\n'),
    });
    const { send } = senderOf(t);
    const result = await send(`https://127.0.0.1:${receiver.port}`);
    assert.equal(result.kind === 'error' && result.cause, 'tls');
  });

  test('https to a server with only old versions of TLS is an error of TLS', async (t) => {
    const options = {
      ...trusted,
      maxVersion: 'TLSv1.1',
      minVersion: 'TLSv1',
      ciphers: 'ALL:@SECLEVEL=0',
    };
    const server = createTlsServer(options as object);
    server.on('tlsClientError', () => undefined);
    const port = await listening(t, server);
    const result = await senderOf(t).send(`https://localhost:${port}`);
    assert.equal(result.kind === 'error' && result.cause, 'tls');
  });

  test('https to a server that requires a client certificate does not succeed', async (t) => {
    const server = createTlsServer({ ...trusted, requestCert: true, ca: authority });
    server.on('tlsClientError', () => undefined);
    const port = await listening(t, server);
    const result = await senderOf(t).send(`https://localhost:${port}`);
    // Its alert and the end of the connection arrive in either order.
    assert.match(result.kind === 'error' ? result.cause : '', /^(tls|reset)$/);
  });

  const cutOff: readonly (readonly [string, (socket: Socket) => void])[] = [
    ['closes', (socket) => socket.end()],
    ['resets', (socket) => socket.resetAndDestroy()],
  ];
  for (const [verb, act] of cutOff) {
    test(`https to a server that ${verb} within the handshake is a reset`, async (t) => {
      const server = createServer((socket) => {
        socket.on('error', () => undefined);
        socket.once('data', () => act(socket));
      });
      const port = await listening(t, server);
      const result = await senderOf(t).send(`https://localhost:${port}`);
      assert.deepEqual(result, { kind: 'error', cause: 'reset', detail: 'ECONNRESET' });
    });
  }

  test('https to a server that does not end the handshake ends at the timeout', async (t) => {
    const open = new Set<Socket>();
    const server = createServer((socket) => {
      open.add(socket);
      socket.on('error', () => undefined);
      socket.on('close', () => open.delete(socket));
      socket.resume();
    });
    const port = await listening(t, server);
    const { post, clock, transport } = senderOf(t);
    const slow = post(`https://localhost:${port}`);
    await waitFor('the connection', () => open.size === 1);
    await clock.advance(timeoutMs);
    assert.deepEqual(await slow.ended, { kind: 'error', cause: 'timeout', detail: undefined });
    await waitFor('the connection to be closed', () => open.size === 0);
    assert.equal(transport.count().connections, 0);
  });

  test('https over a relay that corrupts data fails the attempt, not the process', async (t) => {
    const receiver = await receiverOf(t, { tls: trusted });
    const relay = createServer((near) => {
      const far = connect(receiver.port, '127.0.0.1');
      let bytes = 0;
      near.pipe(far);
      far.on('data', (chunk: Buffer) => {
        bytes += chunk.length;
        // Changes the first record after the handshake.
        if (near.writable) near.write(bytes > 1500 ? chunk.map((byte) => byte ^ 0xff) : chunk);
      });
      for (const socket of [near, far]) {
        socket.on('error', () => undefined);
        socket.on('close', () => [near, far].forEach((each) => each.destroy()));
      }
    });
    const port = await listening(t, relay);
    const result = await senderOf(t).send(`https://localhost:${port}`);
    assert.equal(result.kind, 'error');
  });
});

const closing = 'HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n';

async function listening(t: TestContext, server: ReturnType<typeof createServer>): Promise<number> {
  const sockets = new Set<Socket>();
  server.on('connection', (socket: Socket) => sockets.add(socket));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const address = server.address();
  return typeof address === 'object' && address !== null ? address.port : 0;
}
