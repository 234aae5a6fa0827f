import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { CommandFailed } from '../../src/cli/errors.ts';
import { apiError, exitCodeOf } from '../../src/cli/http/api-error.ts';
import { connectionError } from '../../src/cli/http/connection-error.ts';
import { retryDelayMs, sendWithRetry } from '../../src/cli/http/retry.ts';
import { createManualClock } from '../helpers/clock.ts';

const context = { url: 'http://localhost:8080', clientId: 'operator' };

function refused(status: number, message: string, errorCode?: string): CommandFailed {
  const text = JSON.stringify({ statusCode: status, error: 'x', message, errorCode });
  return apiError({ status, text }, context);
}

describe('exitCodeOf', () => {
  const cases: [number, number][] = [
    [400, 1],
    [401, 3],
    [403, 3],
    [404, 4],
    [405, 1],
    [409, 5],
    [410, 4],
    [413, 1],
    [429, 6],
    [500, 1],
    [502, 6],
    [503, 6],
  ];
  for (const [status, code] of cases) {
    test(`maps status ${status} to exit code ${code}`, () =>
      assert.equal(exitCodeOf(status), code));
  }
});

describe('apiError', () => {
  test('has the message of the server and a hint', () => {
    const { exitCode, message } = refused(409, 'The event stream is disabled.', 'stream_disabled');
    assert.equal(exitCode, 5);
    assert.equal(
      message,
      'The event stream is disabled.\nEnable it first: leat streams enable <stream>',
    );
  });

  test('names a missing scope and how to grant it', () => {
    const reported =
      'Insufficient scope; expected any of: read:event_streams,read:event_deliveries';
    assert.equal(
      refused(403, reported, 'insufficient_scope').message,
      `${reported}\nLet a client that has the scope grant it: leat clients grant operator --scope read:event_streams`,
    );
  });

  test('says how to make a client global, and when to log in again', () => {
    assert.match(
      refused(401, 'Client is not global.').message,
      /leat clients update operator --global$/,
    );
    assert.match(
      refused(401, 'Invalid token').message,
      /Log in again: leat login http:\/\/localhost:8080$/,
    );
  });

  test('escapes control characters, and is short for a body that is not a problem document', () => {
    assert.match(refused(404, 'a\u001B[31m').message, /^a\\u\{1b\}\[31m$/);
    for (const text of ['', '<html>', '[]', 'null', '{"message": {"a": 1}}']) {
      const { message } = apiError({ status: 502, text }, context);
      assert.equal(message, 'http://localhost:8080 answered 502.\nTry again in a moment.');
    }
    const oauth = '{"error":"access_denied","error_description":"Client has not been granted"}';
    assert.equal(
      apiError({ status: 403, text: oauth }, context).message,
      'Client has not been granted',
    );
  });
});

describe('connectionError', () => {
  const cases: [code: string, exitCode: number, text: RegExp][] = [
    ['ECONNREFUSED', 6, /cannot be reached: nothing listens there .* Is the server running\?/],
    ['ENOTFOUND', 6, /no host of that name/],
    ['EHOSTUNREACH', 6, /the connection failed \(EHOSTUNREACH\)/],
    ['SELF_SIGNED_CERT_IN_CHAIN', 1, /is not trusted .* --ca <file> or NODE_EXTRA_CA_CERTS/],
    ['ERR_TLS_CERT_ALTNAME_INVALID', 1, /is not trusted/],
    ['EPROTO', 1, /does not speak HTTP: check the scheme/],
  ];
  for (const [code, exitCode, text] of cases) {
    test(`${code}: says what to do, with exit code ${exitCode}`, () => {
      const error = Object.assign(new Error('x'), { code });
      const failure = connectionError('http://localhost:8080', error);
      assert.ok(failure instanceof CommandFailed);
      assert.equal(failure.exitCode, exitCode);
      assert.match(failure.message, text);
    });
  }

  test('returns an unknown error unchanged', () => {
    const bug = new TypeError('x');
    assert.equal(connectionError('http://localhost:8080', bug), bug);
  });
});

describe('sendWithRetry', () => {
  test('waits as Retry-After asks, in seconds or until a date', () => {
    const now = Date.parse('2026-03-01T09:30:00Z');
    const delay = (status: number, retryAfter?: string) =>
      retryDelayMs({ status, headers: retryAfter ? { 'retry-after': retryAfter } : {} }, now);
    assert.equal(delay(429, '3'), 3000);
    assert.equal(delay(503), 1000);
    assert.equal(delay(503, 'Sun, 01 Mar 2026 09:30:07 GMT'), 7000);
    assert.equal(delay(503, 'Sun, 01 Mar 2026 09:29:00 GMT'), 0);
    assert.equal(delay(429, 'soon'), 1000);
    assert.equal(delay(429, '61'), undefined);
    assert.equal(delay(200, '3'), undefined);
    assert.equal(delay(500, '3'), undefined);
  });

  test('retries at most twice', async () => {
    const clock = createManualClock();
    const notes: string[] = [];
    let sent = 0;
    const response = sendWithRetry(
      async () => {
        sent++;
        return { status: 429, headers: { 'retry-after': '2' }, text: '' };
      },
      { clock, note: (text) => notes.push(text), signal: new AbortController().signal },
    );
    await clock.advance(2000);
    await clock.advance(2000);
    assert.equal((await response).status, 429);
    assert.equal(sent, 3);
    assert.deepEqual(notes, Array(2).fill('Too many requests; trying again in 2 s.'));
  });
});
