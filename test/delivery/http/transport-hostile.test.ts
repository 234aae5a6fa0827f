import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import fc from 'fast-check';
import { systemClock } from '../../../src/clock.ts';
import type { AttemptResult } from '../../../src/core/retry.ts';
import { UnaskedOrigins } from '../../../src/delivery/http/unasked-origins.ts';
import { authority, trusted } from '../../helpers/certificates.ts';
import { waitFor } from '../../helpers/leat.ts';
import {
  drip,
  flood,
  hang,
  inTurn,
  raw,
  rawThenEnd,
  rawThenReset,
  receiverOf,
  redirect,
  reply,
  type Reply,
  type Wire,
} from '../../helpers/receiver.ts';
import { attempted, createSender, endOf, timeoutMs } from '../../helpers/sender.ts';

/** Describes a result in short: `answered 200 text` or `cause: detail`. */
function inWords(result: AttemptResult): string {
  if (result.kind === 'response') return `answered ${result.status} ${result.text}`.trimEnd();
  return result.detail === undefined ? result.cause : `${result.cause}: ${result.detail}`;
}

const early = 'reset: closed before the end of the answer';
const ok = 'HTTP/1.1 200 OK\r\n';

describe('a response that ends', () => {
  const answers: readonly (readonly [name: string, answer: Reply, result: string])[] = [
    ['closed without a byte', rawThenEnd(''), early],
    ['reset without a byte', rawThenReset(), 'reset: ECONNRESET'],
    ['closed within the status line', rawThenEnd('HTTP/1.1 20'), early],
    ['closed within the headers', rawThenEnd(`${ok}Content-Le`), early],
    ['reset within the headers', rawThenReset(`${ok}Content-Le`), 'reset: ECONNRESET'],
    ['closed before the body', rawThenEnd(`${ok}Content-Length: 5\r\n\r\n`), early],
    ['closed within the body', rawThenEnd(`${ok}Content-Length: 5\r\n\r\nok`), early],
    [
      'reset within the body',
      rawThenReset(`${ok}Content-Length: 5\r\n\r\nok`),
      'reset: ECONNRESET',
    ],
    [
      'closed within the body after Connection: close',
      rawThenEnd(`${ok}Connection: close\r\nContent-Length: 5\r\n\r\nok`),
      early,
    ],
    ['closed within a chunk', rawThenEnd(`${ok}Transfer-Encoding: chunked\r\n\r\n5\r\nok`), early],
    [
      'closed before the last chunk',
      rawThenEnd(`${ok}Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n`),
      early,
    ],
    [
      'closed within a chunk after Connection: close',
      rawThenEnd(`${ok}Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nok`),
      early,
    ],
    ['a body that ends with the connection', rawThenEnd(`${ok}\r\nok`), 'answered 200 ok'],
    ['HTTP/1.0', rawThenEnd('HTTP/1.0 200 OK\r\n\r\nok'), 'answered 200 ok'],
    ['HTTP/0.9', rawThenEnd('ok, as in 1991'), 'protocol: Expected HTTP/, RTSP/ or ICE/'],
    ['no reason phrase', raw('HTTP/1.1 204\r\n\r\n'), 'answered 204'],
    [
      'bare line feeds',
      raw('HTTP/1.1 200 OK\nContent-Length: 2\n\nok'),
      'protocol: Missing expected CR after response line',
    ],
    [
      'garbage',
      rawThenEnd('\x16\x03\x01\x02\x00\x01\x00\xff\xfe'),
      'protocol: Expected HTTP/, RTSP/ or ICE/',
    ],
    [
      'another protocol',
      raw('220 smtp.example ESMTP\r\n'),
      'protocol: Expected HTTP/, RTSP/ or ICE/',
    ],
    ['SSH', raw('SSH-2.0-OpenSSH_9.9\r\n'), 'protocol: Expected HTTP/, RTSP/ or ICE/'],
    [
      'HTTP/2',
      raw('\0\0\x12\x04\0\0\0\0\0\0\x03\0\0\0\x64'),
      'protocol: Expected HTTP/, RTSP/ or ICE/',
    ],
    ['a version of tomorrow', raw('HTTP/3.0 200 OK\r\n\r\n'), 'protocol: Invalid HTTP version'],
    [
      'a request',
      raw('GET / HTTP/1.1\r\nHost: a\r\n\r\n'),
      'protocol: Expected HTTP/, RTSP/ or ICE/',
    ],
    ['a status of two digits', raw('HTTP/1.1 20 OK\r\n\r\n'), 'protocol: Invalid status code'],
    ['a status in words', raw('HTTP/1.1 two OK\r\n\r\n'), 'protocol: Invalid status code'],
    ['status 000', raw('HTTP/1.1 000 None\r\nContent-Length: 0\r\n\r\n'), 'protocol'],
    ['status 099', raw('HTTP/1.1 099 None\r\nContent-Length: 0\r\n\r\n'), 'protocol'],
    ['status 999', raw('HTTP/1.1 999 X\r\nContent-Length: 0\r\n\r\n'), 'answered 999'],
    [
      'an upgrade nobody asked for',
      raw('HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n'),
      'protocol: unexpected answer',
    ],
    [
      'early hints before the answer',
      raw(`HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n${ok}Content-Length: 2\r\n\r\nok`),
      'answered 200 ok',
    ],
    [
      'a length that is no number',
      raw(`${ok}Content-Length: -1\r\n\r\n`),
      'protocol: Invalid character in Content-Length',
    ],
    ['two lengths', raw(`${ok}Content-Length: 2\r\nContent-Length: 3\r\n\r\nabc`), 'protocol'],
    [
      'a length and chunks',
      raw(`${ok}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n`),
      'protocol',
    ],
    [
      'a chunk of no size',
      raw(`${ok}Transfer-Encoding: chunked\r\n\r\nxyz\r\n`),
      'protocol: Invalid character in chunk size',
    ],
    [
      'headers of 1 MiB',
      raw(`${ok}X-Big: ${'a'.repeat(1 << 20)}\r\n\r\n`),
      'protocol: headers too large',
    ],
    [
      'ten thousand headers',
      raw(`${ok}${'X-Many: a\r\n'.repeat(10_000)}\r\n`),
      'protocol: headers too large',
    ],
    [
      'a compressed body, which stays as it is',
      reply(500, Buffer.from([0x1f, 0x8b, 8, 0]), { 'Content-Encoding': 'gzip' }),
      'answered 500 \x1f\ufffd\x08',
    ],
    ['NUL in the body', reply(500, 'a\0b\0'), 'answered 500 ab'],
    [
      'no UTF-8 in the body',
      reply(500, Buffer.from([0x61, 0xff, 0xc3])),
      'answered 500 a\ufffd\ufffd',
    ],
    [
      'an unpaired surrogate',
      reply(500, Buffer.from('eda080', 'hex')),
      'answered 500 \ufffd\ufffd\ufffd',
    ],
  ];
  for (const [name, answer, expected] of answers) {
    test(`${name}: ${expected}`, async (t) => {
      const receiver = await receiverOf(t, { respond: answer });
      const { send, transport } = createSender(t);
      assert.equal(inWords(await send(receiver.origin)), expected);
      // The next attempt succeeds in every case.
      receiver.respond = reply(204);
      assert.equal(inWords(await send(receiver.origin)), 'answered 204');
      const { connections, idle } = transport.count();
      assert.equal(connections, idle, 'no connection is stuck');
    });
  }
});

