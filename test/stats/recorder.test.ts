import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { unitSums, unitWindow } from '../../src/core/delivery-stats.ts';
import { runSync } from '../../src/core/slices.ts';
import type { AttemptReport } from '../../src/delivery/report.ts';
import { StatsRecorder } from '../../src/stats/recorder.ts';
import { statsLimits } from '../../src/settings/stats.ts';
import { attemptReport } from '../helpers/attempt-report.ts';
import { createManualClock } from '../helpers/clock.ts';
import { createFixture, type Fixture, start } from '../store/contract/fixture.ts';
import { sqliteMemory } from '../store/engines.ts';

const minute = 60_000;

interface Recorded {
  readonly fixture: Fixture;
  readonly recorder: StatsRecorder;
  readonly clock: ReturnType<typeof createManualClock>;
  readonly stream: string;
  readonly errors: unknown[];
  /** The store fails while it is set. */
  fails: boolean;
  /** Calls of the store, by the number of rows. */
  readonly writes: number[];
  attempt(report?: Partial<AttemptReport>): void;
  /** Returns the counts of the minutes from the start on, without those of 0. */
  minutes(stream?: string): Promise<object[]>;
}

async function open(t: TestContext, settings: Partial<typeof statsLimits> = {}): Promise<Recorded> {
  const fixture = await createFixture(sqliteMemory, t);
  const { store, tenant } = fixture;
  const { id: stream } = await fixture.addStream();
  const errors: unknown[] = [];
  const writes: number[] = [];
  const clock = createManualClock();
  const recorder = new StatsRecorder({
    store: {
      record: async (writer, rows) => {
        if (recorded.fails) throw new Error('The disk is full.');
        writes.push(rows.length);
        return store.deliveryStats.record(writer, rows);
      },
    },
    eventTypes: store.eventTypes,
    clock,
    time: store.time,
    settings: { ...statsLimits, ...settings },
    writer: 'node',
    onError: (error) => errors.push(error),
  });
  t.after(store.watch((hint) => recorder.hint(hint)));
  const recorded: Recorded = {
    fixture,
    recorder,
    clock,
    stream,
    errors,
    fails: false,
    writes,
    attempt: (report = {}) => recorder.report(attemptReport({ tenant, stream, ...report })),
    minutes: async (of) => {
      const window = unitWindow('minute', { from: start, to: start + 10 * minute }, start);
      const rows = await store.deliveryStats.read({ tenant, stream: of }, window);
      const sums = [...runSync(unitSums(window, rows)).values()];
      return sums
        .map(({ latency, duration, ...counts }) => ({
          ...counts,
          latencies: latency.total,
          durations: duration.total,
        }))
        .map((sum) => Object.fromEntries(Object.entries(sum).filter(([, value]) => value > 0)))
        .filter((sum) => Object.keys(sum).length > 0);
    },
  };
  return recorded;
}

/** Lets the pauses of a flush end. */
async function flush({ recorder, clock }: Recorded): Promise<void> {
  const end = recorder.flush();
  await clock.advance(1);
  await end;
}

