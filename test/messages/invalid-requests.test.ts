import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { exchange, readToEnd } from '../helpers/exchange.ts';
import { type MessageApi, openMessageApi, origin } from './fixture.ts';

let api: MessageApi;

before(async () => {
  api = await openMessageApi();
});
after(async () => {
  await api.close();
  assert.deepEqual(api.reported, []);
});

const path = '/api/messages/public';
const host = 'Host: localhost';
const chunked = 'Transfer-Encoding: chunked';
const end = '0\r\n\r\n';

function textOf(line: string, headers: readonly string[], body = ''): string {
  return `${[line, ...headers].join('\r\n')}\r\n\r\n${body}`;
}

function get(...headers: string[]): string {
  return textOf(`GET ${path} HTTP/1.1`, headers);
}

const messages: Readonly<Record<number, string>> = {
  400: 'Bad Request',
  405: 'Not Allowed Http Method',
  431: 'Request Header Fields Too Large',
  501: 'Not Implemented',
  505: 'HTTP Version Not Supported',
};

const cases: readonly [what: string, text: string, status: number][] = [
  ['no Host', get(), 400],
  ['two Hosts', get(host, host), 400],
  ['a Host with a blank', get('Host: a b'), 400],
  ['a Host with a slash', get('Host: a/b'), 400],
  ['a Host with a user', get('Host: u@a'), 400],
  ['HTTP/0.9', `GET ${path}\r\n\r\n`, 505],
  ['HTTP/2.0', textOf(`GET ${path} HTTP/2.0`, [host]), 505],
  ['an encoding before chunked', get(host, 'Transfer-Encoding: gzip, chunked') + end, 501],
  ['chunked twice', get(host, 'Transfer-Encoding: ,chunked') + end, 501],
  ['another last encoding', get(host, 'Transfer-Encoding: gzip'), 400],
  ['chunks in HTTP/1.0', textOf(`GET ${path} HTTP/1.0`, [host, chunked], end), 400],
  ['a user in the target', textOf(`GET http://u@a${path} HTTP/1.1`, [host]), 400],
  ['no host in the target', textOf(`GET http://${path} HTTP/1.1`, [host]), 400],
  ['another scheme', textOf(`GET ftp://a${path} HTTP/1.1`, [host]), 400],
  ['CONNECT', textOf('CONNECT a:1 HTTP/1.1', [host]), 405],
  ['a length and chunks', get(host, 'Content-Length: 5', chunked) + end, 400],
  ['two equal lengths', get(host, 'Content-Length: 0', 'Content-Length: 0'), 400],
  ['a folded header', get(host, 'X: a', ' b'), 400],
  ['a blank before a colon', get(host, 'X : a'), 400],
  ['a zero byte', get(host, 'X: a\0b'), 400],
  ['a bare line feed', `GET ${path} HTTP/1.1\r\n${host}\nX: y\r\n\r\n`, 400],
  ['a header of 20 kB', get(host, `X: ${'x'.repeat(20_000)}`), 431],
  ['garbage', 'hello\r\n\r\n', 400],
];

describe('an invalid request to the message API', () => {
  for (const [what, text, status] of cases) {
    test(`message API: ${what} is ${status}, and what follows is not served`, async () => {
      const response = await exchange(api.port, Buffer.from(text, 'latin1'));
      assert.equal(response.status, status);
      assert.deepEqual(JSON.parse(response.body), { message: messages[status] });
      assert.equal(response.headers['connection'], 'close');
      assert.equal(response.headers['access-control-allow-origin'], origin);
      assert.equal(response.headers['x-content-type-options'], 'nosniff');
      if (status === 405) assert.equal(response.headers['allow'], 'GET, HEAD, OPTIONS');
      assert.deepEqual((await readToEnd(api.port, text + get(host))).statuses, [status]);
      const later = await readToEnd(api.port, [get(host), text + get(host)]);
      assert.deepEqual(later.statuses, [200, status], 'after a request on the fast path');
    });
  }

  test('message API: any valid Host, in origin and absolute form', async () => {
    for (const value of ['a', 'A_b.example:80', '[::1]:8080', '127.0.0.1', '', "a!$&'()*+,;=~:1"]) {
      for (const line of [`GET ${path} HTTP/1.1`, `GET http://other${path} HTTP/1.1`]) {
        assert.equal(
          (await exchange(api.port, textOf(line, [`Host: ${value}`]))).status,
          200,
          value,
        );
      }
    }
  });

  test('message API: a request whose token is verified gets its response before a later error', async () => {
    const line = 'GET /api/messages/protected HTTP/1.1';
    for (const [what, status] of [
      ['hello\r\n\r\n', 400],
      [get(host, `X: ${'x'.repeat(20_000)}`), 431],
      [get(host, 'Transfer-Encoding: gzip, chunked') + end, 501],
    ] as const) {
      const request = textOf(line, [host, `Authorization: Bearer ${await api.token()}`]);
      assert.deepEqual((await readToEnd(api.port, request + what)).statuses, [200, status]);
      const twice = await readToEnd(api.port, request + request + what);
      assert.deepEqual(twice.statuses, [200, 200, status]);
    }
  });

  test('message API: a request that has its response gets no second one for its body', async () => {
    const request = get(host, chunked);
    const { statuses } = await readToEnd(api.port, [request, 'nonsense\r\n\r\n']);
    assert.deepEqual(statuses, [200]);
    assert.deepEqual((await readToEnd(api.port, `${request}nonsense\r\n\r\n`)).statuses, [200]);
  });

  test('message API: an unknown expectation is ignored', async () => {
    assert.equal((await exchange(api.port, get(host, 'Expect: x'))).status, 200);
  });
});
