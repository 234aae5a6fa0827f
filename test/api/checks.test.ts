import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { createTrustedIssuers } from '../../src/auth/remote-keys.ts';
import { systemClock } from '../../src/clock.ts';
import { describedOperations } from '../../src/api/operations.ts';
import { StoreUnavailable } from '../../src/core/errors.ts';
import type { Store } from '../../src/store/port/store.ts';
import { exchange, requestText } from '../helpers/exchange.ts';
import {
  allScopesBut,
  assertNotFound,
  assertProblem,
  openApiFixture,
  type ApiFixture,
  type ApiResponse,
} from './fixture.ts';

/** Nobody listens there. */
const deadIssuer = 'http://127.0.0.1:1/';
const deps = { fetch, clock: systemClock, report: () => undefined };

/** The error that some commands of {@link broken} fail with. */
const fault: { error: Error | undefined } = { error: undefined };
let fixture: ApiFixture;

before(async () => {
  fixture = await openApiFixture(
    {},
    { around: broken, trusted: createTrustedIssuers(deps, [deadIssuer]) },
  );
});
after(() => fixture.close());

/** Returns a store whose ping, appends and list of streams fail while a fault is set. */
function broken(store: Store): Store {
  const failing =
    <A extends unknown[], T>(command: (...args: A) => Promise<T>) =>
    (...args: A): Promise<T> =>
      fault.error === undefined ? command(...args) : Promise.reject(fault.error);
  return {
    ...store,
    ping: failing(store.ping),
    log: { ...store.log, append: failing(store.log.append) },
    streams: { ...store.streams, list: failing(store.streams.list) },
  };
}

async function withFault(error: Error, work: () => Promise<void>): Promise<void> {
  fault.error = error;
  try {
    await work();
  } finally {
    fault.error = undefined;
  }
}

const json = { 'content-type': 'application/json' };
const stream = '/event-streams/est_AAAAAAAAAAAAAAAAAAAAAA';

describe('headers of a response', () => {
  test('a response has the common headers and those of the rate limit', async () => {
    const { headers } = await fixture.send('GET', '/event-streams');
    assert.equal(headers.get('content-type'), 'application/json; charset=utf-8');
    assert.equal(headers.get('cache-control'), 'no-store');
    assert.equal(headers.get('x-content-type-options'), 'nosniff');
    assert.match(headers.get('x-ratelimit-limit') ?? '', /^\d+$/);
    assert.match(headers.get('x-ratelimit-remaining') ?? '', /^\d+$/);
    assert.match(headers.get('x-ratelimit-reset') ?? '', /^\d{10}$/);
    assert.equal(headers.get('access-control-allow-origin'), null);
  });

  test('every error response has them too', async () => {
    const responses = [
      await fixture.raw('GET', '/api/v2/event-streams'),
      await fixture.raw('GET', '/api/v2/nowhere'),
      await fixture.raw('PUT', '/api/v2/event-streams'),
      await fixture.raw('GET', '/api/v2'),
      await fixture.raw('GET', '/api/v2/openapi.json'),
      await fixture.raw('PUT', '/oauth/token'),
      await fixture.raw('PUT', '/.well-known/jwks.json'),
      await fixture.raw('GET', '/.well-known/nothing'),
      await fixture.raw('PUT', '/readyz'),
      await fixture.raw('PUT', '/docs'),
      await fixture.raw('GET', '/docs/nothing'),
      await fixture.raw('PUT', '/console/session'),
      await fixture.raw('GET', '/console/assets/nothing'),
      await fixture.raw('GET', '/nowhere'),
      await fixture.send('POST', '/event-streams', '{'),
      await fixture.send('GET', `${stream}x`),
    ];
    for (const { headers, text } of responses) {
      assert.ok(headers.has('x-ratelimit-limit'), text);
      assert.ok(headers.has('x-ratelimit-remaining'), text);
      assert.ok(headers.has('x-ratelimit-reset'), text);
      assert.equal(headers.get('cache-control'), 'no-store', text);
      assert.equal(headers.get('x-content-type-options'), 'nosniff', text);
    }
  });

  test('204 has no body and no media type', async () => {
    const response = await fixture.send('DELETE', stream);
    assert.equal(response.status, 204);
    assert.equal(response.text, '');
    assert.equal(response.headers.get('content-type'), null);
    assert.ok(response.headers.has('x-ratelimit-limit'));
  });

  test('HEAD gets the response to GET without its body', async () => {
    const get = await fixture.send('GET', '/event-streams');
    const head = await fixture.send('HEAD', '/event-streams');
    assert.equal(head.status, 200);
    assert.equal(head.text, '');
    assert.equal(head.headers.get('content-length'), get.headers.get('content-length'));
    assert.equal((await fixture.raw('HEAD', '/api/v2/event-streams')).status, 401);
  });
});