describe('a redirect is not followed', () => {
  for (const status of [300, 301, 302, 303, 304, 307, 308]) {
    test(String(status), async (t) => {
      const other = await receiverOf(t);
      const receiver = await receiverOf(t, { respond: redirect(status, `${other.origin}/secret`) });
      const { send } = createSender(t);
      assert.equal(inWords(await send(receiver.origin)), `answered ${status}`);
      await send(other.origin, { path: '/marker' });
      assert.deepEqual(
        other.requests.map(({ path }) => path),
        ['/marker'],
      );
    });
  }
});

describe('a response without end', () => {
  const answers: readonly (readonly [name: string, answer: Reply])[] = [
    ['nothing at all', hang],
    ['half a status line', raw('HTTP/1.1 2')],
    ['half a header', raw(`${ok}X-Slow`)],
    ['a body that does not come, after a 200', raw(`${ok}Content-Length: 5\r\n\r\n`)],
    ['half a body, after a 200', raw(`${ok}Content-Length: 5\r\n\r\nok`)],
    ['half a chunk', raw(`${ok}Transfer-Encoding: chunked\r\n\r\n5\r\nok`)],
    ['no last chunk', raw(`${ok}Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n`)],
    ['early hints alone', raw('HTTP/1.1 103 Early Hints\r\n\r\n')],
    ['a status line, byte by byte', drip('HTTP/1.1 200 ', 'a', 2)],
    ['a header, byte by byte', drip(`${ok}X-Slow: `, 'a', 2)],
    ['a body, byte by byte', drip(`${ok}\r\n`, 'a', 2)],
    ['chunks, one by one', drip(`${ok}Transfer-Encoding: chunked\r\n\r\n`, '1\r\na\r\n', 2)],
    ['early hints, one by one', drip('', 'HTTP/1.1 103 Early Hints\r\n\r\n', 2)],
    ['blank lines', drip('', '\r\n', 2)],
  ];
  for (const [name, answer] of answers) {
    test(`${name}: the timeout ends it`, async (t) => {
      const receiver = await receiverOf(t);
      const { send, post, clock } = createSender(t);
      // Over a reused connection, so that data of the former response may be left.
      await send(receiver.origin);
      receiver.respond = answer;
      const slow = post(receiver.origin);
      let isOver = false;
      void slow.ended.then(() => (isOver = true));
      const sentBefore = receiver.bytesSent;
      await waitFor('the request', () => receiver.requests.length === 2);
      if (answer !== hang) {
        await waitFor('some of the answer', () => receiver.bytesSent > sentBefore + 1);
      }
      await clock.advance(timeoutMs - 1);
      assert.equal(isOver, false);
      await clock.advance(1);
      assert.equal(inWords(attempted(await slow.ended)), 'timeout');
      await waitFor('the connection to be closed', () => receiver.open === 0);
      receiver.respond = reply(204);
      assert.equal(inWords(await send(receiver.origin)), 'answered 204');
    });
  }
});

