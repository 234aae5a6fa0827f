import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { startEndpoint, type Endpoint } from '../helpers/endpoint.ts';
import { exchange, requestText } from '../helpers/exchange.ts';
import { makePlace, startLeat, type Place, type Running } from '../helpers/leat.ts';
import {
  answered,
  bearer,
  createStream,
  narrowToken,
  streamBody,
  type ProblemBody,
  type StreamBody,
} from '../helpers/api-client.ts';

let place: Place;
let leat: Running;
let endpoint: Endpoint;
let stream: StreamBody;

before(async () => {
  place = await makePlace();
  leat = await startLeat(place);
  endpoint = await startEndpoint();
  stream = await createStream(leat, endpoint.url);
});
after(async () => {
  await leat.kill();
  await endpoint.close();
  await place.remove();
});

const noStream = 'est_AAAAAAAAAAAAAAAAAAAAAA';
const noEvent = 'evt_AAAAAAAAAAAAAAAAAAAAAA';
const noReplay = 'rpl_AAAAAAAAAAAAAAAAAAAAAA';
const noUser = encodeURIComponent('leat|000000000000000000000000');

/** Method, path under `/api/v2`, and the scopes of which one is enough. */
const operations: readonly (readonly [string, string, readonly string[]])[] = [
  ['GET', '/event-streams', ['read:event_streams']],
  ['POST', '/event-streams', ['create:event_streams']],
  ['GET', `/event-streams/${noStream}`, ['read:event_streams']],
  ['PATCH', `/event-streams/${noStream}`, ['update:event_streams']],
  ['DELETE', `/event-streams/${noStream}`, ['delete:event_streams']],
  ['GET', `/event-streams/${noStream}/deliveries`, ['read:event_streams', 'read:event_deliveries']],
  ['GET', `/event-streams/${noStream}/deliveries/${noEvent}`, ['read:event_deliveries']],
  ['POST', `/event-streams/${noStream}/redeliver/${noEvent}`, ['update:event_deliveries']],
  ['POST', `/event-streams/${noStream}/redeliver`, ['update:event_deliveries']],
  ['POST', `/event-streams/${noStream}/test`, ['update:event_streams']],
  ['GET', `/event-streams/${noStream}/stats`, ['read:event_streams', 'read:event_deliveries']],
  ['POST', `/event-streams/${noStream}/replay`, ['update:event_deliveries']],
  ['GET', `/event-streams/${noStream}/replay/${noReplay}`, ['read:event_deliveries']],
  ['DELETE', `/event-streams/${noStream}/replay/${noReplay}`, ['update:event_deliveries']],
  ['GET', `/event-streams/${noStream}/signing-secret`, ['update:event_streams']],
  ['POST', `/event-streams/${noStream}/signing-secret/rotate`, ['update:event_streams']],
  ['POST', '/events', ['create:events']],
  ['POST', '/users', ['create:users']],
  ['GET', '/users', ['read:users']],
  ['GET', '/users-by-email', ['read:users']],
  ['GET', `/users/${noUser}`, ['read:users']],
  ['PATCH', `/users/${noUser}`, ['update:users']],
  ['DELETE', `/users/${noUser}`, ['delete:users']],
  ['POST', '/clients', ['create:clients']],
  ['GET', '/clients', ['read:clients']],
  ['GET', '/clients/nobody', ['read:clients']],
  ['PATCH', '/clients/nobody', ['update:clients']],
  ['DELETE', '/clients/nobody', ['delete:clients']],
  ['POST', '/clients/nobody/rotate-secret', ['update:clients']],
  ['POST', '/resource-servers', ['create:resource_servers']],
  ['GET', '/resource-servers', ['read:resource_servers']],
  ['GET', '/resource-servers/none', ['read:resource_servers']],
  ['PATCH', '/resource-servers/none', ['update:resource_servers']],
  ['DELETE', '/resource-servers/none', ['delete:resource_servers']],
  ['POST', '/client-grants', ['create:client_grants']],
  ['GET', '/client-grants', ['read:client_grants']],
  ['PATCH', '/client-grants/none', ['update:client_grants']],
  ['DELETE', '/client-grants/none', ['delete:client_grants']],
];

const paths = [...new Set(operations.map(([, path]) => path))];

