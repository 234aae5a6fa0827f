import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { systemClock } from '../../src/clock.ts';
import type { Backlog } from '../../src/delivery/backlog.ts';
import type { DispatcherState } from '../../src/delivery/incarnation.ts';
import { summarizeLags } from '../../src/metrics/lag-summary.ts';
import { createMetrics, type Metrics } from '../../src/metrics/metrics.ts';
import type { LogEvent } from '../../src/core/types.ts';
import type { StoreTime } from '../../src/store/port/time.ts';
import { attemptReport } from '../helpers/attempt-report.ts';
import { type Exposition, readExposition } from '../helpers/prometheus.ts';

const now = 1_772_357_400_000;

function metricsOf(
  options: { serviceName?: string; streamsMax?: number; time?: StoreTime } = {},
): Metrics {
  const time = { now: () => now, skewMs: () => 0, skews: 0 };
  return createMetrics({
    failure: () => undefined,
    serviceName: 'leat',
    version: '1.2.3',
    time,
    clock: systemClock,
    streamsMax: 200,
    names: { tenants: { list: async () => [] }, streams: { names: async () => new Map() } },
    ...options,
  });
}

const textOf = async (metrics: Metrics): Promise<Exposition> =>
  readExposition(await metrics.text());

test('clock_skew_seconds has the skew, and clock_skews_total counts its episodes', async () => {
  let time: StoreTime = { now: () => now, skewMs: () => -1500, skews: 0 };
  const metrics = metricsOf({
    time: {
      now: () => now,
      skewMs: () => time.skewMs(),
      get skews() {
        return time.skews;
      },
    },
  });
  const before = await textOf(metrics);
  assert.equal(before.value('leat_clock_skew_seconds'), -1.5);
  assert.equal(before.value('leat_clock_skews_total'), 0);
  time = { now: () => now, skewMs: () => 3_600_000, skews: 2 };
  const after = await textOf(metrics);
  assert.equal(after.value('leat_clock_skew_seconds'), 3600);
  assert.equal(after.value('leat_clock_skews_total'), 2);
});

const attempt = attemptReport({ durationMs: 30, sincePublishedMs: 40 });

const ids = { tenant: 1, stream: 'est_1' };

const state: DispatcherState = {
  streams: 7,
  inFlight: 6,
  inFlightBytes: 600,
  unsettled: 5,
  waiting: 4,
  behind: 3,
  queuedBytes: 2000,
  tailBytes: 1000,
  storeFails: false,
  holdsLease: true,
};

function backlogOf(stream: string, over: Partial<Backlog> = {}): Backlog {
  return { tenantName: 'main', stream, events: 0, oldestAt: undefined, retries: 0, ...over };
}

/** Returns the streams that have their own series. */
const streamsIn = (text: Exposition, name: string): string[] =>
  text.samples(name).map(({ labels }) => labels['stream'] ?? '');

describe('metric names', () => {
  test('names begin with the name of the service, with _ for -', async () => {
    const text = await textOf(metricsOf({ serviceName: 'my-events' }));
    assert.equal(text.value('my_events_build_info', { version: '1.2.3' }), 1);
    assert.ok([...text.families.keys()].every((name) => !name.startsWith('leat_')));
  });

  test('two services in one process have separate values', async () => {
    const one = metricsOf();
    const other = metricsOf();
    one.report(attempt);
    const labels = { kind: 'first', outcome: 'delivered' };
    assert.equal((await textOf(one)).value('leat_attempts_total', labels), 1);
    assert.equal((await textOf(other)).value('leat_attempts_total', labels), 0);
  });

  test('the default metrics of Node processes are included', async () => {
    const text = await textOf(metricsOf());
    assert.ok(text.value('process_cpu_seconds_total') > 0);
    assert.ok(text.value('nodejs_heap_size_used_bytes') > 0);
  });
});

