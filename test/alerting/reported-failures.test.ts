import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import {
  lookbackMs,
  readFrom,
  type ReportedFailure,
  rememberReported,
} from '../../src/alerting/reported-failures.ts';

const at = 1_000_000;

describe('what is remembered of the failures that were told', () => {
  test('are those of the last minute; the next look goes back behind them', () => {
    const lately: ReportedFailure[] = [
      [at - 1, 'evt_2'],
      [at - lookbackMs, 'evt_1'],
    ];
    const before: ReportedFailure[] = [[at - lookbackMs - 1, 'evt_3']];
    const told = new Map(Object.entries({ a: lately, b: before }));
    const recent = rememberReported(told, at);
    assert.equal(recent['a']?.from, at - lookbackMs);
    assert.equal(readFrom(at), at - lookbackMs);
    assert.deepEqual(recent, { a: { from: at - lookbackMs, told: [[at - 1, 'evt_2']] } });
  });

  test('is the beginning of time before the first look', () => {
    assert.equal(readFrom(undefined), 0);
  });

  test('are the newest where there are too many', () => {
    const many = Array.from({ length: 300 }, (_, index): ReportedFailure => [
      at - index,
      `e${index}`,
    ]);
    const recent = rememberReported(new Map([['a', many]]), at)['a'];
    assert.equal(recent?.from, at - 200);
    assert.equal(recent.told.length, 200);
  });

  test('are never more than 5000, however many streams fail', () => {
    const streams = Array.from({ length: 10_000 }, (_, index) => [String(index), [[at, 'e']]]);
    const recent = rememberReported(new Map(streams as [string, ReportedFailure[]][]), at);
    assert.ok(Object.values(recent).every(({ told, from }) => told.length === 0 && from === at));
  });

  test('are all that a look after them would meet again', () => {
    const failure = fc.tuple(fc.integer({ min: at - 70_000, max: at }), fc.uuid());
    const failures = fc.array(failure, { maxLength: 400 });
    fc.assert(
      fc.property(failures, (unsorted) => {
        const told = unsorted.toSorted(([one], [other]) => other - one);
        const recent = rememberReported(new Map([['a', told]]), at)['a'];
        const from = recent?.from ?? readFrom(at);
        const known = new Set(recent?.told.map(([, id]) => id));
        const again = told.filter(([failedAt]) => failedAt > from);
        assert.ok(again.every(([, id]) => known.has(id)));
      }),
    );
  });
});
