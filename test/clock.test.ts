import assert from 'node:assert/strict';
import { test } from 'node:test';
import { systemClock } from '../src/clock.ts';

test('a delay that is longer than a timer holds does not end at once', async () => {
  let isOver = false;
  const timer = systemClock.after(60 * 86_400_000, () => {
    isOver = true;
  });
  await new Promise<void>((resolve) => {
    systemClock.after(20, resolve);
  });
  timer.cancel();
  assert.equal(isOver, false);
});

test('a delay that is longer than a timer holds ends when it is over, unless cancelled', (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const longestMs = 2 ** 31 - 1;
  const ended: string[] = [];
  systemClock.after(2 * longestMs + 1000, () => ended.push('waited for'));
  const cancelled = systemClock.after(2 * longestMs + 1000, () => ended.push('cancelled'));
  t.mock.timers.tick(longestMs);
  t.mock.timers.tick(longestMs);
  cancelled.cancel();
  t.mock.timers.tick(999);
  assert.deepEqual(ended, []);
  t.mock.timers.tick(1);
  assert.deepEqual(ended, ['waited for']);
});

test('a delay that was over before it began ends at once, and a cancelled one never', async () => {
  const ended: string[] = [];
  systemClock.after(0, () => ended.push('cancelled')).cancel();
  await new Promise<void>((resolve) => {
    systemClock.after(-5, resolve);
  });
  assert.deepEqual(ended, []);
});