describe('a response of 1 GiB', () => {
  const part = 'a'.repeat(16_384);
  const chunk = `4000\r\n${part}\r\n`;
  const answers: readonly (readonly [name: string, answer: Reply, expected: RegExp])[] = [
    [
      'of known length',
      flood(`${ok}Content-Length: ${1 << 30}\r\n\r\n`, part),
      /^answered 200 a{2048}$/,
    ],
    ['until the end of the connection', flood(`${ok}\r\n`, part), /^answered 200 a{2048}$/],
    [
      'in chunks',
      flood(`${ok}Transfer-Encoding: chunked\r\n\r\n`, chunk),
      /^answered 200 a{2048}$/,
    ],
    [
      'after an error status',
      flood(`HTTP/1.1 500 Oops\r\nContent-Length: ${1 << 30}\r\n\r\n`, part),
      /^answered 500 a{2048}$/,
    ],
    ['of one header', flood(`${ok}X-Big: `, part), /^protocol: headers too large$/],
    ['of headers', flood(ok, 'X-Many: a\r\n'.repeat(1000)), /^protocol: headers too large$/],
    [
      'of a status line',
      flood('HTTP/1.1 200 ', part),
      /^protocol: too many bytes before the answer$/,
    ],
    [
      'of early hints',
      flood('', 'HTTP/1.1 103 Early Hints\r\n\r\n'.repeat(500)),
      /^protocol: too many bytes before the answer$/,
    ],
    [
      'of blank lines',
      flood('', '\r\n'.repeat(8000)),
      /^protocol: too many bytes before the answer$/,
    ],
    [
      'of a chunk extension',
      flood(`${ok}Transfer-Encoding: chunked\r\n\r\n2;a="`, part),
      /^answered 200$/,
    ],
    [
      'of trailers',
      flood(
        `${ok}Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n`,
        'X-Many: a\r\n'.repeat(1000),
      ),
      /^(answered 200 ok|protocol: headers too large)$/,
    ],
  ];
  for (const [name, answer, expected] of answers) {
    test(`${name} is dropped early`, async (t) => {
      const receiver = await receiverOf(t, { respond: answer });
      const { send } = createSender(t);
      assert.match(inWords(await send(receiver.origin)), expected);
      await waitFor('the connection to be dropped', () => receiver.open === 0);
      // The system buffers bytes that were sent and not read.
      assert.ok(receiver.bytesSent < 32 << 20, `${receiver.bytesSent} bytes were sent`);
      receiver.respond = reply(204);
      assert.equal(inWords(await send(receiver.origin)), 'answered 204');
    });
  }
});

