import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { after, before, describe, test } from 'node:test';
import fc from 'fast-check';
import { parsePlainRequest } from '../../src/messages/server.ts';
import { waitFor } from '../helpers/leat.ts';
import { openMessageApi, type MessageApi } from './fixture.ts';

let api: MessageApi;
let token: string;

before(async () => {
  api = await openMessageApi();
  token = await api.token();
});
after(() => api.close());

const line = 'GET /api/messages/public HTTP/1.1';

function head(first: string, ...headers: readonly string[]): string {
  return `${[first, ...headers].join('\r\n')}\r\n\r\n`;
}

describe('plain request', () => {
  test('parsePlainRequest: returns target and credentials', () => {
    const read = (text: string) => parsePlainRequest(Buffer.from(text, 'latin1'));
    const target = '/api/messages/admin?a=b%20c&d=~(x)';
    assert.deepEqual(read(head(`GET ${target} HTTP/1.1`, 'Host: x', 'Authorization: Bearer  a ')), {
      method: 'GET',
      target,
      authorizations: ['Bearer  a '],
    });
    const bare = { method: 'GET', target: '/', authorizations: [] };
    for (const headers of [
      ['Host: x'],
      ['host:x'],
      ['HOST: x-1.y.:80', 'Connection: keep-alive', 'Accept: a, b;q=0.1', "X!#$%&'*+.^_`|~9: {}"],
      ['Host: x', 'Connection: Keep-Alive', 'Authorizations: y', 'Hosts: y', 'Te-x: 1'],
    ]) {
      assert.deepEqual(read(head('GET / HTTP/1.1', ...headers)), bare, headers.join());
    }
  });

  const others: Readonly<Record<string, string>> = {
    'no Host': head(line, 'Accept: x'),
    'Host not first': head(line, 'Accept: x', 'Host: x'),
    'two Hosts': head(line, 'Host: x', 'Host: x'),
    'an empty Host': head(line, 'Host:'),
    'a Host of dots': head(line, 'Host: ..'),
    'a Host with an empty label': head(line, 'Host: a..b'),
    'a Host in brackets': head(line, 'Host: [::1]'),
    'two Authorizations': head(line, 'Host: x', 'Authorization: a', 'authorization: b'),
    'an empty Authorization': head(line, 'Host: x', 'Authorization:'),
    'another method': head('HEAD / HTTP/1.1', 'Host: x'),
    'a method in lower case': head('get / HTTP/1.1', 'Host: x'),
    'a version in lower case': head('GET / http/1.1', 'Host: x'),
    'HTTP/1.0': head('GET / HTTP/1.0', 'Host: x'),
    'HTTP/1.10': head('GET / HTTP/1.10', 'Host: x'),
    'no version': head('GET /', 'Host: x'),
    'the absolute form': head('GET http://x/ HTTP/1.1', 'Host: x'),
    'the asterisk form': head('GET * HTTP/1.1', 'Host: x'),
    'a blank in the target': head('GET /a b HTTP/1.1', 'Host: x'),
    'two blanks': head('GET  / HTTP/1.1', 'Host: x'),
    'a length': head(line, 'Host: x', 'Content-Length: 0'),
    'a transfer coding': head(line, 'Host: x', 'transfer-ENCODING: chunked'),
    'a connection that closes': head(line, 'Host: x', 'Connection: close'),
    'a connection that upgrades': head(line, 'Host: x', 'Connection: keep-alive, Upgrade'),
    'an upgrade': head(line, 'Host: x', 'Upgrade: websocket'),
    'an expectation': head(line, 'Host: x', 'Expect: 100-continue'),
    'a tab in a value': head(line, 'Host: x', 'A: b\tc'),
    'a tab before a value': head(line, 'Host: x', 'A:\tb'),
    'two blanks before a value': head(line, 'Host: x', 'A:  b'),
    'a blank before the colon': head(line, 'Host: x', 'A : b'),
    'a blank before the name': head(line, 'Host: x', ' A: b'),
    'a folded line': head(line, 'Host: x', 'A: b', ' c: d'),
    'a bare line feed': `${line}\nHost: x\r\n\r\n`,
    'line feeds alone': `${line}\nHost: x\n\n`,
    'a bare carriage return': head(line, 'Host: x', 'A: b\rc'),
    'NUL in a value': head(line, 'Host: x', 'A: b\0c'),
    'a byte above ASCII': head(line, 'Host: x', 'A: \u00e9'),
    'a byte above ASCII in the target': head('GET /\u00e9 HTTP/1.1', 'Host: x'),
    'an empty line first': `\r\n${head(line, 'Host: x')}`,
    'a body': `${head(line, 'Host: x')}x`,
    'a second request': head(line, 'Host: x').repeat(2),
    'half a request': head(line, 'Host: x').slice(0, -1),
    'no line end': line,
    nothing: '',
    'more than 16 KiB': head(line, 'Host: x', `A: ${'x'.repeat(17_000)}`),
  };
  for (const [name, text] of Object.entries(others)) {
    test(`parsePlainRequest: undefined for ${name}`, () => {
      assert.equal(parsePlainRequest(Buffer.from(text, 'latin1')), undefined);
    });
  }

  test('parsePlainRequest: takes linear time', () => {
    const parts = ['A: b\r\r', 'A: b c ', 'Authorization: x\r\n', ' ', 'A', ':', 'Host: x\r\n'];
    for (const part of parts) {
      const text = `${line}\r\nHost: x\r\n${part.repeat(Math.floor(16_000 / part.length))}`;
      for (const ending of ['', '\r\n', '\r\n\r\nx']) {
        // A backtracking expression would not finish with these.
        assert.equal(parsePlainRequest(Buffer.from(text.slice(0, 16_300) + ending)), undefined);
      }
    }
  });
});

