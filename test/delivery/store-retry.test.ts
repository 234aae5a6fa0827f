import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { StoreContentRefused, StoreReplaced, StoreUnavailable } from '../../src/core/errors.ts';
import { createStoreRetry } from '../../src/delivery/store-retry.ts';
import type { DeliveryReport } from '../../src/delivery/report.ts';
import { createManualClock } from '../helpers/clock.ts';

function patienceScene() {
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

describe('patience with a store', () => {
  test('repeats until the work goes through, with growing pauses', async () => {
    const { clock, storeRetry } = patienceScene();
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

  test('reports an outage and its end once, whatever fails in it', async () => {
    const { clock, storeRetry, kinds, recoveries } = patienceScene();
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

  test('repeats what fails for a bug too, and says that it is one', async () => {
    const { clock, storeRetry, kinds } = patienceScene();
    let tries = 0;
    const work = storeRetry.run(() => {
      tries += 1;
      return tries === 1 ? Promise.reject(new TypeError('a bug')) : Promise.resolve(tries);
    });
    await clock.advance(1000);
    assert.equal(await work, 2);
    assert.deepEqual(kinds(), ['unexpected']);
  });

  test('does not repeat what is refused', async () => {
    const { storeRetry, kinds } = patienceScene();
    const work = storeRetry.run(() => Promise.reject(new StoreContentRefused('a text')));
    await assert.rejects(work, StoreContentRefused);
    assert.deepEqual(kinds(), []);
  });

  test('asks nothing more once it is closed, and leaves no timer', async () => {
    const { clock, storeRetry } = patienceScene();
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

  test('abandons work that the store refuses because it was replaced', async () => {
    const { clock, storeRetry, kinds, replacements } = patienceScene();
    let asked = 0;
    void storeRetry.run(() => {
      asked += 1;
      return Promise.reject(new StoreReplaced('another one'));
    });
    await clock.advance(60_000);
    assert.deepEqual([asked, replacements(), kinds()], [1, 1, []]);
  });

  test('keepTrying: work that ends with a replaced store is no outage any more, also without a reset', async () => {
    const { clock, storeRetry, kinds, recoveries } = patienceScene();
    const answers = [new StoreUnavailable('away'), new StoreReplaced('another one')];
    void storeRetry.run(() => Promise.reject(answers.shift() ?? new Error('asked again')));
    await clock.advance(60_000);
    assert.deepEqual([storeRetry.isRetrying, recoveries()], [false, 1]);
    assert.deepEqual(kinds(), ['store_unavailable', 'store_recovered']);
  });

  test('abandons work under way at a reset, and reports the end of the outage after it', async () => {
    const { clock, storeRetry, kinds } = patienceScene();
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
