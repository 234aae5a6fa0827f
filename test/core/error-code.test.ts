import assert from 'node:assert/strict';
import { test } from 'node:test';
import { errorCodeOf } from '../../src/core/attempt-error.ts';
import { disabledMessage } from '../../src/core/health.ts';
import { decide, type TransportErrorKind } from '../../src/core/retry.ts';

const rules = { retryDelaysMs: [], retry4xx: [], retryAfterMaxMs: 0, now: 0 };

test('errorCodeOf: a response has the code of its status, whatever its text', () => {
  for (const [status, text] of [
    [503, 'busy'],
    [404, ''],
    [302, 'timeout: moved'],
    [599, disabledMessage],
  ] as const) {
    const result = { kind: 'response', status, text, retryAfter: undefined } as const;
    const decision = decide(result, 1, rules);
    assert.ok(decision.result === 'failed');
    assert.equal(errorCodeOf(decision), `http_${status}`);
  }
});

test('errorCodeOf: each cause has its code, with and without a detail', () => {
  const codes: Record<TransportErrorKind, string> = {
    dns: 'dns',
    refused: 'refused',
    reset: 'reset',
    tls: 'tls',
    protocol: 'protocol',
    timeout: 'timeout',
    'blocked address': 'blocked_address',
    authorization: 'authorization',
    cancelled: 'reset',
  };
  for (const [cause, code] of Object.entries(codes)) {
    for (const detail of [undefined, 'refused: 10.0.0.1 dns']) {
      const kind = cause as TransportErrorKind;
      const decision = decide({ kind: 'error', cause: kind, detail }, 1, rules);
      assert.ok(decision.result === 'failed');
      assert.equal(errorCodeOf(decision), code);
    }
  }
});

test('errorCodeOf: a delivery of a stream that was disabled is stream_disabled', () => {
  assert.equal(errorCodeOf({ status: undefined, error: disabledMessage }), 'stream_disabled');
});

test('errorCodeOf: a text that no version wrote is protocol', () => {
  for (const error of [undefined, '', 'toString', '__proto__: x', 'Timeout']) {
    assert.equal(errorCodeOf({ status: undefined, error }), 'protocol');
  }
});
