import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { EventFilters } from '../../../src/delivery/prefetch/event-filters.ts';
import {
  createFilteredPages,
  type FilteredPageReader,
} from '../../../src/delivery/prefetch/filtered-pages.ts';
import { Runner } from '../../../src/delivery/runner.ts';
import { createStoreRetry } from '../../../src/delivery/store-retry.ts';
import { Tail } from '../../../src/log/tail.ts';
import type { LogPage } from '../../../src/store/port/log.ts';
import { createManualClock } from '../../helpers/clock.ts';
import { newStream } from '../../store/contract/fixture.ts';

const filter = JSON.stringify({ 'data.n': { $gte: 1 } });

/** Pages that are read and filtered at the same time. */
const pagesAtOnce = 4;

interface Fixture {
  readonly pages: FilteredPageReader;
  /** Runners whose reads have ended, with or without a page. */
  readonly read: Runner[];
  runner(tenant: number): Runner;
  /** Ends the reads of the log that are under way. */
  respond(): Promise<void>;
}

function createFixture(): Fixture {
  const clock = createManualClock();
  const ignore = (): void => undefined;
  const waiting: ((page: LogPage) => void)[] = [];
  const read: Runner[] = [];
  const pages = createFilteredPages({
    log: { page: () => new Promise<LogPage>((resolve) => waiting.push(resolve)) },
    clock,
    storeRetry: createStoreRetry({
      clock,
      report: ({ kind }) => assert.fail(kind),
      recovered: ignore,
      replaced: ignore,
    }),
    settings: { pageEvents: 20 },
    pageBytes: () => 1000,
    read: (runner) => read.push(runner),
    filters: new EventFilters(clock),
  });
  let created = 0;
  return {
    pages,
    read,
    runner: (tenant) => {
      created += 1;
      const stream = newStream(tenant, 0);
      // Of a type of its own: no two runners share a page.
      const subscriptions = [{ after: 0, types: [`type.${created}`], filter }];
      return new Runner(
        {
          stream: { ...stream, subscriptions, version: 1 },
          tenantName: 'main',
          epoch: 1,
          run: 1,
          cursor: 0,
          waiting: 0,
          waitingReplays: 0,
          health: { consecutive: 0, total: 0 },
          nextDueInMs: undefined,
          replay: undefined,
          takenAbove: [],
          keys: [],
          isRefused: false,
        },
        new Tail<Runner>({ tailEventsMax: 0, tailBytesMax: 0 }, 100),
      );
    },
    respond: async () => {
      for (const resolve of waiting.splice(0)) resolve({ events: [], scannedTo: 100 });
      await new Promise(setImmediate);
    },
  };
}

describe('pages of streams with a filter', () => {
  test('a stream that is lost while it waits for its page does not stop the others', async () => {
    const { pages, read, runner, respond } = createFixture();
    const runners = Array.from({ length: pagesAtOnce + 2 }, () => runner(1));
    for (const one of runners) pages.request(one);
    const lost = runners[pagesAtOnce];
    assert.ok(lost);
    lost.state = 'gone';
    await respond();
    await respond();
    assert.deepEqual(
      read,
      runners.filter((one) => one !== lost),
    );
    assert.deepEqual([lost.reading, pages.reads], [false, 0]);
  });

  test('the streams of several tenants that are lost at once make room for those that wait after them', async () => {
    const { pages, read, runner, respond } = createFixture();
    const lost = [1, 2, 1, 2, 2].map(runner);
    const waiting = [3, 1].map(runner);
    const under = Array.from({ length: pagesAtOnce }, () => runner(1));
    for (const one of [...under, ...lost, ...waiting]) pages.request(one);
    for (const one of lost) one.state = 'stale';
    await respond();
    await respond();
    assert.deepEqual(new Set(read), new Set([...under, ...waiting]));
    assert.equal(pages.reads, 0);
  });

  test('ten thousand streams that are lost while they wait end within the stack', async () => {
    const { pages, read, runner, respond } = createFixture();
    const under = Array.from({ length: pagesAtOnce }, () => runner(1));
    const lost = Array.from({ length: 10_000 }, () => runner(1));
    for (const one of [...under, ...lost]) pages.request(one);
    for (const one of lost) one.state = 'gone';
    await respond();
    assert.deepEqual([new Set(read), pages.reads], [new Set(under), 0]);
  });
});
