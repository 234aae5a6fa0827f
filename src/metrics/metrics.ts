import { collectDefaultMetrics, Registry } from 'prom-client';
import type { Clock } from '../core/clock.ts';
import type { DeliveryKind } from '../core/types.ts';
import type { Backlog } from '../delivery/backlog.ts';
import type { Dispatcher } from '../delivery/dispatcher.ts';
import type { AttemptReport, DeliveryReport } from '../delivery/report.ts';
import { resources } from '../core/shortage.ts';
import type { StoreTime } from '../store/port/time.ts';
import type { Hint } from '../store/port/hints.ts';
import { summarizeLags } from './lag-summary.ts';
import { createStreamSeries, type StreamNames } from './stream-series.ts';
import { createMetricFactory, type MetricFactory } from './metric-factory.ts';
import { createYield } from '../core/sleep.ts';

/**
 * The metrics of a node for Prometheus. Only the lag and the attempts of single streams have labels that
 * name tenants and streams, for at most `streamsMax` streams each; every other label has few values.
 */
export interface Metrics {
  /** The `Content-Type` of {@link Metrics.text}. */
  readonly contentType: string;
  /** Returns the current values (Prometheus, Text-based format, version 0.0.4). */
  text(): Promise<string>;
  /** Counts a report of the dispatcher. */
  report(report: DeliveryReport): void;
  /** Counts the commits of the log, and learns of changes of streams. */
  hint(hint: Hint): void;
  /**
   * Creates the series of a route, once for each. Returns a function that counts one response.
   * `pattern` is the path with names for its variable parts.
   */
  route(method: string, pattern: string): (status: number, durationMs: number) => void;
  /** Counts a connection that was closed because there were too many. */
  connectionRefused(this: void): void;
  /** Adds the state and the backlogs of this dispatcher to the text. */
  observeDispatcher(dispatcher: ObservedDispatcher): void;
  /** Adds the number of these pulls. */
  observePulls(pulls: ObservedPulls): void;
  /** Adds the numbers of these name lookups. */
  observeLookups(lookups: ObservedLookups): void;
}

/** The values that are read from a dispatcher for each text. */
export type ObservedDispatcher = Pick<Dispatcher, 'state' | 'backlogs'>;

/** The name lookups of a node. */
export interface ObservedLookups {
  count(): { readonly waiting: number; readonly underWay: number };
}

/** The pulls of a node. */
export interface ObservedPulls {
  readonly open: number;
}

export interface MetricsDeps {
  /** The prefix of every name, with `_` for `-`. */
  readonly serviceName: string;
  readonly version: string;
  /** Time of the store: for the age of events and the skew of this node's clock. */
  readonly time: StoreTime;
  readonly clock: Pick<Clock, 'after' | 'elapsedMs'>;
  /** Streams with series of their own, at most. */
  readonly streamsMax: number;
  readonly names: StreamNames;
  /** Sessions of the database server that another client had altered, so far. */
  readonly foreignSessions?: (() => number) | undefined;
  /** Returns why appends fail; `undefined` while they succeed. */
  readonly failure: () => unknown;
}

export function createMetrics(deps: MetricsDeps): Metrics {
  const { serviceName, version, time, streamsMax, clock, names, failure } = deps;
  const registry = new Registry();
  const factory = createMetricFactory(registry, serviceName.replaceAll('-', '_'));
  factory
    .gauge('build_info', 'Always 1; the label has the version.', ['version'])
    .set({ version }, 1);
  const setState = createState(factory);
  const setLags = createLags(factory, { time, streamsMax, clock });
  const setClocks = createClocks(factory, time);
  const series = createStreamSeries(factory, { names, streamsMax, clock });
  const report = createReporting(factory);
  const append = createAppends(factory);
  const pullsOpen = factory.gauge('pulls_open', 'Open pulls of events.');
  const waiting = factory.gauge('name_lookups_waiting', 'Name lookups that wait for a slot.');
  const underWay = factory.gauge('name_lookups_under_way', 'Name lookups in progress.');
  const countForeign = createForeignSessions(factory, deps.foreignSessions);
  const connectionsRefused = factory.counter(
    'connections_refused_total',
    'Connections to the management API closed: too many, of one address or in total, or 64 requests without a response on one.',
  );
  let dispatcher: ObservedDispatcher | undefined;
  let pulls: ObservedPulls = { open: 0 };
  let lookups: ObservedLookups | undefined;
  collectDefaultMetrics({ register: registry });

  return {
    contentType: registry.contentType,
    text: async () => {
      if (dispatcher !== undefined) {
        await setLags(dispatcher.backlogs());
        setState(dispatcher.state(), failure() !== undefined);
      }
      series.collect();
      setClocks();
      countForeign();
      pullsOpen.set(pulls.open);
      waiting.set(lookups?.count().waiting ?? 0);
      underWay.set(lookups?.count().underWay ?? 0);
      return registry.metrics();
    },
    report: (reported) => {
      report(reported);
      series.report(reported);
    },
    hint: (hint) => {
      append(hint);
      series.hint(hint);
    },
    route: createRoutes(factory),
    connectionRefused: () => connectionsRefused.inc(),
    observeDispatcher: (observed) => {
      dispatcher = observed;
    },
    observePulls: (observed) => {
      pulls = observed;
    },
    observeLookups: (observed) => {
      lookups = observed;
    },
  };
}

