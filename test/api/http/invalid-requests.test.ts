import assert from 'node:assert/strict';
import { STATUS_CODES } from 'node:http';
import { after, before, describe, test } from 'node:test';
import { secondTenant } from '../../auth/fixture.ts';
import { exchange, type RawResponse, readToEnd } from '../../helpers/exchange.ts';
import { waitFor } from '../../helpers/wait.ts';
import { type ApiFixture, openApiFixture } from '../fixture.ts';

let fixture: ApiFixture;
/** The header line with a token of every scope. */
let authorization: string;

before(async () => {
  fixture = await openApiFixture();
  authorization = `Authorization: Bearer ${fixture.token}`;
});
after(() => fixture.close());

const host = 'Host: localhost';
const paths = ['/api/v2/event-streams', '/oauth/token', '/.well-known/jwks.json', '/healthz', '/x'];

function textOf(line: string, headers: readonly string[], body = ''): string {
  return `${[line, ...headers].join('\r\n')}\r\n\r\n${body}`;
}

/** Asserts the error body, the rate limit headers and the end of the connection. */
function assertRejected(response: RawResponse, status: number, what: string): void {
  const error = STATUS_CODES[status];
  assert.equal(response.status, status, what);
  assert.deepEqual(JSON.parse(response.body), { statusCode: status, error, message: error }, what);
  const { headers } = response;
  assert.equal(headers['content-type'], 'application/json; charset=utf-8', what);
  assert.equal(headers['cache-control'], 'no-store', what);
  assert.equal(headers['x-content-type-options'], 'nosniff', what);
  assert.equal(headers['connection'], 'close', what);
  assert.match(headers['date'] ?? '', / GMT$/, what);
  for (const name of ['limit', 'remaining', 'reset']) {
    assert.match(headers[`x-ratelimit-${name}`] ?? '', /^\d+$/, `${what} ${name}`);
  }
}

const chunked = 'Transfer-Encoding: chunked';
const end = '0\r\n\r\n';

/** By what is wrong: the text of a request and the status of its response. */
const cases: readonly [what: string, text: (path: string) => string, status: number][] = [
  ['no Host', (path) => textOf(`GET ${path} HTTP/1.1`, []), 400],
  ['two Hosts', (path) => textOf(`GET ${path} HTTP/1.1`, [host, host]), 400],
  ['a Host with a blank', (path) => textOf(`GET ${path} HTTP/1.1`, ['Host: a b']), 400],
  ['a Host with a user', (path) => textOf(`GET ${path} HTTP/1.1`, ['Host: a@b']), 400],
  ['an unknown expectation', (path) => textOf(`GET ${path} HTTP/1.1`, [host, 'Expect: x']), 417],
  ['HTTP/0.9', (path) => `GET ${path}\r\n\r\n`, 505],
  ['HTTP/2.0', (path) => textOf(`GET ${path} HTTP/2.0`, [host]), 505],
  [
    'an encoding before chunked',
    (path) => textOf(`POST ${path} HTTP/1.1`, [host, 'Transfer-Encoding: gzip, chunked'], end),
    501,
  ],
  [
    'another last encoding than chunked',
    (path) => textOf(`POST ${path} HTTP/1.1`, [host, 'Transfer-Encoding: gzip']),
    400,
  ],
  ['chunks in HTTP/1.0', (path) => textOf(`POST ${path} HTTP/1.0`, [host, chunked], end), 400],
  ['a user in the target', (path) => textOf(`GET http://u@a${path} HTTP/1.1`, [host]), 400],
  ['no host in the target', (path) => textOf(`GET http://${path} HTTP/1.1`, [host]), 400],
  ['another scheme', (path) => textOf(`GET ftp://localhost${path} HTTP/1.1`, [host]), 400],
  [
    'a header of 20 kB',
    (path) => textOf(`GET ${path} HTTP/1.1`, [host, `X: ${'x'.repeat(20_000)}`]),
    431,
  ],
  [
    'a target of 20 kB',
    (path) => textOf(`GET ${path}?${'x'.repeat(20_000)} HTTP/1.1`, [host]),
    431,
  ],
  ['a folded header', (path) => textOf(`GET ${path} HTTP/1.1`, [host, 'X: a', ' b']), 400],
  ['a blank before a colon', (path) => textOf(`GET ${path} HTTP/1.1`, [host, 'X : a']), 400],
  ['a zero byte', (path) => textOf(`GET ${path} HTTP/1.1`, [host, 'X: a\0b']), 400],
  ['a bare line feed', (path) => `GET ${path} HTTP/1.1\r\n${host}\nX: y\r\n\r\n`, 400],
  ['a bare carriage return', (path) => textOf(`GET ${path} HTTP/1.1`, [host, 'X: a\rb']), 400],
  [
    'a length and chunks',
    (path) => textOf(`POST ${path} HTTP/1.1`, [host, 'Content-Length: 5', chunked], end),
    400,
  ],
  [
    'two equal lengths',
    (path) => textOf(`POST ${path} HTTP/1.1`, [host, 'Content-Length: 0', 'Content-Length: 0']),
    400,
  ],
  ['garbage', () => 'hello\r\n\r\n', 400],
  ['a TLS handshake', () => '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03', 400],
];