describe('every operation', () => {
  for (const [method, path, scopes] of operations) {
    test(`${method} ${path} asks for a token, then for its scope`, async () => {
      const anonymous = await fetch(`${leat.url}/api/v2${path}`, { method });
      assert.equal(anonymous.headers.get('www-authenticate'), `Bearer realm="${domain()}"`);
      assert.deepEqual(await answered(401, anonymous), {
        statusCode: 401,
        error: 'Unauthorized',
        message: 'Missing authentication',
      });

      const others = await narrowToken(leat, otherThan(scopes));
      const forbidden = await leat.send(method, `/api/v2${path}`, undefined, bearer(others));
      assert.equal(
        forbidden.headers.get('www-authenticate'),
        `Bearer error="insufficient_scope", scope="${scopes.join(' ')}"`,
      );
      assert.deepEqual(await answered(403, forbidden), {
        statusCode: 403,
        error: 'Forbidden',
        message: `Insufficient scope; expected any of: ${scopes.join(',')}`,
        errorCode: 'insufficient_scope',
      });

      for (const scope of scopes) {
        const enough = bearer(await narrowToken(leat, scope));
        const { status } = await leat.send(method, `/api/v2${path}`, undefined, enough);
        assert.ok([200, 202, 204, 400, 404].includes(status), `${scope}: ${status}`);
      }
    });
  }

  test('answers with the common headers, whatever it answers', async () => {
    const answers = await Promise.all([
      leat.send('GET', '/api/v2/event-streams'),
      leat.send('POST', '/api/v2/event-streams', streamBody(endpoint.url)),
      leat.send('POST', '/api/v2/event-streams', '{'),
      leat.send('DELETE', `/api/v2/event-streams/${noStream}`),
      leat.send('GET', `/api/v2/event-streams/${noStream}`),
      leat.send('GET', '/api/v2/event-streams', undefined, { authorization: '' }),
      leat.send('GET', '/api/v2/nowhere'),
      leat.send('PUT', '/api/v2/event-streams'),
      leat.send('POST', '/api/v2/event-streams', 'x', { 'content-type': 'text/plain' }),
      leat.send('POST', '/api/v2/event-streams', 'x'.repeat(2 << 20)),
      leat.send('GET', '/api/v2/event-streams/%ff'),
      leat.send('HEAD', '/api/v2/event-streams'),
    ]);
    for (const { status, headers } of answers) {
      assert.equal(headers.get('cache-control'), 'no-store', String(status));
      assert.equal(headers.get('x-content-type-options'), 'nosniff', String(status));
      const type = status === 204 ? null : 'application/json; charset=utf-8';
      assert.equal(headers.get('content-type'), type, String(status));
      for (const name of ['limit', 'remaining', 'reset']) {
        assert.match(headers.get(`x-ratelimit-${name}`) ?? '', /^[0-9]+$/, `${name} of ${status}`);
      }
      for (const name of ['access-control-allow-origin', 'x-powered-by', 'server']) {
        assert.equal(headers.get(name), null);
      }
    }
    assert.deepEqual(
      answers.map(({ status }) => status),
      [200, 201, 400, 204, 404, 401, 404, 405, 415, 413, 400, 200],
    );
  });

  test('answers HEAD as GET without a body', async () => {
    for (const path of [`/event-streams/${stream.id}`, `/event-streams/${noStream}`]) {
      const [get, head] = await Promise.all([
        leat.send('GET', `/api/v2${path}`),
        leat.send('HEAD', `/api/v2${path}`),
      ]);
      assert.equal(head.status, get.status);
      assert.equal(await head.text(), '');
      assert.equal(head.headers.get('content-length'), get.headers.get('content-length'));
      assert.equal(head.headers.get('content-type'), get.headers.get('content-type'));
    }
  });
});

describe('a path that is known', () => {
  for (const path of paths) {
    test(`${path} answers 405 to other methods, before any token`, async () => {
      const own = operations.filter(([, at]) => at === path).map(([method]) => method);
      const others = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE', 'PROPFIND'];
      for (const method of others.filter((each) => !own.includes(each))) {
        // GET /events is the pull.
        if (path === '/events' && method === 'GET') continue;
        const request = requestText(`${method} /api/v2${path}`, ['Content-Length: 0']);
        const answer = await exchange(leat.port, request);
        assert.equal(answer.status, 405, `${method}: ${answer.body}`);
        const allowed = (answer.headers['allow'] ?? '').split(/, ?/);
        for (const each of own) assert.ok(allowed.includes(each), `Allow: ${allowed.join()}`);
        assert.ok(!allowed.includes(method));
        assert.deepEqual(JSON.parse(answer.body), {
          statusCode: 405,
          error: 'Method Not Allowed',
          message: 'Method Not Allowed',
        });
      }
    });
  }
});

