import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import {
  reportedWindowMs,
  readFrom,
  type ReportedFailure,
  rememberReported,
} from '../../src/alerting/reported-failures.ts';

const at = 1_000_000;

describe('rememberReported', () => {
  test('rememberReported remembers the failures of the last minute, which the next check reads again', () => {
    const recent: ReportedFailure[] = [
      [at - 1, 'evt_2'],
      [at - reportedWindowMs, 'evt_1'],
    ];
    const older: ReportedFailure[] = [[at - reportedWindowMs - 1, 'evt_3']];
    const reported = new Map(Object.entries({ a: recent, b: older }));
    const remembered = rememberReported(reported, at);
    assert.equal(remembered['a']?.from, at - reportedWindowMs);
    assert.equal(readFrom(at), at - reportedWindowMs);
    assert.deepEqual(remembered, { a: { from: at - reportedWindowMs, told: [[at - 1, 'evt_2']] } });
  });

  test('readFrom: the first check reads everything', () => {
    assert.equal(readFrom(undefined), 0);
  });

  test('rememberReported remembers the newest of too many failures', () => {
    const many = Array.from({ length: 300 }, (_, index): ReportedFailure => [
      at - index,
      `e${index}`,
    ]);
    const recent = rememberReported(new Map([['a', many]]), at)['a'];
    assert.equal(recent?.from, at - 200);
    assert.equal(recent.told.length, 200);
  });

  test('rememberReported remembers at most 5,000 failures of a tenant', () => {
    const streams = Array.from({ length: 10_000 }, (_, index) => [String(index), [[at, 'e']]]);
    const recent = rememberReported(new Map(streams as [string, ReportedFailure[]][]), at);
    assert.ok(Object.values(recent).every(({ told, from }) => told.length === 0 && from === at));
  });

  test('rememberReported remembers every failure that the next check reads again, for random failures', () => {
    const failure = fc.tuple(fc.integer({ min: at - 70_000, max: at }), fc.uuid());
    const failures = fc.array(failure, { maxLength: 400 });
    fc.assert(
      fc.property(failures, (unsorted) => {
        const reported = unsorted.toSorted(([one], [other]) => other - one);
        const recent = rememberReported(new Map([['a', reported]]), at)['a'];
        const from = recent?.from ?? readFrom(at);
        const known = new Set(recent?.told.map(([, id]) => id));
        const again = reported.filter(([failedAt]) => failedAt > from);
        assert.ok(again.every(([, id]) => known.has(id)));
      }),
    );
  });
});
