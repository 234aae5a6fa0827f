import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { after, before, describe, test } from 'node:test';
import fc from 'fast-check';
import { createPlainPostParser } from '../../src/api/http/plain-post.ts';
import { waitFor } from '../helpers/wait.ts';
import { type ApiFixture, openApiFixture } from './fixture.ts';

const line = 'POST /api/v2/events HTTP/1.1';
const event = '{"type":"a.b","data":{}}';

function request(first: string, headers: readonly string[], body = event): string {
  return `${[first, ...headers].join('\r\n')}\r\n\r\n${body}`;
}

const json = 'Content-Type: application/json';
const length = `Content-Length: ${event.length}`;

describe('plain POST', () => {
  const parse = createPlainPostParser('/api/v2/events', 1000);
  const read = (text: string) => parse(Buffer.from(text, 'latin1'));
  const plain = ['Host: x', 'Authorization: Bearer a', json, length];

  test('plain POST: returns the headers that count and the body', () => {
    const traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
    const headers = [
      'host: x:80',
      length.toLowerCase(),
      'CONTENT-TYPE:application/json; charset=UTF-8',
      'Connection: Keep-Alive',
      "X!#$%&'*+.^_`|~9: {} ; a",
      `traceparent: ${traceparent}`,
      'tracestate: a=1, b=2',
      'authorization: Bearer  a',
    ];
    assert.deepEqual(read(request(line, headers)), {
      host: 'x:80',
      authorization: 'Bearer  a',
      traceparent,
      tracestate: 'a=1, b=2',
      body: Buffer.from(event),
    });
  });

  const without = (name: string, ...more: string[]): string =>
    request(line, [...plain.filter((header) => !header.startsWith(name)), ...more]);
  const others: Record<string, string> = {
    'no Host': without('Host'),
    'Host not first': without('Host', 'Host: x'),
    'two Hosts': request(line, [...plain, 'Host: x']),
    'an odd Host': request(line, ['Host: x y', ...plain.slice(1)]),
    'a Host of dots': request(line, ['Host: ..', ...plain.slice(1)]),
    'a Host with an empty label': request(line, ['Host: a..b', ...plain.slice(1)]),
    'a Host in brackets': request(line, ['Host: [::1]', ...plain.slice(1)]),
    'no Authorization': without('Authorization'),
    'two Authorizations': request(line, [...plain, 'authorization: Bearer b']),
    'no media type': without('Content-Type'),
    'another media type': without('Content-Type', 'Content-Type: text/plain'),
    'another charset': without('Content-Type', `${json}; charset=latin1`),
    'two media types': request(line, [...plain, json]),
    'no length': without('Content-Length'),
    'two lengths': request(line, [...plain, length]),
    'a shorter length': without('Content-Length', `Content-Length: ${event.length - 1}`),
    'a longer length': without('Content-Length', `Content-Length: ${event.length + 1}`),
    'a length with a sign': without('Content-Length', `Content-Length: +${event.length}`),
    'a length with a zero before it': without('Content-Length', `Content-Length: 0${event.length}`),
    'no body': request(line, [...plain.slice(0, 3), 'Content-Length: 0'], ''),
    'a long body': request(line, [...plain.slice(0, 3), 'Content-Length: 1001'], 'x'.repeat(1001)),
    'another method': request('PUT /api/v2/events HTTP/1.1', plain),
    'another path': request('POST /api/v2/events/ HTTP/1.1', plain),
    'a query': request('POST /api/v2/events?a HTTP/1.1', plain),
    'HTTP/1.0': request('POST /api/v2/events HTTP/1.0', plain),
    'two blanks': request('POST  /api/v2/events HTTP/1.1', plain),
    'a bare line feed': request(line, plain).replace('Host: x\r\n', 'Host: x\n'),
    'many headers': request(line, [...plain, ...Array.from({ length: 2500 }, () => 'a:b')]),
    'an empty line first': `\r\n${request(line, plain)}`,
    'half a head': request(line, plain).slice(0, 60),
    'two requests': request(line, plain).repeat(2),
    nothing: '',
  };
  for (const header of [
    'Transfer-Encoding: chunked',
    'Expect: 100-continue',
    'Connection: close',
    'Connection: keep-alive, Upgrade',
    'Upgrade: x',
    'Content-Encoding: gzip',
    'Cookie: a=b',
    'TE: trailers',
    'Trailer: a',
    'Proxy-Connection: keep-alive',
    'traceparent: 00',
    'tracestate: a=1',
    'A:\tb',
    'A:  b',
    'A : b',
    ' A: b',
    'A: b ',
    'A:',
    ': b',
    'A',
    'A: b\tc',
    'A: b\0',
    'A: b\rc',
    'A: \u00e9',
    '\u00c4: b',
  ]) {
    others[header] = request(line, [...plain, 'traceparent: 00', 'tracestate: a=1', header]);
  }
  for (const [name, text] of Object.entries(others)) {
    test(`plain POST: undefined for ${JSON.stringify(name)}`, () => {
      assert.equal(read(text), undefined);
    });
  }

  test('plain POST: takes linear time', () => {
    for (const part of ['A: b\r\r', 'A: b c ', ' ', 'A', ':', 'Host: x\r\n', 'A:     ']) {
      const text = `${line}\r\nHost: x\r\n${part.repeat(Math.floor(8000 / part.length))}\r\n\r\nx`;
      assert.equal(read(text), undefined);
    }
  });
});

