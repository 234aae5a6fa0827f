import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { arrived, noRows, released, rowsMax, type TailRow } from '../../src/console/tail-rows.ts';

const rowOf = (number: number): TailRow => ({
  id: `evt_${number}`,
  type: 'order.paid',
  time: '2026-03-01T09:30:00.000Z',
  offset: String(number),
  preview: '{}',
});
const rowsOf = (...numbers: readonly number[]): TailRow[] => numbers.map(rowOf);
const idsOf = (rows: readonly TailRow[]): string[] => rows.map(({ id }) => id);

describe('rows of the live list', () => {
  test('the newest is first', () => {
    const rows = arrived(arrived(noRows, rowsOf(1, 2), false), rowsOf(3), false);
    assert.deepEqual(idsOf(rows.shown), ['evt_3', 'evt_2', 'evt_1']);
  });

  test('while it is paused they wait, and are counted', () => {
    const before = arrived(noRows, rowsOf(1), false);
    const paused = arrived(arrived(before, rowsOf(2), true), rowsOf(3), true);
    assert.deepEqual(idsOf(paused.shown), ['evt_1']);
    assert.equal(paused.queuedCount, 2);
    const shown = released(paused);
    assert.deepEqual(idsOf(shown.shown), ['evt_3', 'evt_2', 'evt_1']);
    assert.deepEqual([shown.queued, shown.queuedCount], [[], 0]);
  });

  test('what waited comes with the next row after the pause', () => {
    const paused = arrived(noRows, rowsOf(1), true);
    assert.deepEqual(idsOf(arrived(paused, rowsOf(2), false).shown), ['evt_2', 'evt_1']);
  });

  test('only the newest are kept, shown and waiting', () => {
    const many = Array.from({ length: rowsMax + 20 }, (_, index) => rowOf(index));
    const shown = arrived(noRows, many, false);
    assert.equal(shown.shown.length, rowsMax);
    assert.equal(shown.shown[0]?.id, `evt_${rowsMax + 19}`);
    const paused = arrived(noRows, many, true);
    assert.equal(paused.queued.length, rowsMax);
    assert.equal(paused.queuedCount, rowsMax + 20);
    assert.equal(released(arrived(paused, [], true)).shown.length, rowsMax);
  });
});
