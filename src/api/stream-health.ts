import type { Millis } from '../core/clock.ts';
import { formatTime } from '../core/date.ts';
import { Histogram } from '../core/histogram.ts';
import { type StreamState, streamStateOf } from '../core/stream-state.ts';
import { leaseMsOf } from '../core/lease.ts';
import { isValidAt } from '../core/streams.ts';
import type { HealthLimits } from '../core/types.ts';
import { hourMs } from '../core/units.ts';
import type { ReplayShown } from '../schemas/replays.ts';
import type { StreamHealthShown } from '../schemas/stream-health.ts';
import type { Store } from '../store/port/store.ts';
import type { ListedStream, StreamFacts } from '../store/port/streams.ts';
import { showReplay } from './replays.ts';
import type { ApiSettings } from './settings.ts';

/** How many deliveries succeeded, and became failures. */
interface Results {
  readonly delivered: number;
  readonly failed: number;
}

/** What the health of a stream is made of. */
interface HealthSources {
  readonly stream: ListedStream;
  readonly facts: StreamFacts;
  /** Of the last 24 hours, the present one included; `undefined` without any. */
  readonly results: Results | undefined;
  /** Milliseconds; `undefined` without first deliveries in these hours. */
  readonly p95: number | undefined;
  readonly replay: ReplayShown | undefined;
  readonly limits: HealthLimits;
  readonly settings: HealthDeps['settings'];
}

export interface HealthDeps {
  readonly store: Pick<Store, 'streams' | 'log' | 'replays' | 'deliveryStats'>;
  readonly settings: Pick<
    ApiSettings,
    'disableConsecutive' | 'disableTotal' | 'attemptTimeoutMs' | 'leaseGraceMs'
  >;
}

/** Streams of one tenant by id, with their secrets unsealed (opened), or a promise of them. */
export interface OpenedStreams {
  readonly tenant: number;
  readonly ids: readonly string[];
  readonly opened: ReadonlyMap<string, ListedStream> | Promise<ReadonlyMap<string, ListedStream>>;
}

/** Returns the health of streams, in order, without those that do not exist any more. */
export async function healthsOf(
  { store, settings }: HealthDeps,
  { tenant, ids, opened }: OpenedStreams,
  now: Millis,
): Promise<StreamHealthShown[]> {
  const lastHour = Math.floor(now / hourMs) * hourMs;
  const window = { from: lastHour - 23 * hourMs, to: lastHour + hourMs };
  const [streams, found, sums, latencies] = await Promise.all([
    opened,
    store.streams.factsOf(tenant, ids),
    store.streams.statsSums(tenant, ids, window),
    store.deliveryStats.latencies(tenant, ids, window.from),
  ]);
  const latenciesOf = Map.groupBy(latencies, ({ stream }) => stream);
  const { disableConsecutive: consecutive, disableTotal: total } = settings;
  const shown: StreamHealthShown[] = [];
  for (const id of ids) {
    const [stream, facts] = [streams.get(id), found.get(id)];
    if (stream === undefined || facts === undefined) continue;
    const p95 = p95Of(latenciesOf.get(id)?.map(({ latency }) => latency) ?? []);
    const replay = await replayOf(store, tenant, id, facts.replay);
    const limits = { consecutive, total };
    const results = sums.get(id);
    shown.push(showHealth({ stream, facts, results, p95, replay, limits, settings }));
  }
  return shown;
}

async function replayOf(
  { replays, log }: HealthDeps['store'],
  tenant: number,
  stream: string,
  id: string | undefined,
): Promise<ReplayShown | undefined> {
  const running = id === undefined ? undefined : await replays.get(tenant, stream, id);
  return running && showReplay(log, running);
}

