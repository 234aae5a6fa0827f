import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createYield, sleep } from '../../src/core/sleep.ts';
import { createManualClock } from '../helpers/clock.ts';

/** Records when a sleep resolves. */
function recordedSleep(delayMs: number, signal?: AbortSignal) {
  const clock = createManualClock();
  const state = { isOver: false };
  const sleepAndRecord = async (): Promise<void> => {
    await sleep(clock, delayMs, signal);
    state.isOver = true;
  };
  void sleepAndRecord();
  return { clock, state };
}

describe('sleep', () => {
  test('sleep: resolves after the delay, with and without a signal', async () => {
    for (const signal of [undefined, new AbortController().signal]) {
      const { clock, state } = recordedSleep(1_000, signal);
      await clock.advance(999);
      assert.equal(state.isOver, false);
      await clock.advance(1);
      assert.equal(state.isOver, true);
    }
  });

  test('sleep: resolves at once when aborted, and leaves no timer', async () => {
    const abort = new AbortController();
    const { clock, state } = recordedSleep(1_000, abort.signal);
    abort.abort();
    await clock.advance(0);
    assert.deepEqual([state.isOver, clock.pending], [true, 0]);
  });

  test('sleep: resolves at once when aborted before, and starts no timer', async () => {
    const { clock, state } = recordedSleep(1_000, AbortSignal.abort());
    assert.equal(clock.pending, 0);
    await clock.advance(0);
    assert.equal(state.isOver, true);
  });
});

describe('createYield', () => {
  test('createYield: yields only after 5 ms of work', async () => {
    const clock = createManualClock();
    const yieldIfLong = createYield(clock);
    const { signal } = new AbortController();
    clock.move(4);
    await yieldIfLong(signal);
    clock.move(1);
    const yielding = yieldIfLong(signal);
    assert.equal(clock.pending, 1);
    await clock.advance(0);
    await yielding;
    clock.move(4);
    await yieldIfLong(signal);
    assert.equal(clock.pending, 0);
  });
});
