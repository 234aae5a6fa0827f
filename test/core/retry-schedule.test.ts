import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import {
  longestDelayMs,
  scheduleFor,
  spreadBounds,
  spreadDelay,
} from '../../src/core/retry-schedule.ts';
import type { DeliveryOptions } from '../../src/core/types.ts';

const defaults = { retryDelaysMs: [100], retry4xx: [404] };

describe('scheduleFor', () => {
  test('first deliveries and replays have the schedule of the stream, others the default', () => {
    const delivery: DeliveryOptions = { retry: { delaysSeconds: [2, 3], retry4xx: [] } };
    for (const kind of ['first', 'replay'] as const) {
      const { delaysMs, retry4xx, cycleMaxMs } = scheduleFor(kind, delivery, defaults);
      assert.deepEqual({ delaysMs, retry4xx }, { delaysMs: [2000, 3000], retry4xx: [] });
      assert.equal(cycleMaxMs, 72 * 3_600_000);
    }
    for (const kind of ['redelivery', 'test'] as const) {
      const schedule = scheduleFor(kind, delivery, defaults);
      assert.deepEqual(schedule, scheduleFor('first', undefined, defaults));
      assert.deepEqual([schedule.delaysMs, schedule.cycleMaxMs], [[100], undefined]);
    }
  });

  test('the presets take 7 s, about 18 h and about two and a quarter days', () => {
    const hoursOf = (retry: 'quick' | 'hours' | 'days'): number => {
      const { delaysMs, retry4xx } = scheduleFor('first', { retry }, defaults);
      assert.deepEqual(retry4xx, [404]);
      return delaysMs.reduce((sum, delayMs) => sum + delayMs) / 3_600_000;
    };
    assert.equal(hoursOf('quick') * 3600, 7);
    assert.equal(Math.round(hoursOf('hours') * 10) / 10, 17.6);
    assert.equal(Math.round((hoursOf('days') / 24) * 100) / 100, 2.23);
  });

  test('without retry_4xx a schedule has the default; Retry-After can request its longest wait', () => {
    const schedule = scheduleFor('first', { retry: { delaysSeconds: [5, 300] } }, defaults);
    assert.deepEqual(schedule.retry4xx, [404]);
    assert.equal(schedule.retryAfterMaxMs, 300_000);
    const short = scheduleFor('first', { retry: { delaysSeconds: [5] } }, defaults);
    assert.equal(short.retryAfterMaxMs, 60_000);
  });
});

describe('spreadDelay', () => {
  test('waits up to 10 s are exact, longer ones differ by up to a tenth, the same each time', () => {
    const waits = fc.record({
      delayMs: fc.integer({ min: 1, max: 86_400_000 }),
      id: fc.string(),
      attempt: fc.integer({ min: 1, max: 20 }),
    });
    fc.assert(
      fc.property(waits, ({ delayMs, id, attempt }) => {
        const spread = spreadDelay(delayMs, id, attempt);
        assert.equal(spreadDelay(delayMs, id, attempt), spread);
        if (delayMs <= 10_000) assert.equal(spread, delayMs);
        assert.ok(Math.abs(spread - delayMs) <= delayMs / 10 + 1, String(spread));
        const { minMs, maxMs } = spreadBounds(delayMs);
        assert.ok(minMs <= spread && spread <= maxMs, `${minMs} ${spread} ${maxMs}`);
        const retry = { delaysSeconds: [delayMs / 1000] };
        assert.ok(spread <= Math.max(longestDelayMs({ retry }), delayMs) + 1);
      }),
    );
  });

  test('the waits of many events are spread over the whole width', () => {
    const tenths = new Set<number>();
    for (let number = 0; number < 1000; number += 1) {
      const spread = spreadDelay(100_000, `evt_${number.toString(36).padStart(22, 'A')}`, 1);
      tenths.add(Math.floor((spread - 90_000) / 2000));
    }
    assert.deepEqual(
      [...tenths].toSorted((a, b) => a - b),
      [0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
    );
  });
});
