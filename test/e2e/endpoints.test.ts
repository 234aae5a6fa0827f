import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import type { Socket } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, test, type TestContext } from 'node:test';
import { authority, expired, ofAnotherHost, selfSigned, trusted } from '../helpers/certificates.ts';
import { startEndpoint, startRawEndpoint, type Endpoint } from '../helpers/endpoint.ts';
import {
  freePort,
  createTempStore,
  startLeat,
  waitFor,
  type TempStore,
  type Running,
} from '../helpers/leat.ts';
import {
  expectBody,
  createStream,
  freshType,
  publish,
  readStream,
  statsOf,
  streamBody,
  waitForError,
  waitForFailures,
  waitForStats,
} from '../helpers/api-client.ts';

/** Hostile endpoints. Two attempts without a wait. */

const tempStores: TempStore[] = [];
/** Has the usual timeout: on a busy machine any response may take a second. */
let leat: Running;
/** Has a timeout of one second, for endpoints that do not respond. */
let hasty: Running;
let healthy: Endpoint;

before(async () => {
  leat = await startOne();
  hasty = await startOne({ LEAT_ATTEMPT_TIMEOUT_MS: '1000' });
  healthy = await startEndpoint();
});
after(async () => {
  await Promise.all([leat.kill(), hasty.kill(), healthy.close()]);
  for (const tempStore of tempStores) await tempStore.remove();
});

async function startOne(settings: Record<string, string> = {}): Promise<Running> {
  const tempStore = await createTempStore();
  tempStores.push(tempStore);
  const ca = join(tempStore.folder, 'authority.pem');
  await writeFile(ca, authority);
  return startLeat(tempStore, { LEAT_RETRY_DELAYS_MS: '0', NODE_EXTRA_CA_CERTS: ca, ...settings });
}

const ok = 'HTTP/1.1 200 OK\r\n';

/** Each writes to a connection on which the head of a request has arrived. */
const strangers: readonly [string, (socket: Socket) => void, RegExp][] = [
  ['that never responds', () => undefined, /^timeout\b/],
  ['that drips its status line', (socket) => drip(socket, ok), /^timeout\b/],
  ['that drips headers for ever', (socket) => drip(socket, `${ok}X-Slow: `, 'a'), /^timeout\b/],
  [
    'that drips one byte of the body at a time after 200',
    (socket) => {
      socket.write(`${ok}Content-Length: 1000000\r\n\r\n`);
      drip(socket, '', 'b');
    },
    /^timeout\b/,
  ],
  [
    'that sends half of its body and falls silent',
    (socket) => socket.write(`${ok}Content-Length: 100\r\n\r\nhalf`),
    /^timeout\b/,
  ],
  [
    'that sends half of its body and hangs up',
    (socket) => socket.end(`${ok}Content-Length: 100\r\n\r\nhalf`),
    /^(reset|protocol)\b/,
  ],
  [
    'that sends informational responses only',
    (socket) => repeat(socket, informational),
    /^timeout/,
  ],
  ['that resets the connection', (socket) => socket.resetAndDestroy(), /^reset\b/],
  ['that hangs up without a word', (socket) => socket.end(), /^reset\b/],
  ['that speaks another protocol', (socket) => socket.end('SSH-2.0-OpenSSH_9.9\r\n'), /^protocol/],
  ['that speaks binary garbage', (socket) => socket.end(Buffer.alloc(4096, 0xfe)), /^protocol\b/],
  [
    'that speaks HTTP of no version',
    (socket) => socket.end('HTTP/9.9 200 OK\r\n\r\n'),
    /^protocol/,
  ],
  [
    'that responds with a status that is no number',
    (socket) => socket.end('HTTP/1.1 2x0 Fine\r\nContent-Length: 0\r\n\r\n'),
    /^protocol\b/,
  ],
  [
    'that sends two lengths',
    (socket) => socket.end(`${ok}Content-Length: 2\r\nContent-Length: 3\r\n\r\nabc`),
    /^(protocol|reset)\b/,
  ],
  [
    'that sends a length and chunks',
    (socket) => socket.end(`${ok}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`),
    /^(protocol|reset)\b/,
  ],
  [
    'that sends a chunk of no size',
    (socket) => socket.end(`${ok}Transfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n`),
    /^protocol\b/,
  ],
  [
    'that sends a megabyte of headers',
    (socket) => socket.end(`${ok}X-Big: ${'h'.repeat(1 << 20)}\r\n\r\n`),
    /^protocol\b/,
  ],
  [
    'that switches protocols',
    (socket) => socket.write('HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n'),
    /^(101|protocol|reset|timeout)\b/,
  ],
];

