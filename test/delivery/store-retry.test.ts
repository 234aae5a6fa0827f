import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { StoreContentRefused, StoreReplaced, StoreUnavailable } from '../../src/core/errors.ts';
import { createStoreRetry } from '../../src/delivery/store-retry.ts';
import type { DeliveryReport } from '../../src/delivery/report.ts';
import { createManualClock } from '../helpers/clock.ts';

function createRetryFixture() {
  const clock = createManualClock();
  const reports: DeliveryReport[] = [];
  let recoveries = 0;
  let replacements = 0;
  const storeRetry = createStoreRetry({
    clock,
    report: (report) => reports.push(report),
    recovered: () => (recoveries += 1),
    replaced: () => (replacements += 1),
  });
  return {
    clock,
    storeRetry,
    kinds: () => reports.map(({ kind }) => kind),
    recoveries: () => recoveries,
    replacements: () => replacements,
  };
}

describe('StoreRetry', () => {
  test('a command is repeated until it succeeds, with growing waits', async () => {
    const { clock, storeRetry } = createRetryFixture();
    const at: number[] = [];
    const work = storeRetry.run(() => {
      at.push(clock.elapsedMs());
      return at.length < 10
        ? Promise.reject(new StoreUnavailable('away'))
        : Promise.resolve('done');
    });
    await clock.advance(60_000);
    assert.equal(await work, 'done');
    assert.deepEqual(at, [0, 50, 150, 350, 750, 1550, 3150, 5150, 7150, 9150]);
  });

  test('an outage and its end are reported once, however many commands fail', async () => {
    const { clock, storeRetry, kinds, recoveries } = createRetryFixture();
    let away = true;
    const work = (): Promise<void> =>
      away ? Promise.reject(new StoreUnavailable('away')) : Promise.resolve();
    const both = Promise.all([storeRetry.run(work), storeRetry.run(work)]);
    await clock.advance(5000);
    assert.equal(storeRetry.isRetrying, true);
    assert.deepEqual(kinds(), ['store_unavailable']);
    away = false;
    await clock.advance(5000);
    await both;
    assert.equal(storeRetry.isRetrying, false);
    assert.deepEqual(kinds(), ['store_unavailable', 'store_recovered']);
    assert.equal(recoveries(), 1);
  });

  test('a command that fails because of a bug is repeated, and the bug is reported', async () => {
    const { clock, storeRetry, kinds } = createRetryFixture();
    let tries = 0;
    const work = storeRetry.run(() => {
      tries += 1;
      return tries === 1 ? Promise.reject(new TypeError('a bug')) : Promise.resolve(tries);
    });
    await clock.advance(1000);
    assert.equal(await work, 2);
    assert.deepEqual(kinds(), ['unexpected']);
  });

  test('runRefusable: a command that is refused for its content is not repeated', async () => {
    const { storeRetry, kinds } = createRetryFixture();
    const work = storeRetry.runRefusable(() => Promise.reject(new StoreContentRefused('a text')));
    await assert.rejects(work, StoreContentRefused);
    assert.deepEqual(kinds(), []);
  });

  test('run: a command that is refused for its content is repeated until it succeeds', async () => {
    const { clock, storeRetry, kinds } = createRetryFixture();
    let asked = 0;
    const work = storeRetry.run(() => {
      asked += 1;
      if (asked < 3) return Promise.reject(new StoreContentRefused('a list'));
      return Promise.resolve('done');
    });
    await clock.advance(5000);
    assert.equal(await work, 'done');
    assert.deepEqual([asked, kinds()], [3, ['unexpected', 'unexpected']]);
  });

  test('no command is issued after close, and no timer is left', async () => {
    const { clock, storeRetry } = createRetryFixture();
    let asked = 0;
    const work = (): Promise<never> => {
      asked += 1;
      return Promise.reject(new StoreUnavailable('away'));
    };
    void storeRetry.run(work);
    await clock.advance(0);
    storeRetry.close();
    void storeRetry.run(work);
    await clock.advance(60_000);
    assert.equal(asked, 1);
    assert.equal(clock.pending, 0);
  });

  test('a command that fails with StoreReplaced is abandoned', async () => {
    const { clock, storeRetry, kinds, replacements } = createRetryFixture();
    let asked = 0;
    void storeRetry.run(() => {
      asked += 1;
      return Promise.reject(new StoreReplaced('another one'));
    });
    await clock.advance(60_000);
    assert.deepEqual([asked, replacements(), kinds()], [1, 1, []]);
  });

  test('a command that ends with StoreReplaced ends the outage, also without a reset', async () => {
    const { clock, storeRetry, kinds, recoveries } = createRetryFixture();
    const answers = [new StoreUnavailable('away'), new StoreReplaced('another one')];
    void storeRetry.run(() => Promise.reject(answers.shift() ?? new Error('asked again')));
    await clock.advance(60_000);
    assert.deepEqual([storeRetry.isRetrying, recoveries()], [false, 1]);
    assert.deepEqual(kinds(), ['store_unavailable', 'store_recovered']);
  });

  test('a reset abandons pending commands; the end of the outage is reported after it', async () => {
    const { clock, storeRetry, kinds } = createRetryFixture();
    const ended: string[] = [];
    const late = Promise.withResolvers<void>();
    void storeRetry.run(() => late.promise).then(() => ended.push('late'));
    void storeRetry.run(() => Promise.reject(new StoreUnavailable('away')));
    await clock.advance(1000);
    storeRetry.reset();
    late.resolve();
    await clock.advance(60_000);
    assert.deepEqual(ended, []);
    assert.deepEqual([storeRetry.isRetrying, clock.pending], [false, 0]);
    await storeRetry.run(() => Promise.resolve());
    assert.deepEqual(kinds(), ['store_unavailable', 'store_recovered']);
  });
});