describe('a request that is not served', () => {
  for (const [what, text, status] of cases) {
    test(`${what}: ${status} with the error body and rate limit headers, on every path`, async () => {
      for (const path of paths) {
        const response = await exchange(fixture.port, Buffer.from(text(path), 'latin1'));
        assertRejected(response, status, path);
        // What follows is not read as a request.
        const next = textOf('GET /healthz HTTP/1.1', [host]);
        assert.deepEqual((await readToEnd(fixture.port, text(path) + next)).statuses, [status]);
      }
    });
  }

  test('CONNECT is 405 with the methods of the API', async () => {
    for (const target of ['example.com:443', 'localhost:80']) {
      const response = await exchange(fixture.port, textOf(`CONNECT ${target} HTTP/1.1`, [host]));
      assert.equal(response.status, 405);
      assert.equal(response.headers['allow'], 'DELETE, GET, HEAD, PATCH, POST');
      assert.equal(response.headers['connection'], 'close');
      assert.ok('x-ratelimit-remaining' in response.headers);
      const error = 'Method Not Allowed';
      assert.deepEqual(JSON.parse(response.body), { statusCode: 405, error, message: error });
    }
    const both = textOf('CONNECT a:1 HTTP/1.1', [host]) + textOf('GET /healthz HTTP/1.1', [host]);
    assert.deepEqual((await readToEnd(fixture.port, both)).statuses, [405]);
  });

  test('a client that repeats invalid requests draws on the bucket of its address', async (t) => {
    const limited = await openApiFixture({ rateLimitBurst: 3, rateLimitPerSecond: 1 });
    t.after(() => limited.close());
    const remaining = async (text: string): Promise<[number, string | undefined]> => {
      const { status, headers } = await exchange(limited.port, text);
      return [status, headers['x-ratelimit-remaining']];
    };
    assert.deepEqual(await remaining('hello\r\n\r\n'), [400, '2']);
    assert.deepEqual(await remaining(textOf('GET /x HTTP/1.1', [])), [400, '1']);
    assert.deepEqual(await remaining(textOf('CONNECT a:1 HTTP/1.1', [host])), [405, '0']);
    const rejected = await exchange(limited.port, textOf('GET /x HTTP/1.1', []));
    assert.equal(rejected.status, 429);
    assert.equal(rejected.headers['retry-after'], '1');
    assert.equal(JSON.parse(rejected.body).errorCode, 'too_many_requests');
    assert.deepEqual(await remaining('hello\r\n\r\n'), [400, '0']);
  });

  test('OPTIONS * is 404', async () => {
    const { status, body } = await exchange(fixture.port, textOf('OPTIONS * HTTP/1.1', [host]));
    assert.equal(status, 404);
    assert.equal(JSON.parse(body).message, 'Not Found');
  });
});

