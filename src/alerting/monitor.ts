import { type NotifiedState, evaluate, initialState, type StreamHealth } from './rules.ts';
import { causeOf } from './alert.ts';
import type { Clock, Millis } from '../core/clock.ts';
import { StoreUnavailable } from '../core/errors.ts';
import {
  readFrom,
  type ReportedFailures,
  type ReportedFailure,
  rememberedPerStream,
  rememberReported,
} from './reported-failures.ts';
import { addToOutbox, type Outbox } from './outbox.ts';
import type { Failure, HealthLimits, Tenant } from '../core/types.ts';
import type { Store } from '../store/port/store.ts';
import type { AlertStanding, FailingStream } from '../store/port/alert-state.ts';
import { skewMaxMs } from '../store/port/time.ts';
import type { AlertDispatcher, SendRun } from './dispatcher.ts';
import { createCheckTimes } from './check-times.ts';
import { createClockSteps, type ClockSteps } from './clock-steps.ts';
import { createYield, sleep } from '../core/sleep.ts';
import {
  type RaisedAlert,
  type Reported,
  type SystemAlerts,
  withoutRepeats,
} from './system-alerts.ts';
import type { Log } from '../core/log.ts';

export interface MonitorSettings {
  /** From one look at a tenant to the next, whichever node does it. */
  readonly everyMs: number;
  /**
   * A node that looks at a tenant has it for itself so long, and says so anew before the time is
   * over; when it ends without a word, another goes on after it.
   */
  readonly leaseMs: number;
  /** Whether no other node can be at work on the store, so that nothing is left to wait for. */
  readonly alone: boolean;
  /** Failures read at once; each comes with its event. */
  readonly pageFailures: number;
}

export interface MonitorDeps {
  readonly store: {
    readonly tenants: Pick<Store['tenants'], 'list'>;
    readonly deliveries: Pick<Store['deliveries'], 'listFailures'>;
    readonly alertState: Store['alertState'];
  };
  readonly clock: Clock;
  readonly dispatcher: AlertDispatcher;
  readonly limits: HealthLimits;
  readonly settings: MonitorSettings;
  /** Conditions to report beside the failures; raising one brings the next look forward. */
  readonly system: SystemAlerts;
  readonly log: Pick<Log, 'info' | 'warn'>;
  /** Hears why a look was cut short; the next one tells what this one did not. */
  readonly report: (error: unknown) => void;
}

/** Looks at the failures of every tenant and tells of them: docs/monitoring.md#alerts. */
export interface Monitor {
  /** Looks at once where a look is due and then from time to time, until aborted. */
  run(signal: AbortSignal): Promise<void>;
}

/**
 * What one look leaves to the next. An alert stands in `outbox` before it is sent and leaves it
 * afterwards, so a crash repeats the alerts of its last seconds and loses none.
 */
interface SavedState {
  readonly version: 1;
  /** When the last complete look began. */
  readonly lookedAt?: Millis;
  /** Until then a node may be at work on it. */
  readonly busyUntil?: Millis;
  readonly alarm: NotifiedState;
  readonly recent: Readonly<Record<string, ReportedFailures>>;
  readonly outbox: Outbox;
  /** Conditions that were reported lately. */
  readonly reported?: Reported;
}

const initialSavedState: SavedState = { version: 1, alarm: initialState, recent: {}, outbox: {} };

/** Rounds over the tenants that are due, in the time from one look at a tenant to the next. */
const roundsMax = 60;

/** Tenants that are asked about with one query. */
const tenantsAtOnce = 100;

