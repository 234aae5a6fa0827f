import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { authority, selfSigned, trusted } from '../../helpers/certificates.ts';
import { waitFor } from '../../helpers/leat.ts';
import {
  flood,
  hang,
  raw,
  rawThenReset,
  receiverOf,
  redirect,
  type Reply,
  reply,
} from '../../helpers/receiver.ts';
import { createTokenFixture, credentialsOf, tokenBody } from './token-fixture.ts';

const failed = (detail: string) => ({ kind: 'failed', detail });

describe('a fetch of a token', () => {
  test('is one POST of a form, with the client in HTTP Basic', async (t) => {
    const server = await receiverOf(t, { respond: reply(200, tokenBody('abc')) });
    const { endpoints } = createTokenFixture(t);
    const changes = { scope: 'a:b c', audience: 'https://hooks.example.com/?a=b&c' };
    const response = await endpoints.fetch(1, credentialsOf(server.origin, changes));
    assert.deepEqual(response, { kind: 'token', token: 'abc', lifetimeMs: 3_600_000 });
    const [request] = server.requests;
    assert.equal(server.requests.length, 1);
    assert.equal(`${request?.method} ${request?.path}`, 'POST /oauth/token');
    assert.equal(request?.headers['content-type'], 'application/x-www-form-urlencoded');
    assert.equal(request?.headers['authorization'], `Basic ${btoa('leat:a+secret')}`);
    assert.deepEqual(Object.fromEntries(new URLSearchParams(request?.body)), {
      grant_type: 'client_credentials',
      ...changes,
    });
  });

  test('form-encodes id and secret before Basic (RFC 6749 section 2.3.1)', async (t) => {
    const server = await receiverOf(t, { respond: reply(200, tokenBody('abc')) });
    const { endpoints } = createTokenFixture(t);
    const changes = { clientId: 'https://leat.example/:1', clientSecret: 'a:b+c d%e&Zoë' };
    await endpoints.fetch(1, credentialsOf(server.origin, changes));
    const sent = atob(server.requests[0]?.headers['authorization']?.slice(6) ?? '');
    assert.equal(sent, 'https%3A%2F%2Fleat.example%2F%3A1:a%3Ab%2Bc+d%25e%26Zo%C3%AB');
    assert.equal(server.requests[0]?.body, 'grant_type=client_credentials');
  });

  test('keeps the query of the endpoint', async (t) => {
    const server = await receiverOf(t, { respond: reply(200, tokenBody('abc')) });
    const { endpoints } = createTokenFixture(t);
    const tokenEndpoint = `${server.origin}/token?tenant=a%20b`;
    await endpoints.fetch(1, credentialsOf(server.origin, { tokenEndpoint }));
    assert.equal(server.requests[0]?.path, '/token?tenant=a%20b');
  });

  test('trusts valid certificates only', async (t) => {
    const respond = reply(200, tokenBody('abc'));
    const good = await receiverOf(t, { tls: trusted, respond });
    const bad = await receiverOf(t, { tls: selfSigned, respond });
    const { endpoints } = createTokenFixture(t, { tls: { ca: authority } });
    assert.equal((await endpoints.fetch(1, credentialsOf(good.origin))).kind, 'token');
    assert.deepEqual(
      await endpoints.fetch(1, credentialsOf(bad.origin)),
      failed('token endpoint: tls: DEPTH_ZERO_SELF_SIGNED_CERT'),
    );
    assert.equal(bad.requests.length, 0);
  });
});

describe('a token endpoint that does not give a token', () => {
  const cases: readonly (readonly [string, Reply, string])[] = [
    ['redirects', redirect(307, 'http://127.0.0.1/token'), 'token endpoint: 307'],
    ['responds with HTML', reply(200, '<html>'), 'token response: not a JSON object'],
    ['responds with 64 KiB and a byte', reply(200, ' '.repeat(65_537)), 'token response: too long'],
    [
      'never ends its body',
      flood('HTTP/1.1 200 OK\r\n\r\n', ' '.repeat(10_000)),
      'token response: too long',
    ],
    ['is no HTTP server', raw('220 smtp.example.com\r\n'), 'token endpoint: protocol: '],
    ['resets the connection', rawThenReset(), 'token endpoint: reset: ECONNRESET'],
    [
      'sends interim responses without end',
      flood('', 'HTTP/1.1 103 Early Hints\r\nx: y\r\n\r\n'.repeat(100)),
      'token endpoint: ',
    ],
  ];
  for (const [name, respond, detail] of cases) {
    test(`an endpoint that ${name} fails with its cause`, async (t) => {
      const server = await receiverOf(t, { respond });
      const { endpoints } = createTokenFixture(t);
      const response = await endpoints.fetch(1, credentialsOf(server.origin));
      assert.equal(response.kind, 'failed');
      assert.ok(response.detail.startsWith(detail), response.detail);
      await waitFor('the end of the connection', () => server.open === 0);
      assert.equal(server.requests.length, 1);
    });
  }

  test('an endpoint that hangs is given up after 10 s, and its connection ends', async (t) => {
    const server = await receiverOf(t, { respond: hang });
    const { clock, endpoints } = createTokenFixture(t);
    const response = endpoints.fetch(1, credentialsOf(server.origin));
    await waitFor('the request', () => server.requests.length === 1);
    await clock.advance(9999);
    assert.equal(server.open, 1);
    await clock.advance(1);
    assert.deepEqual(await response, failed('token endpoint: timeout'));
    await waitFor('the end of the connection', () => server.open === 0);
  });

  test('a body that never ends is given up after 10 s', async (t) => {
    const head = 'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{';
    const server = await receiverOf(t, { respond: raw(head) });
    const { clock, endpoints } = createTokenFixture(t);
    const response = endpoints.fetch(1, credentialsOf(server.origin));
    await waitFor('the request', () => server.requests.length === 1);
    await clock.advance(10_000);
    assert.deepEqual(await response, failed('token endpoint: timeout'));
    await waitFor('the end of the connection', () => server.open === 0);
  });

  test('a name without a response is given up after 10 s', async (t) => {
    const resolve = () => Promise.withResolvers<readonly string[]>().promise;
    const { clock, endpoints } = createTokenFixture(t, { resolve });
    const response = endpoints.fetch(1, credentialsOf('http://silent.test'));
    await clock.advance(10_000);
    assert.deepEqual(await response, failed('token endpoint: timeout'));
  });

  test('an address that is not allowed is not connected to, as a literal and behind a name', async (t) => {
    const server = await receiverOf(t);
    const { endpoints } = createTokenFixture(t, { allow: [] });
    for (const [host, shown] of [
      ['127.0.0.1', '127.0.0.1'],
      ['localhost', 'no allowed address'],
    ] as const) {
      const origin = `http://${host}:${server.port}`;
      const response = await endpoints.fetch(1, credentialsOf(origin));
      const detail = `token endpoint: blocked address: ${shown} (LEAT_EGRESS_ALLOW)`;
      assert.deepEqual(response, failed(detail));
    }
    assert.equal(server.connections, 0);
  });

  test('a refused connection is named', async (t) => {
    const server = await receiverOf(t);
    await server.close();
    const { endpoints } = createTokenFixture(t);
    assert.deepEqual(
      await endpoints.fetch(1, credentialsOf(server.origin)),
      failed('token endpoint: refused: ECONNREFUSED'),
    );
  });
});