describe('an endpoint', { concurrency: 8 }, () => {
  for (const [what, speak, expected] of strangers) {
    test(
      `${what} fails as ${expected.source}, another stream is served`,
      { tags: ['long'] },
      async (t) => {
        const stranger = await startRawEndpoint(speak);
        t.after(() => stranger.close());
        const program = expected.source.includes('timeout') ? hasty : leat;
        const message = await errorOf(t, stranger.url, 2, program);
        assert.match(message, expected);
      },
    );
  }

  test('an endpoint without a listener is a refused connection', async (t) => {
    assert.match(await errorOf(t, `http://127.0.0.1:${await freePort()}/`, 2), /^refused\b/);
  });

  test('an endpoint with an unknown name is a dns failure', async (t) => {
    // A label of 64 characters is invalid, so that no name server is needed.
    assert.match(await errorOf(t, `http://${'a'.repeat(64)}.example/`, 2), /^dns\b/);
  });

  test('an endpoint that redirects is a failure at once, and the redirect is not followed', async (t) => {
    const target = await startEndpoint();
    t.after(() => target.close());
    for (const status of [301, 302, 303, 307, 308]) {
      const redirecting = await startEndpoint((response) => {
        response.writeHead(status, { location: target.url }).end();
      });
      t.after(() => redirecting.close());
      const message = await errorOf(t, redirecting.url, 1);
      assert.match(message, new RegExp(`^${status}\\b`));
    }
    assert.equal(target.connections(), 0);
  });
});

describe('an unusual header', { concurrency: 4 }, () => {
  test('a token with other characters than ASCII is sent as UTF-8, or is a failure', async (t) => {
    const endpoint = await startEndpoint();
    t.after(() => endpoint.close());
    const type = freshType();
    const secret = 'ключ-😀-ä';
    const authorization = { method: 'bearer', token: secret };
    const body = streamBody(endpoint.url, { types: [type], authorization });
    const response = await leat.send('POST', '/api/v2/event-streams', body);
    if (response.status === 400) return assert.equal(endpoint.connections(), 0);
    const { id } = (await response.json()) as { id: string };
    await publish(leat, type);
    await waitFor('an outcome', async () => {
      const { delivered, failed } = await statsOf(leat, id);
      return delivered + failed > 0;
    });
    const [arrival] = endpoint.arrivals;
    if (arrival === undefined) return assert.match(await waitForError(leat, id), /^protocol\b/);
    const sent = Buffer.from(arrival.headers['authorization'] ?? '', 'latin1').toString();
    return assert.equal(sent, `Bearer ${secret}`);
  });
});