export function createMonitor(deps: MonitorDeps): Monitor {
  const { store, clock, dispatcher, settings, system, report } = deps;
  const steps = createClockSteps(clock);
  const times = createCheckTimes(clock);
  /** The tenant to begin with: where a tour ends too early, another comes first the next time. */
  let first = 0;

  const round = async (signal: AbortSignal): Promise<number> => {
    const tenants = await store.tenants.list();
    const run = dispatcher.begin(signal);
    first = (first + 1) % Math.max(1, tenants.length);
    const rest = createYield(clock);
    const raisedFor = (tenant: Tenant): readonly RaisedAlert[] =>
      system.queued(tenant, tenant === tenants[0]);
    const due = [...tenants.slice(first), ...tenants.slice(0, first)].filter(
      (tenant) => times.isDue(tenant) || raisedFor(tenant).length > 0,
    );
    for (let index = 0; index < due.length && !signal.aborted; index += tenantsAtOnce) {
      const some = due.slice(index, index + tenantsAtOnce);
      const standings = await store.alertState.standings(some.map(({ id }) => id));
      for (const [at, tenant] of some.entries()) {
        if (signal.aborted) break;
        const raised = raisedFor(tenant);
        times.checked(tenant, await visit(tenant, standings[at], raised, run, signal));
        await rest(signal);
      }
    }
    // Tenants that are due soon share a round.
    return Math.max(times.untilNext(tenants), settings.everyMs / roundsMax);
  };
  /** Returns in how many milliseconds to come again. */
  const visit = async (
    tenant: Tenant,
    standing: AlertStanding | undefined,
    raised: readonly RaisedAlert[],
    run: SendRun,
    signal: AbortSignal,
  ): Promise<number> => {
    if (raised.length === 0 && isQuiet(standing)) return settings.everyMs;
    return checkTenant({ ...deps, steps }, tenant, raised, run, signal).catch((error: unknown) => {
      report(error);
      return settings.everyMs;
    });
  };

  return {
    run: async (signal) => {
      while (!signal.aborted) {
        const seen = system.raised;
        const waitMs = await round(signal).catch((error: unknown) => {
          report(error);
          return settings.everyMs;
        });
        await system.wait(clock, waitMs, seen, signal);
      }
    },
  };
}

/** Looks at one tenant if that is due; answers in how many milliseconds to come again. */
async function checkTenant(
  deps: MonitorDeps & { readonly steps: ClockSteps },
  tenant: Tenant,
  raised: readonly RaisedAlert[],
  run: SendRun,
  signal: AbortSignal,
): Promise<number> {
  const { store, clock, dispatcher, limits, settings, system, log, steps } = deps;
  const last = await store.alertState.last(tenant.id);
  const before = readSavedState(last?.state);
  const waitMs = waitOf(before, clock.now(), settings, raised.length > 0);
  if (waitMs > 0) return waitMs;
  const lock = createCheckLock(deps, tenant, last?.at);
  if (!(await lock.take(before))) return settings.everyMs;

  const lookedAt = clock.now();
  const clockStepMs = clockStepOf(before, lookedAt, steps.backMs(tenant.id), settings);
  const steadyFrom = steps.mark();
  const known = { ...before, clockStepMs };
  const news = await readFailureSummary(deps, tenant, known, () => lock.renew(before), signal);
  if (news === undefined) {
    await lock.leave(before);
    return settings.everyMs;
  }
  const look = { tenant: tenant.name, at: lookedAt, streams: news.streams };
  const { alerts, state: alarm } = evaluate(before.alarm, look, limits);
  const { name } = tenant;
  const conditions = withoutRepeats(raised, before.reported ?? {}, { name, at: lookedAt });
  const { outbox, dropped } = addToOutbox(
    before.outbox,
    [...conditions.alerts, ...alerts],
    dispatcher.channels,
  );
  if (dropped > 0)
    log.warn({ tenant: tenant.id, dropped }, 'alerts that could not be sent are dropped');
  const after: SavedState = {
    version: 1,
    lookedAt,
    alarm,
    recent: rememberReported(news.told, lookedAt),
    outbox,
    reported: conditions.reported,
  };
  const written = (): void => {
    system.stored(raised);
    steps.checked(tenant.id, steadyFrom);
  };
  if (Object.keys(outbox).length === 0) {
    if (await lock.leave(after, before)) written();
  } else if (await lock.keep(after)) {
    written();
    const left = await run.deliver(outbox, tenant.domain, (so) =>
      lock.keep({ ...after, outbox: so }).catch(() => false),
    );
    await lock.leaveSurely({ ...after, outbox: left });
  }
  // Looks that take longer than the time between them leave some to other work.
  return Math.max(settings.everyMs / 10, lookedAt + settings.everyMs - clock.now());
}

