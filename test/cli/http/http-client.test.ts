import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import { type AddressInfo, createServer as createTcpServer, type Socket } from 'node:net';
import { test, type TestContext } from 'node:test';
import { CommandFailed, exitCodes } from '../../../src/cli/errors.ts';
import { createHttpClient, type HttpClient } from '../../../src/cli/http/http-client.ts';
import { createManualClock } from '../../helpers/clock.ts';

const request = { method: 'GET', path: '/' } as const;

/** Starts a server, and a client with a clock that the test advances. */
async function start(t: TestContext, respond: RequestListener) {
  const server = createServer(respond).listen(0, '127.0.0.1');
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  await once(server, 'listening');
  const clock = createManualClock();
  return { server, clock, client: clientOf(server.address() as AddressInfo, clock) };
}

function clientOf({ port }: AddressInfo, clock = createManualClock()): HttpClient {
  return createHttpClient(`http://127.0.0.1:${port}`, { clock, version: '1' });
}

function isFailure(exitCode: number, message: RegExp): (error: unknown) => boolean {
  return (error) =>
    error instanceof CommandFailed && error.exitCode === exitCode && message.test(error.message);
}

test('send: returns status, headers and text of any response, over one connection', async (t) => {
  const sockets = new Set<Socket>();
  const { client } = await start(t, (incoming, response) => {
    sockets.add(incoming.socket);
    response.writeHead(418, { 'X-One': 'a' });
    incoming.pipe(response);
  });
  for (const body of ['ü', '{}']) {
    const { status, headers, text } = await client.send({ ...request, method: 'POST', body });
    assert.deepEqual([status, headers['x-one'], text], [418, 'a', body]);
  }
  assert.equal(sockets.size, 1);
});

test('send: skips 100 and 103 before the response to each request of a connection', async (t) => {
  let connections = 0;
  const server = createTcpServer((socket) => {
    connections += 1;
    socket.on('error', () => undefined);
    socket.on('data', () => {
      for (const status of ['100 Continue', '103 Early Hints\r\nLink: <a>', '100 Continue']) {
        socket.write(`HTTP/1.1 ${status}\r\n\r\n`);
      }
      socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok');
    });
  }).listen(0, '127.0.0.1');
  t.after(() => server.close());
  await once(server, 'listening');
  const client = clientOf(server.address() as AddressInfo);
  for (const method of ['GET', 'POST', 'GET'] as const) {
    const { status, text } = await client.send({ ...request, method });
    assert.deepEqual([status, text], [200, 'ok']);
  }
  assert.equal(connections, 1);
});

test('send: a server that switches protocols fails', async (t) => {
  const { server, client } = await start(t, () => undefined);
  server.on('request', ({ socket }) => socket.end('HTTP/1.1 101 Switching Protocols\r\n\r\n'));
  await assert.rejects(client.send(request), isFailure(exitCodes.failed, /does not speak HTTP: /));
});

test('send: returns the first value of a repeated header', async (t) => {
  const { client } = await start(t, (_incoming, response) => {
    response.writeHead(503, { 'Retry-After': ['7', '9'] }).end();
  });
  const { headers } = await client.send(request);
  assert.equal(headers['retry-after'], '7');
});

test('send: fails after 30 seconds without a response', async (t) => {
  const { server, clock, client } = await start(t, () => undefined);
  const arrived = once(server, 'request');
  const sent = client.send(request);
  const failed = assert.rejects(
    sent,
    isFailure(exitCodes.unavailable, /did not answer within 30 seconds: try again later\.$/),
  );
  await arrived;
  await clock.advance(30_000);
  await failed;
});

test('send: fails when the body takes more than 30 seconds', async (t) => {
  const { clock, client } = await start(t, (_incoming, response) => void response.write('{'));
  const { promise: reading, resolve } = Promise.withResolvers<void>();
  const after = clock.after.bind(clock);
  let timers = 0;
  // The second timer is that of the body.
  clock.after = (delayMs, action) => {
    if (++timers === 2) resolve();
    return after(delayMs, action);
  };
  const failed = assert.rejects(
    client.send(request),
    isFailure(exitCodes.unavailable, /did not answer within 30 seconds/),
  );
  await reading;
  await clock.advance(30_000);
  await failed;
});

test('send: fails at a response of more than 64 MiB', async (t) => {
  const { client } = await start(t, (_incoming, response) => {
    const chunk = Buffer.alloc(1024 * 1024);
    const write = (): void => {
      while (response.write(chunk));
    };
    response.on('drain', write);
    write();
  });
  await assert.rejects(client.send(request), isFailure(exitCodes.failed, /more than 64 MiB\.$/));
});

test('send: fails when the server does not speak HTTP', async (t) => {
  const greet = (socket: Socket): Socket => socket.end('220 mail.example.com ESMTP\r\n');
  const greetOnceAsked = (socket: Socket): Socket => socket.once('data', () => greet(socket));
  for (const serve of [greet, greetOnceAsked]) {
    const server = createTcpServer((socket) => {
      serve(socket.on('error', () => undefined));
    }).listen(0, '127.0.0.1');
    t.after(() => server.close());
    await once(server, 'listening');
    await assert.rejects(
      clientOf(server.address() as AddressInfo).send(request),
      isFailure(exitCodes.failed, /does not speak HTTP: check the scheme and the port\.$/),
    );
  }
});

test('send: a response that breaks off in the middle of HTTP counts as unavailable', async (t) => {
  const server = createTcpServer((socket) => {
    socket.on('error', () => undefined);
    socket.once('data', () =>
      socket.end('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n[]\r\nzz\r\n'),
    );
  }).listen(0, '127.0.0.1');
  t.after(() => server.close());
  await once(server, 'listening');
  await assert.rejects(
    clientOf(server.address() as AddressInfo).send(request),
    isFailure(exitCodes.unavailable, /the connection failed \(Invalid character in chunk size\)/),
  );
});

test('send: rejects with an AbortError when its signal aborts', async (t) => {
  const { server, client } = await start(t, () => undefined);
  const aborting = new AbortController();
  server.on('request', () => aborting.abort());
  const sent = client.send({ ...request, signal: aborting.signal });
  await assert.rejects(sent, { name: 'AbortError' });
});

test('open: streams a 200 until nothing comes for too long', async (t) => {
  const { client } = await start(t, (_incoming, response) => void response.write('data'));
  const opened = await client.open({ ...request, silenceMsMax: 50 });
  assert.ok('stream' in opened);
  const chunks: string[] = [];
  await assert.rejects(
    async () => {
      for await (const chunk of opened.stream) chunks.push(Buffer.from(chunk).toString());
    },
    isFailure(exitCodes.unavailable, /sent nothing for 0\.05 seconds\.$/),
  );
  assert.deepEqual(chunks, ['data']);
});

test('open: reads any other status whole', async (t) => {
  const { client } = await start(t, (_incoming, response) => response.writeHead(403).end('no'));
  const response = await client.open({ ...request, silenceMsMax: 1000 });
  assert.ok('text' in response);
  assert.deepEqual([response.status, response.text], [403, 'no']);
});
