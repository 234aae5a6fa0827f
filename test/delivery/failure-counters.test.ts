import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Health } from '../../src/core/types.ts';
import { FailureCounters } from '../../src/delivery/failure-counters.ts';
import type { Outcome } from '../../src/store/port/settlement.ts';
import { delivered, failed, newEvent, parked, retry } from '../store/contract/fixture.ts';

const limits = { consecutive: 3, total: 5 };
const event = { ...newEvent(), offset: 1 };
const fail = failed(event);
const succeed = delivered(event);

/** Returns counters after these outcomes, none of which is in the store. */
function countersAfter(stored: Health, ...outcomes: readonly Outcome[]): FailureCounters {
  const counters = new FailureCounters(stored);
  for (const outcome of outcomes) counters.ended(outcome);
  return counters;
}

const healthy = { consecutive: 0, total: 0 };

describe('the failure counters of a stream with outcomes that are not recorded', () => {
  test('failures in a row reach the limit with those in the store', () => {
    assert.equal(countersAfter({ consecutive: 1, total: 1 }, fail).reachLimit(limits), false);
    assert.equal(countersAfter({ consecutive: 1, total: 1 }, fail, fail).reachLimit(limits), true);
  });

  test('a success starts the count from 0', () => {
    const stored = { consecutive: 2, total: 2 };
    assert.equal(countersAfter(stored, succeed, fail, fail).reachLimit(limits), false);
    assert.equal(countersAfter(stored, fail).reachLimit(limits), true);
  });

  test('a success after the limit does not undo it', () => {
    assert.equal(countersAfter(healthy, fail, fail, fail, succeed).reachLimit(limits), true);
  });

  test('a retry and a parked attempt are no failures', () => {
    assert.equal(
      countersAfter(healthy, fail, fail, retry(event), parked(event)).reachLimit(limits),
      false,
    );
  });

  test('open failures reach their limit; a redelivery that fails opens none', () => {
    const stored = { consecutive: 0, total: 4 };
    const again = failed(event, { kind: 'redelivery', hasRow: true });
    assert.equal(countersAfter(stored, again).open, 4);
    assert.equal(countersAfter(stored, again).reachLimit(limits), false);
    assert.equal(countersAfter(stored, fail).open, 5);
    assert.equal(countersAfter(stored, fail).reachLimit(limits), true);
  });

  test('a limit that was lowered counts at the next failure', () => {
    const counters = countersAfter({ consecutive: 2, total: 9 }, succeed, retry(event));
    assert.equal(counters.reachLimit(limits), false);
    counters.ended(fail);
    assert.equal(counters.reachLimit(limits), true);
  });

  test('the limit is reached until the failure that reaches it is in the store', () => {
    const counters = countersAfter(healthy, succeed, fail, fail, fail, fail);
    counters.settled([succeed, fail, fail], { consecutive: 2, total: 2 });
    assert.equal(counters.reachLimit(limits), true);
    counters.settled([fail], { consecutive: 0, total: 0 });
    assert.equal(counters.reachLimit(limits), false);
    assert.equal(counters.open, 1);
  });

  test('failures after a success count once that is in the store', () => {
    const counters = countersAfter(healthy, fail, succeed, fail);
    counters.settled([fail, succeed], { consecutive: 0, total: 1 });
    counters.ended(fail);
    assert.equal(counters.reachLimit(limits), false);
    counters.ended(fail);
    assert.equal(counters.reachLimit(limits), true);
  });

  test('failures that are left reach the limit although the one before them did not in the store', () => {
    const counters = countersAfter({ consecutive: 2, total: 2 }, fail, fail, fail, fail);
    counters.settled([fail], { consecutive: 1, total: 1 });
    assert.equal(counters.reachLimit(limits), true);
    counters.settled([fail, fail], { consecutive: 1, total: 1 });
    assert.equal(counters.reachLimit(limits), false);
  });

  test('a redelivery that succeeded makes room for one failure, not for two', () => {
    const again = delivered(event, { kind: 'redelivery', hasRow: true });
    const counters = countersAfter({ consecutive: 0, total: 4 }, again, fail, fail);
    counters.settled([again, fail], { consecutive: 1, total: 4 });
    assert.equal(counters.reachLimit(limits), true);
  });

  test('counters of the store that changed count at once', () => {
    const counters = countersAfter({ consecutive: 2, total: 2 }, fail);
    counters.update({ consecutive: 0, total: 2 });
    assert.equal(counters.reachLimit(limits), false);
    counters.update({ consecutive: 0, total: 4 });
    assert.equal(counters.reachLimit(limits), true);
  });
});