/**
 * How long until a look is due: at once when there is a condition to report and no node is at work.
 * A clock that was set back far does not put looks off.
 */
function waitOf(
  { lookedAt, busyUntil }: SavedState,
  now: Millis,
  { everyMs, leaseMs, alone }: MonitorSettings,
  hasCondition: boolean,
): number {
  const busyMs = alone || busyUntil === undefined ? 0 : busyUntil - now;
  // The clock of the node at work may be ahead of this one.
  if (busyMs > 0 && busyMs <= leaseMs + skewMaxMs) return Math.min(busyMs, everyMs);
  if (hasCondition) return 0;
  const sinceMs = lookedAt === undefined ? Infinity : now - lookedAt;
  return sinceMs < -leaseMs ? 0 : Math.max(0, everyMs - Math.max(0, sinceMs));
}

// A clock that is set back

/**
 * By how much the clock was set back since the last look. Where this process did not make that
 * one, it has lasted no longer than the time between two looks: better to tell of some twice.
 */
function clockStepOf(
  { lookedAt = 0 }: SavedState,
  now: Millis,
  seenMs: number,
  { everyMs }: MonitorSettings,
): number {
  if (seenMs > 0) return seenMs;
  return now < lookedAt ? lookedAt - now + everyMs : 0;
}

// Being the one node that looks

interface CheckLock {
  /** Takes the tenant for this node. A crash of the store may undo it. */
  take(kept: SavedState): Promise<boolean>;
  /** Writes and goes on holding. False when another node has taken over. */
  keep(kept: SavedState): Promise<boolean>;
  /** The same, if a good part of the time is over since it was written last. */
  renew(kept: SavedState): Promise<boolean>;
  /**
   * Writes and gives up. When nothing but the time of the look differs from `before`, a crash of the
   * store may undo it: the next look then only reads a longer time again.
   */
  leave(kept: SavedState, before?: SavedState): Promise<boolean>;
  /** The same, again and again while the store is away: what it says was sent is sent. */
  leaveSurely(kept: SavedState): Promise<void>;
}

/** Each write stands on the one before, so of several nodes the first one goes on alone. */
function createCheckLock(
  { store, clock, settings }: MonitorDeps,
  tenant: Tenant,
  readAt: Millis | undefined,
): CheckLock {
  let at = readAt;
  let writtenMs = clock.elapsedMs();
  const write = async (kept: SavedState, mustLast: boolean): Promise<boolean> => {
    const next = Math.max(clock.now(), (at ?? 0) + 1);
    const state = JSON.stringify(kept);
    const written = await store.alertState.record(tenant.id, at, { at: next, state }, mustLast);
    if (!written) return false;
    at = next;
    writtenMs = clock.elapsedMs();
    return true;
  };
  const held = (kept: SavedState): SavedState => ({
    ...kept,
    busyUntil: clock.now() + settings.leaseMs,
  });
  const keep = (kept: SavedState): Promise<boolean> => write(held(kept), true);
  const leave = (
    { busyUntil: _free, ...kept }: SavedState,
    before?: SavedState,
  ): Promise<boolean> => write(kept, before === undefined || contentOf(kept) !== contentOf(before));
  const heldMs = (): number => clock.elapsedMs() - writtenMs;
  return {
    take: (kept) => write(held(kept), false),
    keep,
    leave,
    renew: async (kept) => heldMs() < settings.leaseMs / 3 || keep(kept),
    leaveSurely: async (kept) => {
      for (;;) {
        try {
          await leave(kept);
          return;
        } catch (error) {
          if (!(error instanceof StoreUnavailable) || heldMs() >= settings.leaseMs) throw error;
        }
        await sleep(clock, 500, new AbortController().signal);
      }
    },
  };
}

/** What a state says apart from times. */
function contentOf({ alarm, recent, outbox, reported = {} }: SavedState): string {
  return JSON.stringify([alarm, recent, outbox, reported]);
}