describe('the text of a response', { concurrency: 4 }, () => {
  test('the text of a response is stored without the secrets of the stream', async (t) => {
    const authorizations = [
      { method: 'bearer', token: 'the-bearer-token' },
      { method: 'basic', username: 'ada', password: 'the-password' },
      { method: 'custom_header', header_key: 'X-Key', header_value: 'the-header-value' },
    ];
    for (const authorization of authorizations) {
      const echo = await startEndpoint((response, { headers }) => {
        const { authorization: sent = '', 'x-key': key = '' } = headers;
        response.writeHead(400).end(`you sent ${sent} ${String(key)} ${secrets.join(' ')}.`);
      });
      t.after(() => echo.close());
      const secrets = Object.values(authorization).filter((value) => value.startsWith('the-'));
      const type = freshType();
      const stream = await createStream(leat, echo.url, { types: [type], authorization });
      for (const method of ['GET', 'POST'] as const) {
        const path = `/api/v2/event-streams/${stream.id}/signing-secret`;
        const response = leat.send(method, method === 'GET' ? path : `${path}/rotate`);
        secrets.push((await expectBody<{ secret: string }>(200, response)).secret);
      }
      await publish(leat, type);
      const message = await waitForError(leat, stream.id);
      assert.equal(message, '400 - (not stored: the response repeats a secret of the stream)');
      const basic = Buffer.from('ada:the-password').toString('base64');
      for (const secret of [...secrets, basic]) {
        assert.ok(!message.includes(secret), message);
      }
    }
  });
});

describe('a webhook over TLS', { concurrency: 4 }, () => {
  test('a webhook over TLS with a certificate that is trusted gets its events', async (t) => {
    const secure = await startEndpoint(204, trusted);
    t.after(() => secure.close());
    const type = freshType();
    const stream = await createStream(leat, secure.url, { types: [type] });
    const id = await publish(leat, type);
    await waitForStats(leat, stream.id, { delivered: 1 });
    assert.equal(secure.of(id).length, 1);
  });

  for (const [what, identity] of [
    ['that is self-signed', selfSigned],
    ['of another host', ofAnotherHost],
    ['that has ended', expired],
  ] as const) {
    test(`a webhook over TLS with a certificate ${what} gets no byte of an event`, async (t) => {
      const secure = await startEndpoint(204, identity);
      t.after(() => secure.close());
      assert.match(await errorOf(t, secure.url, 2), /^tls\b/);
      assert.deepEqual(secure.arrivals, []);
    });
  }

  test('a webhook over TLS that speaks plain HTTP is a tls failure', async (t) => {
    const plain = await startEndpoint();
    t.after(() => plain.close());
    assert.match(await errorOf(t, plain.url.replace('http:', 'https:'), 2), /^tls\b/);
    assert.deepEqual(plain.arrivals, []);
  });

  test('a webhook over TLS that does not complete the handshake is a timeout', async (t) => {
    const silent = await startRawEndpoint(() => undefined);
    t.after(() => silent.close());
    const url = silent.url.replace('http:', 'https:');
    assert.match(await errorOf(t, url, 2, hasty), /^timeout\b/);
  });
});

/**
 * Publishes one event to a stream at `url` and to a healthy one; checks that the second receives it and
 * that the first has a failure with `attempts` attempts; returns the last error.
 */
async function errorOf(
  t: TestContext,
  url: string,
  attempts: number,
  program = leat,
): Promise<string> {
  const type = freshType();
  const stream = await createStream(program, url, { types: [type] });
  const other = await createStream(program, healthy.url, { types: [type] });
  const id = await publish(program, type);
  await waitForStats(program, other.id, { delivered: 1 });
  // With a short timeout even the healthy endpoint may be too late; then it is tried again.
  assert.ok(healthy.of(id).length <= (program === leat ? 1 : 2));
  const [failure] = await waitForFailures(program, stream.id, 1);
  assert.equal(failure?.attempts.length, attempts, JSON.stringify(failure?.attempts));
  assert.equal((await readStream(program, stream.id)).status, 'enabled');
  const message = failure.attempts.at(-1)?.error_message ?? '';
  t.diagnostic(message.slice(0, 80));
  return message;
}

/** Writes `head` byte by byte, then `rest` without end, for longer than the timeout. */
function drip(socket: Socket, head: string, rest = ''): void {
  const bytes = head.split('');
  repeat(socket, () => bytes.shift() ?? rest);
}

const informational = 'HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\n';

function repeat(socket: Socket, what: string | (() => string)): void {
  const timer = setInterval(() => {
    socket.write(typeof what === 'string' ? what : what());
  }, 100);
  socket.on('close', () => clearInterval(timer));
}
