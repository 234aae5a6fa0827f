import type { Clock, Millis } from '../core/clock.ts';
import type { Log } from '../core/log.ts';
import { createYield } from '../core/sleep.ts';
import type { Failure, Tenant } from '../core/types.ts';
import type { FailingStream } from '../store/port/alert-state.ts';
import type { Store } from '../store/port/store.ts';
import { causeOf } from './alert.ts';
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
    readonly deliveries: Pick<Store['deliveries'], 'listFailures'>;
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
    const { newest, newFailures, lastError } = failures;
    reported.set(
      stream.id,
      [...newest, ...(earlier?.told ?? [])].toSorted(([a], [b]) => b - a),
    );
    const { id, name, status, health } = stream;
    const disabledAt = (stream.disabledAt ?? 0) > since ? stream.disabledAt : undefined;
    streams.push({ id, name, status, ...health, newFailures, lastError, disabledAt });
  }
  return { streams, reported };
}

interface NewFailures {
  readonly newFailures: number;
  /** The newest of them, one more than may be remembered. */
  readonly newest: readonly ReportedFailure[];
  readonly lastError: string | undefined;
}

const noFailures: NewFailures = { newFailures: 0, newest: [], lastError: undefined };

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
  let newFailures = 0;
  let lastError: string | undefined;
  let after: string | undefined;
  do {
    const page = await store.deliveries.listFailures(tenant.id, stream.id, {
      after,
      take: settings.pageFailures,
      failedAfter: from,
    });
    for (const failure of page.items) {
      const { event, failedAt } = failure;
      if (known.has(`${failedAt} ${event.id}`)) continue;
      const error = lastErrorOf(failure);
      newFailures++;
      lastError ??= error;
      if (newest.length <= rememberedPerStream) newest.push([failedAt, event.id]);
      const ids = { tenant: tenant.id, stream: stream.id, eventId: event.id };
      const attempts = failure.attempts.filter(({ outcome }) => outcome === 'failed').length;
      log.info({ ...ids, eventType: event.type, attempts, error }, 'open failure');
    }
    if (!(await mayContinue())) return undefined;
    after = page.next;
  } while (after !== undefined);
  return { newFailures, newest, lastError };
}

function lastErrorOf({ attempts }: Failure): string | undefined {
  const error = attempts.findLast((attempt) => attempt.error !== undefined)?.error;
  return error === undefined ? undefined : causeOf(error);
}