describe('an attempt', () => {
  test('attempts count by the kind of the delivery and the outcome', async () => {
    const metrics = metricsOf();
    metrics.report(attempt);
    metrics.report({ ...attempt, result: 'retry', error: '503' });
    metrics.report({ ...attempt, result: 'retry', error: '503' });
    metrics.report({ ...attempt, deliveryKind: 'redelivery', result: 'failed', error: '400' });
    const text = await textOf(metrics);
    const count = (kind: string, outcome: string): number =>
      text.value('leat_attempts_total', { kind, outcome });
    assert.equal(count('first', 'delivered'), 1);
    assert.equal(count('first', 'retry'), 2);
    assert.equal(count('redelivery', 'failed'), 1);
    for (const kind of ['test', 'replay']) {
      assert.equal(count(kind, 'delivered'), 0, 'present before the first one');
    }
  });

  test('the duration of an attempt is in seconds, by its outcome', async () => {
    const metrics = metricsOf();
    metrics.report(attempt);
    metrics.report({ ...attempt, durationMs: 9000, result: 'retry', error: 'timeout' });
    const text = await textOf(metrics);
    const under = (outcome: string, le: string): number =>
      text.value('leat_attempt_duration_seconds_bucket', { outcome, le });
    assert.equal(under('delivered', '0.025'), 0);
    assert.equal(under('delivered', '0.05'), 1);
    assert.equal(under('retry', '5'), 0);
    assert.equal(under('retry', '10'), 1);
    assert.equal(text.value('leat_attempt_duration_seconds_sum', { outcome: 'retry' }), 9);
  });

  test('a delivered attempt has the latency since its event was accepted, where that is known', async () => {
    const metrics = metricsOf();
    metrics.report(attempt);
    metrics.report({ ...attempt, attempt: 3, sincePublishedMs: 3500 });
    metrics.report({ ...attempt, sincePublishedMs: -20 });
    metrics.report({ ...attempt, sincePublishedMs: undefined });
    metrics.report({ ...attempt, result: 'failed', error: '400' });
    metrics.report({ ...attempt, deliveryKind: 'redelivery', sincePublishedMs: 1e9 });
    const text = await textOf(metrics);
    const name = 'leat_delivery_latency_seconds';
    assert.equal(text.value(`${name}_count`), 3);
    assert.equal(text.value(`${name}_sum`), 3.54);
    assert.equal(text.value(`${name}_bucket`, { le: '0.005' }), 1, 'a negative time counts as 0');
    assert.equal(text.value(`${name}_bucket`, { le: '2.5' }), 2);
  });
});

describe('the dispatcher', () => {
  test('the dispatcher reports of streams, batches, outages and bugs are counted', async () => {
    const metrics = metricsOf();
    const error = new Error('away');
    const health = { consecutive: 1, total: 2 };
    metrics.report({ kind: 'stream_disabled', ...ids, health, reason: 'total' });
    metrics.report({ kind: 'settled', outcomes: 7 });
    metrics.report({ kind: 'store_unavailable', error });
    metrics.report({ kind: 'store_recovered' });
    metrics.report({ kind: 'store_replaced', generation: 2, heads: [] });
    metrics.report({ kind: 'settle_culprit', ...ids, eventId: 'evt_1', error });
    const stuck = { ...ids, eventId: 'evt_1', name: 'crm', code: '22P02', error };
    metrics.report({ kind: 'settle_stuck', ...stuck });
    metrics.report({ kind: 'unexpected', error });
    metrics.report({ kind: 'stream_owned', ...ids, cursor: 1 });
    metrics.report({ kind: 'stream_lost', ...ids });
    const text = await textOf(metrics);
    assert.equal(text.value('leat_streams_disabled_total', { reason: 'total' }), 1);
    assert.equal(text.value('leat_streams_disabled_total', { reason: 'consecutive' }), 0);
    assert.equal(text.value('leat_settle_batch_results_sum'), 7);
    assert.equal(text.value('leat_settle_batch_results_bucket', { le: '10' }), 1);
    assert.equal(text.value('leat_store_outages_total'), 1);
    assert.equal(text.value('leat_store_replacements_total'), 1);
    assert.equal(text.value('leat_settle_refused_total', { result: 'without_texts' }), 1);
    assert.equal(text.value('leat_settle_refused_total', { result: 'stuck' }), 1);
    assert.equal(text.value('leat_unexpected_errors_total'), 1);
  });

  test('the state of the dispatcher is read for each text', async () => {
    const metrics = metricsOf();
    let present = state;
    metrics.observeDispatcher({ state: () => present, backlogs: () => [] });
    const before = await textOf(metrics);
    assert.equal(before.value('leat_streams_owned'), 7);
    assert.equal(before.value('leat_attempts_in_flight'), 6);
    assert.equal(before.value('leat_attempts_in_flight_body_bytes'), 600);
    assert.equal(before.value('leat_results_unsettled'), 5);
    assert.equal(before.value('leat_streams_waiting'), 4);
    assert.equal(before.value('leat_streams_behind'), 3);
    assert.equal(before.value('leat_queued_body_characters'), 2000);
    assert.equal(before.value('leat_tail_body_characters'), 1000);
    assert.equal(before.value('leat_store_failing'), 0);
    present = { ...state, streams: 8, storeFails: true };
    const after = await textOf(metrics);
    assert.equal(after.value('leat_streams_owned'), 8);
    assert.equal(after.value('leat_store_failing'), 1);
  });
});

