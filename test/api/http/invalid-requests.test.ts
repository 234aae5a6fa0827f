import assert from 'node:assert/strict';
import { STATUS_CODES } from 'node:http';
import { after, before, describe, test } from 'node:test';
import { secondTenant } from '../../auth/fixture.ts';
import { exchange, messageText, type RawResponse, readToEnd } from '../../helpers/exchange.ts';
import { invalidRequests, lastChunk } from '../../helpers/invalid-requests.ts';
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

const headerLimit = 'the limit of request line and headers is 16384 bytes';

/** Asserts the error body, the rate limit headers and the end of the connection. */
function assertRejected(response: RawResponse, status: number, what: string): void {
  const error = STATUS_CODES[status];
  assert.equal(response.status, status, what);
  const message = status === 431 ? `${error}: ${headerLimit}` : error;
  assert.deepEqual(JSON.parse(response.body), { statusCode: status, error, message }, what);
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

const cases: typeof invalidRequests = [
  ...invalidRequests,
  [
    'an unknown expectation',
    (path) => messageText(`GET ${path} HTTP/1.1`, [host, 'Expect: x']),
    417,
  ],
];

describe('a request that is not served', () => {
  for (const [what, textFor, status] of cases) {
    test(`${what}: ${status} with the error body and rate limit headers, on every path`, async () => {
      for (const path of paths) {
        const response = await exchange(fixture.port, Buffer.from(textFor(path), 'latin1'));
        assertRejected(response, status, path);
        // What follows is not read as a request.
        const next = messageText('GET /healthz HTTP/1.1', [host]);
        assert.deepEqual((await readToEnd(fixture.port, textFor(path) + next)).statuses, [status]);
      }
    });
  }

  test('CONNECT is 405 with the methods of the API', async () => {
    for (const target of ['example.com:443', 'localhost:80']) {
      const response = await exchange(
        fixture.port,
        messageText(`CONNECT ${target} HTTP/1.1`, [host]),
      );
      assert.equal(response.status, 405);
      assert.equal(response.headers['allow'], 'DELETE, GET, HEAD, PATCH, POST, PUT');
      assert.equal(response.headers['connection'], 'close');
      assert.ok('x-ratelimit-remaining' in response.headers);
      const error = 'Method Not Allowed';
      const message = `${error}: accepted is DELETE, GET, HEAD, PATCH, POST, PUT`;
      assert.deepEqual(JSON.parse(response.body), { statusCode: 405, error, message });
    }
    const both =
      messageText('CONNECT a:1 HTTP/1.1', [host]) + messageText('GET /healthz HTTP/1.1', [host]);
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
    assert.deepEqual(await remaining(messageText('GET /x HTTP/1.1', [])), [400, '1']);
    assert.deepEqual(await remaining(messageText('CONNECT a:1 HTTP/1.1', [host])), [405, '0']);
    const rejected = await exchange(limited.port, messageText('GET /x HTTP/1.1', []));
    assert.equal(rejected.status, 429);
    assert.equal(rejected.headers['retry-after'], '1');
    assert.equal(JSON.parse(rejected.body).errorCode, 'too_many_requests');
    assert.deepEqual(await remaining('hello\r\n\r\n'), [400, '0']);
  });

  test('OPTIONS * is 404', async () => {
    const { status, body } = await exchange(
      fixture.port,
      messageText('OPTIONS * HTTP/1.1', [host]),
    );
    assert.equal(status, 404);
    assert.equal(JSON.parse(body).message, 'Not Found: no resource has the path *');
  });
});

describe('the absolute form of a request target', () => {
  test('the host of the target selects the tenant, not the Host header', async (t) => {
    const shared = await openApiFixture();
    t.after(() => shared.close());
    await secondTenant(shared.auth, 'other.example.com');
    await waitFor('both tenants', async () => {
      const request = messageText('GET /.well-known/openid-configuration HTTP/1.1', [
        'Host: other.example.com',
      ]);
      return (await exchange(shared.port, request)).body.includes('https://other.example.com/');
    });
    const issuerOf = async (target: string, header: string): Promise<string> => {
      const request = messageText(`GET ${target}/.well-known/openid-configuration HTTP/1.1`, [
        `Host: ${header}`,
      ]);
      const { status, body } = await exchange(shared.port, request);
      return status === 200 ? JSON.parse(body).issuer : String(status);
    };
    const [one, two] = ['leat.example.com', 'other.example.com'];
    assert.equal(await issuerOf(`http://${one}`, two), `https://${one}/`);
    assert.equal(await issuerOf(`http://${two}:80`, one), `https://${two}/`);
    assert.equal(await issuerOf(`HTTPS://${two.toUpperCase()}`, one), `https://${two}/`);
    assert.equal(await issuerOf('http://nobody', two), `https://${one}/`, 'an unknown host');
    assert.equal(await issuerOf('', two), `https://${two}/`);
    const streams = [`GET http://${two}/api/v2/event-streams HTTP/1.1`, `Host: ${one}`] as const;
    const bearer = `Authorization: Bearer ${shared.token}`;
    const ofOther = messageText(streams[0], [streams[1], bearer]);
    assert.equal((await exchange(shared.port, ofOther)).status, 401, 'a token of the Host');
  });

  test('a trusted proxy still selects the tenant by X-Forwarded-Host', async (t) => {
    const shared = await openApiFixture({ trustProxy: ['127.0.0.1'] });
    t.after(() => shared.close());
    await secondTenant(shared.auth, 'other.example.com');
    const request = messageText('GET http://nobody/.well-known/openid-configuration HTTP/1.1', [
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
      (await exchange(fixture.port, messageText(line, [host, authorization]))).status;
    const origin = 'http://localhost/api/v2';
    assert.equal(await statusOf(`GET ${origin}/event-streams?take=1 HTTP/1.1`), 200);
    assert.equal(await statusOf(`GET ${origin}/event-streams?take=x HTTP/1.1`), 400);
    assert.equal(await statusOf(`PUT ${origin}/event-streams HTTP/1.1`), 405);
    assert.equal(await statusOf(`GET ${origin}/users/% HTTP/1.1`), 400);
    assert.equal(await statusOf(`GET ${origin}/users/ HTTP/1.1`), 404);
    assert.equal(await statusOf('GET http://localhost?x HTTP/1.1'), 302);
    const nowhere = await exchange(fixture.port, messageText(`GET ${origin}/no HTTP/1.1`, [host]));
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
        const request = messageText('GET /api/v2/event-streams HTTP/1.1', [host, ...lines]);
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
      const request = messageText('POST /oauth/token HTTP/1.1', headers, body);
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
    messageText(
      'POST /api/v2/events HTTP/1.1',
      [host, authorization, 'Content-Type: application/json', `Content-Length: ${events.length}`],
      events,
    );
  const head = async (): Promise<number> => {
    const { store, tenant } = fixture.auth;
    return store.log.head(tenant.id);
  };

  test('a valid request gets its response before the error of what follows', async () => {
    const list = messageText('GET /api/v2/event-streams HTTP/1.1', [host, authorization]);
    for (const [what, status] of [
      ['hello\r\n\r\n', 400],
      [`X: ${'x'.repeat(20_000)}`, 400],
      [messageText('GET / HTTP/1.1', [host, `X: ${'x'.repeat(20_000)}`]), 431],
    ] as const) {
      assert.deepEqual((await readToEnd(fixture.port, publish() + what)).statuses, [202, status]);
      const { statuses } = await readToEnd(fixture.port, list + list + publish() + what);
      assert.deepEqual(statuses, [200, 200, 202, status]);
      const apart = [list, what];
      assert.deepEqual((await readToEnd(fixture.port, apart)).statuses, [200, status]);
    }
  });

  test('a body that becomes invalid is 400 once, after the responses to earlier requests', async () => {
    const broken = messageText(
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
    const rejected = messageText('POST /api/v2/events HTTP/1.1', [host, chunked], '');
    const { statuses } = await readToEnd(fixture.port, [rejected, 'nonsense\r\n\r\n']);
    assert.deepEqual(statuses, [401]);
    // Behind another request the error is there before the request is served.
    const list = messageText('GET /api/v2/event-streams HTTP/1.1', [host, authorization]);
    const piped = await readToEnd(fixture.port, `${list}${rejected}nonsense\r\n\r\n`);
    assert.deepEqual(piped.statuses, [200, 400]);
  });

  test('the connection ends after a request for an upgrade, and what follows is not served', async () => {
    const headers = [host, 'Connection: Upgrade', 'Upgrade: h2c'];
    const upgrade = messageText('GET /api/v2/event-streams HTTP/1.1', [...headers, authorization]);
    const headBefore = await head();
    for (const parts of [upgrade, upgrade + publish(), [upgrade, publish()]]) {
      const { statuses, text } = await readToEnd(fixture.port, parts);
      assert.deepEqual(statuses, [200]);
      assert.match(text, /^connection: close\r$/im);
    }
    assert.equal(await head(), headBefore);
  });

  test('requests that follow a rejected one on its connection are not served', async () => {
    const headBefore = await head();
    for (const [line, headers, status] of [
      ['GET / HTTP/1.1', [], 400],
      ['POST / HTTP/1.1', [host, 'Transfer-Encoding: gzip, chunked', 'X: y'], 501],
      ['GET / HTTP/1.1', [host, 'Expect: x'], 417],
    ] as const) {
      const text = messageText(line, headers, status === 501 ? lastChunk : '');
      assert.deepEqual((await readToEnd(fixture.port, text + publish())).statuses, [status]);
      assert.deepEqual((await readToEnd(fixture.port, [text, publish()])).statuses, [status]);
    }
    assert.equal(await head(), headBefore);
  });

  test('CONNECT after requests whose responses are under way ends the connection', async () => {
    const connect = messageText('CONNECT a:1 HTTP/1.1', [host]);
    assert.deepEqual((await readToEnd(fixture.port, publish() + connect)).statuses, []);
  });

  test('HTTP/1.0 gets no 100 Continue', async () => {
    const headers = ['Expect: 100-continue', 'Content-Type: application/json', 'Content-Length: 2'];
    const request = messageText('POST /oauth/token HTTP/1.0', [host, ...headers], '{}');
    assert.deepEqual((await readToEnd(fixture.port, request)).statuses, [400]);
  });
});
