import assert from 'node:assert/strict';
import { test } from 'node:test';
import { systemClock } from '../src/clock.ts';

test('systemClock.after: a delay beyond the limit of setTimeout does not fire at once', async () => {
  let hasFired = false;
  const timer = systemClock.after(60 * 86_400_000, () => {
    hasFired = true;
  });
  await new Promise<void>((resolve) => {
    systemClock.after(20, resolve);
  });
  timer.cancel();
  assert.equal(hasFired, false);
});

test('systemClock.after: a delay beyond the limit of setTimeout fires in time, unless cancelled', (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const longestMs = 2 ** 31 - 1;
  const fired: string[] = [];
  systemClock.after(2 * longestMs + 1000, () => fired.push('not cancelled'));
  const cancelled = systemClock.after(2 * longestMs + 1000, () => fired.push('cancelled'));
  t.mock.timers.tick(longestMs);
  t.mock.timers.tick(longestMs);
  cancelled.cancel();
  t.mock.timers.tick(999);
  assert.deepEqual(fired, []);
  t.mock.timers.tick(1);
  assert.deepEqual(fired, ['not cancelled']);
});

test('systemClock.after: a negative delay fires at once, and a cancelled one never', async () => {
  const fired: string[] = [];
  systemClock.after(0, () => fired.push('cancelled')).cancel();
  await new Promise<void>((resolve) => {
    systemClock.after(-5, resolve);
  });
  assert.deepEqual(fired, []);
});
