import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type EventEvidence, type EventState, eventStateOf } from '../../src/core/event-state.ts';

/** An event that the stream wanted, and has passed. */
const passed: EventEvidence = {
  row: undefined,
  isDelivered: false,
  isDismissed: false,
  isBeforeStart: false,
  wasSubscribed: true,
  isSkipped: false,
  isSelected: true,
  isPassed: true,
};

/** Each rule holds for all changes up to its own, applied from the last one on. */
const rules: readonly (readonly [EventState | undefined, Partial<EventEvidence>])[] = [
  ['failed', { row: 'failed' }],
  ['delivered', { isDelivered: true }],
  ['dismissed', { isDismissed: true }],
  [undefined, { isBeforeStart: true }],
  [undefined, { wasSubscribed: false }],
  ['skipped', { isSkipped: true }],
  ['filtered', { isSelected: false }],
  ['waiting', { isPassed: false }],
];

describe('eventStateOf', () => {
  test('the first rule that holds gives the state, also when those after it hold', () => {
    let evidence = passed;
    assert.equal(eventStateOf(evidence), 'delivered');
    for (const [state, change] of rules.toReversed()) {
      evidence = { ...evidence, ...change };
      assert.equal(eventStateOf(evidence), state);
      assert.equal(eventStateOf({ ...passed, ...change }), state);
    }
  });

  test('a row gives its state by the words of the field', () => {
    const states = (['retrying', 'parked', 'blocked'] as const).map((row) =>
      eventStateOf({ ...passed, row }),
    );
    assert.deepEqual(states, ['retrying', 'in_progress', 'blocked']);
  });
});
