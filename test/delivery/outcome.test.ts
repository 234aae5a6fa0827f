import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Authorization, Stream } from '../../src/core/types.ts';
import { outcomeOf, rowsAdded } from '../../src/delivery/outcome.ts';
import { requestTemplateOf } from '../../src/delivery/request.ts';
import type { Outcome } from '../../src/store/port/settlement.ts';
import { respondedWith, ok } from '../helpers/transport.ts';
import { newStream } from '../store/contract/fixture.ts';
import { secret, settings } from './fixture.ts';

const now = 1_772_357_400_000;
const event = { id: 'evt_1', type: 'a.made', time: now, offset: 7, body: '{"id":"evt_1"}' };

function newWebhook(authorization: Authorization = { method: 'bearer', token: 't' }): Stream {
  const stream = newStream(1, now, {
    signingSecrets: [{ secret, createdAt: 0, expiresAt: undefined }],
    destination: { type: 'webhook', endpoint: 'https://example.net/hook', authorization },
  });
  return { ...stream, subscriptions: [], version: 1 };
}

type EndedAttempt = Parameters<typeof outcomeOf>[0];

function attemptOf(options: Partial<EndedAttempt> = {}): EndedAttempt {
  return {
    event,
    kind: 'first',
    attempt: 1,
    startedMs: 1000,
    hasRow: false,
    orderKey: undefined,
    request: undefined,
    template: requestTemplateOf(newWebhook(), settings),
    runner: { stream: {} },
    ...options,
  };
}

/** No time passes. */
const clock = { elapsedMs: () => 0 };

const repeated = '(not stored: the response repeats a secret of the stream)';