test('the numbers of name lookups are read for each text', async () => {
  const metrics = metricsOf();
  assert.equal((await textOf(metrics)).value('leat_name_lookups_waiting'), 0);
  let present = { waiting: 3, underWay: 2 };
  metrics.observeLookups({ count: () => present });
  const text = await textOf(metrics);
  assert.equal(text.value('leat_name_lookups_waiting'), 3);
  assert.equal(text.value('leat_name_lookups_under_way'), 2);
  present = { waiting: 0, underWay: 0 };
  assert.equal((await textOf(metrics)).value('leat_name_lookups_waiting'), 0);
});

describe('pulls_open', () => {
  test('pulls_open is read for each text', async () => {
    const metrics = metricsOf();
    assert.equal((await textOf(metrics)).value('leat_pulls_open'), 0);
    const pulls = { open: 3 };
    metrics.observePulls(pulls);
    assert.equal((await textOf(metrics)).value('leat_pulls_open'), 3);
    pulls.open = 2;
    assert.equal((await textOf(metrics)).value('leat_pulls_open'), 2);
  });
});

describe('a commit of the log', () => {
  test('a commit counts its events; other hints do not count', async () => {
    const metrics = metricsOf();
    const event: LogEvent = {
      offset: 1,
      id: 'evt_1',
      type: 'a',
      time: 1,
      publishedAt: 1,
      body: '{}',
    };
    metrics.hint({ kind: 'appended', tenant: 1, events: [event, event, event] });
    metrics.hint({ kind: 'appended', tenant: 2, events: [event] });
    metrics.hint({ kind: 'head', tenant: 1, head: 9 });
    metrics.hint({ kind: 'missed' });
    const text = await textOf(metrics);
    assert.equal(text.value('leat_events_published_total'), 4);
    assert.equal(text.value('leat_append_batch_events_count'), 2);
    assert.equal(text.value('leat_append_batch_events_bucket', { le: '1' }), 1);
    assert.equal(text.value('leat_append_batch_events_bucket', { le: '5' }), 2);
  });
});