describe('the absolute form of a request target', () => {
  test('the host of the target selects the tenant, not the Host header', async (t) => {
    const shared = await openApiFixture();
    t.after(() => shared.close());
    await secondTenant(shared.auth, 'other.example.com');
    await waitFor('both tenants', async () => {
      const request = textOf('GET /.well-known/openid-configuration HTTP/1.1', ['Host: nobody']);
      return (await exchange(shared.port, request)).status === 404;
    });
    const issuerOf = async (target: string, header: string): Promise<string> => {
      const request = textOf(`GET ${target}/.well-known/openid-configuration HTTP/1.1`, [
        `Host: ${header}`,
      ]);
      const { status, body } = await exchange(shared.port, request);
      return status === 200 ? JSON.parse(body).issuer : String(status);
    };
    const [one, two] = ['leat.example.com', 'other.example.com'];
    assert.equal(await issuerOf(`http://${one}`, two), `https://${one}/`);
    assert.equal(await issuerOf(`http://${two}:80`, one), `https://${two}/`);
    assert.equal(await issuerOf(`HTTPS://${two.toUpperCase()}`, one), `https://${two}/`);
    assert.equal(await issuerOf('http://nobody', one), '404');
    assert.equal(await issuerOf('', two), `https://${two}/`);
    const streams = [`GET http://${two}/api/v2/event-streams HTTP/1.1`, `Host: ${one}`] as const;
    const bearer = `Authorization: Bearer ${shared.token}`;
    const ofOther = textOf(streams[0], [streams[1], bearer]);
    assert.equal((await exchange(shared.port, ofOther)).status, 401, 'a token of the Host');
  });

  test('a trusted proxy still selects the tenant by X-Forwarded-Host', async (t) => {
    const shared = await openApiFixture({ trustProxy: ['127.0.0.1'] });
    t.after(() => shared.close());
    await secondTenant(shared.auth, 'other.example.com');
    const request = textOf('GET http://nobody/.well-known/openid-configuration HTTP/1.1', [
      host,
      'X-Forwarded-Host: other.example.com',
    ]);
    await waitFor('both tenants', async () => {
      const { body } = await exchange(shared.port, request);
      return body.includes('"issuer":"https://other.example.com/"');
    });
  });

  test('routes, methods, queries and malformed paths are those of the origin form', async () => {
    const statusOf = async (line: string): Promise<number> =>
      (await exchange(fixture.port, textOf(line, [host, authorization]))).status;
    const origin = 'http://localhost/api/v2';
    assert.equal(await statusOf(`GET ${origin}/event-streams?take=1 HTTP/1.1`), 200);
    assert.equal(await statusOf(`GET ${origin}/event-streams?take=x HTTP/1.1`), 400);
    assert.equal(await statusOf(`PUT ${origin}/event-streams HTTP/1.1`), 405);
    assert.equal(await statusOf(`GET ${origin}/users/% HTTP/1.1`), 400);
    assert.equal(await statusOf(`GET ${origin}/users/ HTTP/1.1`), 404);
    assert.equal(await statusOf('GET http://localhost?x HTTP/1.1'), 404);
    const nowhere = await exchange(fixture.port, textOf(`GET ${origin}/no HTTP/1.1`, [host]));
    assert.equal(nowhere.status, 404);
    assert.ok('x-ratelimit-limit' in nowhere.headers);
  });
});

describe('repeated Authorization headers', () => {
  test('two Authorization headers are 401, in any order', async () => {
    const others = ['Authorization:', 'authorization: Basic eDp5', 'AUTHORIZATION: Bearer x'];
    for (const other of [...others, authorization]) {
      for (const lines of [
        [authorization, other],
        [other, authorization],
      ]) {
        const request = textOf('GET /api/v2/event-streams HTTP/1.1', [host, ...lines]);
        const response = await exchange(fixture.port, request);
        assert.equal(response.status, 401, lines.join());
        assert.ok('www-authenticate' in response.headers);
      }
    }
  });

  test('token endpoint: two Authorization headers are 401 invalid_client', async () => {
    const { clientId, clientSecret } = fixture.auth.manager;
    const basic = `Basic ${Buffer.from(`${clientId}:${clientSecret}`).toString('base64')}`;
    const body = 'grant_type=client_credentials&audience=/api/v2/';
    const statusOf = async (...values: string[]): Promise<number> => {
      const headers = [
        host,
        'Content-Type: application/x-www-form-urlencoded',
        `Content-Length: ${body.length}`,
        ...values.map((value) => `Authorization: ${value}`),
      ];
      const request = textOf('POST /oauth/token HTTP/1.1', headers, body);
      const response = await exchange(fixture.port, request);
      if (response.status === 401) assert.equal(JSON.parse(response.body).error, 'invalid_client');
      return response.status;
    };
    assert.equal(await statusOf(basic), 200);
    assert.equal(await statusOf(basic, basic), 401);
    assert.equal(await statusOf(basic, 'Basic eDp5'), 401);
    assert.equal(await statusOf('Basic eDp5', basic), 401);
  });
});

