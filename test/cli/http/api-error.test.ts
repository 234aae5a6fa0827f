import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type CommandFailed, exitCodes, failureText } from '../../../src/cli/errors.ts';
import { apiError, exitCodeOf } from '../../../src/cli/http/api-error.ts';
import { leatCommand } from '../../../src/cli/leat-command.ts';

const leat = leatCommand({ profile: 'live' });
const url = 'http://localhost:8080';
const context = {
  url,
  clientId: 'operator',
  secrets: ['s3cret/token'],
  leat,
  login: leat`login ${url}`,
};

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
    test(`exitCodeOf: maps status ${status} to exit code ${code}`, () =>
      assert.equal(exitCodeOf(status), code));
  }
});

describe('apiError', () => {
  test('apiError: shows the message of the server and a hint', () => {
    const failure = refused(409, 'The event stream is disabled.', 'stream_disabled');
    assert.equal(failure.exitCode, 5);
    assert.deepEqual(failure.details, {
      statusCode: 409,
      errorCode: 'stream_disabled',
      nextStep: 'Enable it first: leat streams enable <stream> --profile live',
    });
    assert.equal(
      failureText(failure),
      'The event stream is disabled.\nEnable it first: leat streams enable <stream> --profile live',
    );
  });

  test('apiError: too many failures are redelivered, or their stream is disabled before they are reopened', () => {
    const [enabling, reopening] = [
      'The event stream has 20 failed deliveries. Redeliver failed events.',
      'The event stream est_1 would have 20 open failures or more, at which it is disabled.',
    ].map((message) => failureText(refused(409, message, 'too_many_failures')));
    assert.match(enabling ?? '', /\nRedeliver them: leat redeliver <stream> --profile live$/);
    assert.match(reopening ?? '', /\nDisable it: leat streams disable est_1 --profile live$/);
  });

  test('apiError: names a missing scope and how to grant it', () => {
    const reported =
      'Insufficient scope; expected any of: read:event_streams,read:event_deliveries';
    assert.equal(
      failureText(refused(403, reported, 'insufficient_scope')),
      `${reported}\nLet a client that has the scope grant it: leat clients grant operator --scope read:event_streams --profile live`,
    );
  });

  test('apiError: says how to make a client global, and when to log in again', () => {
    assert.match(
      failureText(refused(401, 'Client is not global.')),
      /leat clients update operator --global --profile live$/,
    );
    assert.match(
      failureText(refused(401, 'Invalid token')),
      /Log in again: leat login http:\/\/localhost:8080 --profile live$/,
    );
  });

  test('apiError: escapes control characters, and is short for a body that is not a problem document', () => {
    assert.match(refused(404, 'a\u001B[31m').message, /^a\\u\{1b\}\[31m$/);
    for (const text of ['', '<html>', '[]', 'null', '{"message": {"a": 1}}']) {
      const shown = failureText(apiError({ status: 502, text }, context));
      assert.equal(shown, 'http://localhost:8080 answered 502.\nTry again in a moment.');
    }
    const oauth = '{"error":"access_denied","error_description":"Client has not been granted"}';
    assert.equal(
      apiError({ status: 403, text: oauth }, context).message,
      'Client has not been granted',
    );
  });

  test('apiError: does not show the message of a proxy that repeats what was sent as a secret', () => {
    const hidden = `${url} answered 401. Its message is not shown: it repeats a secret that was sent.`;
    const messages = [
      'bad header: Bearer s3cret/token',
      'bad header: Bearer s3cret%2Ftoken',
      `${'x'.repeat(1990)} s3cret/token`,
    ];
    for (const message of messages) {
      const failure = refused(401, message);
      assert.equal(failure.message, hidden);
      assert.equal(
        failure.details.nextStep,
        'Log in again: leat login http://localhost:8080 --profile live',
      );
    }
    assert.equal(refused(401, 'bad header: Bearer s3cret').message, 'bad header: Bearer s3cret');
  });

  test('apiError: leaves words alone that have the letters of a secret of a few characters', () => {
    const text = JSON.stringify({ message: 'Service Unavailable' });
    const { message } = apiError(
      { status: 500, text },
      { ...context, secrets: ['', 'b', 'Service'] },
    );
    assert.equal(message, 'Service Unavailable');
  });

  test('apiError: ends with 6 for a gateway error of a proxy', () => {
    for (const status of [502, 504]) {
      const { exitCode } = apiError({ status, text: '<html>' }, { ...context, clientId: '' });
      assert.equal(exitCode, exitCodes.unavailable, String(status));
    }
  });
});
