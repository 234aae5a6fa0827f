import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { StoreUnavailable } from '../../src/core/errors.ts';
import { createWriteCheck } from '../../src/store/write-check.ts';
import { createManualClock } from '../helpers/clock.ts';

const broken = new StoreUnavailable('broken');
const full = new StoreUnavailable('full', { reason: 'full' });

/** A store whose trial writes end as `state.trial` says. */
function createFixture() {
  const clock = createManualClock();
  const state: { trial: StoreUnavailable | undefined } = { trial: undefined };
  const reports: (string | undefined)[] = [];
  const trials: (number | undefined)[] = [];
  const check = createWriteCheck({
    clock,
    read: async () => undefined,
    tryWrite: async (tenant) => {
      trials.push(tenant);
      if (state.trial !== undefined) throw state.trial;
    },
    report: (failure) => void reports.push(failure?.message),
  });
  const append = async (tenant: number, error?: StoreUnavailable): Promise<void> => {
    const result = error === undefined ? Promise.resolve() : Promise.reject(error);
    await check.observe(tenant, result).catch(() => undefined);
  };
  return { clock, state, reports, trials, check, append };
}

describe('whether the store takes appends', () => {
  test('appends that fail for three seconds are reported once, with the first cause, and so is their end', async () => {
    const { clock, state, reports, check, append } = createFixture();
    state.trial = new StoreUnavailable('a trial');
    await append(1, broken);
    assert.equal(check.failure(), undefined);
    await assert.rejects(check.check());
    for (let second = 0; second < 20; second += 1) {
      await clock.advance(1000);
      await append(1, new StoreUnavailable('another one'));
    }
    assert.deepEqual(reports, ['broken']);
    assert.equal(check.failure(), broken);
    await assert.rejects(check.check(), broken);

    await append(1);
    assert.deepEqual(reports, ['broken', undefined]);
    assert.equal(check.failure(), undefined);
    assert.equal(await check.check(), true);
    assert.equal(clock.pending, 0);
  });

  test('an append that is late is reported at once', async () => {
    const { reports, check } = createFixture();
    check.late(1);
    check.late(1);
    assert.deepEqual(reports, ['An append has had no result for 3 s.']);
    await assert.rejects(check.check(), { reason: 'blocked' });
  });

  test('what another tenant has published counts for three seconds while appends fail', async () => {
    const { clock, state, check, append } = createFixture();
    state.trial = broken;
    await clock.advance(3000);
    check.late(1);
    await clock.advance(100);
    await append(2);
    assert.equal(await check.check(), true);
    for (let tick = 0; tick < 6; tick += 1) {
      await clock.advance(500);
      check.late(1);
    }
    await assert.rejects(check.check(), { reason: 'blocked' });
  });

  test('a trial for the tenant ends a failure without publishers, and another tenant does not', async () => {
    const { clock, state, reports, trials, check, append } = createFixture();
    state.trial = broken;
    await append(1, broken);
    await clock.advance(5000);
    await append(2);
    assert.equal(check.failure(), broken);
    assert.equal(await check.check(), true, 'the others publish');
    state.trial = undefined;
    await clock.advance(1000);
    assert.deepEqual(reports, ['broken', undefined]);
    assert.deepEqual(new Set(trials), new Set([1]));
  });

  test('one failure between successes is no report', async () => {
    const { clock, reports, append } = createFixture();
    await append(1, broken);
    await append(1);
    await clock.advance(10_000);
    assert.deepEqual(reports, []);
  });

  test('the error of a full disk is valid for ten seconds, as a small trial may succeed', async () => {
    const { clock, trials, check, append } = createFixture();
    await append(1, full);
    await clock.advance(9000);
    await assert.rejects(check.check(), full);
    assert.deepEqual(trials, []);
    await clock.advance(2000);
    assert.equal(await check.check(), false);
  });

  test('without appends each check within ten seconds of a trial only reads', async () => {
    const { clock, trials, check } = createFixture();
    assert.equal(await check.check(), false);
    await clock.advance(9000);
    await check.check();
    assert.equal(trials.length, 1);
    await clock.advance(2000);
    await check.check();
    assert.equal(trials.length, 2);
  });
});
