import type { StreamAlert } from './alert.ts';
import type { Millis } from '../core/clock.ts';
import type { HealthLimits, StreamStatus } from '../core/types.ts';

/** What was told of the streams of a tenant so far. JSON, as it is kept from look to look. */
export interface NotifiedState {
  /** By id; a stream of which nothing has to be remembered is left out. */
  readonly streams: Readonly<Record<string, Notified>>;
}

/** What was told of a stream. An absent member is 0 or never. */
export interface Notified {
  /** The highest step of each limit that counts as told. */
  readonly total?: number;
  readonly consecutive?: number;
  /** The automatic disabling that was told. */
  readonly disabledAt?: Millis;
}

/** What a look has found of one stream. */
export interface StreamHealth {
  readonly id: string;
  readonly name: string;
  readonly status: StreamStatus;
  /** Failures now open. */
  readonly total: number;
  /** Absent where it cannot be known. */
  readonly consecutive: number | undefined;
  /** Failures that no look before has told. */
  readonly newFailures: number;
  /** Of the newest failure, as `causeOf` leaves it. */
  readonly lastError: string | undefined;
  /** When it was last disabled by itself; `undefined` for never, or where nobody needs to know. */
  readonly disabledAt: Millis | undefined;
}

/** One look at the streams of a tenant that have something to tell; the others are well. */
export interface Snapshot {
  /** Name of the tenant. */
  readonly tenant: string;
  readonly at: Millis;
  readonly streams: readonly StreamHealth[];
}

export const initialState: NotifiedState = { streams: {} };

/** Percentages of a limit, and how far under a step a counter must fall so that it is told again. */
const STEPS = [50, 70, 90] as const;
const REARM_POINTS = 5;

/**
 * The rule of docs/monitoring.md#alerts: what to tell after a look, and what counts as told then. For
 * each stream at most one alert of each kind, so a look never tells more than three times as many
 * things as there are streams in trouble. In the order of the streams; of one stream its new
 * failures first.
 */
export function evaluate(
  state: NotifiedState,
  look: Snapshot,
  limits: HealthLimits,
): { readonly alerts: readonly StreamAlert[]; readonly state: NotifiedState } {
  const alerts: StreamAlert[] = [];
  const streams: Record<string, Notified> = {};
  for (const stream of look.streams) {
    const told = state.streams[stream.id] ?? {};
    const steps = {
      total: stepOf(stream.total, limits.total, told.total),
      // What cannot be seen changes nothing.
      consecutive:
        stream.consecutive === undefined
          ? (told.consecutive ?? 0)
          : stepOf(stream.consecutive, limits.consecutive, told.consecutive),
    };
    const disabledAt = stream.disabledAt ?? told.disabledAt;
    const about = aboutOf(stream, look, limits);
    if (stream.newFailures > 0) alerts.push({ ...about, kind: 'delivery_failures' });
    if (disabledAt !== told.disabledAt) alerts.push({ ...about, kind: 'stream_disabled' });
    const percent = Math.max(
      risen(steps.total, told.total),
      risen(steps.consecutive, told.consecutive),
    );
    if (percent > 0) alerts.push({ ...about, kind: 'threshold_near', percent });
    const remembered = notifiedOf({ ...steps, disabledAt });
    if (remembered !== undefined) streams[stream.id] = remembered;
  }
  return { alerts, state: { streams } };
}

/**
 * The step that counts as told once a counter has this value. It rises with the counter at once; it
 * falls only when the counter is clearly under the step, so that a counter that goes up and down
 * around it is told once.
 */
function stepOf(value: number, limit: number, told = 0): number {
  const reached = highestStep(value, limit, 0);
  return reached >= told ? reached : Math.min(told, highestStep(value, limit, REARM_POINTS));
}

/** The highest step that is reached when every step lies `points` lower; 0 for none. */
function highestStep(value: number, limit: number, points: number): number {
  return STEPS.findLast((step) => value * 100 >= limit * (step - points)) ?? 0;
}

function risen(step: number, told = 0): number {
  return step > told ? step : 0;
}

function aboutOf(
  stream: StreamHealth,
  look: Snapshot,
  limits: HealthLimits,
): Omit<StreamAlert, 'kind'> {
  const { id, name, newFailures, total, consecutive, lastError } = stream;
  return {
    tenant: look.tenant,
    stream: { id, name },
    newFailures,
    total,
    ...(consecutive === undefined ? {} : { consecutive }),
    ...(lastError === undefined ? {} : { lastError }),
    limits,
    at: look.at,
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
  const told = {
    ...(total === 0 ? {} : { total }),
    ...(consecutive === 0 ? {} : { consecutive }),
    ...(disabledAt === undefined ? {} : { disabledAt }),
  };
  return Object.keys(told).length === 0 ? undefined : told;
}
