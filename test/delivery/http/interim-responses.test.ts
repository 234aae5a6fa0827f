import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { createFetch } from '../../../src/delivery/http/fetch.ts';
import { authority, trusted } from '../../helpers/certificates.ts';
import {
  drip,
  flood,
  inTurn,
  raw,
  receiverOf,
  reply,
  type Receiver,
  type ReceiverOptions,
  type Reply,
  type Wire,
} from '../../helpers/receiver.ts';
import { createSender, endOf } from '../../helpers/sender.ts';
import { stallMsDefault, waitFor } from '../../helpers/wait.ts';
import { createTokenFixture, credentialsOf, tokenBody } from './token-fixture.ts';

const go = 'HTTP/1.1 100 Continue\r\n\r\n';
const ok = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok';
const delivered = { kind: 'response', status: 200, text: 'ok', retryAfter: undefined };
const protocolError = (detail: string) => ({ kind: 'error', cause: 'protocol', detail });

/** Writes one byte in each turn of the event loop. */
function byteByByte(text: string): Reply {
  return async (wire) => {
    for (const byte of Buffer.from(text)) {
      await wire.write(Uint8Array.of(byte));
      await new Promise((resolve) => setImmediate(resolve));
    }
  };
}

describe('a response that interim responses precede', () => {
  const answers: readonly (readonly [name: string, text: string])[] = [
    ['100', go + ok],
    ['100 without a reason', `HTTP/1.1 100\r\n\r\n${ok}`],
    ['100 with headers', `HTTP/1.1 100 Continue\r\nServer: a\r\nX-Line: HTTP/1.1 200\r\n\r\n${ok}`],
    ['100 after blank lines', `\r\n\r\n${go}\r\n${ok}`],
    ['twenty of 100', go.repeat(20) + ok],
    ...[102, 103, 104, 199].map(
      (status) =>
        [
          `100, ${status} and 100`,
          `${go}HTTP/1.1 ${status} X\r\nLink: <a>\r\n\r\n${go}${ok}`,
        ] as const,
    ),
  ];
  for (const [name, text] of answers) {
    for (const isSecure of [false, true]) {
      test(`${name}: is delivered over ${isSecure ? 'TLS' : 'TCP'}, in one piece and byte by byte`, async (t) => {
        const tls = isSecure ? { tls: trusted } : {};
        const respond = inTurn(raw(text), byteByByte(text), raw(text));
        const receiver = await receiverOf(t, { respond, ...tls });
        const { send, transport } = createSender(t, { tls: { ca: authority } });
        for (let n = 0; n < 3; n += 1) assert.deepEqual(await send(receiver.origin), delivered);
        const { connections, idle } = transport.count();
        assert.equal(connections, idle, 'no connection is stuck');
      });
    }
  }

  test('a 100 before the body has arrived: the response after the body counts', async (t) => {
    const body = 'a'.repeat(4 << 20);
    const greet = ({ socket }: Wire): unknown => socket.once('data', () => socket.write(go));
    const receiver = await receiverOf(t, { greet: (wire) => void greet(wire), respond: raw(ok) });
    const { send } = createSender(t);
    assert.deepEqual(await send(receiver.origin, { body }), delivered);
    assert.equal(receiver.requests[0]?.body.length, body.length);
  });

  test('a body that looks like a 100 stays as it is', async (t) => {
    const receiver = await receiverOf(t, { respond: reply(500, go) });
    const { send } = createSender(t);
    const result = await send(receiver.origin);
    assert.equal(result.kind === 'response' && result.text, go);
  });

  test('the responses to the requests of one connection are told apart', async (t) => {
    const receiver = await receiverOf(t, { respond: inTurn(raw(go + ok), raw(ok), raw(go + ok)) });
    const { send } = createSender(t);
    for (let n = 0; n < 3; n += 1) assert.deepEqual(await send(receiver.origin), delivered);
    assert.equal(receiver.connections, 1);
  });
});