/** Returns the health of a stream (docs/http-api.md#health-of-an-event-stream). */
function showHealth({
  stream,
  facts,
  results,
  p95,
  replay,
  limits,
  settings,
}: HealthSources): StreamHealthShown {
  const { health, waiting } = facts;
  const lagMs = waiting.oldestAt === undefined ? 0 : Math.max(0, facts.now - waiting.oldestAt);
  const seconds = Math.floor(lagMs / 1000);
  return {
    event_stream_id: stream.id,
    name: stream.name,
    endpoint_host: new URL(stream.destination.endpoint).host,
    state: stateOf(stream, facts, lagMs),
    status: stream.status,
    paused: showPause(stream),
    disabled: showDisabled(stream, facts, limits),
    failures: {
      consecutive: health.consecutive,
      open: health.total,
      limit_consecutive: limits.consecutive,
      limit_open: limits.total,
    },
    lag: { events: waiting.count, at_least: waiting.atLeast, seconds },
    success_24h: successOf(results),
    p95_24h_ms: p95 ?? null,
    retrying: facts.retrying,
    in_flight: facts.parked,
    in_flight_seconds: inFlightSeconds(stream, facts, settings),
    next_attempt_at: timeOrNull(facts.nextDueAt),
    last_delivered_at: timeOrNull(facts.lastDeliveredAt),
    last_failed_at: timeOrNull(facts.lastFailedAt),
    failing_since: timeOrNull(facts.failingSince),
    results_refused: facts.refused
      ? { since: formatTime(facts.refused.since), code: facts.refused.code }
      : null,
    signing_secrets: stream.signingSecrets
      .filter((secret) => isValidAt(secret, facts.now))
      .map(({ createdAt, expiresAt }) => ({
        created_at: formatTime(createdAt),
        expires_at: timeOrNull(expiresAt),
      })),
    replay: replay ?? null,
  };
}

function stateOf(
  { status, paused }: ListedStream,
  { health, refused, failingSince, overdueSince, now }: StreamFacts,
  lagMs: number,
): StreamState {
  const { consecutive } = health;
  const failing = { consecutive, isRefused: refused !== undefined, failingSince, overdueSince };
  return streamStateOf({ status, isPaused: paused !== undefined, lagMs, ...failing }, now);
}

/** Returns how long the oldest attempt is under way: its lease began with it. */
function inFlightSeconds(
  { delivery }: ListedStream,
  { parkedUntil, now }: StreamFacts,
  settings: Parameters<typeof leaseMsOf>[0],
): number {
  if (parkedUntil === undefined) return 0;
  const begunAt = parkedUntil - leaseMsOf(settings, delivery);
  return Math.max(0, Math.floor((now - begunAt) / 1000));
}

/** Returns the 95th percentile of latency of stored histograms; `undefined` without deliveries. */
function p95Of(latencies: readonly string[]): number | undefined {
  const histogram = new Histogram();
  for (const latency of latencies) histogram.merge(latency);
  return histogram.percentile(0.95);
}

function showPause({ paused }: ListedStream): StreamHealthShown['paused'] {
  return paused ? { at: formatTime(paused.at), reason: paused.reason ?? null } : null;
}

function showDisabled(
  { status, updatedAt }: ListedStream,
  { health, disabled, waiting }: StreamFacts,
  limits: HealthLimits,
): StreamHealthShown['disabled'] {
  if (status === 'enabled') return null;
  return {
    // Versions before the baseline recorded no reason, except for lag.
    reason: disabled.reason ?? reasonBy(health, limits),
    at: formatTime(disabled.since ?? updatedAt),
    last_error_code: disabled.code ?? null,
    waiting_events: waiting.count,
    at_least: waiting.atLeast,
  };
}

function reasonBy(
  { consecutive, total }: HealthLimits,
  limits: HealthLimits,
): 'consecutive_failures' | 'open_failures' | 'by_hand' {
  if (consecutive >= limits.consecutive) return 'consecutive_failures';
  return total >= limits.total ? 'open_failures' : 'by_hand';
}

function successOf({ delivered, failed }: Results = { delivered: 0, failed: 0 }): number | null {
  const all = delivered + failed;
  return all === 0 ? null : Math.round((delivered / all) * 10_000) / 10_000;
}

function timeOrNull(at: Millis | undefined): string | null {
  return at === undefined ? null : formatTime(at);
}
