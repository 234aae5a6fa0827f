import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createDueTimer } from '../../../src/delivery/prefetch/due-timer.ts';
import type { Runner } from '../../../src/delivery/runner.ts';
import { createManualClock } from '../../helpers/clock.ts';

const hour = 3_600_000;

for (const stepMs of [hour, -hour]) {
  test(`a row waits its time when the wall clock is set by ${stepMs} ms`, async () => {
    const manual = createManualClock();
    let aheadMs = 0;
    const enqueued: unknown[] = [];
    const due = createDueTimer({
      clock: { ...manual, now: () => manual.now() + aheadMs },
      scheduler: { enqueue: (runner) => enqueued.push(runner), dispatch: () => undefined },
    });
    const [before, meanwhile] = [{ state: 'active' }, { state: 'active' }] as unknown as Runner[];
    assert.ok(before && meanwhile);
    due.note(before, 1000);
    aheadMs = stepMs;
    due.note(meanwhile, 2000);
    due.check();
    await manual.advance(999);
    assert.deepEqual(enqueued, []);
    await manual.advance(1);
    assert.deepEqual(enqueued, [before]);
    aheadMs = 0;
    due.check();
    await manual.advance(999);
    assert.deepEqual(enqueued, [before]);
    await manual.advance(1);
    assert.deepEqual(enqueued, [before, meanwhile]);
  });
}
