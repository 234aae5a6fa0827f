import type { Millis } from '../core/clock.ts';
import { formatTime } from '../core/date.ts';
import { Histogram } from '../core/histogram.ts';
import { isValidAt } from '../core/streams.ts';
import type { HealthLimits, Stream } from '../core/types.ts';
import type { ReplayShown } from '../schemas/replays.ts';
import type { StreamHealthShown } from '../schemas/stream-health.ts';
import type { StreamFacts, StreamStore } from '../store/port/streams.ts';

/** What the health of a stream is made of. */
export interface HealthSources {
  readonly stream: Stream;
  readonly facts: StreamFacts;
  /** The last 24 hours, the present one included. */
  readonly hours: Awaited<ReturnType<StreamStore['stats']>>;
  /** Milliseconds; `undefined` without first deliveries in these hours. */
  readonly p95: number | undefined;
  readonly replay: ReplayShown | undefined;
  readonly limits: HealthLimits;
}

/** Returns the health of a stream (docs/http-api.md#health-of-an-event-stream). */
export function showHealth({
  stream,
  facts,
  hours,
  p95,
  replay,
  limits,
}: HealthSources): StreamHealthShown {
  const { health, waiting } = facts;
  const lagMs = waiting.oldestAt === undefined ? 0 : Math.max(0, facts.now - waiting.oldestAt);
  const seconds = Math.floor(lagMs / 1000);
  return {
    event_stream_id: stream.id,
    name: stream.name,
    endpoint_host: new URL(stream.destination.endpoint).host,
    state: stateOf(stream, facts, seconds),
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
    success_24h: successOf(hours),
    p95_24h_ms: p95 ?? null,
    retrying: facts.retrying,
    in_flight: facts.parked,
    next_attempt_at: timeOrNull(facts.nextDueAt),
    last_delivered_at: timeOrNull(facts.lastDeliveredAt),
    last_failed_at: timeOrNull(facts.lastFailedAt),
    signing_secrets: stream.signingSecrets
      .filter((secret) => isValidAt(secret, facts.now))
      .map(({ createdAt, expiresAt }) => ({
        created_at: formatTime(createdAt),
        expires_at: timeOrNull(expiresAt),
      })),
    replay: replay ?? null,
  };
}

/** Returns the 95th percentile of latency of stored histograms; `undefined` without deliveries. */
export function p95Of(latencies: readonly string[]): number | undefined {
  const histogram = new Histogram();
  for (const latency of latencies) histogram.merge(latency);
  return histogram.percentile(0.95);
}

/** Seconds from which on a stream lags. */
const laggingSeconds = 300;

function stateOf(
  { status, paused }: Stream,
  { health }: StreamFacts,
  lagSeconds: number,
): StreamHealthShown['state'] {
  if (status === 'disabled') return 'disabled';
  if (paused !== undefined) return 'paused';
  if (health.consecutive > 0) return 'failing';
  return lagSeconds >= laggingSeconds ? 'lagging' : 'ok';
}

function showPause({ paused }: Stream): StreamHealthShown['paused'] {
  return paused ? { at: formatTime(paused.at), reason: paused.reason ?? null } : null;
}

function showDisabled(
  { status, updatedAt }: Stream,
  { health, disabled, waiting }: StreamFacts,
  limits: HealthLimits,
): StreamHealthShown['disabled'] {
  if (status === 'enabled') return null;
  return {
    // Programs before recorded no reason, except for lag.
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

function successOf(hours: HealthSources['hours']): number | null {
  const delivered = hours.reduce((sum, hour) => sum + hour.delivered, 0);
  const all = hours.reduce((sum, hour) => sum + hour.failed, delivered);
  return all === 0 ? null : Math.round((delivered / all) * 10_000) / 10_000;
}

function timeOrNull(at: Millis | undefined): string | null {
  return at === undefined ? null : formatTime(at);
}