/** A connection, with everything that was received. */
interface RecordedConnection {
  readonly socket: Socket;
  received(): string;
  ended(): boolean;
}

function connectRecorded(): RecordedConnection {
  const socket = connect({ port: api.port, host: '127.0.0.1', noDelay: true });
  let text = '';
  let closed = false;
  socket.setEncoding('latin1').on('data', (chunk: string) => {
    text += chunk;
  });
  socket
    .on('error', () => {})
    .on('close', () => {
      closed = true;
    });
  return { socket, received: () => text, ended: () => closed };
}

/** Waits for this many whole responses, or for the end of the connection. */
async function responsesOf(connection: RecordedConnection, count: number): Promise<string[]> {
  await waitFor(
    'the responses',
    () => connection.ended() || split(connection.received()).length >= count,
  );
  connection.socket.destroy();
  return split(connection.received());
}

function split(text: string): string[] {
  const responses: string[] = [];
  let rest = text;
  for (;;) {
    const end = rest.indexOf('\r\n\r\n');
    const length = Number(/^content-length: (\d+)/im.exec(rest.slice(0, end))?.[1] ?? 0);
    if (end === -1 || rest.length < end + 4 + length) return responses;
    responses.push(rest.slice(0, end + 4 + length));
    rest = rest.slice(end + 4 + length);
  }
}

/** Removes the headers that may differ between the fast path and Node's server. */
function withoutConnectionHeaders(text: string): string {
  return text.replaceAll(/^(?:date|connection|keep-alive):.*\r\n/gim, '');
}

/** Not a plain request: it moves its connection to Node's server. */
const notPlain = head('GET /x HTTP/1.1', 'Host: x', 'A:  b');

/** Sends the same bytes, and then the end, on a fresh connection and on one of Node's server. */
async function bothWays(request: string): Promise<[string, string]> {
  const fast = connectRecorded();
  fast.socket.end(request, 'latin1');
  // Afterwards the token is cached. Node's server does not respond to a client that closes its side
  // during a verification.
  await waitFor('the end of the first', fast.ended);
  const slow = connectRecorded();
  slow.socket.write(notPlain);
  await waitFor('the first response', () => split(slow.received()).length === 1);
  const already = slow.received().length;
  slow.socket.end(request, 'latin1');
  await waitFor('the end of the second', slow.ended);
  return [fast.received(), slow.received().slice(already)];
}