/**
 * Whether a look would find nothing and leave nothing behind but its time. It is not made then: the next
 * one, which reads what came since the last that was made, misses nothing by it.
 */
function isQuiet(standing: AlertStanding | undefined): boolean {
  if (standing === undefined || standing.mayBeFailing) return false;
  const { last } = standing;
  if (last === undefined) return true;
  const kept = readSavedState(last.state);
  return kept.busyUntil === undefined && contentOf(kept) === contentOf(initialSavedState);
}

/** What cannot be read was written by a later version; a look then begins anew. */
function readSavedState(state: string | undefined): SavedState {
  if (state === undefined) return initialSavedState;
  const kept = JSON.parse(state) as SavedState;
  return (kept.version as number) === 1 ? kept : initialSavedState;
}

// Reading what is new

interface FailureSummary {
  readonly streams: readonly StreamHealth[];
  /** By stream, newest first: what is told by now, as far as the next look may meet it. */
  readonly told: ReadonlyMap<string, readonly ReportedFailure[]>;
}

/** Answers nothing when aborted, or when `renew` says that another node has taken over. */
async function readFailureSummary(
  deps: MonitorDeps,
  tenant: Tenant,
  { lookedAt, recent, clockStepMs }: SavedState & { readonly clockStepMs: number },
  renew: () => Promise<boolean>,
  signal: AbortSignal,
): Promise<FailureSummary | undefined> {
  const since = readFrom(lookedAt, clockStepMs);
  // No end of the window: nodes whose clocks are ahead record failures of the future.
  const window = { since, upTo: Number.MAX_SAFE_INTEGER };
  const streams: StreamHealth[] = [];
  const told = new Map<string, readonly ReportedFailure[]>();
  const rest = createYield(deps.clock);
  const goOn = async (): Promise<boolean> => {
    await rest(signal);
    return !signal.aborted && renew();
  };
  for (const stream of await deps.store.alertState.failingStreams(tenant.id, window)) {
    if (!(await goOn())) return undefined;
    const former = recent[stream.id];
    const from = clockStepMs > 0 ? since : (former?.from ?? since);
    const news = stream.failedWithin
      ? await readFailures(deps, tenant, stream, { from, former }, goOn)
      : noFailures;
    if (news === undefined) return undefined;
    const { newest, newFailures, lastError } = news;
    told.set(
      stream.id,
      [...newest, ...(former?.told ?? [])].toSorted(([a], [b]) => b - a),
    );
    const { id, name, status, health } = stream;
    const disabledAt = (stream.disabledAt ?? 0) > since ? stream.disabledAt : undefined;
    streams.push({ id, name, status, ...health, newFailures, lastError, disabledAt });
  }
  return { streams, told };
}

interface NewFailures {
  readonly newFailures: number;
  /** The newest of them, one more than may be remembered. */
  readonly newest: readonly ReportedFailure[];
  readonly lastError: string | undefined;
}

const noFailures: NewFailures = { newFailures: 0, newest: [], lastError: undefined };

/** Logs each failure after `from` that no look has told, page by page, newest first. */
async function readFailures(
  { store, log, settings }: MonitorDeps,
  tenant: Tenant,
  stream: FailingStream,
  { from, former }: { readonly from: Millis; readonly former: ReportedFailures | undefined },
  goOn: () => Promise<boolean>,
): Promise<NewFailures | undefined> {
  const known = new Set(former?.told.map(([failedAt, eventId]) => `${failedAt} ${eventId}`));
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
      const about = { tenant: tenant.id, stream: stream.id, eventId: event.id };
      const attempts = failure.attempts.filter(({ outcome }) => outcome !== 'redelivered').length;
      log.info({ ...about, eventType: event.type, attempts, error }, 'open failure');
    }
    if (!(await goOn())) return undefined;
    after = page.next;
  } while (after !== undefined);
  return { newFailures, newest, lastError };
}

function lastErrorOf({ attempts }: Failure): string | undefined {
  const error = attempts.findLast((attempt) => attempt.error !== undefined)?.error;
  return error === undefined ? undefined : causeOf(error);
}