describe('StatsRecorder', () => {
  test('counts attempts by their result, and events of the tenant', async (t) => {
    const recorded = await open(t);
    const { attempt, fixture, stream } = recorded;
    attempt();
    attempt({ result: 'retry', sincePublishedMs: 10 });
    attempt({ result: 'failed' });
    await fixture.publish('user.created', 'user.created');
    await flush(recorded);
    const ofStream = { delivered: 1, failed: 1, retried: 1, latencies: 1, durations: 3 };
    assert.deepEqual(await recorded.minutes(stream), [ofStream]);
    assert.deepEqual(await recorded.minutes(), [{ published: 2, ...ofStream }]);
  });

  test('latency is of successful first deliveries whose acceptance is known', async (t) => {
    const recorded = await open(t);
    recorded.attempt({ deliveryKind: 'redelivery' });
    recorded.attempt({ deliveryKind: 'replay' });
    recorded.attempt({ deliveryKind: 'test' });
    recorded.attempt({ sincePublishedMs: undefined });
    recorded.attempt({ sincePublishedMs: 0 });
    await flush(recorded);
    assert.deepEqual(await recorded.minutes(), [{ delivered: 5, latencies: 1, durations: 5 }]);
  });

  test('writes every 10 s what has changed, and nothing else', async (t) => {
    const recorded = await open(t);
    const end = new AbortController();
    const run = recorded.recorder.run(end.signal);
    recorded.attempt();
    await recorded.clock.advance(9_999);
    assert.deepEqual(recorded.writes, []);
    await recorded.clock.advance(2);
    assert.deepEqual(recorded.writes, [2]);
    await recorded.clock.advance(30_000);
    assert.deepEqual(recorded.writes, [2]);
    recorded.attempt();
    await recorded.clock.advance(10_001);
    assert.deepEqual(await recorded.minutes(recorded.stream), [
      { delivered: 2, latencies: 2, durations: 2 },
    ]);
    end.abort();
    await run;
  });

  test('a write has a bounded number of rows', async (t) => {
    const recorded = await open(t, { rowsMax: 2 } as object);
    for (let count = 0; count < 3; count += 1) {
      recorded.attempt({ stream: (await recorded.fixture.addStream()).id });
    }
    await flush(recorded);
    assert.deepEqual(recorded.writes, [2, 2]);
  });

  test('what the store refused is written later, each minute as its own', async (t) => {
    const recorded = await open(t);
    recorded.fails = true;
    recorded.attempt();
    await flush(recorded);
    recorded.fixture.now += minute;
    recorded.attempt({ result: 'failed' });
    await flush(recorded);
    assert.equal(recorded.errors.length, 2);
    recorded.fails = false;
    await flush(recorded);
    assert.deepEqual(await recorded.minutes(recorded.stream), [
      { delivered: 1, latencies: 1, durations: 1 },
      { failed: 1, durations: 1 },
    ]);
  });

  test('a minute whose turn comes after five minutes is dropped: its hour may have been added up', async (t) => {
    const recorded = await open(t);
    recorded.attempt();
    recorded.fixture.now += 5 * minute + 1;
    await flush(recorded);
    assert.deepEqual([await recorded.minutes(), recorded.writes], [[], []]);
  });

  test('time that goes back to a minute that is over adds to it, as often as it does', async (t) => {
    const recorded = await open(t);
    for (let round = 1; round <= 3; round += 1) {
      recorded.attempt();
      recorded.fixture.now += minute;
      recorded.attempt();
      await flush(recorded);
      const counts = { delivered: round, latencies: round, durations: round };
      assert.deepEqual(await recorded.minutes(recorded.stream), [counts, counts]);
      recorded.fixture.now += minute;
      await flush(recorded);
      recorded.fixture.now -= 2 * minute;
    }
  });

  test('time that goes back within a minute that is not over changes nothing', async (t) => {
    const recorded = await open(t);
    recorded.fixture.now += minute;
    recorded.attempt();
    await flush(recorded);
    recorded.fixture.now -= minute;
    recorded.attempt();
    await flush(recorded);
    recorded.fixture.now += minute;
    recorded.attempt();
    await flush(recorded);
    assert.deepEqual(await recorded.minutes(recorded.stream), [
      { delivered: 1, latencies: 1, durations: 1 },
      { delivered: 2, latencies: 2, durations: 2 },
    ]);
  });

  test('a minute that could not be written for five minutes is dropped', async (t) => {
    const recorded = await open(t);
    recorded.fails = true;
    recorded.attempt();
    recorded.fixture.now += 5 * minute + 1;
    await flush(recorded);
    recorded.fails = false;
    await flush(recorded);
    assert.deepEqual([await recorded.minutes(), recorded.writes], [[], []]);
  });
});