describe('fast path and Node server', () => {
  test('fast path and Node server: same responses, apart from Connection', async () => {
    for (const path of ['public', 'protected', 'admin', 'other']) {
      const authorization = `Authorization: Bearer ${token}`;
      const request = head(`GET /api/messages/${path} HTTP/1.1`, 'Host: x', authorization);
      const [fast, slow] = await bothWays(request);
      assert.equal(withoutConnectionHeaders(fast), withoutConnectionHeaders(slow));
      assert.match(
        fast,
        path === 'other' ? /^HTTP\/1\.1 404 Not Found\r\n/ : /^HTTP\/1\.1 200 OK\r\n/,
      );
      assert.match(fast, /^connection: keep-alive\r\nkeep-alive: timeout=650\r$/im);
      assert.match(slow, /^connection: /im);
    }
  });

  test('fast path and Node server: same responses to almost valid requests', async () => {
    const pieces = [
      ['Host: x', 'host:x', 'Authorization: Bearer x y', `Authorization: Bearer ${token}`],
      ['authorization:  DPoP x ', 'Authorization: Basic x', 'Authorization:', 'A: b', 'A:b '],
      ['A:\tb', 'A : b', ' A: b', 'A: \u00e9', 'Content-Length: 0', 'Content-Length: 3', 'TE: x'],
      ['Transfer-Encoding: chunked', 'Expect: x', 'Connection: close', 'Connection: keep-alive'],
      ['Upgrade: x', 'A: b\0', 'A: b\nB: c', 'A: b\rB: c', '', 'nonsense', ': x', '\u00c4: b'],
    ];
    const targets = ['/api/messages/public', '/api/messages/admin?x', '/x', '*', 'http://x/y'];
    const odd = [
      'GET /api/messages/admin HTTP/1.0',
      'GET /api/messages/admin',
      'GET /\u00e9 HTTP/1.1',
    ];
    const lines = ['GET', 'get', 'HEAD ', 'POST', 'OPTIONS', 'GET '].flatMap((method) =>
      targets.map((target) => `${method} ${target} HTTP/1.1`),
    );
    const piece = fc.constantFrom(...pieces.flat());
    const first = fc.constantFrom('', ...odd, ...lines);
    const ending = fc.constantFrom('\r\n\r\n', '\r\n\r\n', '\r\n\r\n', '\n\n', '\r\n\r\nabc');
    const request = fc.tuple(first, fc.array(piece, { maxLength: 5 }), ending);
    await fc.assert(
      fc.asyncProperty(request, async ([opening, headers, end]) => {
        const text = [opening, 'Host: x', ...headers].join('\r\n') + end;
        const [fast, slow] = await bothWays(text);
        assert.equal(
          withoutConnectionHeaders(fast),
          withoutConnectionHeaders(slow),
          JSON.stringify(text),
        );
        assert.match(fast, /^HTTP\/1\.1 \d{3} /);
      }),
      { seed: 6060, numRuns: 150 },
    );
  });

  test('fast path: many requests on one connection, pipelined ones in order', async () => {
    const connection = connectRecorded();
    const paths = ['public', 'protected', 'other', 'admin', 'public'];
    for (const [index, path] of paths.entries()) {
      const authorization = `Authorization: Bearer ${token}`;
      connection.socket.write(head(`GET /api/messages/${path} HTTP/1.1`, 'Host: x', authorization));
      await waitFor('the response', () => split(connection.received()).length === index + 1);
    }
    connection.socket.write(
      head('GET /x HTTP/1.1', 'Host: x').repeat(2) + head(line, 'Host: x').repeat(2),
    );
    const responses = await responsesOf(connection, 9);
    const statuses = responses.map((response) => response.slice(9, 12)).join();
    assert.equal(statuses, '200,200,404,200,200,404,404,200,200');
  });

  test('fast path: a request waits for the pending response before it', async (t) => {
    const fresh = await openMessageApi();
    t.after(() => fresh.close());
    const connection = connect({ port: fresh.port, host: '127.0.0.1', noDelay: true });
    let text = '';
    connection.setEncoding('latin1').on('data', (chunk: string) => {
      text += chunk;
    });
    const authorization = `Authorization: Bearer ${await fresh.token()}`;
    connection.write(head('GET /api/messages/admin HTTP/1.1', 'Host: x', authorization));
    connection.write(head(line, 'Host: x'));
    await waitFor('both responses', () => split(text).length === 2);
    connection.destroy();
    const bodies = split(text).map((response) => response.slice(response.indexOf('{')));
    assert.match(bodies[0] ?? '', /admin/);
    assert.match(bodies[1] ?? '', /public/);
  });

  test('fast path: responds to a client that has closed its side', async () => {
    for (const path of ['public', 'admin']) {
      const connection = connectRecorded();
      const authorization = `Authorization: Bearer ${await api.token({ jti: path })}`;
      connection.socket.end(head(`GET /api/messages/${path} HTTP/1.1`, 'Host: x', authorization));
      await waitFor('the end', () => connection.ended());
      assert.match(connection.received(), /^HTTP\/1\.1 200 OK\r\n/);
    }
  });

  test('fast path: does not buffer responses for a client that does not read', async () => {
    const connection = connectRecorded();
    await once(connection.socket, 'connect');
    connection.socket.pause();
    const request = head(line, 'Host: x');
    let sent = 0;
    // The server stops reading when its responses are not read, and then the network buffers fill. Or
    // it closes the connection because one read had too many requests.
    while (
      !connection.socket.destroyed &&
      (connection.socket.write(request.repeat(50)) || connection.socket.writableLength < 4_000_000)
    ) {
      sent += 50;
      if (sent % 5_000 === 0) await new Promise((resolve) => setImmediate(resolve));
    }
    assert.ok(sent > 50);
    connection.socket.destroy();
    const next = connectRecorded();
    next.socket.write(request);
    assert.equal((await responsesOf(next, 1)).length, 1);
  });
});

describe('close', () => {
  test('close: closes idle connections of fast path and Node server, and sends pending responses', async () => {
    const ending = await openMessageApi();
    const resting = [head(line, 'Host: x'), head('HEAD / HTTP/1.1', 'Host: x')].map((request) => {
      const socket = connect(ending.port, '127.0.0.1').on('error', () => {});
      socket.write(request);
      return { answered: once(socket, 'data'), closed: once(socket, 'close') };
    });
    await Promise.all(resting.map(({ answered }) => answered));
    const under = connect(ending.port, '127.0.0.1');
    let text = '';
    under.setEncoding('latin1').on('data', (chunk: string) => {
      text += chunk;
    });
    const closed = once(under, 'close');
    const sent = `Authorization: Bearer ${await ending.token()}`;
    under.write(head('GET /api/messages/admin HTTP/1.1', 'Host: x', sent));
    await waitFor('the fetch of the keys', () => ending.fetches() === 1);
    await ending.close();
    await Promise.all([closed, ...resting.map((each) => each.closed)]);
    assert.match(text, /^HTTP\/1\.1 (200|500) /);
  });
});
