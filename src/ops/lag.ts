import { decideLag, lagFloorOf } from '../core/lag.ts';
import type { Store } from '../store/port.ts';
import type { LaggingStream } from '../store/port-upkeep.ts';
import type { SystemAlerts } from './system-alerts.ts';

export interface LagDeps {
  readonly store: {
    readonly upkeep: Pick<Store['upkeep'], 'lagging' | 'noteLag' | 'disableLagging'>;
  };
  readonly settings: { readonly lagMaxMs: number };
  readonly alerts: Pick<SystemAlerts, 'raise'>;
}

const dayMs = 86_400_000;

/**
 * Returns a step of upkeep that checks the streams of a few tenants, then those of the next ones:
 * reports streams that are far behind, and disables those beyond the bound. Days of the log are
 * shared by all tenants, so one stream that is never disabled would keep them without end.
 */
export function watchLag(deps: LagDeps): () => Promise<number> {
  const { store, settings } = deps;
  let after = 0;
  return async () => {
    const olderThanMs = lagFloorOf(settings.lagMaxMs);
    const { streams, next } = await store.upkeep.lagging({ olderThanMs, after });
    let changed = 0;
    for (const stream of streams) changed += await attend(deps, stream);
    after = next ?? 0;
    return changed > 0 && next !== undefined ? changed : 0;
  };
}

/** Returns 1 when something was reported or changed. */
async function attend(
  { store, settings, alerts }: LagDeps,
  stream: LaggingStream,
): Promise<number> {
  const decision = decideLag(stream.lagMs, settings.lagMaxMs, stream);
  if (decision.do === 'nothing') return 0;
  if (decision.do === 'disable') {
    if (!(await store.upkeep.disableLagging(stream))) return 0;
    alerts.raise(disabledAlert(stream, settings.lagMaxMs));
    return 1;
  }
  if (decision.do === 'report')
    alerts.raise(nearAlert(stream, settings.lagMaxMs, decision.percent));
  await store.upkeep.noteLag(stream, decision.percent);
  return 1;
}

type Raised = Parameters<SystemAlerts['raise']>[0];

function nearAlert(stream: LaggingStream, maxMs: number, percent: number): Raised {
  const days = daysOf(stream.lagMs);
  return {
    ...about(stream),
    kind: 'lag_near',
    key: `lag ${stream.stream} ${percent}`,
    sentence: `its oldest undelivered event is ${days} days old, at least ${percent}% of the ${daysOf(maxMs)} days after which the event stream is disabled`,
    fields: { lag_days: days, lag_max_days: daysOf(maxMs), percent },
  };
}

function disabledAlert(stream: LaggingStream, maxMs: number): Raised {
  const days = daysOf(stream.lagMs);
  return {
    ...about(stream),
    kind: 'lag_disabled',
    key: `lag ${stream.stream} disabled`,
    sentence: `the event stream was disabled: its oldest undelivered event is ${days} days old, and LEAT_LAG_MAX_DAYS is ${daysOf(maxMs)}`,
    fields: { lag_days: days, lag_max_days: daysOf(maxMs), reason: 'lag' },
  };
}

function about({ tenant, stream: id, name }: LaggingStream): Pick<Raised, 'tenant' | 'stream'> {
  return { tenant, stream: { id, name } };
}

function daysOf(ms: number): number {
  return Math.floor((ms / dayMs) * 10) / 10;
}
