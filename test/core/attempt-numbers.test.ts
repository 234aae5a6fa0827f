import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { attemptNumbers } from '../../src/core/attempt-numbers.ts';
import { disabledMessage } from '../../src/core/health.ts';
import type { Attempt } from '../../src/core/types.ts';

const entry = (outcome: Attempt['outcome'], error?: string): Attempt => ({
  at: 0,
  durationMs: 1,
  outcome,
  status: undefined,
  error,
});

const [failed, delivered] = [entry('failed', 'timeout'), entry('delivered')];
const [redelivered, dismissed] = [entry('redelivered'), entry('dismissed')];

describe('attemptNumbers', () => {
  test('attempts of a cycle count from 1; a redelivery begins another cycle', () => {
    const entries = [failed, failed, redelivered, failed, delivered];
    assert.deepEqual(attemptNumbers(entries, true), [1, 2, undefined, 1, 2]);
  });

  test('a replay after a success or a dismissal begins another cycle', () => {
    const entries = [delivered, failed, dismissed, failed];
    assert.deepEqual(attemptNumbers(entries, true), [1, 1, undefined, 1]);
  });

  test('the end of a delivery by disabling its stream is no attempt', () => {
    const disabled = entry('failed', disabledMessage);
    assert.deepEqual(attemptNumbers([failed, disabled], true), [1, undefined]);
  });

  test('entries whose cycle began before them have no number', () => {
    const entries = [failed, failed, redelivered, failed];
    assert.deepEqual(attemptNumbers(entries, false), [undefined, undefined, undefined, 1]);
  });
});
