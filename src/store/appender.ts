import type { Clock, Millis } from '../core/clock.ts';
import { StoreContentRefused, StoreUnavailable } from '../core/errors.ts';
import type { Appended, NewEvent } from '../core/types.ts';
import { yieldToEventLoop } from '../core/slices.ts';
import type { LogStore } from './port/log.ts';
import { requireSameContent } from './rules/content.ts';
import { lateMs } from './write-check.ts';
import { MIB } from '../core/units.ts';

/** Groups the appends of many callers into few commits. */
export interface Appender {
  readonly append: LogStore['append'];
  /** Resolves when no append is in progress. */
  idle(): Promise<void>;
}

export interface AppenderDeps {
  /**
   * Appends all of `events` in one transaction and emits the hint, or throws and writes nothing:
   * `StoreContentRefused` when the content is at fault. Its callers are answered in `leftMs`, so it gives
   * up before, where it can.
   */
  write(
    tenant: number,
    events: readonly NewEvent[],
    leftMs: Millis,
  ): Appended[] | Promise<Appended[]>;
  readonly clock: Pick<Clock, 'after' | 'elapsedMs'>;
  /** A call is answered within this time, whatever becomes of its write. */
  readonly answerMs: Millis;
  /** Called again and again while a write has taken {@link lateMs}: waiting for others is no failure of the store. */
  late(tenant: number): void;
  /**
   * Runs `action` after the current turn of the event loop has read all its input. The first commit
   * is deferred by further turns while each of them brings more calls, so that a burst over many
   * connections pays for one commit. A single call waits for one turn without further calls.
   */
  defer(action: () => void): void;
  /** Maximum number of events in a group, so that no commit takes long. One call may have more. */
  readonly groupEventsMax: number;
  /**
   * The same in characters of bodies. A full group yields to small commits first, and one full
   * group is written per turn of the event loop, across all tenants.
   */
  readonly groupBodiesMax: number;
}

/**
 * A thousand publishes, or a mebibyte of bodies, in one group. A publisher has its response within ten
 * seconds.
 */
export const groupLimits = { groupEventsMax: 1000, groupBodiesMax: MIB, answerMs: 9000 };

/** A write has at least this time. */
const writeMsMin = 1500;
/** A call has at least this time. */
const leastMs = 2000;

/** Between two checks for calls whose time is over. */
const checkMs = 500;

/** One call of append that waits for its commit. */
interface Call {
  readonly events: readonly NewEvent[];
  /** Both by the monotonic clock. */
  readonly sinceMs: number;
  /** When it is answered at the latest. */
  readonly untilMs: number;
  resolve(appended: Appended[]): void;
  reject(error: unknown): void;
}

/** The calls of one tenant; one group at a time is being written. */
interface TenantQueue {
  readonly waiting: Call[];
  /** The group that is being written… */
  written: readonly Call[];
  /** …or what is written of it now, since this time. */
  beganMs: Millis;
  readonly ended: Promise<void>;
}

/**
 * Commits in groups: calls that arrive during a commit join the next one. When a group is refused
 * for its content, each of its calls is written alone. When the store fails, all of them fail, and when it
 * says nothing, each of them does when its time is over.
 */
export function createAppender(deps: AppenderDeps): Appender {
  const tenantQueues = new Map<number, TenantQueue>();

  const open = (tenant: number): TenantQueue => {
    const { promise: ended, resolve: end } = Promise.withResolvers<void>();
    const beganMs = deps.clock.elapsedMs();
    const tenantQueue: TenantQueue = { waiting: [], written: [], beganMs, ended };
    afterBurst(deps, tenantQueue.waiting, () => void work(tenant, tenantQueue).then(end));
    tenantQueues.set(tenant, tenantQueue);
    return tenantQueue;
  };
  const work = async (tenant: number, tenantQueue: TenantQueue): Promise<void> => {
    const { waiting } = tenantQueue;
    const stopAnswering = answerInTime(deps, tenant, tenantQueue);
    for (;;) {
      // A write of which nobody could be told in time is not begun.
      refuseOld(waiting, deps.clock.elapsedMs() + writeMsMin);
      if (waiting.length === 0) break;
      const { group, isFull } = nextGroup(deps, waiting);
      tenantQueue.written = group;
      if (isFull) await letOthersGo();
      await writeGroup(deps, tenant, tenantQueue, group);
    }
    stopAnswering();
    tenantQueues.delete(tenant);
  };

  return {
    append: (tenant, events, waitedMs = 0) => {
      if (events.length === 0) return Promise.resolve([]);
      const tenantQueue = tenantQueues.get(tenant) ?? open(tenant);
      return new Promise((resolve, reject) => {
        const sinceMs = deps.clock.elapsedMs();
        // Its caller may have waited for a store that serves again now.
        const untilMs = sinceMs + Math.max(deps.answerMs - waitedMs, leastMs);
        tenantQueue.waiting.push({ events, sinceMs, untilMs, resolve, reject });
      });
    },
    idle: async () => {
      while (tenantQueues.size > 0)
        await Promise.all([...tenantQueues.values()].map((tenantQueue) => tenantQueue.ended));
    },
  };
}

