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

test('a delay that was over before it began ends at once, and a cancelled one never', async () => {
  const ended: string[] = [];
  systemClock.after(0, () => ended.push('cancelled')).cancel();
  await new Promise<void>((resolve) => {
    systemClock.after(-5, resolve);
  });
  assert.deepEqual(ended, []);
});