describe('outcomeOf', () => {
  test('the duration is rounded to the microsecond', () => {
    const ended = { now, elapsedMs: 1003.9936759999999 };
    assert.equal(outcomeOf(attemptOf(), ok, ended, settings, clock).durationMs, 3.994);
  });

  const ended = { now, elapsedMs: 1040.5 };

  test('the start and the duration of the attempt are recorded', () => {
    assert.deepEqual(outcomeOf(attemptOf(), ok, ended, settings, clock), {
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

  test('the delay of the next attempt counts from the end of this one', () => {
    const outcome = outcomeOf(
      attemptOf({ attempt: 2 }),
      respondedWith(500),
      ended,
      settings,
      clock,
    );
    assert.equal(outcome.result === 'retry' && outcome.delayMs, 2000);
  });

  test('the last attempt of the cycle fails the delivery', () => {
    const attempt = settings.retryDelaysMs.length + 1;
    assert.equal(
      outcomeOf(attemptOf({ attempt }), respondedWith(500), ended, settings, clock).result,
      'failed',
    );
  });

  test('goneVersion: the version of the stream that a 410 was sent for; none for a test event', () => {
    const goneVersion = (options: Partial<EndedAttempt>): unknown => {
      const outcome = outcomeOf(attemptOf(options), respondedWith(410), ended, settings, clock);
      return 'goneVersion' in outcome ? outcome.goneVersion : undefined;
    };
    const template = requestTemplateOf({ ...newWebhook(), version: 7 }, settings);
    for (const kind of ['first', 'replay', 'redelivery'] as const) {
      assert.equal(goneVersion({ template, kind }), 7, kind);
    }
    const testEvent = { ...event, offset: undefined };
    for (const kind of ['test', 'redelivery'] as const) {
      assert.equal(goneVersion({ template, kind, event: testEvent }), undefined, kind);
    }
  });

  for (const authorization of [
    { method: 'bearer', token: 'open sesame' },
    { method: 'basic', username: 'ada', password: 'open sesame' },
    { method: 'custom_header', headerKey: 'X-Key', headerValue: 'open sesame' },
  ] as const) {
    test(`${authorization.method}: no form of the secret gets into the error message`, () => {
      const template = requestTemplateOf(newWebhook(authorization), settings);
      const basic = Buffer.from('ada:open sesame').toString('base64');
      for (const text of ['open sesame', template.headers.join(' '), basic, secret]) {
        const echo = respondedWith(500, `refused: ${text}!`);
        const outcome = outcomeOf(attemptOf({ template }), echo, ended, settings, clock);
        assert.equal('error' in outcome && outcome.error, `500 - ${repeated}`, text);
      }
    });
  }

  test('oauth2_client_credentials: no form of a token that was sent, or replaced, gets into the error message', () => {
    const template = requestTemplateOf(
      newWebhook({
        method: 'oauth2_client_credentials',
        tokenEndpoint: 'https://login.example.net/token',
        clientId: 'leat',
        clientSecret: 'open sesame',
      }),
      settings,
    );
    const tokens = ['second-token', 'first-token'];
    const request = { tokens, ended: Promise.resolve(ok), waitedMs: 0, cancel: () => undefined };
    const errorOf = (text: string): unknown => {
      const attempt = attemptOf({ template, request });
      const outcome = outcomeOf(attempt, respondedWith(500, text), ended, settings, clock);
      return 'error' in outcome && outcome.error;
    };
    const echoes = [...tokens, btoa('x first-token'), 'open%20sesame', btoa('leat:open+sesame')];
    for (const echo of echoes) assert.equal(errorOf(`got ${echo}`), `500 - ${repeated}`, echo);
    assert.equal(errorOf('got third-token'), '500 - got third-token');
  });

  test('a secret of the stream that the cut ended is not stored, nor is one of a few characters', () => {
    const template = requestTemplateOf(newWebhook({ method: 'bearer', token: 'abcd' }), settings);
    const errorOf = (response: ReturnType<typeof respondedWith>): unknown => {
      const outcome = outcomeOf(attemptOf({ template }), response, ended, settings, clock);
      return 'error' in outcome && outcome.error;
    };
    const cutOff = respondedWith(503, `key ${secret.slice(0, 12)}`);
    assert.equal(errorOf(cutOff), `503 - ${cutOff.kind === 'response' && cutOff.text}`);
    assert.equal(errorOf({ ...cutOff, cut: true } as typeof cutOff), `503 - ${repeated}`);
    assert.equal(errorOf(respondedWith(503, 'code 503 abcd')), '503 - code 503 ***');
  });

  test('a response whose search takes more than 10 ms is not stored', () => {
    const hostile = respondedWith(500, '\\"+%2b&lt;0123456789abcdef'.repeat(78));
    const errorAfter = (stepMs: number): unknown => {
      let nowMs = 0;
      const slow = { elapsedMs: () => (nowMs += stepMs) };
      const outcome = outcomeOf(attemptOf(), hostile, ended, settings, slow);
      return 'error' in outcome && outcome.error;
    };
    const late = '(not stored: the search of the response for secrets took more than 10 ms)';
    assert.equal(errorAfter(0), `500 - ${hostile.kind === 'response' && hostile.text}`);
    assert.equal(errorAfter(10.1), `500 - ${late}`);
    assert.equal(errorAfter(1), `500 - ${late}`);
  });
});

describe('rowsAdded', () => {
  const outcome = (result: Outcome['result'], hasRow: boolean, kind: Outcome['kind'] = 'first') =>
    ({ result, hasRow, kind }) as Outcome;

  test('parking and retrying add a row, ending removes it', () => {
    assert.equal(rowsAdded(outcome('parked', false)), 1);
    assert.equal(rowsAdded(outcome('retry', false)), 1);
    assert.equal(rowsAdded(outcome('retry', true)), 0);
    assert.equal(rowsAdded(outcome('delivered', true)), -1);
    assert.equal(rowsAdded(outcome('failed', true, 'test')), -1);
    assert.equal(rowsAdded(outcome('delivered', false)), 0);
    assert.equal(rowsAdded(outcome('failed', false)), 0);
  });

  test('rows of redeliveries do not count against fresh work', () => {
    assert.equal(rowsAdded(outcome('retry', true, 'redelivery')), 0);
    assert.equal(rowsAdded(outcome('delivered', true, 'redelivery')), 0);
  });
});
