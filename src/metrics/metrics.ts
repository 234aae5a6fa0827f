import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client';
import type { Clock } from '../core/clock.ts';
import type { DeliveryKind } from '../core/types.ts';
import type { Backlog } from '../delivery/backlog.ts';
import type { Dispatcher } from '../delivery/dispatcher.ts';
import type { AttemptReport, DeliveryReport } from '../delivery/report.ts';
import type { StoreTime } from '../store/port/time.ts';
import type { Hint } from '../store/port/hints.ts';
import { summarizeLags } from './lag-summary.ts';
import { createYield } from '../core/sleep.ts';

/**
 * What a node counts of its work, for Prometheus. Only the lag of single streams has labels that
 * name tenants and streams, and only of so many streams; every other label has few values.
 */
export interface Metrics {
  /** The `Content-Type` of the text. */
  readonly contentType: string;
  /** All of it as it is now (Prometheus, Text-based format, version 0.0.4). */
  text(): Promise<string>;
  /** Counts what the dispatcher tells. */
  report(report: DeliveryReport): void;
  /** Counts the commits of the log. */
  hint(hint: Hint): void;
  /**
   * Counts the answers of a route. Called once for each; what it answers is called for each answer.
   * `pattern` is the path with names for its variable parts.
   */
  route(method: string, pattern: string): (status: number, durationMs: number) => void;
  /** Counts a connection that was closed because there were too many. */
  connectionRefused(this: void): void;
  /** From now on the text tells how this dispatcher stands. */
  follow(dispatcher: Standing): void;
  /** From now on it tells how many of these pulls are open. */
  followPulls(pulls: OpenPulls): void;
  /** From now on it tells how many of these lookups there are. */
  followLookups(lookups: PresentLookups): void;
}

/** What is asked of a dispatcher each time that the text is asked for. */
export type Standing = Pick<Dispatcher, 'state' | 'backlogs'>;

/** The name lookups of a node. */
export interface PresentLookups {
  count(): { readonly waiting: number; readonly underWay: number };
}

/** The pulls of a node. */
export interface OpenPulls {
  readonly open: number;
}

export interface MetricsDeps {
  /** Every name begins with it, `-` written as `_`. */
  readonly serviceName: string;
  readonly version: string;
  /** Of the store: it knows when events were accepted, and whether this node's clock is right. */
  readonly time: StoreTime;
  readonly clock: Pick<Clock, 'after' | 'elapsedMs'>;
  /** Streams that have a lag of their own in the text, at the most. */
  readonly streamsMax: number;
}

/** See {@link Metrics}. */
export function createMetrics(deps: MetricsDeps): Metrics {
  const { serviceName, version, time, streamsMax, clock } = deps;
  const registry = new Registry();
  const make = createMaker(registry, serviceName.replaceAll('-', '_'));
  make.gauge('build_info', 'Always 1; the label has the version.', ['version']).set({ version }, 1);
  const standing = createStanding(make);
  const lags = createLags(make, { time, streamsMax, clock });
  const clocks = createClocks(make, time);
  const pullsOpen = make.gauge('pulls_open', 'Open pulls of events.');
  const waiting = make.gauge('name_lookups_waiting', 'Name lookups that wait for their turn.');
  const underWay = make.gauge('name_lookups_under_way', 'Name lookups under way.');
  const connectionsRefused = make.counter(
    'connections_refused_total',
    'Connections to the management API closed: too many, of one address or in total, or 64 requests without a response on one.',
  );
  let followed: Standing | undefined;
  let pulls: OpenPulls = { open: 0 };
  let lookups: PresentLookups | undefined;
  collectDefaultMetrics({ register: registry });

  return {
    contentType: registry.contentType,
    text: async () => {
      if (followed !== undefined) {
        await lags(followed.backlogs());
        standing(followed.state());
      }
      clocks();
      pullsOpen.set(pulls.open);
      waiting.set(lookups?.count().waiting ?? 0);
      underWay.set(lookups?.count().underWay ?? 0);
      return registry.metrics();
    },
    report: createReporting(make),
    hint: createAppends(make),
    route: createRoutes(make),
    connectionRefused: () => connectionsRefused.inc(),
    follow: (dispatcher) => {
      followed = dispatcher;
    },
    followPulls: (present) => {
      pulls = present;
    },
    followLookups: (present) => {
      lookups = present;
    },
  };
}