describe('the kept text', () => {
  const textOf = async (t: TestContext, body: string | Buffer): Promise<AttemptResult> => {
    const receiver = await receiverOf(t, { respond: reply(500, body) });
    return createSender(t).send(receiver.origin);
  };

  test('the first 2 KiB of a response are kept as text and marked as cut', async (t) => {
    const answered = { kind: 'response', status: 500, retryAfter: undefined };
    const whole = 'a'.repeat(2048);
    assert.deepEqual(await textOf(t, whole), { ...answered, text: whole });
    assert.deepEqual(await textOf(t, `${whole}b`), { ...answered, text: whole, cut: true });
  });

  test('a character that was cut in two is not in the kept text', async (t) => {
    const result = await textOf(t, `${'a'.repeat(2046)}🎈b`);
    assert.equal(result.kind === 'response' && result.text, 'a'.repeat(2046));
  });

  test('the kept text does not depend on how the body arrives', async (t) => {
    const receiver = await receiverOf(t, {
      respond: async (wire) => {
        await wire.write(`HTTP/1.1 500 Oops\r\nTransfer-Encoding: chunked\r\n\r\n`);
        for (let part = 0; part < 700; part++) {
          await wire.write('3\r\nñ1\r\n');
          if (part % 50 === 0) await new Promise((resolve) => setImmediate(resolve));
        }
        await wire.write('0\r\n\r\n');
      },
    });
    const result = await createSender(t).send(receiver.origin);
    assert.equal(result.kind === 'response' && result.text, `${'ñ1'.repeat(682)}ñ`);
  });

  test('a body of 64 KiB is read to its end, and one byte less keeps the connection', async (t) => {
    const receiver = await receiverOf(t, { respond: reply(200, Buffer.alloc(65_535, 97)) });
    const { send } = createSender(t);
    await send(receiver.origin);
    receiver.respond = reply(200, Buffer.alloc(65_536, 97));
    assert.match(inWords(await send(receiver.origin)), /^answered 200 a{2048}$/);
    assert.equal(receiver.connections, 1);
    await waitFor('the connection to be dropped', () => receiver.open === 0);
  });
});

