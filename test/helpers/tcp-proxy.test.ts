import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { test, type TestContext } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { startTcpProxy, type TcpProxy } from './tcp-proxy.ts';

test('bytes go both ways, and each connection is counted', async (t) => {
  const { proxy } = await startFixture(t);
  const one = await connected(proxy);
  const two = await connected(proxy);
  assert.equal(await echoOf(one, 'first'), 'first');
  assert.equal(await echoOf(two, 'second'), 'second');
  assert.equal(proxy.accepted, 2);
});

test('a cut ends the open connections, and no later one', async (t) => {
  const { proxy } = await startFixture(t);
  const former = await connected(proxy);
  assert.equal(await echoOf(former, 'here'), 'here');
  const ended = once(former, 'close');
  proxy.cut();
  await ended;
  assert.equal(await echoOf(await connected(proxy), 'again'), 'again');
});

test('a black hole forwards nothing in either direction, also while other connections are used', async (t) => {
  const { proxy, target } = await startFixture(t);
  const former = await connected(proxy);
  assert.equal(await echoOf(former, 'here'), 'here');
  const received: string[] = [];
  former.on('data', (data: Buffer) => received.push(data.toString()));
  proxy.blackhole();
  const during = await connected(proxy);
  during.on('data', (data: Buffer) => received.push(data.toString()));
  for (const socket of [former, during]) socket.write('lost');
  target.sendToAll('lost');
  // When this round trip past the proxy is over, the proxy has read the lost bytes.
  assert.equal(await echoOf(await connectedTo(target.port), 'past'), 'past');
  proxy.restore();
  for (const socket of [former, during]) socket.write('late');
  target.sendToAll('late');
  // When this round trip is over, so are all earlier writes.
  assert.equal(await echoOf(await connected(proxy), 'fresh'), 'fresh');
  assert.deepEqual(received, []);
  assert.equal(target.received, 'herepastfresh');
  for (const socket of [former, during]) assert.equal(socket.destroyed, false);
});

test('a refusal ends every connection, open and new ones, until it is over', async (t) => {
  const { proxy } = await startFixture(t);
  const former = await connected(proxy);
  const ended = once(former, 'close');
  proxy.refuse();
  await ended;
  const refused = await connected(proxy);
  refused.resume();
  await once(refused, 'close');
  proxy.restore();
  assert.equal(await echoOf(await connected(proxy), 'again'), 'again');
});

test('a request whose response is lost arrives at the target', async (t) => {
  const { proxy, target } = await startFixture(t);
  const client = await connected(proxy);
  assert.equal(await echoOf(client, 'before'), 'before');
  const triggered = proxy.loseAnswerTo('commit');
  const ended = once(client, 'close');
  client.on('data', () => assert.fail('a response'));
  client.write('commit');
  await Promise.all([triggered, ended]);
  assert.equal(await echoOf(await connected(proxy), 'after'), 'after');
  assert.equal(target.received, 'beforecommitafter');
});

/** Starts an echo server behind a proxy. */
async function startFixture(t: TestContext) {
  const sockets = new Set<Socket>();
  const target = {
    received: '',
    port: 0,
    sendToAll: (words: string) => {
      for (const socket of sockets) socket.write(words);
    },
  };
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    socket.on('error', () => undefined);
    socket.on('data', (data: Buffer) => {
      target.received += data.toString();
      socket.write(data);
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  target.port = (server.address() as AddressInfo).port;
  const proxy = await startTcpProxy(target.port);
  t.after(async () => {
    await proxy.close();
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return { proxy, target };
}

async function connected(proxy: TcpProxy): Promise<Socket> {
  const before = proxy.accepted;
  const socket = await connectedTo(proxy.port);
  // The system accepts before the proxy does.
  while (proxy.accepted === before) await setImmediate();
  return socket;
}

async function connectedTo(port: number): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1' });
  // Tests watch for the end with `close`.
  socket.on('error', () => undefined);
  await once(socket, 'connect');
  return socket;
}

async function echoOf(socket: Socket, words: string): Promise<string> {
  const echo = once(socket, 'data');
  socket.write(words);
  const [data] = (await echo) as [Buffer];
  return data.toString();
}
