import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { retryDelayMs, sendWithRetry } from '../../../src/cli/http/retry.ts';
import { createManualClock } from '../../helpers/clock.ts';

describe('sendWithRetry', () => {
  test('retryDelayMs: returns the delay of Retry-After, in seconds or until a date', () => {
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

  test('sendWithRetry: retries at most twice', async () => {
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
