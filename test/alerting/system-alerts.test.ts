import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  createSystemAlerts,
  type RaisedAlert,
  withoutRepeats,
} from '../../src/alerting/system-alerts.ts';
import { createManualClock } from '../helpers/clock.ts';

const hour = 3_600_000;
const never = new AbortController().signal;
const main = { id: 1, name: 'main', domain: 'main.test' };
const other = { id: 2, name: 'other', domain: 'other.test' };

function alertOf(key: string, over: Partial<RaisedAlert> = {}): RaisedAlert {
  return { kind: 'clock_skew', sentence: 'The clock is wrong.', fields: {}, key, ...over };
}

describe('createSystemAlerts', () => {
  test('queues an alert for its tenant, or for the first one when it has none', () => {
    const alerts = createSystemAlerts();
    alerts.raise(alertOf('for all'));
    alerts.raise(alertOf('for one', { tenant: 2 }));
    const keysOf = (list: readonly RaisedAlert[]): string[] => list.map(({ key }) => key);
    assert.deepEqual(keysOf(alerts.queued(main, true)), ['for all']);
    assert.deepEqual(keysOf(alerts.queued(other, false)), ['for one']);
    assert.deepEqual(keysOf(alerts.queued(other, true)), ['for all', 'for one']);
  });

  test('createSystemAlerts keeps an alert until exactly this alert is in the store', () => {
    const alerts = createSystemAlerts();
    alerts.raise(alertOf('a', { fields: { seconds: 1 } }));
    const before = alerts.queued(main, true);
    alerts.raise(alertOf('a', { fields: { seconds: 2 } }));
    alerts.stored(before);
    assert.deepEqual(alerts.queued(main, true), [alertOf('a', { fields: { seconds: 2 } })]);
    alerts.stored(alerts.queued(main, true));
    assert.deepEqual(alerts.queued(main, true), []);
  });

  test('calls `onStored` once an alert is in the store, also when a newer one has replaced it', () => {
    const alerts = createSystemAlerts();
    const stored: string[] = [];
    alerts.raise(alertOf('a'), () => stored.push('older'));
    const before = alerts.queued(main, true);
    alerts.raise(alertOf('a'), () => stored.push('newer'));
    assert.deepEqual(stored, []);
    alerts.stored(before);
    assert.deepEqual(stored, ['older']);
    alerts.stored(alerts.queued(main, true));
    assert.deepEqual(stored, ['older', 'newer']);
  });

  test('createSystemAlerts drops the oldest of more than 1,000', () => {
    const alerts = createSystemAlerts();
    for (let index = 0; index < 1002; index++) alerts.raise(alertOf(String(index)));
    const queued = alerts.queued(main, true);
    assert.deepEqual([queued.length, queued[0]?.key], [1000, '2']);
  });

  test('wait: ends with the next alert, after the delay, when aborted, and at once when one was raised before', async () => {
    const clock = createManualClock();
    const alerts = createSystemAlerts();
    const raised = alerts.wait(clock, hour, alerts.raised, never);
    alerts.raise(alertOf('a'));
    await raised;
    assert.equal(clock.pending, 0);
    await alerts.wait(clock, hour, alerts.raised - 1, never);
    const delayed = alerts.wait(clock, hour, alerts.raised, never);
    await clock.advance(hour);
    await delayed;
    const end = new AbortController();
    const aborted = alerts.wait(clock, hour, alerts.raised, end.signal);
    end.abort();
    await aborted;
    await alerts.wait(clock, hour, alerts.raised, end.signal);
    assert.equal(clock.pending, 0);
  });
});

describe('withoutRepeats', () => {
  test('withoutRepeats reports a condition again only an hour later, also when the clock was set forward or back', () => {
    const first = withoutRepeats([alertOf('a'), alertOf('b')], {}, { name: 'main', at: hour });
    assert.deepEqual(
      first.alerts.map(({ key, tenant, at }) => [key, tenant, at]),
      [
        ['a', 'main', hour],
        ['b', 'main', hour],
      ],
    );
    for (const [at, count] of [
      [2 * hour - 1, 0],
      [2 * hour, 1],
      [1, 0],
      [0, 1],
    ] as const) {
      const again = withoutRepeats([alertOf('a')], first.reported, { name: 'main', at });
      assert.equal(again.alerts.length, count, String(at));
    }
  });
});
