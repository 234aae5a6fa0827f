import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Webhook } from 'standardwebhooks';
import type { Authorization, Stream } from '../../src/core/types.ts';
import { prepareRequest, requestTemplateOf } from '../../src/delivery/request.ts';
import { headerOf } from '../helpers/transport.ts';
import { newStream } from '../store/contract/fixture.ts';
import { secret, settings } from './fixture.ts';

const now = 1_772_357_400_000;
const event = { id: 'evt_1', type: 'a.made', time: now, offset: 7, body: '{"id":"evt_1"}' };

function streamOf(options: Partial<Stream> = {}): Stream {
  const signingSecrets = [{ secret, createdAt: 0, expiresAt: undefined }];
  const stream = newStream(1, now, { id: 'est_1', signingSecrets });
  return { ...stream, subscriptions: [], version: 1, ...options };
}

const withAuthorization = (authorization: Authorization): Stream =>
  streamOf({
    destination: { type: 'webhook', endpoint: 'https://example.net/hook', authorization },
  });

describe('prepareRequest', () => {
  test('requests go to the path, the query and the origin of the endpoint', () => {
    const endpoint = 'https://hooks.example.net:8443/a%20b/c?x=1&y=%2F';
    const stream = withAuthorization({ method: 'bearer', token: 't' });
    const template = requestTemplateOf(
      { ...stream, destination: { ...stream.destination, endpoint } },
      settings,
    );
    assert.equal(template.origin, 'https://hooks.example.net:8443');
    assert.equal(template.path, '/a%20b/c?x=1&y=%2F');
  });

  const authorizations: [Authorization, header: string, value: string][] = [
    [{ method: 'bearer', token: 'tok' }, 'authorization', 'Bearer tok'],
    [
      { method: 'basic', username: 'ada', password: 'pä:ss' },
      'authorization',
      `Basic ${Buffer.from('ada:pä:ss').toString('base64')}`,
    ],
    [{ method: 'custom_header', headerKey: 'X-Key', headerValue: 'v' }, 'X-Key', 'v'],
    // Characters outside Latin-1 are sent as the bytes of their UTF-8.
    [
      { method: 'bearer', token: 'clé€' },
      'authorization',
      'Bearer cl\u00c3\u00a9\u00e2\u0082\u00ac',
    ],
  ];
  for (const [authorization, header, value] of authorizations) {
    test(`${header} is sent for ${authorization.method}: ${value}`, () => {
      const template = requestTemplateOf(withAuthorization(authorization), settings);
      assert.equal(headerOf(prepareRequest(template, event, now), header), value);
    });
  }

  test('headers of the stream are sent after those of its authorization, as UTF-8', () => {
    const headers = { 'X-Environment': 'test', 'X-Name': 'clé' };
    const template = requestTemplateOf(streamOf({ delivery: { headers } }), settings);
    const request = prepareRequest(template, event, now);
    assert.equal(headerOf(request, 'X-Environment'), 'test');
    assert.equal(headerOf(request, 'X-Name'), 'cl\u00c3\u00a9');
    assert.equal(headerOf(request, 'authorization'), 'Bearer kept-secret');
  });

  test('Accept is sent as any client sends it, unless the stream has a header of that name', () => {
    const ofHeaders = (options: Partial<Stream>): readonly (readonly [string, string])[] => {
      const { headers } = prepareRequest(
        requestTemplateOf(streamOf(options), settings),
        event,
        now,
      );
      const pairs = headers.flatMap((name, at): (readonly [string, string])[] =>
        at % 2 === 0 ? [[name, headers[at + 1] ?? '']] : [],
      );
      return pairs.filter(([name]) => name.toLowerCase() === 'accept');
    };
    assert.deepEqual(ofHeaders({}), [['accept', '*/*']]);
    const delivery = { headers: { ACCEPT: 'application/json' } };
    assert.deepEqual(ofHeaders({ delivery }), [['ACCEPT', 'application/json']]);
    const authorization = {
      method: 'custom_header',
      headerKey: 'Accept',
      headerValue: 'x',
    } as const;
    assert.deepEqual(ofHeaders(withAuthorization(authorization)), [['Accept', 'x']]);
  });

  test('the secrets of a custom header are its value and, after a scheme, the credentials alone', () => {
    const secretsOf = (headerValue: string): readonly string[] =>
      requestTemplateOf(
        withAuthorization({ method: 'custom_header', headerKey: 'Authorization', headerValue }),
        settings,
      ).secrets;
    assert.deepEqual(secretsOf('Bearer abcdefgh'), ['Bearer abcdefgh', 'abcdefgh', secret]);
    assert.deepEqual(secretsOf('abcdefgh'), ['abcdefgh', secret]);
    assert.deepEqual(secretsOf('Hello world'), ['Hello world', secret]);
  });

  test('a template with client credentials has no header of its own, and hides secret and Basic', () => {
    const authorization = {
      method: 'oauth2_client_credentials',
      tokenEndpoint: 'https://login.example.net/token',
      clientId: 'leat',
      clientSecret: 'a b',
    } as const;
    const template = requestTemplateOf(withAuthorization(authorization), settings);
    assert.deepEqual(template.secrets, ['a b', btoa('leat:a+b'), secret]);
    const request = prepareRequest(template, event, now);
    assert.equal(headerOf(request, 'authorization'), undefined);
    assert.deepEqual(request.token?.credentials, authorization);
    assert.equal(request.token?.tenant, 1);
  });

  test('the identity of a template differs by tenant, certificate and key', () => {
    const stream = streamOf();
    const identityOf = (certificate: string, privateKey: string, tenant = 1) =>
      requestTemplateOf(
        {
          ...stream,
          tenant,
          destination: {
            ...stream.destination,
            clientCertificate: { certificate, privateKey, expiresAt: 9 },
          },
        },
        settings,
      ).identity;
    const ids = [
      identityOf('a', 'b'),
      identityOf('a', 'c'),
      identityOf('d', 'b'),
      identityOf('a', 'b', 2),
    ].map((identity) => identity?.id);
    assert.equal(new Set(ids).size, 4);
    assert.equal(identityOf('a', 'b')?.id, ids[0]);
    assert.equal(requestTemplateOf(stream, settings).identity, undefined);
  });

  test('the body is the envelope with the id of the stream', () => {
    const { body } = prepareRequest(requestTemplateOf(streamOf(), settings), event, now);
    assert.equal(body, '{"id":"evt_1","svcstream":"est_1"}');
  });

  test('another implementation verifies the signature', () => {
    const seconds = Math.floor(Date.now() / 1000);
    const request = prepareRequest(
      requestTemplateOf(streamOf(), settings),
      event,
      seconds * 1000 + 999,
    );
    const headers = Object.fromEntries(
      ['webhook-id', 'webhook-timestamp', 'webhook-signature'].map((name) => [
        name,
        headerOf(request, name) ?? '',
      ]),
    );
    assert.equal(headers['webhook-timestamp'], String(seconds));
    assert.deepEqual(new Webhook(secret).verify(request.body, headers), JSON.parse(request.body));
  });

  test('every secret that has not expired signs, newest first', () => {
    const old = `whsec_${Buffer.alloc(32, 9).toString('base64')}`;
    const template = requestTemplateOf(
      streamOf({
        signingSecrets: [
          { secret, createdAt: 1, expiresAt: undefined },
          { secret: old, createdAt: 0, expiresAt: now },
        ],
      }),
      settings,
    );
    const signatures = (at: number) =>
      headerOf(prepareRequest(template, event, at), 'webhook-signature')?.split(' ');
    const [alone] = signatures(now) ?? [];
    assert.equal(signatures(now)?.length, 1);
    assert.equal(signatures(now - 1)?.length, 2);
    assert.notEqual(signatures(now - 1)?.[0], signatures(now - 1)?.[1]);
    assert.ok(alone?.startsWith('v1,'));
  });
});
