import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { readTokenResponse } from '../../../src/delivery/http/token-response.ts';

const failed = (detail: string) => ({ kind: 'failed', detail });

function read(body: unknown, status = 200) {
  return readTokenResponse(status, typeof body === 'string' ? body : JSON.stringify(body));
}

function lifetimeOf(expiresIn: unknown): number {
  const response = read({ access_token: 'abc', token_type: 'Bearer', expires_in: expiresIn });
  assert.equal(response.kind, 'token');
  return response.lifetimeMs;
}

test('a token response is read with its lifetime, whatever the case of token_type', () => {
  for (const type of ['Bearer', 'bearer', 'BEARER']) {
    const body = { access_token: 'abc.def', token_type: type, expires_in: 3600, scope: 'x' };
    assert.deepEqual(read(body), { kind: 'token', token: 'abc.def', lifetimeMs: 3_600_000 });
  }
  assert.equal(read({ access_token: 'abc' }, 201).kind, 'token', 'without token_type, with 201');
});

describe('expires_in', () => {
  test('expires_in may be a text with a number', () => {
    assert.equal(lifetimeOf('120'), 120_000);
  });

  test('a missing or unreadable expires_in counts as five minutes', () => {
    for (const value of [undefined, null, '', 'soon', {}, [], true, '1e9', '0x10']) {
      assert.equal(lifetimeOf(value), 300_000, JSON.stringify(value));
    }
  });

  test('an expires_in that is very short, zero or negative counts as ten seconds', () => {
    for (const value of [1, 0, -1, -1e300, '0']) assert.equal(lifetimeOf(value), 10_000);
  });

  test('an expires_in of years counts as a day', () => {
    for (const value of [86_401, 1e300, '999999999']) assert.equal(lifetimeOf(value), 86_400_000);
  });
});

describe('a response without a token', () => {
  const cases: readonly (readonly [unknown, number, string])[] = [
    ['<html>hello</html>', 200, 'token response: not a JSON object'],
    ['', 200, 'token response: not a JSON object'],
    ['[]', 200, 'token response: not a JSON object'],
    ['null', 200, 'token response: not a JSON object'],
    ['"token"', 200, 'token response: not a JSON object'],
    [{}, 200, 'token response: no access_token'],
    [{ access_token: '' }, 200, 'token response: no access_token'],
    [{ access_token: 7 }, 200, 'token response: no access_token'],
    [{ access_token: 'a', token_type: 'mac' }, 200, 'token response: token_type is not Bearer'],
    [{ access_token: 'a', token_type: null }, 200, 'token response: token_type is not Bearer'],
    [
      { access_token: 'a\r\nx-b: c' },
      200,
      'token response: access_token has characters that no header can have',
    ],
    [
      { access_token: 'a b' },
      200,
      'token response: access_token has characters that no header can have',
    ],
    [{ access_token: 'a'.repeat(8193) }, 200, 'token response: access_token is too long'],
    [{ access_token: 'a' }, 302, 'token endpoint: 302'],
    ['', 503, 'token endpoint: 503'],
    [{ error: 'invalid_client' }, 401, 'token endpoint: 401 invalid_client'],
    [{ error: 'invalid_target' }, 400, 'token endpoint: 400 invalid_target'],
  ];
  for (const [body, status, detail] of cases) {
    const shown = JSON.stringify(body).slice(0, 40);
    test(`${status} with the body ${shown} fails with "${detail}"`, () => {
      assert.deepEqual(read(body, status), failed(detail));
    });
  }

  test('texts of a token endpoint are not shown, in error and error_description either', () => {
    const body = { error: 'the-client-secret', error_description: 'the-client-secret is wrong' };
    assert.deepEqual(read(body, 400), failed('token endpoint: 400'));
    assert.deepEqual(read({ error: 'constructor' }, 400), failed('token endpoint: 400'));
  });
});
