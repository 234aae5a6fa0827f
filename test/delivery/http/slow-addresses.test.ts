import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect as connectTcp, type LookupFunction, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { type TestContext, test } from 'node:test';
import { systemClock } from '../../../src/clock.ts';
import { limits } from '../../../src/config.ts';
import { createConnection } from '../../../src/cli/http/connection.ts';
import { createConnect } from '../../../src/delivery/http/connect.ts';
import { createEgressRule } from '../../../src/delivery/http/egress.ts';
import { createFetch } from '../../../src/delivery/http/fetch.ts';
import { createInspector } from '../../../src/delivery/http/inspector.ts';
import { createNameLookups } from '../../../src/delivery/http/name-lookups.ts';
import { createTransport } from '../../../src/delivery/http/transport.ts';
import { endWithProcess } from '../../helpers/children.ts';
import { receiverOf } from '../../helpers/receiver.ts';

const program = `
  const server = require('node:http').createServer((_, response) => response.end('here'));
  server.listen({ host: '127.0.0.1', port: 0, backlog: 1 }, () => console.log(server.address().port));`;

/**
 * Starts a server on 127.0.0.1 whose system drops a SYN, as its queue of connections is full: a client
 * sends the next one after a second. `release` lets it accept again.
 */
async function startFullServer(t: TestContext): Promise<{ port: number; release: () => void }> {
  const child = spawn(process.execPath, ['-e', program], { stdio: ['ignore', 'pipe', 'inherit'] });
  endWithProcess(child);
  t.after(() => child.kill('SIGKILL'));
  const [line] = (await once(child.stdout, 'data')) as [Buffer];
  const port = Number(line.toString());
  child.kill('SIGSTOP');
  for (;;) {
    const filler = connectTcp({ host: '127.0.0.1', port });
    t.after(() => filler.destroy());
    const isQueued = await Promise.race([
      once(filler, 'connect').then(() => true),
      sleep(300, false),
    ]);
    if (!isQueued) break;
  }
  return { port, release: () => child.kill('SIGCONT') };
}

/** Nothing listens at the second address. */
const addresses = [
  { address: '127.0.0.1', family: 4 },
  { address: '::1', family: 6 },
];
const lookup: LookupFunction = (_name, { all }, callback) =>
  all === true ? callback(null, addresses) : callback(null, '127.0.0.1', 4);

/** Longer than Node tries an address, and shorter than the pause after a SYN. */
const heldMs = 700;

test('a delivery connects to the first address although its SYN was lost and the next one refuses', async (t) => {
  const { port, release } = await startFullServer(t);
  const connect = createConnect({ egress: createEgressRule({ allow: ['127.0.0.0/8', '::1'] }) });
  const connected = Promise.withResolvers<Socket>();
  const target = { hostname: 'receiver.test', port: `${port}`, protocol: 'http:' };
  connect(target, lookup, (error, socket) => {
    if (error === null) connected.resolve(socket);
    else connected.reject(error);
  });
  await sleep(heldMs);
  release();
  const socket = await connected.promise;
  t.after(() => socket.destroy());
  assert.equal(socket.remoteAddress, '127.0.0.1');
});

test('an attempt with little time leaves some for the next address', async (t) => {
  const { port } = await startFullServer(t);
  const receiver = await receiverOf(t, { host: '127.0.0.2', port });
  const transport = createTransport({
    clock: systemClock,
    egress: createEgressRule({ allow: ['127.0.0.0/8'] }),
    names: createNameLookups({
      clock: systemClock,
      resolve: () => Promise.resolve(['127.0.0.1', '127.0.0.2']),
      limits: limits.names,
    }),
    inspector: createInspector({ clock: systemClock, settings: limits.inspector }),
    timeoutMs: 1400,
    connectionMs: 60_000,
    bodyBytesMax: 65_536,
    textBytesMax: 2048,
  });
  t.after(() => transport.close());
  const { ended } = transport.post({
    tenant: 1,
    stream: 'est_1',
    origin: `http://receiver.test:${port}`,
    path: '/',
    headers: [],
    secretHeader: 'authorization',
    body: '{}',
  });
  assert.equal((await ended).kind, 'response');
  assert.equal(receiver.requests.length, 1);
});

test('the command line waits for the first address of localhost, too', async (t) => {
  const { port, release } = await startFullServer(t);
  const url = `http://main.localhost:${port}`;
  const connection = await createConnection(url, { ca: undefined, timeoutMs: 30_000 });
  t.after(() => connection.destroy());
  const request = connection.request({ origin: url, path: '/', method: 'GET' });
  void request.catch(() => undefined);
  await sleep(heldMs);
  release();
  const { body } = await request;
  assert.equal(await body.text(), 'here');
});

test('so does an alert', async (t) => {
  const { port, release } = await startFullServer(t);
  const { fetch, close } = createFetch(lookup);
  t.after(close);
  const request = fetch(`http://alerts.test:${port}`, {});
  void request.catch(() => undefined);
  await sleep(heldMs);
  release();
  const response = await request;
  assert.equal(await response.text(), 'here');
});