describe('interim responses that no request may have', () => {
  test('101 is an error, with and without the headers of an upgrade', async (t) => {
    const upgrade = 'Connection: upgrade\r\nUpgrade: h2c\r\n';
    for (const headers of ['', upgrade]) {
      for (const before of ['', go]) {
        const text = `${before}HTTP/1.1 101 Switching Protocols\r\n${headers}\r\n${ok}`;
        const receiver = await receiverOf(t, { respond: raw(text) });
        const { send } = createSender(t);
        assert.deepEqual(await send(receiver.origin), protocolError('unexpected answer'));
        await waitFor('the end of the connection', () => receiver.open === 0);
      }
    }
  });

  test('100 without end is an error after 1 MiB', async (t) => {
    const receiver = await receiverOf(t, { respond: flood('', go.repeat(500)) });
    const { send } = createSender(t);
    const error = protocolError('too many bytes before the answer');
    assert.deepEqual(await send(receiver.origin), error);
    await waitFor('the end of the connection', () => receiver.open === 0);
  });

  test('100 again and again ends with the time of the attempt', async (t) => {
    const receiver = await receiverOf(t, { respond: drip('', go, 2) });
    const { post, clock } = createSender(t, { timeoutMs: 1000 });
    const attempt = post(receiver.origin);
    await waitFor('some of them', () => receiver.bytesSent > go.length * 3);
    await clock.advance(1000);
    assert.deepEqual(await attempt.ended, { kind: 'error', cause: 'timeout', detail: undefined });
  });

  test('100 on an idle connection ends it, and the next request is not affected', async (t) => {
    const late: Reply = async (wire) => {
      await wire.write(ok);
      setTimeout(() => void wire.write(go), 5);
    };
    const receiver = await receiverOf(t, { respond: late });
    const { post, send, transport, clock } = createSender(t);
    assert.deepEqual(await send(receiver.origin), delivered);
    await waitFor('the connection to be dropped', () => transport.count().connections === 0);
    assert.deepEqual(await endOf(post(receiver.origin), clock), delivered);
  });
});

describe('other requests of the service', () => {
  const tokens = (text: string): string =>
    `HTTP/1.1 200 OK\r\nContent-Length: ${text.length}\r\n\r\n${text}`;

  test('a token endpoint may send 100 before its response', async (t) => {
    const respond = raw(go + go + tokens(tokenBody('abc')));
    const server = await receiverOf(t, { respond, tls: trusted });
    const { endpoints } = createTokenFixture(t, { tls: { ca: authority } });
    const response = await endpoints.fetch(1, credentialsOf(server.origin));
    assert.deepEqual(response, { kind: 'token', token: 'abc', lifetimeMs: 3_600_000 });
  });

  test('a token endpoint that sends 101 fails', async (t) => {
    const server = await receiverOf(t, { respond: raw('HTTP/1.1 101 X\r\n\r\n') });
    const { endpoints } = createTokenFixture(t);
    const response = await endpoints.fetch(1, credentialsOf(server.origin));
    assert.deepEqual(response, {
      kind: 'failed',
      detail: 'token endpoint: protocol: unexpected answer',
    });
  });

  const fetchOf = (t: TestContext) => {
    const own = createFetch((_name, _options, found) => found(null, '127.0.0.1', 4));
    t.after(() => own.close());
    return (receiver: Receiver) =>
      own.fetch(receiver.origin, { signal: AbortSignal.timeout(stallMsDefault) });
  };

  test('a server of alerts, keys or sign-in may send 100 before its response', async (t) => {
    const receiver = await receiverOf(t, { respond: raw(go + ok) });
    const fetch = fetchOf(t);
    for (let n = 0; n < 2; n += 1) assert.equal(await (await fetch(receiver)).text(), 'ok');
  });

  /** A server that responds to each connection before any request, and reads none. */
  const early = (t: TestContext, text: string): Promise<Receiver> => {
    const greet: ReceiverOptions['greet'] = (wire) => {
      wire.socket.pause();
      void wire.write(text);
    };
    return receiverOf(t, { greet });
  };

  test('a token endpoint that responds before the request fails', async (t) => {
    const server = await early(t, tokens(tokenBody('abc')));
    const { endpoints } = createTokenFixture(t);
    assert.deepEqual(await endpoints.fetch(1, credentialsOf(server.origin)), {
      kind: 'failed',
      detail: 'token endpoint: protocol: response before the request',
    });
  });

  test('a server of alerts, keys or sign-in that responds before the request fails', async (t) => {
    const receiver = await early(t, ok);
    const error = ({ cause }: Error): boolean => Object(cause).code === 'invalid_response';
    await assert.rejects(fetchOf(t)(receiver), error);
  });

  test('a server of alerts, keys or sign-in may not send 101, or 100 without end', async (t) => {
    const fetch = fetchOf(t);
    for (const respond of [raw('HTTP/1.1 101 X\r\n\r\n'), flood('', go.repeat(500))]) {
      const receiver = await receiverOf(t, { respond });
      await assert.rejects(
        fetch(receiver),
        ({ cause }) => Object(cause).code === 'invalid_response',
      );
    }
  });
});
