import { dayMs, hourMs } from '../core/units.ts';
import { drain } from './drain.ts';
import type { Store } from '../store/port/store.ts';
import type { LaggingStream } from '../store/port/upkeep.ts';
import type { RaisedAlert, SystemAlerts } from '../alerting/system-alerts.ts';

export interface LagDeps {
  readonly store: {
    readonly upkeep: Pick<Store['upkeep'], 'lagging' | 'noteLag' | 'disableLagging'>;
  };
  readonly settings: { readonly lagMaxMs: number };
  readonly alerts: Pick<SystemAlerts, 'raise'>;
}

/**
 * Returns a step of upkeep that checks the streams of a few tenants, then those of the next ones. It
 * reports streams that lag, and disables those beyond the bound: all tenants share the days of the
 * log, so one stream that is never disabled would keep them forever.
 *
 * An alert is recorded with its stream only after it is in the store, and raised again until then: a
 * crash repeats it and loses none.
 */
export function watchLag(deps: LagDeps): () => Promise<number> {
  const { store, settings, alerts } = deps;
  const stored: Report[] = [];
  let after = 0;
  const raise = (report: Report): void =>
    alerts.raise(alertOf(report, settings.lagMaxMs), () => stored.push(report));
  return async () => {
    await drain(stored, ({ stream, percent }) => store.upkeep.noteLag(stream, percent));
    const olderThanMs = lagFloorOf(settings.lagMaxMs);
    const { streams, next } = await store.upkeep.lagging({ olderThanMs, after });
    let changed = 0;
    for (const stream of streams) changed += await checkStream(deps, stream, raise);
    after = next ?? 0;
    return changed > 0 && next !== undefined ? changed : 0;
  };
}

/** An alert about a stream, with the percentage that is recorded once the alert is in the store. */
interface Report {
  readonly stream: LaggingStream;
  /** Percentage of the bound; 0 when the stream was disabled. */
  readonly percent: number;
}

/** Returns 1 when something was reported or changed, else 0. */
async function checkStream(
  { store, settings }: LagDeps,
  stream: LaggingStream,
  raise: (report: Report) => void,
): Promise<number> {
  if (stream.status === 'disabled') {
    raise({ stream, percent: 0 });
    return 1;
  }
  const decision = decideLag(stream.lagMs, settings.lagMaxMs, stream);
  if (decision.do === 'nothing') return 0;
  if (decision.do === 'disable') {
    if (!(await store.upkeep.disableLagging(stream))) return 0;
    raise({ stream, percent: 0 });
    return 1;
  }
  const { percent } = decision;
  if (decision.do === 'report') raise({ stream, percent });
  else await store.upkeep.noteLag(stream, percent);
  return 1;
}

function alertOf({ stream, percent }: Report, maxMs: number): RaisedAlert {
  return percent > 0 ? nearAlert(stream, maxMs, percent) : disabledAlert(stream, maxMs);
}

function nearAlert(stream: LaggingStream, maxMs: number, percent: number): RaisedAlert {
  const days = daysOf(stream.lagMs);
  return {
    ...subjectOf(stream),
    kind: 'lag_near',
    key: `lag ${stream.stream} ${percent}`,
    sentence: `its oldest undelivered event is ${days} days old, at least ${percent}% of the ${daysOf(maxMs)} days after which the event stream is disabled`,
    fields: { lag_days: days, lag_max_days: daysOf(maxMs), percent },
  };
}

function disabledAlert(stream: LaggingStream, maxMs: number): RaisedAlert {
  // Its events may have been pruned since it was disabled: its lag was at least the bound.
  const days = daysOf(Math.max(stream.lagMs, maxMs));
  return {
    ...subjectOf(stream),
    kind: 'lag_disabled',
    key: `lag ${stream.stream} disabled`,
    sentence: `the event stream was disabled: its oldest undelivered event is at least ${days} days old, and LEAT_LAG_MAX_DAYS is ${daysOf(maxMs)}`,
    fields: { lag_days: days, lag_max_days: daysOf(maxMs), reason: 'lag' },
  };
}

function subjectOf({
  tenant,
  stream: id,
  name,
}: LaggingStream): Pick<RaisedAlert, 'tenant' | 'stream'> {
  return { tenant, stream: { id, name } };
}

function daysOf(ms: number): number {
  return Math.floor((ms / dayMs) * 10) / 10;
}

/** Percentages of the bound on lag that are reported. */
const STEPS = [90, 75, 50] as const;

/** The action for the lag of an enabled stream. */
type LagDecision =
  | { readonly do: 'nothing' }
  /** Report that the lag has reached this percentage of the bound. */
  | { readonly do: 'report'; readonly percent: number }
  /** Record that a lower percentage, or none, counts as reported: the lag has fallen. */
  | { readonly do: 'note'; readonly percent: number }
  | { readonly do: 'disable' };

/**
 * Returns the action for the age of a stream's oldest event that is not settled.
 *
 * A clock that is ahead for a moment makes everything old at once. So a stream is disabled only some
 * time after the last report, when an operator could have acted on it.
 */
function decideLag(
  lagMs: number,
  maxMs: number,
  { reportedPercent, reportedAgoMs }: Pick<LaggingStream, 'reportedPercent' | 'reportedAgoMs'>,
): LagDecision {
  const isWarned = reportedPercent >= STEPS[0] && reportedAgoMs >= warningOf(maxMs);
  if (lagMs >= maxMs) {
    if (isWarned) return { do: 'disable' };
    return reportedPercent >= STEPS[0] ? { do: 'nothing' } : { do: 'report', percent: STEPS[0] };
  }
  const percent = STEPS.find((step) => lagMs >= (maxMs * step) / 100) ?? 0;
  if (percent > reportedPercent) return { do: 'report', percent };
  return percent < reportedPercent ? { do: 'note', percent } : { do: 'nothing' };
}

/** Returns the shortest time from the last report to disabling. */
function warningOf(maxMs: number): number {
  return Math.min(6 * hourMs, maxMs / 20);
}

/** Returns the lag from which on a stream is checked. */
function lagFloorOf(maxMs: number): number {
  return maxMs / 2;
}