/**
 * Turns of the event loop that a large commit leaves to small ones, from their arrival to their own
 * commit.
 */
const turnsBeforeFull = 4;

/** Resolves when the small commits that were ready are done. */
export async function letOthersGo(): Promise<void> {
  for (let turn = 0; turn < turnsBeforeFull; turn += 1) await yieldToEventLoop();
}

/** Maximum turns that a commit is deferred: about a millisecond under load. */
const turnsMax = 8;

/** Runs `action` after a turn without further calls, or when a group is full. */
function afterBurst(
  deps: AppenderDeps,
  waiting: readonly Call[],
  action: () => void,
  turns = 1,
): void {
  // The call that created the queue joins it right after this.
  const before = Math.max(waiting.length, 1);
  deps.defer(() => {
    const grew = waiting.length > before;
    if (!grew || turns >= turnsMax || waiting.length >= deps.groupEventsMax) action();
    else afterBurst(deps, waiting, action, turns + 1);
  });
}

/** Removes calls from `waiting` in order: at least one, then as many as the limits allow. */
function nextGroup(limits: AppenderDeps, waiting: Call[]): { group: Call[]; isFull: boolean } {
  const isFull = (): boolean => events >= limits.groupEventsMax || bodies >= limits.groupBodiesMax;
  let events = 0;
  let bodies = 0;
  let end = 0;
  for (const call of waiting) {
    if (isFull()) break;
    end += 1;
    events += call.events.length;
    for (const event of call.events) bodies += event.body.length;
  }
  return { group: waiting.splice(0, end), isFull: isFull() };
}

/**
 * Rejects calls whose time is over, until the function that it returns is called: those that wait were not
 * written, and those that are being written may be stored.
 */
function answerInTime(
  { clock, late }: AppenderDeps,
  tenant: number,
  tenantQueue: TenantQueue,
): () => void {
  const check = (): void => {
    const { waiting, written, beganMs } = tenantQueue;
    const nowMs = clock.elapsedMs();
    refuseOld(waiting, nowMs);
    for (const { untilMs, reject } of written) if (untilMs <= nowMs) reject(unanswered());
    if (nowMs - beganMs >= lateMs) late(tenant);
    timer = clock.after(checkMs, check);
  };
  let timer = clock.after(checkMs, check);
  return () => timer.cancel();
}

/** Refuses the calls whose time is over at this instant. */
function refuseOld(waiting: Call[], nowMs: number): void {
  const isOver = ({ untilMs }: Call): boolean => untilMs <= nowMs;
  if (!waiting.some(isOver)) return;
  for (const call of waiting.splice(0)) {
    if (!isOver(call)) waiting.push(call);
    else
      call.reject(
        new StoreUnavailable('The appends before this one took too long.', { reason: 'blocked' }),
      );
  }
}

function unanswered(): StoreUnavailable {
  return new StoreUnavailable('The store did not say in time whether it has an append.', {
    reason: 'blocked',
    mayBeStored: true,
  });
}

/** Never rejects: every outcome goes to the calls. */
async function writeGroup(
  deps: AppenderDeps,
  tenant: number,
  tenantQueue: TenantQueue,
  group: Call[],
): Promise<void> {
  const { clock, answerMs } = deps;
  tenantQueue.beganMs = clock.elapsedMs();
  const leftMs = answerMs - (tenantQueue.beganMs - (group[0]?.sinceMs ?? 0));
  try {
    const all = joined(group);
    requireSameContent(all);
    const appended = await deps.write(tenant, all, leftMs);
    let taken = 0;
    for (const { events, resolve } of group) {
      resolve(appended.slice(taken, taken + events.length));
      taken += events.length;
    }
  } catch (error) {
    if (group.length > 1 && error instanceof StoreContentRefused) {
      for (const call of group) await writeGroup(deps, tenant, tenantQueue, [call]);
    } else {
      for (const call of group) call.reject(error);
    }
  }
}

function joined(group: readonly Call[]): readonly NewEvent[] {
  const [first, ...others] = group;
  if (first !== undefined && others.length === 0) return first.events;
  return group.flatMap((call) => call.events);
}