/** A connection, with everything that was received. */
interface RecordedConnection {
  readonly socket: Socket;
  received(): string;
  ended(): boolean;
}

function connectRecorded(port: number): RecordedConnection {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true });
  let text = '';
  let closed = false;
  socket.setEncoding('utf8').on('data', (chunk: string) => {
    text += chunk;
  });
  socket.on('error', () => {});
  socket.on('close', () => {
    closed = true;
  });
  return { socket, received: () => text, ended: () => closed };
}

const byText = (one = '', other = ''): number => (one < other ? -1 : 1);

function responsesIn(text: string): number {
  return text.match(/HTTP\/1\.1 \d{3} /g)?.length ?? 0;
}

/** Masks what differs from request to request. */
function masked(text: string): string {
  return text
    .replaceAll(/^date:.*/gim, 'date')
    .replaceAll(/^(x-ratelimit-(?:remaining|reset)|x-request-id): \w+/gim, '$1')
    .replaceAll(/"id":"evt_\w{22}","offset":"[\w+/=]+"/g, '"id":"","offset":""');
}

describe('publishing on the fast path', () => {
  let fixture: ApiFixture;
  before(async () => {
    fixture = await openApiFixture();
  });
  after(() => fixture.close());

  /** Sends the same bytes on a fresh connection and on one of Node's server; returns both responses. */
  const bothWays = async (text: string, of = fixture): Promise<[string, string]> => {
    const fast = connectRecorded(of.port);
    fast.socket.write(text, 'latin1');
    await waitFor('a response', () => responsesIn(fast.received()) > 0 || fast.ended());
    fast.socket.destroy();
    const slow = connectRecorded(of.port);
    slow.socket.write(request('GET /x HTTP/1.1', ['Host: x', 'A:  b'], ''));
    await waitFor('the first response', () => responsesIn(slow.received()) === 1);
    const already = slow.received().length;
    slow.socket.write(text, 'latin1');
    await waitFor('a response', () => responsesIn(slow.received()) > 1 || slow.ended());
    slow.socket.destroy();
    return [masked(fast.received()), masked(slow.received().slice(already))];
  };
  const post = (token: string, body: string, ...headers: string[]): string => {
    const bytes = `Content-Length: ${Buffer.byteLength(body, 'latin1')}`;
    return request(
      line,
      ['Host: x', `Authorization: Bearer ${token}`, json, bytes, ...headers],
      body,
    );
  };

  test('fast path and Node server: the same response, letter by letter', async () => {
    const others = await fixture.tokenWith('read:event_streams');
    const cases: Readonly<Record<string, string>> = {
      202: post(fixture.token, event),
      '202 of a repeated id': post(fixture.token, '{"type":"a.b","data":{},"id":"same"}'),
      '400 of a field': post(fixture.token, '{"type":"a.b","data":{},"x\u00c3\u00a4":1}'),
      '400 of JSON': post(fixture.token, '{"type":'),
      '400 of UTF-8': post(fixture.token, '{"type":"\u00e4"}'),
      401: post('x', event),
      403: post(others, event),
    };
    await fixture.send('POST', '/events', { type: 'a.b', data: {}, id: 'same' });
    for (const [name, text] of Object.entries(cases)) {
      const [fast, slow] = await bothWays(text);
      assert.equal(fast, slow, name);
      assert.equal(fast.slice(9, 12), name.slice(0, 3));
      assert.match(fast, /\r\nConnection: keep-alive\r\nKeep-Alive: timeout=650\r\n/);
    }
  });

  test('fast path and Node server: the same 429', async (t) => {
    // The first event takes what is left of the bucket, for a quarter of an hour.
    const limited = await openApiFixture({ publishLimitPerSecond: 0.001 });
    t.after(() => limited.close());
    const text = post(limited.token, event);
    await bothWays(text, limited);
    const wait = (response: string): string => response.replace(/retry-after: \d+/, 'retry-after');
    const [fast, slow] = await bothWays(text, limited);
    assert.equal(wait(fast), wait(slow));
    assert.match(fast, /^HTTP\/1\.1 429 /);
  });

  test('fast path and Node server: the same 503 of a service that stops', async (t) => {
    const stopping = await openApiFixture();
    t.after(() => stopping.close());
    await bothWays(post(stopping.token, event), stopping);
    stopping.ready = false;
    const [fast, slow] = await bothWays(post(stopping.token, event), stopping);
    assert.equal(fast, slow);
    assert.match(fast, /^HTTP\/1\.1 503 /);
  });

  test('fast path and Node server: the same responses to almost valid requests', async () => {
    const pieces = [
      ['host:x', 'Authorization: Bearer x', 'Authorization:', json, length, 'Content-Length: 3'],
      ['A: b', 'A:\tb', 'A : b', ' A: b', 'A: \u00e9', 'TE: x', 'Transfer-Encoding: chunked'],
      ['Expect: x', 'Connection: close', 'Connection: keep-alive', 'Upgrade: x', 'A: b\0'],
      ['A: b\nB: c', 'A: b\rB: c', '', 'nonsense', ': x', 'Content-Encoding: gzip', 'Cookie: a=b'],
    ].flat();
    const valid = ['Host: x', `Authorization: Bearer ${fixture.token}`, json, length];
    const all = fc.shuffledSubarray(valid, { minLength: 3 });
    const more = fc.array(fc.constantFrom(...pieces), { maxLength: 2 });
    const first = fc.constantFrom(
      line,
      line,
      line,
      'POST /api/v2/events?a HTTP/1.1',
      'post / HTTP/1.1',
    );
    const body = fc.constantFrom(event, event, `[${event}]`, event.slice(1), `${event} `, '');
    await fc.assert(
      fc.asyncProperty(first, all, more, body, async (opening, headers, extra, sent) => {
        // Incomplete requests have no response yet.
        if (!headers.includes(length) && !extra.some((each) => each.includes('ength'))) return;
        if (sent.length < event.length) return;
        const text = request(opening, [...headers, ...extra], sent);
        const [fast, slow] = await bothWays(text);
        const firstOf = (responses: string): string =>
          responses.split(/(?!^)(?=HTTP\/1\.1 )/)[0] ?? '';
        assert.equal(firstOf(fast), firstOf(slow), JSON.stringify(text));
      }),
      { seed: 47, numRuns: 60 },
    );
  });

  test('fast path: requests before the responses are served one after the other', async () => {
    const connection = connectRecorded(fixture.port);
    connection.socket.write(post(fixture.token, event));
    // What is written until a connection is accepted arrives at once, and so not on the fast path.
    await waitFor('the first response', () => responsesIn(connection.received()) === 1);
    for (const id of ['one', 'two', 'three']) {
      connection.socket.write(post(fixture.token, `{"type":"a.b","data":{},"id":"${id}"}`));
      await new Promise((resolve) => setImmediate(resolve));
    }
    await waitFor('all responses', () => responsesIn(connection.received()) === 4);
    connection.socket.destroy();
    const found = connection.received().matchAll(/"offset":"([^"]+)"/g);
    const offsets = Array.from(found, ([, at = '']) => Buffer.from(at, 'base64url').toString());
    assert.equal(offsets.length, 4);
    assert.deepEqual(offsets, offsets.toSorted(byText));
  });

  test('fast path: a request in two parts is served by the same connection', async () => {
    const connection = connectRecorded(fixture.port);
    const text = post(fixture.token, event);
    connection.socket.write(text);
    await waitFor('the first response', () => responsesIn(connection.received()) === 1);
    connection.socket.write(text.slice(0, 40));
    await new Promise((resolve) => setTimeout(resolve, 20));
    connection.socket.write(text.slice(40));
    await waitFor('the second response', () => responsesIn(connection.received()) === 2);
    connection.socket.write(text);
    await waitFor('the third response', () => responsesIn(connection.received()) === 3);
    connection.socket.destroy();
    assert.equal(connection.received().match(/ 202 Accepted/g)?.length, 3);
  });

  test('fast path: a connection that sends nothing gets a 408', async (t) => {
    const late = await openApiFixture();
    t.after(() => late.close());
    late.app.server.headersTimeout = 30;
    const connection = connectRecorded(late.port);
    await waitFor('the end', connection.ended);
    assert.match(connection.received(), /^HTTP\/1\.1 408 /);
  });

  test('fast path: a connection that breaks after its 408 ends nothing else', async (t) => {
    const late = await openApiFixture();
    t.after(() => late.close());
    const { server } = late.app;
    server.headersTimeout = 30;
    server.on('clientError', (_error: Error, socket: Socket) => {
      setImmediate(() => socket.emit('error', new Error('broken')));
    });
    const broken = connectRecorded(late.port);
    await waitFor('the end', broken.ended);
    server.headersTimeout = 16_000;
    assert.equal((await late.send('POST', '/events', { type: 'a.b', data: {} })).status, 202);
  });

  test('fast path: an idle connection ends after the keep-alive timeout', async (t) => {
    const idle = await openApiFixture();
    t.after(() => idle.close());
    Object.assign(idle.app.server, { keepAliveTimeout: 20, keepAliveTimeoutBuffer: 0 });
    const connection = connectRecorded(idle.port);
    connection.socket.write(post(idle.token, event));
    await waitFor('the end', connection.ended);
    assert.match(connection.received(), /^HTTP\/1\.1 202 /);
  });

  test('fast path: closing ends idle connections, and those under way after their response', async () => {
    const closing = await openApiFixture();
    const idle = connectRecorded(closing.port);
    idle.socket.write(post(closing.token, event));
    await waitFor('a response', () => responsesIn(idle.received()) === 1);
    const fresh = connectRecorded(closing.port);
    await once(fresh.socket, 'connect');
    const busy = connectRecorded(closing.port);
    busy.socket.write(post(closing.token, event));
    await once(busy.socket, 'connect');
    await closing.close();
    await waitFor('the ends', () => idle.ended() && fresh.ended() && busy.ended());
    assert.match(`${busy.received()}-`, /^(?:-|HTTP\/1\.1 (?:202|503) )/);
  });

  test('fast path: a connection that comes while the server closes ends at once', async (t) => {
    const closing = await openApiFixture();
    // As a TLS connection whose handshake ends after closing has begun.
    const other = createServer((socket) => closing.app.server.emit('connection', socket));
    await once(other.listen(0, '127.0.0.1'), 'listening');
    t.after(() => other.close());
    await closing.close();
    const late = connectRecorded((other.address() as AddressInfo).port);
    await waitFor('the end', late.ended);
    assert.equal(late.received(), '');
  });

  test('fast path: a client that has closed its side gets its response', async () => {
    const connection = connectRecorded(fixture.port);
    connection.socket.end(post(fixture.token, event));
    await waitFor('the end', connection.ended);
    assert.match(connection.received(), /^HTTP\/1\.1 202 /);
  });
});