describe('routes', () => {
  test('an unknown path is 404', async () => {
    for (const path of ['/nowhere', '/event-streams/x/', '/Event-Streams', '/events/x/y', '']) {
      assertNoPath(await fixture.send('GET', `${path}?secret=1`), `/api/v2${path}`);
    }
    assertNoPath(await fixture.raw('GET', '/nowhere'), '/nowhere');
    assertNoPath(await fixture.raw('POST', '/nowhere', 'x'), '/nowhere');
    const long = `/${'x'.repeat(200)}`;
    assertNoPath(await fixture.raw('GET', long), long.slice(0, 100));
    assertNoPath(await fixture.raw('GET', '/console/assets/none.js'), '/console/assets/none.js');
  });

  test('another method is 405 with the methods of the path', async () => {
    const cases: [method: string, path: string, allow: string][] = [
      ['PUT', '/api/v2/event-streams', 'GET, HEAD, POST'],
      ['POST', `/api/v2${stream}`, 'DELETE, GET, HEAD, PATCH'],
      ['OPTIONS', '/api/v2/events', 'GET, HEAD, POST'],
      ['PUT', '/api/v2/events', 'GET, HEAD, POST'],
      ['DELETE', '/healthz', 'GET, HEAD'],
      ['GET', '/oauth/token', 'POST'],
      ['POST', '/api/v2/openapi.json', 'GET, HEAD'],
    ];
    for (const [method, path, allow] of cases) {
      const response = await fixture.raw(method, path);
      assertProblem(response, 405, `Method Not Allowed: accepted is ${allow}`);
      assert.equal(response.headers.get('allow'), allow, `${method} ${path}`);
    }
  });

  test('404 and 405 come before 401, whatever the body', async () => {
    const bad = { authorization: 'Bearer nonsense', 'content-type': ';;' };
    assert.equal((await fixture.raw('PUT', `/api/v2${stream}`, '{', bad)).status, 405);
    assert.equal((await fixture.raw('POST', '/api/v2/nowhere', '{', bad)).status, 404);
  });

  test('methods that Fastify does not know are 405 and 404 too', async () => {
    for (const method of ['PROPFIND', 'TRACE', 'MKCOL', 'LOCK', 'QUERY']) {
      const known = requestText(`${method} /api/v2/event-streams`, ['Content-Length: 0']);
      const unknown = requestText(`${method} /api/v2/nowhere`, ['Content-Length: 0']);
      assert.equal((await exchange(fixture.port, known)).status, 405, method);
      assert.equal((await exchange(fixture.port, unknown)).status, 404, method);
    }
  });

  const nouns = ['event-streams', 'users', 'clients', 'resource-servers', 'client-grants', 'roles'];

  test('malformed percent-encoding of a path parameter is 400, after the token is checked', async () => {
    for (const id of ['%', '%ZZ', '%E0%A4%A', '%FF%FE', 'a%2', '%c0%af', 'a%7Cb%', '%u0041']) {
      for (const noun of nouns) {
        for (const line of [`DELETE /api/v2/${noun}/${id}`, `DELETE /api/v2/${noun}/${id}?a=%`]) {
          assert.equal((await exchange(fixture.port, requestText(line, []))).status, 401, line);
          const authorized = requestText(line, [`Authorization: Bearer ${fixture.token}`]);
          const { status, body } = await exchange(fixture.port, authorized);
          assert.equal(status, 400, line);
          const { message, errorCode } = JSON.parse(body);
          assert.equal(errorCode, 'invalid_uri');
          const property = noun === 'clients' ? 'client_id' : 'id';
          const start = `Path validation error: 'Not valid percent-encoding' on property ${property} (`;
          assert.ok(message.startsWith(start), message);
        }
      }
    }
  });

  test('malformed percent-encoding is found in the parameter that has it', async () => {
    const id = 'est%5FAAAAAAAAAAAAAAAAAAAAAA';
    const path = `/api/v2/%65vent-streams/${id}/deliveries/%`;
    const request = requestText(`GET ${path}`, [`Authorization: Bearer ${fixture.token}`]);
    const { status, body } = await exchange(fixture.port, request);
    assert.equal(status, 400);
    assert.match(JSON.parse(body).message, /on property event_id \(/);
  });

  test('malformed percent-encoding outside of path parameters is 404', async () => {
    for (const path of ['/api/v2/users%', '/api/v2/%/x', '/%', '/healthz%', '/api/v2/users/x/%']) {
      const request = requestText(`GET ${path}`, [`Authorization: Bearer ${fixture.token}`]);
      assert.equal((await exchange(fixture.port, request)).status, 404, path);
    }
  });

  test('an encoded percent sign is part of an id', async () => {
    for (const id of ['%25', '%25ZZ', 'a%252']) {
      assert.equal((await fixture.send('GET', `/users/${id}`)).status, 404, id);
      assert.equal((await fixture.send('GET', `/event-streams/${id}`)).status, 400, id);
    }
    for (const id of ['%00', '%2e%2e']) {
      const line = `GET /api/v2/event-streams/${id}`;
      const request = requestText(line, [`Authorization: Bearer ${fixture.token}`]);
      const { body } = await exchange(fixture.port, request);
      assert.equal(JSON.parse(body).errorCode, 'invalid_uri', id);
    }
  });

  test('the query begins at the question mark, not at a number sign', async () => {
    for (const [end, status] of [
      ['#take=x', 200],
      ['#x?take=1', 200],
      ['#x?take=x', 400],
    ] as const) {
      const line = `GET /api/v2/event-streams${end}`;
      const request = requestText(line, [`Authorization: Bearer ${fixture.token}`]);
      assert.equal((await exchange(fixture.port, request)).status, status, end);
    }
  });

  test('a path with an empty parameter is 404, with any method and token', async () => {
    for (const noun of nouns) {
      for (const path of [`/${noun}/`, `/${noun}//`, `/${noun}//x`, `/${noun}/?take=x`]) {
        for (const method of ['GET', 'PATCH', 'DELETE', 'PUT']) {
          const body = method === 'GET' ? undefined : '{';
          assertNoPath(await fixture.send(method, path, body), `/api/v2${path}`);
        }
        assertNoPath(await fixture.raw('GET', `/api/v2${path}`), `/api/v2${path}`);
      }
    }
    for (const { path } of describedOperations().filter(({ params }) => params !== undefined)) {
      const empty = path.replaceAll(/:[a-z_]+/g, '');
      assertNoPath(await fixture.send('PATCH', empty, '{'), `/api/v2${empty}`);
      assertNoPath(await fixture.send('POST', empty, '{'), `/api/v2${empty}`);
    }
  });

  test('a path with an empty parameter draws on a bucket like any other', async () => {
    const { headers } = await fixture.send('GET', '/users/');
    assert.ok(headers.has('x-ratelimit-remaining'));
  });

  test('a long path parameter is 400', async () => {
    const long = await fixture.send('GET', `/event-streams/${'x'.repeat(10_000)}`);
    assert.equal(long.status, 400);
    assert.ok(long.text.length < 500);
  });

  test('a percent-encoded path is the same route', async () => {
    assert.equal((await fixture.send('GET', '/%65vent-streams')).status, 200);
    assert.equal((await fixture.raw('PUT', '/api/v2/%65vent-streams')).status, 405);
  });
});

describe('the token', () => {
  test('a missing token is 401 that names the realm only', async () => {
    for (const authorization of [undefined, '', 'Basic eDp5', 'Bearer', 'Bearer ']) {
      const headers = authorization === undefined ? {} : { authorization };
      const response = await fixture.raw('GET', '/api/v2/event-streams', undefined, headers);
      assertProblem(response, 401, 'Missing authentication');
      assert.equal(response.headers.get('www-authenticate'), 'Bearer realm="leat.example.com"');
    }
  });

  test('a token in the query does not count', async () => {
    const response = await fixture.raw(
      'GET',
      `/api/v2/event-streams?access_token=${fixture.token}`,
    );
    assertProblem(response, 401, 'Missing authentication');
  });

  test('a rejected token is 401 with the reason', async () => {
    const authorization = 'Bearer nonsense';
    const response = await fixture.raw('GET', '/api/v2/event-streams', undefined, {
      authorization,
    });
    const message =
      'Invalid token: it is no signed JSON Web Token with iss and exp; request one at https://leat.example.com/oauth/token';
    assertProblem(response, 401, message);
    assert.equal(
      response.headers.get('www-authenticate'),
      `Bearer realm="leat.example.com", error="invalid_token", error_description="${message}"`,
    );
  });

  test('a token of a client without the global flag is 401', async () => {
    const token = await fixture.auth.token(
      await fixture.auth.client({ global: false }, ['read:users']),
    );
    const authorization = `Bearer ${token}`;
    const response = await fixture.raw('GET', '/api/v2/event-streams', undefined, {
      authorization,
    });
    assertProblem(response, 401, 'Client is not global.');
  });

  test('a token without any of the scopes is 403 that names them', async () => {
    const token = await fixture.tokenWith(
      ...allScopesBut('read:event_streams', 'read:event_deliveries'),
    );
    const headers = { authorization: `Bearer ${token}` };
    const response = await fixture.send('GET', `${stream}/deliveries`, undefined, headers);
    assertProblem(
      response,
      403,
      'Insufficient scope; expected any of: read:event_streams,read:event_deliveries',
      'insufficient_scope',
    );
    assert.equal(
      response.headers.get('www-authenticate'),
      'Bearer error="insufficient_scope", scope="read:event_streams read:event_deliveries"',
    );
  });

  test('a token with one of the scopes is enough', async () => {
    for (const scope of ['read:event_streams', 'read:event_deliveries']) {
      const headers = { authorization: `bEaReR ${await fixture.tokenWith(scope)}` };
      const response = await fixture.send('GET', `${stream}/deliveries`, undefined, headers);
      assertNotFound(response, 'stream');
    }
  });
});

/** Asserts the 404 of a path that no route has. */
function assertNoPath(response: ApiResponse, url: string): void {
  const [path = ''] = url.split('?');
  assertProblem(response, 404, `Not Found: no resource has the path ${path}`);
}

describe('the body', () => {
  test('a body of another media type is 415', async () => {
    const start = 'Unsupported Media Type: the body has ';
    const types = ['text/plain', 'application/xml', '', ';', 'application/json2', 'a/b; c'];
    for (const type of [
      ...types,
      'application/json; charset=latin1',
      'application/cloudevents+json',
    ]) {
      const response = await fixture.send('POST', '/event-streams', '{}', { 'content-type': type });
      const sent = type === '' ? 'an empty Content-Type' : `Content-Type ${type}`;
      const what = `${sent}, accepted is application/json in UTF-8`;
      assertProblem(response, 415, `${start}${what}`, 'unsupported_media_type');
    }
    const authorization = `Bearer ${fixture.token}`;
    const untyped = await exchange(
      fixture.port,
      requestText(
        'POST /api/v2/events',
        [`authorization: ${authorization}`, 'content-length: 2'],
        '{}',
      ),
    );
    const types3 = ['json', 'cloudevents+json', 'cloudevents-batch+json'];
    const accepted = `${types3.map((type) => `application/${type}`).join(' or ')} in UTF-8`;
    assert.equal(
      JSON.parse(untyped.body).message,
      `${start}no Content-Type, accepted is ${accepted}`,
    );
    const zipped = { ...json, 'content-encoding': 'gzip' };
    const response = await fixture.send('POST', '/event-streams', '{}', zipped);
    const what = 'Content-Encoding gzip, accepted is none';
    assertProblem(response, 415, `${start}${what}`, 'unsupported_media_type');
  });

  test('any spelling of the media type of JSON is accepted', async () => {
    for (const type of [
      'Application/JSON',
      'application/json;charset=UTF-8',
      'application/json ; a=b',
    ]) {
      const response = await fixture.send('POST', '/event-streams', '{}', { 'content-type': type });
      assert.equal(response.body.errorCode, 'invalid_body', type);
    }
  });

  test('a body that is too large is 413, by its length and by its bytes', async () => {
    const large = `{"name":"${'x'.repeat(1_048_576)}"}`;
    const sent = await fixture.send('POST', '/event-streams', large);
    const message = 'Payload Too Large: the limit of the body is 1048576 bytes';
    assertProblem(sent, 413, message, 'payload_too_large');
    const authorization = `Bearer ${fixture.token}`;
    const chunks = await fixture.raw('POST', '/api/v2/event-streams', streamOf(large), {
      ...json,
      authorization,
    });
    assertProblem(chunks, 413, message, 'payload_too_large');
  });

  test('a body of exactly the limit is read', async () => {
    const text = `{"name":"${'x'.repeat(1_048_576 - 11)}"}`;
    assert.equal(text.length, 1_048_576);
    assert.equal((await fixture.send('POST', '/event-streams', text)).status, 400);
  });

  test('a body is checked after the token and before the path', async () => {
    const large = 'x'.repeat(1_048_577);
    const path = '/event-streams/nonsense';
    assert.equal((await fixture.raw('PATCH', `/api/v2${path}`, large)).status, 401);
    const token = await fixture.tokenWith('read:users');
    const poor = { authorization: `Bearer ${token}` };
    assert.equal((await fixture.send('PATCH', path, large, poor)).status, 403);
    assert.equal((await fixture.send('PATCH', path, large, { 'content-type': 'a/b' })).status, 415);
    assert.equal((await fixture.send('PATCH', path, large)).status, 413);
    const bad = await fixture.send('PATCH', path, '{');
    assert.equal(bad.body.errorCode, 'invalid_uri');
  });

  test('401 and 413 do not wait for the body', async () => {
    const headers = ['Content-Type: application/json', 'Content-Length: 1000'];
    const response = await exchange(fixture.port, requestText('POST /api/v2/events', headers));
    assert.equal(response.status, 401);
    const declared = [`Authorization: Bearer ${fixture.token}`, 'Content-Type: application/json'];
    const large = [...declared, 'Content-Length: 9999999'];
    assert.equal(
      (await exchange(fixture.port, requestText('POST /api/v2/events', large))).status,
      413,
    );
  });

  test('100 Continue is sent only to an authorized caller', async () => {
    const expecting = ['Expect: 100-continue', 'Connection: close'];
    const headers = [...expecting, 'Content-Type: application/json', 'Content-Length: 2'];
    const line = 'POST /api/v2/event-streams';
    const stranger = await exchange(fixture.port, requestText(line, headers));
    assert.equal(stranger.status, 401);
    const authorized = [...headers, `Authorization: Bearer ${fixture.token}`];
    const response = await exchange(fixture.port, requestText(line, authorized, '{}'));
    assert.equal(response.status, 100);
    assert.match(response.body, /^HTTP\/1\.1 400 /);
  });

  test('an empty body counts as none', async () => {
    const types = [{}, json, { 'content-type': 'text/plain' }, { 'content-type': ';' }];
    for (const headers of types) {
      const optional = await fixture.send('POST', `${stream}/redeliver`, undefined, headers);
      assertNotFound(optional, 'stream');
      const required = await fixture.send('POST', '/event-streams', undefined, headers);
      assertProblem(
        required,
        400,
        "Payload validation error: 'Missing body' on property body (The request body).",
        'invalid_body',
      );
      const all = { authorization: `Bearer ${fixture.token}`, ...headers };
      const chunks = await fixture.raw('POST', `/api/v2${stream}/redeliver`, streamOf(''), all);
      assertNotFound(chunks, 'stream');
    }
  });

  test('null counts as no body where the body is optional, and as a wrong type elsewhere', async () => {
    const { id } = (await fixture.send('POST', '/clients', { name: 'nobody' })).body;
    for (const body of ['null', ' null\n']) {
      const optional = await fixture.send('POST', `${stream}/redeliver`, body);
      assertNotFound(optional, 'stream');
      const required = await fixture.send('POST', '/event-streams', body);
      assert.equal(required.body.errorCode, 'invalid_body', required.text);
      const patch = await fixture.send('PATCH', `/clients/${id}`, body);
      assert.equal(patch.body.errorCode, 'invalid_body', patch.text);
      const events = await fixture.send('POST', '/events', body);
      assert.equal(events.body.errorCode, 'invalid_body', events.text);
    }
  });

  test('a body that cannot be parsed is 400', async () => {
    const deep = '['.repeat(200_000);
    const texts = ['{', '{}x', 'nul', '{"a":1,}', "{'a':1}", '\uFEFF{}', ' ', '{"a":01}', deep];
    const bytes = [Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]), Buffer.from([0])];
    for (const body of [...texts, ...bytes]) {
      const headers = { ...json, authorization: `Bearer ${fixture.token}` };
      const response = await fixture.raw('POST', '/api/v2/event-streams', body, headers);
      assert.equal(response.status, 400, String(body).slice(0, 20));
      assert.equal(response.body.errorCode, 'invalid_body');
      assert.match(response.body.message, /^Payload validation error: '.*' on property body \(/);
    }
  });

  test('a byte order mark at the start of a body, and of a filter in the query, is named', async () => {
    for (const path of ['/event-streams', '/events']) {
      const response = await fixture.send('POST', path, '\uFEFF{}');
      const reason = 'Not valid JSON: it begins with a byte order mark (U+FEFF), send it without';
      assert.equal(response.status, 400);
      assert.ok(response.body.message.includes(`'${reason}' on property body`), response.text);
    }
    const filter = encodeURIComponent('\uFEFF{"type":"a.b"}');
    const search = await fixture.send('GET', `/event-log?filter=${filter}`);
    const reason = 'Not valid JSON: it begins with a byte order mark (U+FEFF), send it without';
    assert.equal(search.status, 400);
    assert.ok(search.body.message.includes(`'${reason}' on property filter`), search.text);
    const text = 'The body begins with a byte order mark (U+FEFF), send it without';
    const form = { 'content-type': 'application/x-www-form-urlencoded' };
    for (const [body, headers] of [
      ['\uFEFF{}', json],
      ['\uFEFFgrant_type=client_credentials', form],
    ] as const) {
      const token = await fixture.raw('POST', '/oauth/token', body, headers);
      assert.deepEqual(token.body, { error: 'invalid_request', error_description: text });
    }
  });

  test('a repeated field is 400', async () => {
    const response = await fixture.send('POST', '/event-streams', '{"name":1,"name":2}');
    assert.match(response.body.message, /Repeated property' on property name /);
  });

  test('a lone surrogate is 400', async () => {
    const path = '/event-streams/est_AAAAAAAAAAAAAAAAAAAAAA';
    const response = await fixture.send('PATCH', path, '{"name":"\\ud800"}');
    assert.match(response.body.message, /a lone surrogate/);
    const pair = await fixture.send('PATCH', path, '{"name":"\\ud83d\\ude00 \\\\ud800"}');
    assert.equal(pair.status, 404);
  });

  test('a truncated body is not logged and affects no other request', async () => {
    const headers = [`Authorization: Bearer ${fixture.token}`, 'Content-Type: application/json'];
    const half = requestText(
      'POST /api/v2/events',
      [...headers, 'Content-Length: 100'],
      '{"type":',
    );
    const { connect } = await import('node:net');
    const socket = connect(fixture.port, '127.0.0.1', () => socket.end(half));
    socket.on('error', () => undefined);
    await new Promise((resolve) => socket.on('close', resolve).resume());
    assert.equal((await fixture.send('GET', '/event-streams')).status, 200);
    assert.deepEqual(fixture.logged, []);
  });
});

describe('failures', () => {
  test('an unknown error is 500 without details; the cause is logged with the id of the request', async () => {
    const secret = new Error('the password is hunter2');
    let requestId: string | null = '';
    await withFault(secret, async () => {
      const response = await fixture.send('GET', '/event-streams');
      assertProblem(response, 500, 'Internal Server Error');
      assert.ok(response.headers.has('x-ratelimit-limit'));
      requestId = response.headers.get('x-request-id');
    });
    assert.match(requestId, /^req_[A-Za-z0-9]{22}$/);
    const entry = fixture.logged.splice(0).at(-1);
    assert.deepEqual(entry?.facts, { err: secret, requestId });
  });

  test('an unavailable store is 503 with Retry-After, not logged per request', async () => {
    // The readiness check of another test has expired.
    fixture.auth.clock.move(1000);
    await withFault(new StoreUnavailable('disk full'), async () => {
      const response = await fixture.send('GET', '/event-streams');
      assertProblem(response, 503, 'The store is not available.', 'service_unavailable');
      assert.equal(response.headers.get('retry-after'), '1');
      const readiness = await fixture.raw('GET', '/readyz');
      assert.deepEqual(
        [readiness.status, readiness.body.message],
        [503, 'The store is not available.'],
      );
      assert.equal((await fixture.raw('GET', '/healthz')).status, 200);
    });
    assert.deepEqual(fixture.logged, []);
    // The response of a second ago is repeated.
    assert.equal((await fixture.raw('GET', '/readyz')).status, 503);
    fixture.auth.clock.move(1000);
    assert.equal((await fixture.raw('GET', '/readyz')).status, 200);
  });

  test('a token whose issuer serves no keys now is 503 with Retry-After', async () => {
    const part = (fields: object): string =>
      Buffer.from(JSON.stringify(fields)).toString('base64url');
    const exp = Math.floor(fixture.auth.clock.now() / 1000) + 3600;
    const aud = `https://${fixture.auth.tenant.domain}/api/v2/`;
    const claims = { iss: deadIssuer, aud, exp };
    const token = `${part({ alg: 'RS256', kid: 'k' })}.${part(claims)}.AAAA`;
    const response = await fixture.raw('GET', '/api/v2/event-streams', undefined, {
      authorization: `Bearer ${token}`,
    });
    const message =
      'The token cannot be verified: the keys of its issuer cannot be fetched. The log has the cause.';
    assertProblem(response, 503, message, 'service_unavailable');
    assert.equal(response.headers.get('retry-after'), '1');
  });

  test('a 503 says `unknown` where the change may be stored, and never for a request that reads', async () => {
    const bodyOf = async (method: string, path: string, body?: unknown): Promise<unknown> =>
      (await fixture.send(method, path, body)).body;
    const event = { type: 'order.paid', data: {} };
    const refused = {
      statusCode: 503,
      error: 'Service Unavailable',
      message: 'The store is not available.',
      errorCode: 'service_unavailable',
    };
    await withFault(new StoreUnavailable('cut off', { mayBeStored: true }), async () => {
      for (const body of [event, [event]]) {
        assert.deepEqual(await bodyOf('POST', '/events', body), { ...refused, unknown: true });
      }
      assert.deepEqual(await bodyOf('GET', '/event-streams'), refused);
    });
    await withFault(new StoreUnavailable('refused'), async () => {
      assert.deepEqual(await bodyOf('POST', '/events', event), refused);
    });
  });

  test('a 503 says what is wrong with the store, but nothing of its keys', async () => {
    for (const [reason, message] of [
      ['full', 'The disk of the store is full.'],
      ['read_only', 'The store can only be read.'],
      ['blocked', 'The store takes no appends: something in it holds them up.'],
      ['key', 'Service Unavailable'],
    ] as const) {
      await withFault(new StoreUnavailable('no', { reason }), async () => {
        const response = await fixture.send('POST', '/events', { type: 'order.paid', data: {} });
        assertProblem(response, 503, message, 'service_unavailable');
      });
    }
  });

  test('during shutdown requests are 503 and /healthz is 200', async () => {
    fixture.ready = false;
    try {
      const response = await fixture.send('GET', '/event-streams');
      assertProblem(response, 503, 'Service Unavailable', 'service_unavailable');
      assert.equal(response.headers.get('retry-after'), '1');
      assert.ok(response.headers.has('x-ratelimit-limit'));
      assert.equal((await fixture.raw('GET', '/readyz')).status, 503);
      assert.equal((await fixture.raw('GET', '/healthz')).status, 200);
    } finally {
      fixture.ready = true;
    }
    assert.equal((await fixture.raw('GET', '/readyz')).status, 200);
  });
});

describe('the listener', () => {
  test('the listener has timeouts', () => {
    const { server } = fixture.app;
    assert.equal(server.headersTimeout, 16_000);
    assert.equal(server.requestTimeout, 30_000);
    assert.equal(server.keepAliveTimeout, 650_000);
    assert.equal(server.timeout, 120_000);
  });
});

describe('paths without a token', () => {
  test('the avatar is a sandboxed file', async () => {
    const { status, headers, text } = await fixture.raw('GET', '/avatar.svg');
    assert.equal(status, 200);
    assert.equal(headers.get('content-type'), 'image/svg+xml');
    assert.equal(headers.get('content-security-policy'), "default-src 'none'; sandbox");
    assert.match(text, /^<svg [^>]*>.*<\/svg>\n$/s);
  });

  test('the list of actions is empty', async () => {
    assert.deepEqual((await fixture.send('GET', '/actions/actions')).body, {
      actions: [],
      total: 0,
      page: 0,
      per_page: 100,
    });
  });
});

function streamOf(text: string): ReadableStream {
  return new Blob([text]).stream();
}
