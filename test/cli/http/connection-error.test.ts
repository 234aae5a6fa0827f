import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { CommandFailed } from '../../../src/cli/errors.ts';
import { connectionError } from '../../../src/cli/http/connection-error.ts';

describe('connectionError', () => {
  const cases: [code: string, exitCode: number, text: RegExp][] = [
    ['ECONNREFUSED', 6, /cannot be reached: nothing listens there .* Is the server running\?/],
    ['ENOTFOUND', 6, /no host of that name/],
    ['EHOSTUNREACH', 6, /the connection failed \(EHOSTUNREACH\)/],
    ['SELF_SIGNED_CERT_IN_CHAIN', 1, /is not trusted .* --ca <file> or NODE_EXTRA_CA_CERTS/],
    ['ERR_TLS_CERT_ALTNAME_INVALID', 1, /is not trusted/],
    ['EPROTO', 1, /does not speak HTTP: check the scheme/],
    ['ERR_SSL_WRONG_VERSION_NUMBER', 1, /does not speak HTTP: check the scheme/],
    ['ERR_SSL_SSL/TLS_ALERT_HANDSHAKE_FAILURE', 1, /does not speak HTTP: check the scheme/],
  ];
  for (const [code, exitCode, text] of cases) {
    test(`connectionError: ${code}: says what to do, with exit code ${exitCode}`, () => {
      const error = Object.assign(new Error('x'), { code });
      const failure = connectionError('http://localhost:8080', error);
      assert.ok(failure instanceof CommandFailed);
      assert.equal(failure.exitCode, exitCode);
      assert.match(failure.message, text);
    });
  }

  test('connectionError: returns an unknown error unchanged', () => {
    const bug = new TypeError('x');
    assert.equal(connectionError('http://localhost:8080', bug), bug);
  });
});