describe('a receiver that sends unsolicited data', () => {
  test('a second response after the first is not taken for that of the next request', async (t) => {
    const two = `${ok}Content-Length: 5\r\n\r\nfirst${ok}Content-Length: 6\r\n\r\nsecond`;
    const receiver = await receiverOf(t, { respond: inTurn(raw(two), reply(503, 'third')) });
    const { post, clock } = createSender(t);
    const next = async (): Promise<string> => inWords(await endOf(post(receiver.origin), clock));
    assert.equal(await next(), 'answered 200 first');
    assert.equal(await next(), 'answered 503 third');
    assert.equal(receiver.connections, 2);
  });

  test('a response after one without a body is not taken for that of the next request', async (t) => {
    const two = `HTTP/1.1 204 No Content\r\n\r\n${ok}Content-Length: 6\r\n\r\nsecond`;
    const receiver = await receiverOf(t, { respond: inTurn(raw(two), reply(503, 'third')) });
    const { post, clock } = createSender(t);
    const next = async (): Promise<string> => inWords(await endOf(post(receiver.origin), clock));
    assert.equal(await next(), 'answered 204');
    assert.equal(await next(), 'answered 503 third');
  });

  test('garbage after a response does not affect the next request', async (t) => {
    const answer = inTurn(raw(`${ok}Content-Length: 5\r\n\r\nfirst\x00\xffgarbage`), reply(204));
    const receiver = await receiverOf(t, { respond: answer });
    const { post, clock } = createSender(t);
    const next = async (): Promise<string> => inWords(await endOf(post(receiver.origin), clock));
    assert.equal(await next(), 'answered 200 first');
    assert.equal(await next(), 'answered 204');
  });

  test('data on an idle connection does not affect the next request', async (t) => {
    const receiver = await receiverOf(t, {
      respond: async (wire) => {
        await wire.write('HTTP/1.1 204 No Content\r\n\r\n');
        setTimeout(() => void wire.write(`${ok}Content-Length: 3\r\n\r\nlie`), 5);
      },
    });
    const { post, clock, transport } = createSender(t);
    const next = async (): Promise<string> => inWords(await endOf(post(receiver.origin), clock));
    assert.equal(await next(), 'answered 204');
    await waitFor('the connection to be dropped', () => transport.count().connections === 0);
    assert.equal(await next(), 'answered 204');
  });

  test('a receiver that sends before each request is not retried without end', async (t) => {
    const greet = (wire: { write(text: string): unknown }): unknown =>
      wire.write(`${ok}Content-Length: 3\r\n\r\nlie`);
    const receiver = await receiverOf(t, { greet: (wire) => void greet(wire), respond: hang });
    const { post, clock } = createSender(t);
    const asked = post(receiver.origin);
    let result: AttemptResult | undefined;
    void asked.ended.then((ended) => (result = attempted(ended)));
    await waitFor('an end', async () => {
      await clock.advance(0);
      return result !== undefined;
    });
    assert.ok(receiver.connections <= 2, `${receiver.connections} connections`);
  });

  for (const [scheme, tls] of [['http'], ['https', trusted]] as const) {
    test(`a 200 that is sent before the request over ${scheme} is no response to it`, async (t) => {
      const receiver = await receiverOf(t, {
        ...(tls === undefined ? {} : { tls }),
        greet: (wire) => {
          wire.socket.pause();
          void wire.write(`${ok}Content-Length: 0\r\n\r\n`);
          wire.end();
        },
      });
      const unasked = new UnaskedOrigins(systemClock);
      const { post, clock } = createSender(t, { tls: { ca: authority }, unasked });
      // The server ends the handshake of TLS later than the client.
      if (tls !== undefined) unasked.note(receiver.origin);
      for (let round = 0; round < 5; round++) {
        const result = await endOf(post(receiver.origin), clock);
        assert.equal(inWords(result), 'protocol: response before the request', `round ${round}`);
      }
      assert.equal(receiver.requests.length, 0);
    });
  }

  for (const maxVersion of [undefined, 'TLSv1.2', 'TLSv1.3'] as const) {
    test(`a connection that its peer closes before the request ends the attempt: ${maxVersion ?? 'plain HTTP'}`, async (t) => {
      const tls = maxVersion === undefined ? {} : { tls: { ...trusted, maxVersion } };
      const receiver = await receiverOf(t, { ...tls, greet: (wire) => wire.end() });
      const unasked = new UnaskedOrigins(systemClock);
      const { post, clock } = createSender(t, { tls: { ca: authority }, unasked });
      // It waits before the request then, so that the end of the connection is always before it.
      unasked.note(receiver.origin);
      assert.equal(inWords(await endOf(post(receiver.origin), clock)), early);
      assert.equal(receiver.requests.length, 0);
    });
  }

  test('an origin that sent a response without a request gets one request a connection for ten minutes', async (t) => {
    const refused = 'HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n';
    const accepted = 'HTTP/1.1 204 No Content\r\n\r\n';
    const receiver = await receiverOf(t, {
      respond: async (wire) => {
        await wire.write(accepted);
        setTimeout(() => void wire.write(accepted), 5);
      },
    });
    const { post, transport, clock } = createSender(t);
    const next = async (): Promise<string> => inWords(await endOf(post(receiver.origin), clock));
    assert.equal(await next(), 'answered 204');
    await waitFor('the connection to be dropped', () => transport.count().connections === 0);
    receiver.respond = async (wire) => {
      await wire.write(receiver.requests.length % 2 === 0 ? refused : accepted);
      setImmediate(() => void wire.write(accepted));
    };
    const results: string[] = [];
    for (let round = 0; round < 12; round++) results.push(await next());
    assert.deepEqual(
      results,
      results.map((_, round) => (round % 2 === 0 ? 'answered 503' : 'answered 204')),
    );
    assert.equal(receiver.connections, 13);
    receiver.respond = reply(204);
    await clock.advance(600_000);
    for (let round = 0; round < 3; round++) await next();
    assert.equal(receiver.connections, 14);
  });

  test('a response under way does not count when its origin responds without a request', async (t) => {
    const held: Wire[] = [];
    let isEarly = false;
    const receiver = await receiverOf(t, {
      greet: (wire) => {
        if (!isEarly) return;
        wire.socket.pause();
        void wire.write(`${ok}Content-Length: 0\r\n\r\n`);
      },
      respond: (wire) => void held.push(wire),
    });
    const other = await receiverOf(t, { respond: hang });
    const { post, clock } = createSender(t);
    const underWay = [post(receiver.origin), post(receiver.origin)];
    const elsewhere = post(other.origin);
    await waitFor('both requests', () => held.length === 2 && other.requests.length === 1);
    isEarly = true;
    const found = await endOf(post(receiver.origin), clock);
    assert.equal(inWords(found), 'protocol: response before the request');
    for (const wire of held) void wire.write(`${ok}Content-Length: 0\r\n\r\n`);
    for (const each of underWay) {
      assert.equal(inWords(await endOf(each, clock)), 'protocol: response without a request');
    }
    elsewhere.cancel();
    assert.equal(inWords(await endOf(elsewhere, clock)), 'cancelled');
  });

  test('data on one connection ends the other idle ones of its origin, and those of no other', async (t) => {
    const receiver = await receiverOf(t);
    const other = await receiverOf(t);
    const { post, send, transport, clock } = createSender(t);
    await Promise.all([send(receiver.origin), send(receiver.origin), send(other.origin)]);
    receiver.respond = raw(`HTTP/1.1 204 No Content\r\n\r\n${ok}`);
    await send(receiver.origin);
    await waitFor('the origin to be noted', () => transport.idle(receiver.origin) === 0);
    receiver.respond = reply(204);
    await endOf(post(receiver.origin), clock);
    await send(other.origin);
    assert.deepEqual([receiver.connections, other.connections], [3, 1]);
    await waitFor('the connections to be closed', () => receiver.open === 0);
  });
});