describe('a path that is not known', () => {
  const unknown = [
    '/',
    '/api',
    '/api/v2',
    '/api/v2/',
    '/api/v1/event-streams',
    '/api/v2//event-streams',
    '/API/v2/event-streams',
    '/api/v2/Event-Streams',
    '/api/v2/event-streams;x=1',
    '/api/v2/event-streamsx',
    `/api/v2/event-streams/${noStream}/`,
    `/api/v2/event-streams/${noStream}/nothing`,
    `/api/v2/event-streams/${noStream}/deliveries/${noEvent}/more`,
    '/api/v2/__proto__',
    '/api/v2/constructor',
    '/etc/passwd',
    '/api/v2/../../etc/passwd',
    '/api/v2/%2e%2e/%2e%2e/etc/passwd',
    '/.env',
    '/data/leat.db',
    '/.well-known/',
    '/.well-known/nothing',
  ];
  for (const path of unknown) {
    test(`${path} is 404, with and without a token`, async () => {
      for (const credentials of [[], [`Authorization: Bearer ${leat.token}`]]) {
        for (const method of ['GET', 'POST', 'DELETE']) {
          const head = [...credentials, 'Content-Length: 0'];
          const answer = await exchange(leat.port, requestText(`${method} ${path}`, head));
          assert.equal(answer.status, 404, `${method} ${answer.body}`);
          assert.deepEqual(JSON.parse(answer.body), {
            statusCode: 404,
            error: 'Not Found',
            message: 'Not Found',
          });
        }
      }
    });
  }
});

describe('an id in a path', () => {
  const ok = 'A'.repeat(22);
  const bad = [
    'est_',
    'nonsense',
    `est_${ok}A`,
    `est_${ok.slice(1)}`,
    `EST_${ok}`,
    `evt_${ok}`,
    `est_${ok.slice(1)}-`,
    `est_${ok.slice(1)}%C3%A4`,
    `est_${ok}%00`,
    `est_${ok}%0a`,
    `%20est_${ok}`,
    `est_${ok}'--`,
    'a%2Fb',
    'x'.repeat(5000),
  ];
  for (const id of bad) {
    test(`${id.slice(0, 40)} is no stream's, on every route`, async () => {
      for (const [method, path] of operations.filter(([, at]) => at.includes(noStream))) {
        const answer = leat.send(method, `/api/v2${path.replace(noStream, id)}`);
        const refused = await answered<ProblemBody>(400, answer);
        const shown = decodeURIComponent(id).slice(0, 100);
        assert.deepEqual(refused, {
          statusCode: 400,
          error: 'Bad Request',
          message:
            "Path validation error: 'Object didn't pass validation for format event-stream-id: " +
            `${shown}' on property id (Unique identifier for the event stream).`,
          errorCode: 'invalid_uri',
        });
      }
    });
  }

  test('that is no event is refused with the words for events', async () => {
    for (const [method, rest] of [
      ['GET', 'deliveries'],
      ['POST', 'redeliver'],
    ] as const) {
      const path = `/api/v2/event-streams/${stream.id}/${rest}/${stream.id}`;
      const refused = await answered<ProblemBody>(400, leat.send(method, path));
      assert.equal(
        refused.message,
        "Path validation error: 'Object didn't pass validation for format event-id: " +
          `${stream.id}' on property event_id (Unique identifier for the event).`,
      );
      assert.equal(refused.errorCode, 'invalid_uri');
    }
  });

  test('that is no percent-encoding is the client’s mistake', async () => {
    for (const id of ['%', '%zz', '%ff', '%c3%28', 'a%']) {
      const request = requestText(`GET /api/v2/event-streams/${id}`, [
        `Authorization: Bearer ${leat.token}`,
      ]);
      const { status } = await exchange(leat.port, request);
      assert.ok(status === 400 || status === 404, `${id}: ${status}`);
    }
  });
});

describe('the order of checks', () => {
  test('the path comes before the query, both before the body', async () => {
    const bad = '/api/v2/event-streams/nonsense';
    const path = await answered<ProblemBody>(400, leat.send('PATCH', bad, '{'));
    assert.equal(path.errorCode, 'invalid_uri');
    const list = leat.send('GET', `${bad}/deliveries?take=0`);
    assert.equal((await answered<ProblemBody>(400, list)).errorCode, 'invalid_uri');
  });

  test('size comes before content, content before existence, existence before conflict', async () => {
    const none = `/api/v2/event-streams/${noStream}`;
    await answered(413, leat.send('PATCH', '/api/v2/event-streams/bad', 'x'.repeat(2 << 20)));
    await answered(400, leat.send('PATCH', none, { name: '' }));
    await answered(404, leat.send('PATCH', none, { name: stream.name }));
    await answered(404, leat.send('GET', `${none}/deliveries/${noEvent}`));
    await answered(400, leat.send('GET', `${none}/stats?date_from=never`));
  });

  test('a name that is taken is 409 on create and update, not for its own stream', async () => {
    const taken = {
      statusCode: 409,
      error: 'Conflict',
      message: 'Event stream name already in use.',
      errorCode: 'stream_name_in_use',
    };
    const body = streamBody(endpoint.url, { name: stream.name });
    assert.deepEqual(await answered(409, leat.send('POST', '/api/v2/event-streams', body)), taken);
    const other = await createStream(leat, endpoint.url);
    const rename = { name: stream.name };
    const path = `/api/v2/event-streams/${other.id}`;
    assert.deepEqual(await answered(409, leat.send('PATCH', path, rename)), taken);
    await answered(200, leat.send('PATCH', `/api/v2/event-streams/${stream.id}`, rename));
  });

  test('members that are made by Leat cannot be sent', async () => {
    for (const member of ['id', 'created_at', 'updated_at']) {
      const body = { ...streamBody(endpoint.url), [member]: stream.id };
      const refused = await answered<ProblemBody>(
        400,
        leat.send('POST', '/api/v2/event-streams', body),
      );
      assert.match(refused.message, new RegExp(`Additional properties not allowed: ${member}`));
    }
  });
});

