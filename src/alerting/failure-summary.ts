import type { Clock, Millis } from '../core/clock.ts';
import type { Log } from '../core/log.ts';
import { createYield } from '../core/sleep.ts';
import { errorCodeOf } from '../core/attempt-error.ts';
import type { ErrorCode } from '../core/error-code.ts';
import type { Tenant } from '../core/types.ts';
import type { FailingStream } from '../store/port/alert-state.ts';
import type { NewFailure } from '../store/port/deliveries.ts';
import type { FailureStore } from '../store/port/failures.ts';
import type { Store } from '../store/port/store.ts';
import { causeOf, type StreamAlert } from './alert.ts';
import { type CauseCounter, type Causes, createCauseCounter, noCauses } from './causes.ts';
import {
  readFrom,
  type ReportedFailure,
  type ReportedFailures,
  rememberedPerStream,
} from './reported-failures.ts';
import type { StreamHealth } from './rules.ts';

export interface FailureSummaryDeps {
  readonly store: {
    readonly alertState: Pick<Store['alertState'], 'failingStreams'>;
    readonly deliveries: Pick<Store['deliveries'], 'newFailures'>;
  };
  readonly clock: Pick<Clock, 'after' | 'elapsedMs'>;
  readonly log: Pick<Log, 'info'>;
  readonly settings: { readonly pageFailures: number };
}

/** What earlier checks of the tenant have read. */
export interface EarlierChecks {
  /** When the last complete check began. */
  readonly lookedAt?: Millis | undefined;
  readonly recent: Readonly<Record<string, ReportedFailures>>;
  /** By how much the clock was set back since. */
  readonly clockStepMs: number;
}

export interface FailureSummary {
  readonly streams: readonly StreamHealth[];
  /** Reported failures that the next check may read again, by stream, newest first. */
  readonly reported: ReadonlyMap<string, readonly ReportedFailure[]>;
}

/**
 * Reads the failing streams of a tenant with their new failures. Returns `undefined` when aborted, or
 * when `renew` returns false because another node has taken over.
 */
export async function readFailureSummary(
  deps: FailureSummaryDeps,
  tenant: Tenant,
  { lookedAt, recent, clockStepMs }: EarlierChecks,
  renew: () => Promise<boolean>,
  signal: AbortSignal,
): Promise<FailureSummary | undefined> {
  const since = readFrom(lookedAt, clockStepMs);
  // The window is open: nodes whose clocks are ahead record failures of the future.
  const window = { since, upTo: Number.MAX_SAFE_INTEGER };
  const streams: StreamHealth[] = [];
  const reported = new Map<string, readonly ReportedFailure[]>();
  const yieldToOthers = createYield(deps.clock);
  const mayContinue = async (): Promise<boolean> => {
    await yieldToOthers(signal);
    return !signal.aborted && renew();
  };
  for (const stream of await deps.store.alertState.failingStreams(tenant.id, window)) {
    if (!(await mayContinue())) return undefined;
    const earlier = recent[stream.id];
    const from = clockStepMs > 0 ? since : (earlier?.from ?? since);
    const failures = stream.failedWithin
      ? await readNewFailures(deps, tenant, stream, { from, earlier }, mayContinue)
      : noFailures;
    if (failures === undefined) return undefined;
    const { newest, newFailures, lastError, causes } = failures;
    reported.set(
      stream.id,
      [...newest, ...(earlier?.told ?? [])].toSorted(([a], [b]) => b - a),
    );
    const { id, name, status, health, disabledReason } = stream;
    const disabledAt = (stream.disabledAt ?? 0) > since ? stream.disabledAt : undefined;
    const disabled = { disabledAt, disabledReason };
    streams.push({ id, name, status, ...health, newFailures, lastError, causes, ...disabled });
  }
  return { streams, reported };
}

interface NewFailures {
  readonly newFailures: number;
  /** The newest of them, one more than may be remembered. */
  readonly newest: readonly ReportedFailure[];
  readonly lastError: string | undefined;
  readonly causes: Causes;
}

const noFailures: NewFailures = {
  newFailures: 0,
  newest: [],
  lastError: undefined,
  causes: noCauses,
};

/** Logs each failure after `from` that was not reported before, page by page, newest first. */
async function readNewFailures(
  { store, log, settings }: FailureSummaryDeps,
  tenant: Tenant,
  stream: FailingStream,
  { from, earlier }: { readonly from: Millis; readonly earlier: ReportedFailures | undefined },
  mayContinue: () => Promise<boolean>,
): Promise<NewFailures | undefined> {
  const known = new Set(earlier?.told.map(([failedAt, eventId]) => `${failedAt} ${eventId}`));
  const newest: ReportedFailure[] = [];
  const counter = createCauseCounter();
  let newFailures = 0;
  let lastError: string | undefined;
  let after: string | undefined;
  do {
    const page = await store.deliveries.newFailures(tenant.id, stream.id, {
      after,
      take: settings.pageFailures,
      failedAfter: from,
    });
    for (const failure of page.items) {
      const { eventId, eventType, failedAt, attempts } = failure;
      if (known.has(`${failedAt} ${eventId}`)) continue;
      const { code, error } = lastErrorOf(failure);
      newFailures++;
      lastError ??= error;
      counter.add(code, 1, error);
      if (newest.length <= rememberedPerStream) newest.push([failedAt, eventId]);
      const ids = { tenant: tenant.id, stream: stream.id, eventId };
      log.info({ ...ids, eventType, attempts, error }, 'open failure');
    }
    if (!(await mayContinue())) return undefined;
    after = page.next;
  } while (after !== undefined);
  return { newFailures, newest, lastError, causes: counter.causes() };
}

function lastErrorOf({ status, error }: NewFailure): {
  readonly code: ErrorCode | undefined;
  readonly error: string | undefined;
} {
  if (error === undefined) return { code: undefined, error };
  return { code: errorCodeOf({ status, error }), error: causeOf(error) };
}

/** Streams of one query of open causes, and groups of it for each. */
const streamsAtOnce = 100;
const groupsPerStream = 10;

/**
 * Returns the alerts with the error codes of all open failures of their streams, except those about new
 * failures, which have the codes of these.
 */
export async function withOpenCauses(
  groups: FailureStore['groups'],
  tenant: number,
  alerts: readonly StreamAlert[],
  yieldToOthers: () => Promise<void>,
): Promise<readonly StreamAlert[]> {
  const about = alerts.filter(({ kind }) => kind !== 'delivery_failures');
  const streams = [...new Set(about.map(({ stream }) => stream.id))];
  const counters = new Map(streams.map((id) => [id, createCauseCounter()]));
  for (let index = 0; index < streams.length; index += streamsAtOnce) {
    await yieldToOthers();
    const among = streams.slice(index, index + streamsAtOnce);
    const query = { streams: among, after: undefined, take: among.length * groupsPerStream };
    for (const { stream, code, count, sample } of (await groups(tenant, query)).items) {
      const error = sample.error === undefined ? undefined : causeOf(sample.error);
      counters.get(stream)?.add(code, count, error);
    }
  }
  return alerts.map((alert) => {
    const counter = alert.kind === 'delivery_failures' ? undefined : counters.get(alert.stream.id);
    return counter === undefined ? alert : { ...alert, causes: causesOfAll(counter, alert.total) };
  });
}

/** Returns the causes of `total` failures, of which some may not have been read. */
function causesOfAll(counter: CauseCounter, total: number): Causes {
  const { codes, others } = counter.causes();
  const listed = codes.reduce((sum, { count }) => sum + count, 0);
  return { codes, others: Math.max(others, total - listed) };
}