// Buckets, in seconds or in numbers of things

const answerSeconds = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5];
const attemptSeconds = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];
/** Up to an hour: what a receiver that is away holds up counts once it is delivered. */
const latencySeconds = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60, 600, 3600];
const batchSizes = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000];

/** Makes metrics of one registry, with their prefix. */
interface Maker {
  counter<L extends string = never>(
    name: string,
    help: string,
    labelNames?: readonly L[],
  ): Counter<L>;
  gauge<L extends string = never>(name: string, help: string, labelNames?: readonly L[]): Gauge<L>;
  histogram<L extends string = never>(
    name: string,
    help: string,
    buckets: readonly number[],
    labelNames?: readonly L[],
  ): Histogram<L>;
}

function createMaker(registry: Registry, prefix: string): Maker {
  const registers = [registry];
  const named = (name: string): string => `${prefix}_${name}`;
  return {
    counter: (name, help, labelNames = []) =>
      new Counter({ name: named(name), help, labelNames, registers }),
    gauge: (name, help, labelNames = []) =>
      new Gauge({ name: named(name), help, labelNames, registers }),
    histogram: (name, help, buckets, labelNames = []) =>
      new Histogram({ name: named(name), help, labelNames, registers, buckets: [...buckets] }),
  };
}

// Clocks

/** Compares the wall clock of this node with the store's. */
function createClocks(make: Maker, time: StoreTime): () => void {
  const skew = make.gauge(
    'clock_skew_seconds',
    'By how much the clock of this node is ahead of the store, negative when it is behind.',
  );
  const skews = make.counter(
    'clock_skews_total',
    'Times that the clocks of this node and of the store began to differ by more than a minute.',
  );
  let counted = 0;
  return () => {
    skew.set(time.skewMs() / 1000);
    skews.inc(time.skews - counted);
    counted = time.skews;
  };
}

// Deliveries

const kinds: readonly DeliveryKind[] = ['first', 'redelivery', 'test', 'replay'];
const outcomes: readonly AttemptReport['result'][] = ['delivered', 'retry', 'failed'];

function createReporting(make: Maker): (report: DeliveryReport) => void {
  const attempt = createAttempts(make);
  const disabled = make.counter(
    'streams_disabled_total',
    'Streams disabled by themselves, by the limit that they reached.',
    ['reason'],
  );
  for (const reason of ['consecutive', 'total']) disabled.inc({ reason }, 0);
  const settled = make.histogram(
    'settle_batch_results',
    'Results of attempts recorded by one commit.',
    batchSizes,
  );
  const outages = make.counter(
    'store_outages_total',
    'Times that the store failed the dispatcher; an outage counts once, however long it is.',
  );
  const replacements = make.counter(
    'store_replacements_total',
    'Times that the store turned out to have failed over or been restored, and the node joined again.',
  );
  const refused = make.counter(
    'settle_refused_total',
    'Results that the store refused: recorded without their texts, or stuck.',
    ['result'],
  );
  for (const result of ['without_texts', 'stuck']) refused.inc({ result }, 0);
  const unexpected = make.counter('unexpected_errors_total', 'Bugs met in delivery.');

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
      case 'unexpected':
        return unexpected.inc();
      case 'store_recovered':
      case 'stream_owned':
      case 'stream_lost':
    }
  };
}

function createAttempts(make: Maker): (report: AttemptReport) => void {
  const attempts = make.counter(
    'attempts_total',
    'Attempts that ended, by the kind of the delivery and what came of them.',
    ['kind', 'outcome'],
  );
  for (const kind of kinds) {
    for (const outcome of outcomes) attempts.inc({ kind, outcome }, 0);
  }
  const durations = make.histogram(
    'attempt_duration_seconds',
    'From the start of an attempt to its end.',
    attemptSeconds,
    ['outcome'],
  );
  for (const outcome of outcomes) durations.zero({ outcome });
  const latency = make.histogram(
    'delivery_latency_seconds',
    'From the acceptance of an event to its delivery by the first cycle, with its retries.',
    latencySeconds,
  );
  return ({ deliveryKind: kind, result: outcome, durationMs, sincePublishedMs }) => {
    attempts.inc({ kind, outcome });
    durations.observe({ outcome }, durationMs / 1000);
    if (kind !== 'first' || outcome !== 'delivered' || sincePublishedMs === undefined) return;
    // Clocks of nodes differ.
    latency.observe(Math.max(0, sincePublishedMs) / 1000);
  };
}

