import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { ClaimSweep } from '../../../src/delivery/prefetch/claim-sweep.ts';

const streams = (tenant: number, ...ids: string[]) => ids.map((id) => ({ tenant, id }));
const firstOf = (behind: boolean) => ({ after: undefined, behind });

describe('ClaimSweep', () => {
  test('claims have no filter while one claim takes all free streams', () => {
    const sweep = new ClaimSweep();
    sweep.appended(7);
    assert.equal(sweep.next(), undefined);
    assert.equal(sweep.claimed(undefined, streams(1, 'a'), false), false);
    assert.equal(sweep.next(), undefined);
  });

  test('streams with events after their cursor are claimed first, then all others', () => {
    const sweep = new ClaimSweep();
    assert.equal(sweep.claimed(undefined, streams(1, 'a', 'b'), true), true);
    assert.deepEqual(sweep.next(), firstOf(true));
    assert.equal(sweep.claimed(firstOf(true), streams(2, 'a', 'b'), true), true);
    const next = { after: { tenant: 2, stream: 'b' }, behind: true };
    assert.deepEqual(sweep.next(), next);
    assert.equal(sweep.claimed(next, [], false), true);
    assert.deepEqual(sweep.next(), firstOf(false));
    assert.equal(sweep.claimed(firstOf(false), streams(3, 'a'), false), false);
    assert.equal(sweep.next(), undefined);
  });

  test('streams of tenants with new events are claimed next, until none of them is left', () => {
    const sweep = new ClaimSweep();
    sweep.claimed(undefined, streams(1, 'a'), true);
    sweep.appended(9);
    assert.deepEqual(sweep.next(), { tenants: [9] });
    assert.equal(sweep.claimed({ tenants: [9] }, streams(9, 'a'), true), true);
    assert.deepEqual(sweep.next(), { tenants: [9] });
    assert.equal(sweep.claimed({ tenants: [9] }, [], false), true);
    assert.deepEqual(sweep.next(), firstOf(true));
  });

  test('the sweep starts again when streams that it has passed became free', () => {
    const sweep = new ClaimSweep();
    sweep.repeat();
    sweep.claimed(undefined, streams(1, 'a'), true);
    sweep.repeat();
    sweep.claimed(firstOf(true), [], false);
    assert.equal(sweep.claimed(firstOf(false), [], false), true);
    assert.equal(sweep.next(), undefined);
    assert.equal(sweep.claimed(undefined, [], false), false);
  });
});
