import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { backoffMs } from '../../src/core/backoff.ts';

describe('backoffMs', () => {
  const backoff = { firstMs: 50, maxMs: 2000 };

  test('the wait doubles with each failure, up to the maximum', () => {
    const waits = [1, 2, 3, 4, 5, 6, 7, 8].map((failures) => backoffMs(failures, backoff));
    assert.deepEqual(waits, [50, 100, 200, 400, 800, 1600, 2000, 2000]);
  });

  test('any number of failures is the maximum at most', () => {
    assert.equal(backoffMs(5000, backoff), 2000);
  });
});
