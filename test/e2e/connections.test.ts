import assert from 'node:assert/strict';
import { connect, type Socket } from 'node:net';
import { after, before, describe, test, type TestContext } from 'node:test';
import { connect as connectTls } from 'node:tls';
import { freePort, createTempStore, type TempStore, spawnLeat, waitFor } from '../helpers/leat.ts';

/**
 * Connection limits of one address at both APIs. On Linux every address of 127.0.0.0/8 is this machine,
 * so that one test can act as several peers.
 */

const perAddress = 12;
const stranger = '127.0.0.66';
const proxy = '127.0.0.77';

let tempStore: TempStore;
let ports: { readonly management: number; readonly messages: number };
let started: ReturnType<typeof spawnLeat>;
const output = (): string => started.output();

before(async () => {
  tempStore = await createTempStore();
  ports = { management: await freePort(), messages: await freePort() };
  started = spawnLeat(
    ['start'],
    {
      LEAT_PORT: String(ports.management),
      PORT: String(ports.messages),
      LEAT_TLS: 'local',
      LEAT_LOG_LEVEL: 'warn',
      LEAT_TRUST_PROXY: proxy,
      LEAT_MAX_CONNECTIONS_PER_ADDRESS: String(perAddress),
    },
    { cwd: tempStore.folder },
  );
  await waitFor('the welcome', () => {
    assert.equal(started.child.exitCode, null, output());
    return output().includes('Ctrl-C ends it');
  });
});
after(async () => {
  started.child.kill('SIGKILL');
  await tempStore.remove();
});

/** Opens a connection that sends the last of these texts slowly, one character a second. */
interface Peer {
  readonly socket: Socket;
  received(): string;
  isClosed(): boolean;
}

function open(
  t: TestContext,
  port: number,
  { from = '127.0.0.1', tls = false }: { from?: string; tls?: boolean } = {},
): Peer {
  const tcp = connect({ port, host: '127.0.0.1', localAddress: from });
  const socket = tls ? connectTls({ socket: tcp, rejectUnauthorized: false }) : tcp;
  let text = '';
  let closed = false;
  socket.setEncoding('latin1').on('data', (chunk: string) => {
    text += chunk;
  });
  socket.on('error', () => {});
  tcp
    .on('error', () => {})
    .on('close', () => {
      closed = true;
    });
  t.after(() => tcp.destroy());
  return { socket, received: () => text, isClosed: () => closed };
}

/** Sends a text at once and then blanks until the connection ends. */
function drip(t: TestContext, { socket }: Peer, text: string): void {
  socket.write(text);
  const timer = setInterval(() => socket.write(' '), 500);
  t.after(() => clearInterval(timer));
}

async function status(t: TestContext, port: number, from: string): Promise<string> {
  const tls = port === ports.management;
  const peer = open(t, port, { from, tls });
  peer.socket.write('GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n');
  await waitFor('a response, or the end', () => peer.received() !== '' || peer.isClosed());
  peer.socket.destroy();
  return peer.received().slice(0, 12);
}

describe('connections of one address', () => {
  for (const api of ['management', 'messages'] as const) {
    test(`${api}: closed above LEAT_MAX_CONNECTIONS_PER_ADDRESS, other addresses are served`, async (t) => {
      const port = ports[api];
      const expected = api === 'management' ? 'HTTP/1.1 200' : 'HTTP/1.1 404';
      const peers = Array.from({ length: 3 * perAddress }, () => open(t, port, { from: stranger }));
      const isOpen = (): Peer[] => peers.filter((peer) => !peer.isClosed());
      await waitFor('the connections above the limit to end', () => isOpen().length === perAddress);
      assert.equal(await status(t, port, stranger), '');
      assert.equal(await status(t, port, '127.0.0.1'), expected);
      for (const peer of isOpen()) peer.socket.destroy();
      await waitFor('room for the address', async () => {
        return (await status(t, port, stranger)) === expected;
      });
    });

    test(`${api}: connections of a trusted proxy are not limited`, async (t) => {
      const peers = Array.from({ length: 3 * perAddress }, () =>
        open(t, ports[api], { from: proxy, tls: api === 'management' }),
      );
      for (const { socket } of peers) {
        socket.write('GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n');
      }
      await waitFor('all responses', () =>
        peers.every((peer) => peer.received().startsWith('HTTP')),
      );
    });
  }

  test('refused connections of one address are logged together', async (t) => {
    for (const port of Object.values(ports)) {
      const peers = Array.from({ length: 3 * perAddress }, () => open(t, port, { from: stranger }));
      const isOpen = (): Peer[] => peers.filter((peer) => !peer.isClosed());
      await waitFor('the connections above the limit to end', () => isOpen().length <= perAddress);
      for (const peer of isOpen()) peer.socket.destroy();
    }
    const lines = (): string[] => output().match(/^.*LEAT_MAX_CONNECTIONS_PER_ADDRESS.*$/gm) ?? [];
    await waitFor('a line of each process', () => lines().length >= 2);
    assert.equal(lines().length, 2, 'one line of each process');
    for (const line of lines()) assert.match(line, /"level":40.*"address":"127\.0\.0\.66"/);
  });
});

describe('a peer that does not finish', () => {
  const line = 'POST /api/messages/public HTTP/1.1\r\nHost: localhost\r\n';
  const late = /^HTTP\/1\.1 408 Request Timeout\r\n/;

  test(
    'a peer that does not finish its handshake, headers or body holds no connection of either API',
    { tags: ['long'] },
    async (t) => {
      const peers: Record<string, Peer> = {};
      const begin = (name: string, text: string | undefined, drips: boolean): void => {
        const [port, tls] = name.startsWith('TLS')
          ? [ports.management, !name.includes('handshake')]
          : [ports.messages, false];
        const peer = open(t, port, { from: '127.0.0.88', tls });
        peers[name] = peer;
        if (drips) drip(t, peer, text ?? '');
        else if (text !== undefined) peer.socket.write(text);
      };
      begin('TLS, no handshake', undefined, false);
      begin('TLS, half a handshake', '\u0016\u0003\u0001', false);
      begin('TLS, silent', undefined, false);
      begin('TLS, half a request line', 'GET /heal', false);
      begin('TLS, dripped headers', `${line}A: `, true);
      begin('TLS, dripped body', `${tokenRequest}{`, true);
      begin('silent', undefined, false);
      begin('half a request line', 'GET /api', false);
      begin('dripped request line', 'GET /', true);
      begin('dripped headers', `${line}A: `, true);
      begin('dripped body', `${line}Content-Length: 4000\r\n\r\n`, true);
      const names = (): string[] => Object.keys(peers).filter((name) => !peers[name]?.isClosed());
      await waitFor('every connection to end', () => names().length === 0, { progress: names });
      for (const name of [
        'TLS, half a request line',
        'TLS, dripped headers',
        'TLS, dripped body',
      ]) {
        assert.match(peers[name]?.received() ?? '', late, name);
      }
      for (const name of ['half a request line', 'dripped headers']) {
        assert.match(peers[name]?.received() ?? '', late, name);
      }
    },
  );

  const tokenRequest = [
    'POST /oauth/token HTTP/1.1',
    'Host: localhost',
    'Content-Type: application/json',
    'Content-Length: 4000\r\n\r\n',
  ].join('\r\n');
});