describe('what needs no token', () => {
  test('the well-known documents name the configured domain, whatever Host says', async () => {
    for (const host of [domain(), 'evil.example.com']) {
      const request = `GET /.well-known/openid-configuration HTTP/1.1\r\nHost: ${host}\r\n\r\n`;
      const answer = await exchange(leat.port, request);
      assert.equal(answer.status, 200);
      const document = JSON.parse(answer.body) as Record<string, unknown>;
      assert.equal(document['issuer'], `http://${domain()}/`);
      assert.equal(document['jwks_uri'], `http://${domain()}/.well-known/jwks.json`);
      assert.ok(!answer.body.includes('evil'));
    }
    const keys = await answered<{ keys: Record<string, string>[] }>(
      200,
      fetch(`${leat.url}/.well-known/jwks.json`),
    );
    assert.deepEqual(
      keys.keys.map((key) => Object.keys(key).toSorted()),
      [['alg', 'e', 'kid', 'kty', 'n', 'use']],
    );
  });

  test('health, readiness and the OpenAPI document answer', async () => {
    for (const path of ['/healthz', '/readyz']) {
      assert.equal((await fetch(leat.url + path)).status, 200);
    }
    const openapi = await answered<{ openapi: string; info: { version: string }; paths: object }>(
      200,
      fetch(`${leat.url}/api/v2/openapi.json`),
    );
    assert.match(openapi.openapi, /^3\.1\./);
    assert.equal(openapi.info.version, '2.0');
    const lifecycles = [
      'Early Access',
      'Generally Available',
      'Deprecated',
      'Planned',
      'Beta',
    ] as const;
    const documented = Object.entries(openapi.paths).flatMap(([path, item]) =>
      Object.entries(item as Record<string, Record<string, unknown>>).map(([method, operation]) => {
        assert.ok(lifecycles.includes(operation['x-release-lifecycle'] as 'Beta'), path);
        return `${method.toUpperCase()} ${path.replaceAll(/\{\w+\}/g, '{}')}`;
      }),
    );
    for (const [method, path] of operations) {
      const shape = path
        .replace(noStream, '{}')
        .replace(noEvent, '{}')
        .replace(noReplay, '{}')
        .replace(noUser, '{}')
        .replace(/\/(nobody|none)\b/, '/{}');
      const ends = documented.some((line) => line.startsWith(method) && line.endsWith(shape));
      assert.ok(ends, `${method} ${shape} is not documented`);
    }
  });

  test('two Host headers are refused, for one of them would choose the tenant', async () => {
    const hosts = `Host: ${domain()}\r\nHost: other.example.com`;
    for (const path of ['/api/v2/event-streams', '/.well-known/openid-configuration']) {
      const { status } = await exchange(leat.port, `GET ${path} HTTP/1.1\r\n${hosts}\r\n\r\n`);
      assert.equal(status, 400, path);
    }
  });

  test('what is no request of HTTP is answered with 400 or hung up on', async () => {
    const requests = [
      'nonsense\r\n\r\n',
      'GET / HTTP/9.9\r\n\r\n',
      'GET /healthz HTTP/1.1\r\n\r\n',
      `GET /${'x'.repeat(100_000)} HTTP/1.1\r\nHost: a\r\n\r\n`,
      `GET / HTTP/1.1\r\nHost: a\r\nX: ${'y'.repeat(100_000)}\r\n\r\n`,
      'POST /oauth/token HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n',
      'POST /oauth/token HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n',
      Buffer.from('\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03', 'latin1'),
    ];
    for (const request of requests) {
      const { status } = await exchange(leat.port, request);
      const isRefused = status === 0 || (status >= 400 && status < 500);
      assert.ok(isRefused, `${status} to ${String(request).slice(0, 80)}`);
    }
    assert.equal((await fetch(`${leat.url}/healthz`)).status, 200);
  });
});

/** Every scope of the routes above but these, for a token that may nearly everything. */
function otherThan(scopes: readonly string[]): string {
  const all = new Set(operations.flatMap(([, , each]) => each));
  for (const scope of scopes) all.delete(scope);
  return [...all].join(' ');
}

function domain(): string {
  return `localhost:${leat.port}`;
}