/** Tells how the dispatcher stands as a whole. */
function createStanding(make: Maker): (state: ReturnType<Dispatcher['state']>) => void {
  const streams = make.gauge('streams_owned', 'Streams that this node works for.');
  const behind = make.gauge('streams_behind', 'Streams that still read to the end of their log.');
  const waiting = make.gauge('streams_waiting', 'Streams that wait for a slot of the node.');
  const inFlight = make.gauge('attempts_in_flight', 'Attempts under way.');
  const inFlightBytes = make.gauge(
    'attempts_in_flight_body_bytes',
    'Bytes of bodies of attempts under way.',
  );
  const unsettled = make.gauge('results_unsettled', 'Results that are not in the store yet.');
  const queued = make.gauge(
    'queued_body_characters',
    'Characters of bodies that wait in memory to be sent.',
  );
  const tails = make.gauge(
    'tail_body_characters',
    'Characters of bodies in memory because their events are the newest of their logs.',
  );
  const failing = make.gauge(
    'store_failing',
    'Whether the store has failed the dispatcher and what failed is being repeated: 1 or 0.',
  );
  return (state) => {
    streams.set(state.streams);
    behind.set(state.behind);
    waiting.set(state.waiting);
    inFlight.set(state.inFlight);
    inFlightBytes.set(state.inFlightBytes);
    unsettled.set(state.unsettled);
    queued.set(state.queuedBytes);
    tails.set(state.tailBytes);
    failing.set(state.storeFails ? 1 : 0);
  };
}

// Lag

/** Tells how far the streams are behind: all of them together, and those that are so most. */
function createLags(
  make: Maker,
  { time, streamsMax, clock }: Pick<MetricsDeps, 'time' | 'streamsMax' | 'clock'>,
): (backlogs: Iterable<Backlog>) => Promise<void> {
  const retries = make.gauge(
    'retries_waiting',
    'First and test deliveries that wait for a retry, or whose attempt takes long.',
  );
  const lagging = make.gauge('streams_lagging', 'Streams that have not passed all of their log.');
  const all = make.gauge('lag_events', 'Events not passed, summed over all streams.');
  const mostEvents = make.gauge('lag_events_max', 'Events not passed by the last of all streams.');
  const mostSeconds = make.gauge(
    'lag_seconds_max',
    'Age of the oldest event that some stream has not passed.',
  );
  const labels = ['tenant', 'stream'] as const;
  const events = make.gauge(
    'stream_lag_events',
    'Events of every type that the cursor of the stream has not passed.',
    labels,
  );
  const seconds = make.gauge(
    'stream_lag_seconds',
    'Age of the oldest event that the cursor of the stream has not passed.',
    labels,
  );
  return async (backlogs) => {
    const signal = new AbortController().signal;
    const breaks = createYield(clock);
    const rest = (): Promise<void> => breaks(signal);
    const lags = await summarizeLags(backlogs, { now: time.now(), most: streamsMax, rest });
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

function createAppends(make: Maker): (hint: Hint) => void {
  const published = make.counter('events_published_total', 'Events that this node appended.');
  const batches = make.histogram(
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

/** What any client may send is not for a label to have. */
const methods = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']);

function createRoutes(make: Maker): Metrics['route'] {
  const requests = make.counter(
    'http_requests_total',
    'Requests answered, by route and class of status.',
    ['method', 'route', 'status'],
  );
  const durations = make.histogram(
    'http_request_duration_seconds',
    'From the head of a request to its answer.',
    answerSeconds,
    ['method', 'route'],
  );
  return (sent, route) => {
    const method = methods.has(sent) ? sent : 'other';
    // Made once, so that an answer costs no more than its counting.
    const labels = { method, route };
    const byClass = ['0xx', '1xx', '2xx', '3xx', '4xx', '5xx'].map((status) => ({
      ...labels,
      status,
    }));
    // From the start, else the first errors of a route would make the series and not raise it:
    // `rate` sees nothing of an outage that begins between two scrapes and is as long.
    requests.inc({ ...labels, status: '5xx' }, 0);
    return (status, durationMs) => {
      requests.inc(byClass[Math.floor(status / 100)] ?? { ...labels, status: 'other' });
      durations.observe(labels, durationMs / 1000);
    };
  };
}
