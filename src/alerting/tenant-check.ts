import type { Clock, Millis } from '../core/clock.ts';
import type { Log } from '../core/log.ts';
import { createYield } from '../core/sleep.ts';
import type { HealthLimits, Tenant } from '../core/types.ts';
import type { AlertStanding } from '../store/port/alert-state.ts';
import type { Store } from '../store/port/store.ts';
import { skewMaxMs } from '../store/port/time.ts';
import { createCheckLock, type CheckLock } from './check-lock.ts';
import type { ClockSteps } from './clock-steps.ts';
import type { AlertDispatcher, SendRun } from './dispatcher.ts';
import { type FailureSummary, readFailureSummary, withOpenCauses } from './failure-summary.ts';
import { addToOutbox } from './outbox.ts';
import { rememberReported } from './reported-failures.ts';
import { evaluate } from './rules.ts';
import { isIdle, parseSavedState, type SavedState } from './saved-state.ts';
import { type RaisedAlert, type SystemAlerts, withoutRepeats } from './system-alerts.ts';

export interface CheckSettings {
  /** From one check of a tenant to the next, whichever node runs it. */
  readonly everyMs: number;
  /** Lease on the check of a tenant, see {@link CheckLock}. */
  readonly leaseMs: number;
  /** Whether no other node can use the store, so that there is no lease to wait for. */
  readonly alone: boolean;
  /** Failures per page; each comes with its event. */
  readonly pageFailures: number;
}

export interface TenantCheckDeps {
  readonly store: {
    readonly deliveries: Pick<Store['deliveries'], 'newFailures'>;
    readonly failures: Pick<Store['failures'], 'groups'>;
    readonly alertState: Store['alertState'];
  };
  readonly clock: Clock;
  readonly steps: ClockSteps;
  readonly dispatcher: Pick<AlertDispatcher, 'channels'>;
  readonly limits: HealthLimits;
  readonly settings: CheckSettings;
  /** Conditions to report along with the failures. */
  readonly system: Pick<SystemAlerts, 'stored'>;
  readonly log: Pick<Log, 'info' | 'warn'>;
}

/**
 * Checks one tenant if that is due: reads its new failures, evaluates the alert rules, saves the
 * alerts and sends them. Returns the milliseconds until the tenant is due again.
 */
export async function checkTenant(
  deps: TenantCheckDeps,
  tenant: Tenant,
  raised: readonly RaisedAlert[],
  run: SendRun,
  signal: AbortSignal,
): Promise<number> {
  const { store, clock, settings, steps } = deps;
  const last = await store.alertState.last(tenant.id);
  const before = parseSavedState(last?.state);
  const waitMs = msUntilDue(before, clock.now(), settings, raised.length > 0);
  if (waitMs > 0) return waitMs;
  const lockDeps = { alertState: store.alertState, clock, leaseMs: settings.leaseMs };
  const lock = createCheckLock(lockDeps, tenant.id, last?.at);
  if (!(await lock.acquire(before))) return settings.everyMs;

  const startedAt = clock.now();
  const clockStepMs = steps.setBackMs(tenant.id, before.lookedAt);
  const mark = steps.mark();
  const earlier = { lookedAt: before.lookedAt, recent: before.recent, clockStepMs };
  const renew = (): Promise<boolean> => lock.renew(before);
  const summary = await readFailureSummary(deps, tenant, earlier, renew, signal);
  if (summary === undefined) {
    await lock.release(before);
    return settings.everyMs;
  }
  const after = await stateAfter(deps, tenant, before, { startedAt, summary, raised }, signal);
  await saveAndSend({ lock, run, domain: tenant.domain }, before, after, () => {
    deps.system.stored(raised);
    steps.checked(tenant.id, mark);
  });
  // Checks that take longer than the time between them leave some time for other work.
  return Math.max(settings.everyMs / 10, startedAt + settings.everyMs - clock.now());
}

/**
 * Returns whether a check would report nothing and change nothing but its time. It can be skipped:
 * the next one that runs reads everything since the last one that ran.
 */
export function mayBeSkipped(standing: AlertStanding | undefined): boolean {
  if (standing === undefined || standing.mayBeFailing) return false;
  return standing.last === undefined || isIdle(parseSavedState(standing.last.state));
}

/**
 * Returns how long until a check is due. A condition makes it due at once, unless a node is checking
 * the tenant. A clock that was set back far does not delay it.
 */
function msUntilDue(
  { lookedAt, busyUntil }: SavedState,
  now: Millis,
  { everyMs, leaseMs, alone }: CheckSettings,
  hasCondition: boolean,
): number {
  const leaseLeftMs = alone || busyUntil === undefined ? 0 : busyUntil - now;
  // The clock of the node with the lease may be ahead of this one.
  if (leaseLeftMs > 0 && leaseLeftMs <= leaseMs + skewMaxMs) return Math.min(leaseLeftMs, everyMs);
  if (hasCondition) return 0;
  const sinceMs = lookedAt === undefined ? Infinity : now - lookedAt;
  return sinceMs < -leaseMs ? 0 : Math.max(0, everyMs - Math.max(0, sinceMs));
}

interface Findings {
  readonly startedAt: Millis;
  readonly summary: FailureSummary;
  readonly raised: readonly RaisedAlert[];
}

/** Evaluates what the check has found; the alerts are in the outbox of the returned state. */
async function stateAfter(
  { store, clock, dispatcher, limits, log }: TenantCheckDeps,
  { id, name }: Tenant,
  before: SavedState,
  { startedAt: at, summary, raised }: Findings,
  signal: AbortSignal,
): Promise<SavedState> {
  const yieldNow = createYield(clock);
  const snapshot = { tenant: name, at, streams: summary.streams };
  const { alerts: found, state: alarm } = evaluate(before.alarm, snapshot, limits);
  const alerts = await withOpenCauses(store.failures.groups, id, found, () => yieldNow(signal));
  const conditions = withoutRepeats(raised, before.reported ?? {}, { name, at });
  const { outbox, dropped } = addToOutbox(
    before.outbox,
    [...conditions.alerts, ...alerts],
    dispatcher.channels,
  );
  if (dropped > 0) log.warn({ tenant: id, dropped }, 'dropped alerts that could not be sent');
  return {
    version: 1,
    lookedAt: at,
    alarm,
    recent: rememberReported(summary.reported, at),
    outbox,
    reported: conditions.reported,
  };
}

interface Sending {
  readonly lock: CheckLock;
  readonly run: SendRun;
  readonly domain: string;
}

/**
 * Saves the state, then sends its outbox and saves what is left of it. Calls `onSaved` once the
 * alerts are in the store; does nothing more when another node has taken over.
 */
async function saveAndSend(
  { lock, run, domain }: Sending,
  before: SavedState,
  after: SavedState,
  onSaved: () => void,
): Promise<void> {
  if (Object.keys(after.outbox).length === 0) {
    if (await lock.release(after, before)) onSaved();
    return;
  }
  if (!(await lock.save(after))) return;
  onSaved();
  const left = await run.deliver(after.outbox, domain, (outbox) =>
    lock.save({ ...after, outbox }).catch(() => false),
  );
  await lock.releaseWithRetries({ ...after, outbox: left });
}