// Buckets

const responseSeconds = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5];
const attemptSeconds = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];
/** Up to an hour: an event counts once it is delivered, also after an outage of its receiver. */
const latencySeconds = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60, 600, 3600];
const batchSizes = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000];

// Clocks

/** Compares the wall clock of this node with the store's. */
function createClocks(factory: MetricFactory, time: StoreTime): () => void {
  const skew = factory.gauge(
    'clock_skew_seconds',
    'By how much the clock of this node is ahead of the store, negative when it is behind.',
  );
  const skews = factory.counter(
    'clock_skews_total',
    'Times that the clocks of this node and of the store began to differ by more than a minute.',
  );
  return () => {
    skew.set(time.skewMs() / 1000);
    skews.reset();
    skews.inc(time.skews);
  };
}

// Sessions of the database server

function createForeignSessions(factory: MetricFactory, count = (): number => 0): () => void {
  const sessions = factory.counter(
    'store_foreign_sessions_total',
    'Sessions of the database server that another client of the pooler had altered.',
  );
  return () => {
    sessions.reset();
    sessions.inc(count());
  };
}

// Deliveries

const kinds: readonly DeliveryKind[] = ['first', 'redelivery', 'test', 'replay'];
const outcomes: readonly AttemptReport['result'][] = ['delivered', 'retry', 'failed'];

function createReporting(factory: MetricFactory): (report: DeliveryReport) => void {
  const attempt = createAttempts(factory);
  const disabled = factory.counter(
    'streams_disabled_total',
    'Streams that were disabled by their failures: by the limit that they reached, or as their receiver is gone.',
    ['reason'],
  );
  for (const reason of ['consecutive', 'total', 'gone']) disabled.inc({ reason }, 0);
  const settled = factory.histogram(
    'settle_batch_results',
    'Results of attempts recorded by one commit.',
    batchSizes,
  );
  const outages = factory.counter(
    'store_outages_total',
    'Outages of the store; each counts once, however long it is.',
  );
  const replacements = factory.counter(
    'store_replacements_total',
    'Times that the store had failed over or been restored, and the node joined again.',
  );
  const refused = factory.counter(
    'settle_refused_total',
    'Results that the store rejected: recorded without their texts, or stuck.',
    ['result'],
  );
  for (const result of ['without_texts', 'stuck']) refused.inc({ result }, 0);
  const shortages = factory.gauge(
    'shortage',
    '1 while this node is short of something that deliveries need, else 0.',
    ['resource'],
  );
  for (const resource of resources) shortages.set({ resource }, 0);
  const unexpected = factory.counter(
    'unexpected_errors_total',
    'Unexpected errors in delivery: bugs.',
  );

  return (report) => {
    switch (report.kind) {
      case 'attempt':
        return attempt(report);
      case 'settled':
        return settled.observe(report.outcomes);
      case 'stream_disabled':
        return disabled.inc({ reason: report.reason });
      case 'store_unavailable':
        return outages.inc();
      case 'store_replaced':
        return replacements.inc();
      case 'settle_culprit':
        return refused.inc({ result: 'without_texts' });
      case 'settle_stuck':
        return refused.inc({ result: 'stuck' });
      case 'shortage':
        return shortages.set({ resource: report.resource }, report.isOver ? 0 : 1);
      case 'unexpected':
        return unexpected.inc();
      case 'store_recovered':
      case 'receiver_down':
      case 'receiver_up':
      case 'stream_owned':
      case 'stream_lost':
    }
  };
}

function createAttempts(factory: MetricFactory): (report: AttemptReport) => void {
  const attempts = factory.counter(
    'attempts_total',
    'Attempts that ended, by the kind of the delivery and the outcome.',
    ['kind', 'outcome'],
  );
  for (const kind of kinds) {
    for (const outcome of outcomes) attempts.inc({ kind, outcome }, 0);
  }
  const durations = factory.histogram(
    'attempt_duration_seconds',
    'From the start of an attempt to its end.',
    attemptSeconds,
    ['outcome'],
  );
  for (const outcome of outcomes) durations.zero({ outcome });
  const latency = factory.histogram(
    'delivery_latency_seconds',
    'From the acceptance of an event to its delivery by the first cycle, with its retries.',
    latencySeconds,
  );
  return ({ deliveryKind: kind, result: outcome, durationMs, sincePublishedMs }) => {
    attempts.inc({ kind, outcome });
    durations.observe({ outcome }, durationMs / 1000);
    if (kind !== 'first' || outcome !== 'delivered' || sincePublishedMs === undefined) return;
    // Clocks of nodes differ: the time may be negative.
    latency.observe(Math.max(0, sincePublishedMs) / 1000);
  };
}