describe('the lag', () => {
  const following = (metrics: Metrics, backlogs: readonly Backlog[]): Promise<Exposition> => {
    metrics.observeDispatcher({ state: () => state, backlogs: () => backlogs });
    return textOf(metrics);
  };

  test('each stream has its lag in events and in seconds; the sums are added', async () => {
    const text = await following(metricsOf(), [
      backlogOf('est_a', { events: 5, oldestAt: now - 2500, retries: 2 }),
      backlogOf('est_b', { tenantName: 'other', events: 7, oldestAt: now + 10, retries: 1 }),
      backlogOf('est_c'),
      backlogOf('est_d', { events: 1 }),
    ]);
    const a = { tenant: 'main', stream: 'est_a' };
    assert.equal(text.value('leat_stream_lag_events', a), 5);
    assert.equal(text.value('leat_stream_lag_seconds', a), 2.5);
    const b = { tenant: 'other', stream: 'est_b' };
    assert.equal(text.value('leat_stream_lag_events', b), 7);
    assert.equal(text.value('leat_stream_lag_seconds', b), 0, 'a negative time counts as 0');
    assert.equal(text.value('leat_stream_lag_seconds', { tenant: 'main', stream: 'est_c' }), 0);
    assert.deepEqual(
      streamsIn(text, 'leat_stream_lag_seconds'),
      ['est_a', 'est_b', 'est_c'],
      'an unknown age has no series',
    );
    assert.equal(text.value('leat_lag_events'), 13);
    assert.equal(text.value('leat_lag_events_max'), 7);
    assert.equal(text.value('leat_lag_seconds_max'), 2.5);
    assert.equal(text.value('leat_streams_lagging'), 3);
    assert.equal(text.value('leat_retries_waiting'), 3);
  });

  test('too many streams: only those that lag most have series; the sums have all', async () => {
    // Those with a high number lag most by events, those with a low one by time.
    const backlogs = Array.from({ length: 5000 }, (_, index) =>
      backlogOf(`est_${index}`, { events: 1 + index, oldestAt: now - (5000 - index) * 1000 }),
    );
    const text = await following(metricsOf({ streamsMax: 20 }), backlogs);
    const shown = streamsIn(text, 'leat_stream_lag_events').toSorted();
    const expected = [...Array(10).keys()].flatMap((n) => [`est_${n}`, `est_${4999 - n}`]);
    assert.deepEqual(shown, expected.toSorted());
    assert.deepEqual(streamsIn(text, 'leat_stream_lag_seconds').toSorted(), shown);
    assert.equal(text.value('leat_lag_events'), 12_502_500);
    assert.equal(text.value('leat_lag_events_max'), 5000);
    assert.equal(text.value('leat_lag_seconds_max'), 5000);
    assert.equal(text.value('leat_streams_lagging'), 5000);
  });

  test('the lag of very many streams is summed up in slices that let other work continue', async () => {
    const backlogs = Array.from({ length: 5000 }, (_, index) => backlogOf(`est_${index}`));
    let yields = 0;
    const yieldToOthers = (): Promise<void> => {
      yields += 1;
      return Promise.resolve();
    };
    await summarizeLags(backlogs, { now, most: 20, yieldToOthers });
    assert.ok(yields >= 10, `${yields} yields`);
  });

  test('too many streams: those without a lag have no series', async () => {
    const backlogs = Array.from({ length: 30 }, (_, index) => backlogOf(`est_${index}`));
    const late = backlogOf('est_late', { events: 3, oldestAt: now - 1000 });
    const text = await following(metricsOf({ streamsMax: 20 }), [...backlogs, late]);
    assert.deepEqual(streamsIn(text, 'leat_stream_lag_events'), ['est_late']);
  });

  test('a removed stream has no series', async () => {
    const metrics = metricsOf();
    await following(metrics, [backlogOf('est_a', { events: 1 }), backlogOf('est_b')]);
    const text = await following(metrics, [backlogOf('est_b')]);
    assert.deepEqual(streamsIn(text, 'leat_stream_lag_events'), ['est_b']);
    assert.equal(text.value('leat_lag_events'), 0);
  });
});

describe('a route', () => {
  test('responses count by class of status, with their duration in seconds', async () => {
    const metrics = metricsOf();
    const count = metrics.route('GET', '/api/v2/event-streams/:id');
    count(200, 3);
    count(204, 3);
    count(404, 700);
    count(503, 0);
    const text = await textOf(metrics);
    const labels = { method: 'GET', route: '/api/v2/event-streams/:id' };
    const of = (status: string): number =>
      text.value('leat_http_requests_total', { ...labels, status });
    assert.deepEqual(['2xx', '4xx', '5xx'].map(of), [2, 1, 1]);
    assert.equal(text.value('leat_http_request_duration_seconds_sum', labels), 0.706);
    const bucket = { ...labels, le: '0.005' };
    assert.equal(text.value('leat_http_request_duration_seconds_bucket', bucket), 3);
  });

  test('server errors have a series before the first, so that a rate sees the first', async () => {
    const metrics = metricsOf();
    metrics.route('POST', '/api/v2/events');
    const labels = { method: 'POST', route: '/api/v2/events', status: '5xx' };
    assert.equal((await textOf(metrics)).value('leat_http_requests_total', labels), 0);
  });

  test('unknown methods are `other`', async () => {
    const metrics = metricsOf();
    metrics.route('PROPFIND', 'none')(404, 1);
    metrics.route('BREW', 'none')(999, 1);
    const text = await textOf(metrics);
    const other = { method: 'other', route: 'none' };
    assert.equal(text.value('leat_http_requests_total', { ...other, status: '4xx' }), 1);
    assert.equal(text.value('leat_http_requests_total', { ...other, status: 'other' }), 1);
  });
});