describe('requests and errors on one connection', () => {
  const events = JSON.stringify([{ type: 'a.b', data: {} }]);
  const publish = (): string =>
    textOf(
      'POST /api/v2/events HTTP/1.1',
      [host, authorization, 'Content-Type: application/json', `Content-Length: ${events.length}`],
      events,
    );
  const head = async (): Promise<number> => {
    const { store, tenant } = fixture.auth;
    return store.log.head(tenant.id);
  };

  test('a valid request gets its response before the error of what follows', async () => {
    const list = textOf('GET /api/v2/event-streams HTTP/1.1', [host, authorization]);
    for (const [what, status] of [
      ['hello\r\n\r\n', 400],
      [`X: ${'x'.repeat(20_000)}`, 400],
      [textOf('GET / HTTP/1.1', [host, `X: ${'x'.repeat(20_000)}`]), 431],
    ] as const) {
      assert.deepEqual((await readToEnd(fixture.port, publish() + what)).statuses, [202, status]);
      const { statuses } = await readToEnd(fixture.port, list + list + publish() + what);
      assert.deepEqual(statuses, [200, 200, 202, status]);
      const apart = [list, what];
      assert.deepEqual((await readToEnd(fixture.port, apart)).statuses, [200, status]);
    }
  });

  test('a body that becomes invalid is 400 once, after the responses to earlier requests', async () => {
    const broken = textOf(
      'POST /api/v2/events HTTP/1.1',
      [host, authorization, 'Content-Type: application/json', chunked],
      'nonsense\r\n\r\n',
    );
    assert.deepEqual((await readToEnd(fixture.port, broken)).statuses, [400]);
    assert.deepEqual((await readToEnd(fixture.port, publish() + broken)).statuses, [202, 400]);
    const headBefore = await head();
    const { statuses } = await readToEnd(fixture.port, broken + publish());
    assert.deepEqual(statuses, [400]);
    assert.equal(await head(), headBefore);
  });

  test('a request that has its response gets no second one for its body', async () => {
    const rejected = textOf('POST /api/v2/events HTTP/1.1', [host, chunked], '');
    const { statuses } = await readToEnd(fixture.port, [rejected, 'nonsense\r\n\r\n']);
    assert.deepEqual(statuses, [401]);
  });

  test('requests that follow a rejected one on its connection are not served', async () => {
    const headBefore = await head();
    for (const [line, headers, status] of [
      ['GET / HTTP/1.1', [], 400],
      ['POST / HTTP/1.1', [host, 'Transfer-Encoding: gzip, chunked', 'X: y'], 501],
      ['GET / HTTP/1.1', [host, 'Expect: x'], 417],
    ] as const) {
      const text = textOf(line, headers, status === 501 ? end : '');
      assert.deepEqual((await readToEnd(fixture.port, text + publish())).statuses, [status]);
      assert.deepEqual((await readToEnd(fixture.port, [text, publish()])).statuses, [status]);
    }
    assert.equal(await head(), headBefore);
  });

  test('CONNECT after requests whose responses are under way ends the connection', async () => {
    const connect = textOf('CONNECT a:1 HTTP/1.1', [host]);
    assert.deepEqual((await readToEnd(fixture.port, publish() + connect)).statuses, []);
  });

  test('HTTP/1.0 gets no 100 Continue', async () => {
    const headers = ['Expect: 100-continue', 'Content-Type: application/json', 'Content-Length: 2'];
    const request = textOf('POST /oauth/token HTTP/1.0', [host, ...headers], '{}');
    assert.deepEqual((await readToEnd(fixture.port, request)).statuses, [400]);
  });
});
