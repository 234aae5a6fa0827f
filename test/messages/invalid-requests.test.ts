import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { exchange, messageText, readToEnd } from '../helpers/exchange.ts';
import { invalidRequests, lastChunk } from '../helpers/invalid-requests.ts';
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

function get(...headers: string[]): string {
  return messageText(`GET ${path} HTTP/1.1`, headers);
}

const messages: Readonly<Record<number, string>> = {
  400: 'Bad Request',
  405: 'Not Allowed Http Method',
  431: 'Request Header Fields Too Large: the limit of request line and headers is 16384 bytes',
  501: 'Not Implemented',
  505: 'HTTP Version Not Supported',
};

const cases: typeof invalidRequests = [
  ...invalidRequests,
  ['CONNECT', () => messageText('CONNECT a:1 HTTP/1.1', [host]), 405],
];

describe('an invalid request to the message API', () => {
  for (const [what, textFor, status] of cases) {
    test(`message API: ${what} is ${status}, and what follows is not served`, async () => {
      const text = textFor(path);
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
    for (const value of [
      'a',
      'A_b.example:80',
      '[::1]:8080',
      '127.0.0.1',
      'a.',
      "a!$&'()*+,;=~:1",
    ]) {
      for (const line of [`GET ${path} HTTP/1.1`, `GET http://other${path} HTTP/1.1`]) {
        assert.equal(
          (await exchange(api.port, messageText(line, [`Host: ${value}`]))).status,
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
      [get(host, 'Transfer-Encoding: gzip, chunked') + lastChunk, 501],
    ] as const) {
      const request = messageText(line, [host, `Authorization: Bearer ${await api.token()}`]);
      assert.deepEqual((await readToEnd(api.port, request + what)).statuses, [200, status]);
      const twice = await readToEnd(api.port, request + request + what);
      assert.deepEqual(twice.statuses, [200, 200, status]);
    }
  });

  test('message API: a request that has its response gets no second one for its body', async () => {
    const request = get(host, 'Transfer-Encoding: chunked');
    const { statuses } = await readToEnd(api.port, [request, 'nonsense\r\n\r\n']);
    assert.deepEqual(statuses, [200]);
    assert.deepEqual((await readToEnd(api.port, `${request}nonsense\r\n\r\n`)).statuses, [200]);
  });

  test('message API: the connection ends after a request for an upgrade', async () => {
    const upgrade = get(host, 'Connection: Upgrade', 'Upgrade: h2c');
    const { statuses, text } = await readToEnd(api.port, upgrade + get(host));
    assert.deepEqual(statuses, [200]);
    assert.match(text, /^connection: close\r$/im);
  });

  test('message API: an unknown expectation is ignored', async () => {
    assert.equal((await exchange(api.port, get(host, 'Expect: x'))).status, 200);
  });
});
