import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { afterTick, movingAt, type Standstill, actionFor } from '../../src/core/event-loop.ts';

/** Returns the action after each tick, given as the beats so far and the processor time of the tick. */
function actionsFor(ticksMax: number, ticks: readonly (readonly [number, number])[]): unknown[] {
  let state: Standstill = movingAt(0);
  return ticks.map(([beats, processorMs]) => {
    state = afterTick(state, { beats, processorMs });
    return actionFor(state, ticksMax);
  });
}

describe('an event loop that stands still', () => {
  test('a busy process ends after the ticks of the setting', () => {
    assert.deepEqual(
      actionsFor(3, [
        [0, 900],
        [0, 900],
        [0, 900],
      ]),
      [undefined, undefined, 'end'],
    );
  });

  test('each beat begins the count again', () => {
    assert.deepEqual(
      actionsFor(2, [
        [0, 900],
        [1, 900],
        [1, 900],
        [2, 900],
      ]),
      [undefined, undefined, undefined, undefined],
    );
  });

  test('a process that waits is never ended, and reported once', () => {
    assert.deepEqual(
      actionsFor(2, [
        [0, 1],
        [0, 19],
        [0, 0],
        [0, 0],
      ]),
      [undefined, 'warn', undefined, undefined],
    );
  });

  test('ticks that a process waits do not count, before and after those that it computes', () => {
    assert.deepEqual(
      actionsFor(2, [
        [0, 0],
        [0, 20],
        [0, 0],
        [0, 20],
      ]),
      [undefined, 'warn', undefined, 'end'],
    );
  });

  test('a loop that gets little of a crowded machine is busy', () => {
    assert.deepEqual(actionsFor(1, [[0, 20]]), ['end']);
  });
});