/** Sets the gauges of the dispatcher's state. */
function createState(
  factory: MetricFactory,
): (state: ReturnType<Dispatcher['state']>, appendsFail: boolean) => void {
  const streams = factory.gauge('streams_owned', 'Streams that this node owns.');
  const behind = factory.gauge(
    'streams_behind',
    'Streams that read pages of their log and are not at its end.',
  );
  const waiting = factory.gauge('streams_waiting', 'Streams that wait for a slot of the node.');
  const inFlight = factory.gauge('attempts_in_flight', 'Attempts in flight.');
  const inFlightBytes = factory.gauge(
    'attempts_in_flight_body_bytes',
    'Bytes of bodies of attempts in flight.',
  );
  const unsettled = factory.gauge('results_unsettled', 'Results that are not in the store yet.');
  const queued = factory.gauge(
    'queued_body_characters',
    'Characters of bodies that wait in memory to be sent.',
  );
  const tails = factory.gauge(
    'tail_body_characters',
    'Characters of bodies in memory because their events are the newest of their logs.',
  );
  const failing = factory.gauge(
    'store_failing',
    '1 while appends fail, or the dispatcher retries its commands to the store, else 0.',
  );
  return (state, appendsFail) => {
    streams.set(state.streams);
    behind.set(state.behind);
    waiting.set(state.waiting);
    inFlight.set(state.inFlight);
    inFlightBytes.set(state.inFlightBytes);
    unsettled.set(state.unsettled);
    queued.set(state.queuedBytes);
    tails.set(state.tailBytes);
    failing.set(state.storeFails || appendsFail ? 1 : 0);
  };
}

// Lag

/** Sets the gauges of the lag: of all streams together, and of those that lag most. */
function createLags(
  factory: MetricFactory,
  { time, streamsMax, clock }: Pick<MetricsDeps, 'time' | 'streamsMax' | 'clock'>,
): (backlogs: Iterable<Backlog>) => Promise<void> {
  const retries = factory.gauge(
    'retries_waiting',
    'First and test deliveries that wait for a retry, or whose attempt takes long.',
  );
  const lagging = factory.gauge(
    'streams_lagging',
    'Streams that have not passed all of their log.',
  );
  const all = factory.gauge('lag_events', 'Events not passed, summed over all streams.');
  const mostEvents = factory.gauge(
    'lag_events_max',
    'Events not passed by the stream that lags most.',
  );
  const mostSeconds = factory.gauge(
    'lag_seconds_max',
    'Age of the oldest event that some stream has not passed.',
  );
  const labels = ['tenant', 'stream'] as const;
  const events = factory.gauge(
    'stream_lag_events',
    'Events of every type that the cursor of the stream has not passed.',
    labels,
  );
  const seconds = factory.gauge(
    'stream_lag_seconds',
    'Age of the oldest event that the cursor of the stream has not passed.',
    labels,
  );
  return async (backlogs) => {
    const signal = new AbortController().signal;
    const yieldNow = createYield(clock);
    const yieldToOthers = (): Promise<void> => yieldNow(signal);
    const lags = await summarizeLags(backlogs, {
      now: time.now(),
      most: streamsMax,
      yieldToOthers,
    });
    retries.set(lags.retries);
    lagging.set(lags.lagging);
    all.set(lags.events);
    mostEvents.set(lags.eventsMax);
    mostSeconds.set(lags.secondsMax);
    events.reset();
    seconds.reset();
    for (const lag of lags.streams) {
      const stream = { tenant: lag.tenantName, stream: lag.stream };
      events.set(stream, lag.events);
      if (lag.seconds !== undefined) seconds.set(stream, lag.seconds);
    }
  };
}

// The log

function createAppends(factory: MetricFactory): (hint: Hint) => void {
  const published = factory.counter('events_published_total', 'Events that this node appended.');
  const batches = factory.histogram(
    'append_batch_events',
    'Events appended by one commit.',
    batchSizes,
  );
  return (hint) => {
    if (hint.kind !== 'appended') return;
    published.inc(hint.events.length);
    batches.observe(hint.events.length);
  };
}

// HTTP

/** Clients may send any method: a label has only these. */
const methods = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']);

function createRoutes(factory: MetricFactory): Metrics['route'] {
  const requests = factory.counter(
    'http_requests_total',
    'Responses, by route and class of status.',
    ['method', 'route', 'status'],
  );
  const durations = factory.histogram(
    'http_request_duration_seconds',
    'From the head of a request to its response.',
    responseSeconds,
    ['method', 'route'],
  );
  return (requested, route) => {
    const method = methods.has(requested) ? requested : 'other';
    // Created once, so that counting a response is cheap.
    const labels = { method, route };
    const byClass = ['0xx', '1xx', '2xx', '3xx', '4xx', '5xx'].map((status) => ({
      ...labels,
      status,
    }));
    // Set from the start: if the first error created the series, `rate` would not see an outage that
    // starts between two scrapes.
    requests.inc({ ...labels, status: '5xx' }, 0);
    return (status, durationMs) => {
      requests.inc(byClass[Math.floor(status / 100)] ?? { ...labels, status: 'other' });
      durations.observe(labels, durationMs / 1000);
    };
  };
}
