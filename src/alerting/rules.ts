import type { StreamAlert } from './alert.ts';
import type { Causes } from './causes.ts';
import type { Millis } from '../core/clock.ts';
import type { HealthLimits, StreamStatus } from '../core/types.ts';
import type { DisabledReason } from '../store/port/streams.ts';

/** What was reported of the streams of a tenant. A stored format, as JSON. */
export interface NotifiedState {
  /** By stream id; a stream of which nothing has to be remembered is absent. */
  readonly streams: Readonly<Record<string, Notified>>;
}

/** What was reported of a stream. An absent field is 0 or never. */
export interface Notified {
  /** The highest step of each limit that counts as reported. */
  readonly total?: number;
  readonly consecutive?: number;
  /** The automatic disabling that was reported. */
  readonly disabledAt?: Millis;
}

/** State of one stream at a check. */
export interface StreamHealth {
  readonly id: string;
  readonly name: string;
  readonly status: StreamStatus;
  /** Open failures. */
  readonly total: number;
  /** Failed deliveries since the last success. */
  readonly consecutive: number;
  /** Failures that were not reported before. */
  readonly newFailures: number;
  /** Of the newest failure, as `causeOf` returns it. */
  readonly lastError: string | undefined;
  /** Error codes of the new failures. */
  readonly causes: Causes;
  /** When results disabled it last; `undefined` for never, or before the last check. */
  readonly disabledAt: Millis | undefined;
  /** Why it is disabled; absent while it is enabled, and where it is unknown. */
  readonly disabledReason?: DisabledReason | undefined;
}

/** The streams of a tenant at one check; healthy streams may be absent. */
export interface Snapshot {
  /** Name of the tenant. */
  readonly tenant: string;
  readonly at: Millis;
  readonly streams: readonly StreamHealth[];
}

export const initialState: NotifiedState = { streams: {} };

/** Percentages of a limit that are reported. */
const STEPS = [50, 70, 90] as const;
/** A step is reported again only after the counter was this many points below it. */
const REARM_POINTS = 5;

/**
 * Evaluates the alert rules of docs/monitoring.md#alerts against a snapshot; returns the alerts and
 * the new notified state. A stream that was disabled has this alert alone, as it has the failures that led
 * to it; any other one has at most one alert of each kind. Alerts are in the order of the streams; of one
 * stream its new failures come first.
 */
export function evaluate(
  state: NotifiedState,
  snapshot: Snapshot,
  limits: HealthLimits,
): { readonly alerts: readonly StreamAlert[]; readonly state: NotifiedState } {
  const alerts: StreamAlert[] = [];
  const streams: Record<string, Notified> = {};
  for (const stream of snapshot.streams) {
    const notified = state.streams[stream.id] ?? {};
    const steps = {
      total: stepOf(stream.total, limits.total, notified.total),
      consecutive: stepOf(stream.consecutive, limits.consecutive, notified.consecutive),
    };
    const disabledAt = stream.disabledAt ?? notified.disabledAt;
    const isNewlyDisabled = disabledAt !== notified.disabledAt;
    alerts.push(
      ...(isNewlyDisabled
        ? [disabledAlert(stream, snapshot, limits)]
        : failureAlerts(stream, percentOf(steps, notified), snapshot, limits)),
    );
    // Of one that is enabled again, the next check warns.
    const isWarned = !isNewlyDisabled || stream.status === 'disabled';
    const next = notifiedOf({ ...(isWarned ? steps : lower(steps, notified)), disabledAt });
    if (next !== undefined) streams[stream.id] = next;
  }
  return { alerts, state: { streams } };
}

function disabledAlert(
  stream: StreamHealth,
  snapshot: Snapshot,
  limits: HealthLimits,
): StreamAlert {
  const { disabledReason: reason } = stream;
  const alert = alertOf(stream, snapshot, limits);
  return { ...alert, kind: 'stream_disabled', ...(reason === undefined ? {} : { reason }) };
}

/** Returns the alerts about new failures, and about a limit that comes near: none once it is passed. */
function failureAlerts(
  stream: StreamHealth,
  percent: number,
  snapshot: Snapshot,
  limits: HealthLimits,
): StreamAlert[] {
  const alert = alertOf(stream, snapshot, limits);
  const isNear = percent > 0 && stream.status === 'enabled';
  return [
    ...(stream.newFailures > 0 ? [{ ...alert, kind: 'delivery_failures' } as const] : []),
    ...(isNear ? [{ ...alert, kind: 'threshold_near', percent } as const] : []),
  ];
}

interface Steps {
  readonly total: number;
  readonly consecutive: number;
}

/** Returns the highest step that was not reported; 0 for none. */
function percentOf(steps: Steps, notified: Notified): number {
  return Math.max(
    newStep(steps.total, notified.total),
    newStep(steps.consecutive, notified.consecutive),
  );
}

function lower(steps: Steps, { total = 0, consecutive = 0 }: Notified): Steps {
  return {
    total: Math.min(steps.total, total),
    consecutive: Math.min(steps.consecutive, consecutive),
  };
}

/**
 * Returns the step that counts as reported once a counter has this value. It rises at once. It falls
 * only when the counter is clearly below the step, so that a counter that goes up and down around a
 * step is reported once.
 */
function stepOf(value: number, limit: number, notified = 0): number {
  const reached = highestStep(value, limit, 0);
  return reached >= notified
    ? reached
    : Math.min(notified, highestStep(value, limit, REARM_POINTS));
}

/** Returns the highest step that is reached when every step is lowered by `points`; 0 for none. */
function highestStep(value: number, limit: number, points: number): number {
  return STEPS.findLast((step) => value * 100 >= limit * (step - points)) ?? 0;
}

/** Returns the step if it is higher than the one that was reported, else 0. */
function newStep(step: number, notified = 0): number {
  return step > notified ? step : 0;
}

function alertOf(
  { id, name, newFailures, total, consecutive, lastError, causes }: StreamHealth,
  { tenant, at }: Snapshot,
  limits: HealthLimits,
): Omit<StreamAlert, 'kind'> {
  return {
    tenant,
    stream: { id, name },
    newFailures,
    total,
    consecutive,
    ...(lastError === undefined ? {} : { lastError }),
    causes,
    limits,
    at,
  };
}

function notifiedOf({
  total,
  consecutive,
  disabledAt,
}: {
  readonly total: number;
  readonly consecutive: number;
  readonly disabledAt: Millis | undefined;
}): Notified | undefined {
  const notified = {
    ...(total === 0 ? {} : { total }),
    ...(consecutive === 0 ? {} : { consecutive }),
    ...(disabledAt === undefined ? {} : { disabledAt }),
  };
  return Object.keys(notified).length === 0 ? undefined : notified;
}
