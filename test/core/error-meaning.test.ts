import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ErrorCode } from '../../src/core/error-code.ts';
import { meaningOf, remedyOf } from '../../src/core/error-meaning.ts';

test('every error code has a sentence about its meaning, and others about who must act', () => {
  const statuses = Array.from({ length: 500 }, (_, index): ErrorCode => `http_${index + 100}`);
  const others: ErrorCode[] = [
    'timeout',
    'dns',
    'refused',
    'reset',
    'tls',
    'protocol',
    'blocked_address',
    'authorization',
    'stream_disabled',
  ];
  for (const code of [...statuses, ...others]) {
    assert.match(meaningOf(code), /^[A-Z][^.\n]+\.$/, code);
    assert.match(remedyOf(code), /^[A-Z].*must act.*\.$/i, code);
  }
});