describe('arbitrary bytes', () => {
  const pieces = [
    ['HTTP/1.1 ', 'HTTP/1.0 ', '200 OK', '204', '304 X', '100 Continue', '101 Up', '103 E'],
    ['\r\n', '\r\n', '\r\n\r\n', '\n', '\0', 'Content-Length: 5', 'Content-Length: 0'],
    ['Transfer-Encoding: chunked', 'Connection: close', 'Connection: upgrade', 'Upgrade: a'],
    ['Keep-Alive: timeout=1', 'Keep-Alive: timeout=x', '0\r\n\r\n', '5\r\nhello\r\n', 'hello'],
    ['HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello'],
    ['HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n'],
  ].flat();
  const piece = fc.oneof(
    fc.constantFrom(...pieces),
    fc.string({ unit: 'binary-ascii', maxLength: 8 }),
  );

  test('with any bytes as response an attempt ends, and the next one succeeds', async (t) => {
    const receiver = await receiverOf(t);
    const { post, clock, transport } = createSender(t, { timeoutMs: 3_600_000 });
    const next = async (): Promise<string> => inWords(await endOf(post(receiver.origin), clock));
    await fc.assert(
      fc.asyncProperty(fc.array(piece, { maxLength: 12 }), fc.boolean(), async (parts, isReset) => {
        const bytes = Buffer.from(parts.join(''), 'latin1');
        receiver.respond = isReset ? rawThenReset(bytes) : rawThenEnd(bytes);
        assert.match(await next(), /^(answered \d{3}|protocol|reset)/);
        receiver.respond = reply(204);
        assert.equal(await next(), 'answered 204');
      }),
      { numRuns: 150 },
    );
    const { connections, idle } = transport.count();
    assert.equal(connections, idle);
  });
});
