import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Webhook } from 'standardwebhooks';
import type { Authorization, Stream } from '../../src/core/types.ts';
import type { Outcome } from '../../src/store/port/settlement.ts';
import {
  outcomeOf,
  prepareRequest,
  rowsMore,
  requestTemplateOf,
  type Attempt,
} from '../../src/delivery/attempt.ts';
import { answered, headerOf, ok } from '../helpers/transport.ts';
import { newStream } from '../store/contract/fixture.ts';
import { secret, settings } from './fixture.ts';

const now = 1_772_357_400_000;
const event = { id: 'evt_1', type: 'a.made', time: now, offset: 7, body: '{"id":"evt_1"}' };

function streamOf(given: Partial<Stream> = {}): Stream {
  const signingSecrets = [{ secret, createdAt: 0, expiresAt: undefined }];
  const stream = newStream(1, now, { id: 'est_1', signingSecrets });
  return { ...stream, subscriptions: [], version: 1, ...given };
}

const withAuthorization = (authorization: Authorization): Stream =>
  streamOf({
    destination: { type: 'webhook', endpoint: 'https://example.net/hook', authorization },
  });

function attemptOf(given: Partial<Attempt> = {}): Attempt {
  return {
    event,
    kind: 'first',
    attempt: 1,
    fresh: true,
    offset: 7,
    publishedAt: now - 60,
    at: now - 40,
    startedMs: 1000,
    hasRow: false,
    settled: false,
    template: requestTemplateOf(streamOf(), settings),
    request: undefined,
    ...given,
  };
}

describe('a request', () => {
  test('has the path and the query of the endpoint, and its origin', () => {
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
    // What no byte can hold goes as the bytes of its UTF-8.
    [
      { method: 'bearer', token: 'clé€' },
      'authorization',
      'Bearer cl\u00c3\u00a9\u00e2\u0082\u00ac',
    ],
  ];
  for (const [authorization, header, value] of authorizations) {
    test(`says who calls by ${authorization.method}`, () => {
      const template = requestTemplateOf(withAuthorization(authorization), settings);
      assert.equal(headerOf(prepareRequest(template, event, now), header), value);
    });
  }

  test('is the envelope with the stream in it', () => {
    const { body } = prepareRequest(requestTemplateOf(streamOf(), settings), event, now);
    assert.equal(body, '{"id":"evt_1","svcstream":"est_1"}');
  });

  test('is signed as another implementation verifies it', () => {
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

  test('is signed by every secret that lives, newest first, and by none that expired', () => {
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

describe('what is recorded of an attempt', () => {
  test('is its duration to the microsecond', () => {
    const ended = { now, elapsedMs: 1003.9936759999999 };
    assert.equal(outcomeOf(attemptOf(), ok, ended, settings).durationMs, 3.994);
  });

  const ended = { now, elapsedMs: 1040.5 };

  test('says when it began and how long it took', () => {
    assert.deepEqual(outcomeOf(attemptOf(), ok, ended, settings), {
      event,
      kind: 'first',
      attempt: 1,
      hasRow: false,
      agoMs: 40.5,
      durationMs: 40.5,
      status: 204,
      result: 'delivered',
    });
  });

  test('has the next attempt counted from its end', () => {
    const outcome = outcomeOf(attemptOf({ attempt: 2 }), answered(500), ended, settings);
    assert.equal(outcome.result === 'retry' && outcome.delayMs, 2000);
  });

  test('is a failure after the last attempt of the cycle', () => {
    const attempt = settings.retryDelaysMs.length + 1;
    assert.equal(
      outcomeOf(attemptOf({ attempt }), answered(500), ended, settings).result,
      'failed',
    );
  });

  for (const authorization of [
    { method: 'bearer', token: 'open sesame' },
    { method: 'basic', username: 'ada', password: 'open sesame' },
    { method: 'custom_header', headerKey: 'X-Key', headerValue: 'open sesame' },
  ] as const) {
    test(`has no secret that was sent by ${authorization.method}, in any form`, () => {
      const template = requestTemplateOf(withAuthorization(authorization), settings);
      const basic = Buffer.from('ada:open sesame').toString('base64');
      const echo = answered(500, `open sesame ${template.headers.join(' ')} ${secret}`);
      const outcome = outcomeOf(attemptOf({ template }), echo, ended, settings);
      assert.ok('error' in outcome);
      assert.doesNotMatch(outcome.error, /sesame|whsec/);
      assert.ok(!outcome.error.includes(basic));
    });
  }
});

describe('the rows that count against fresh work', () => {
  const outcome = (result: Outcome['result'], hasRow: boolean, kind: Outcome['kind'] = 'first') =>
    ({ result, hasRow, kind }) as Outcome;

  test('are more by those that park or retry, less by those that end', () => {
    assert.equal(rowsMore(outcome('parked', false)), 1);
    assert.equal(rowsMore(outcome('retry', false)), 1);
    assert.equal(rowsMore(outcome('retry', true)), 0);
    assert.equal(rowsMore(outcome('delivered', true)), -1);
    assert.equal(rowsMore(outcome('failed', true, 'test')), -1);
    assert.equal(rowsMore(outcome('delivered', false)), 0);
    assert.equal(rowsMore(outcome('failed', false)), 0);
  });

  test('are not those of redeliveries', () => {
    assert.equal(rowsMore(outcome('retry', true, 'redelivery')), 0);
    assert.equal(rowsMore(outcome('delivered', true, 'redelivery')), 0);
  });
});
