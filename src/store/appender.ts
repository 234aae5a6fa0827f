import { StoreContentRefused } from '../core/errors.ts';
import type { Appended, NewEvent } from '../core/types.ts';
import { yieldToEventLoop } from '../core/slices.ts';
import type { LogStore } from './port/log.ts';

/** Appends of many callers in few commits. */
export interface Appender {
  readonly append: LogStore['append'];
  /** Resolves when no append is under way. */
  idle(): Promise<void>;
}

export interface AppenderDeps {
  /**
   * Appends all of `events` in one transaction and tells the watchers, or throws having written
   * nothing: `StoreContentRefused` when the content is at fault.
   */
  write(tenant: number, events: readonly NewEvent[]): Appended[] | Promise<Appended[]>;
  /**
   * Runs `action` once the present turn of the event loop has taken all its input. A first commit
   * is put off by turns for as long as each brings further calls, so that a burst over many
   * connections pays for one commit; a single call waits for one turn that brings nothing.
   */
  defer(action: () => void): void;
  /** A group takes no further call at this number of events, so that no commit takes long. */
  readonly groupEventsMax: number;
  /**
   * The same by characters of bodies. A call may have more by itself. A group that is full lets others
   * go first: one of them is written in a turn of the event loop, whatever the tenant.
   */
  readonly groupBodiesMax: number;
}

/** A thousand publishes, or a mebibyte of bodies, in one group. */
export const groupLimits = { groupEventsMax: 1000, groupBodiesMax: 1024 * 1024 };

/** One call of append that waits for its commit. */
interface Call {
  readonly events: readonly NewEvent[];
  resolve(appended: Appended[]): void;
  reject(error: unknown): void;
}

/** The calls of one tenant: one group at a time is being written. */
interface TenantQueue {
  readonly waiting: Call[];
  readonly ended: Promise<void>;
}

/**
 * Group commit: calls that arrive while one is being written join the next. When a group is refused
 * for its content each of its calls is written alone; when the store fails all of them fail.
 */
export function createAppender(deps: AppenderDeps): Appender {
  const lanes = new Map<number, TenantQueue>();

  const open = (tenant: number): TenantQueue => {
    const waiting: Call[] = [];
    const started = new Promise<void>((resolve) => afterBurst(deps, waiting, resolve));
    const lane = { waiting, ended: started.then(() => work(tenant, waiting)) };
    lanes.set(tenant, lane);
    return lane;
  };
  const work = async (tenant: number, waiting: Call[]): Promise<void> => {
    while (waiting.length > 0) {
      const { group, isFull } = nextGroup(deps, waiting);
      if (isFull) await letOthersGo();
      await writeGroup(deps, tenant, group);
    }
    lanes.delete(tenant);
  };

  return {
    append: (tenant, events) => {
      if (events.length === 0) return Promise.resolve([]);
      const lane = lanes.get(tenant) ?? open(tenant);
      return new Promise((resolve, reject) => {
        lane.waiting.push({ events, resolve, reject });
      });
    },
    idle: async () => {
      while (lanes.size > 0) await Promise.all([...lanes.values()].map((lane) => lane.ended));
    },
  };
}

/** Turns for what is small, from its arrival to its own commit, before each commit that is large. */
const turnsBeforeFull = 4;

/** Resolves when small commits that are ready have gone. */
export async function letOthersGo(): Promise<void> {
  for (let turn = 0; turn < turnsBeforeFull; turn += 1) await yieldToEventLoop();
}

/** Turns that a commit is put off at the most: about a millisecond of a loaded event loop. */
const turnsMax = 8;

/** Runs `action` after a turn that brought no further call, or when a group is full. */
function afterBurst(
  deps: AppenderDeps,
  waiting: readonly Call[],
  action: () => void,
  turns = 1,
): void {
  // The call that opened the lane joins it right after this.
  const before = Math.max(waiting.length, 1);
  deps.defer(() => {
    const grew = waiting.length > before;
    if (!grew || turns >= turnsMax || waiting.length >= deps.groupEventsMax) action();
    else afterBurst(deps, waiting, action, turns + 1);
  });
}

/** Takes calls off `waiting` in their order: at least one, then as many as the limits allow. */
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

/** Never rejects: every outcome goes to the calls. */
async function writeGroup(deps: AppenderDeps, tenant: number, group: Call[]): Promise<void> {
  try {
    const appended = await deps.write(tenant, joined(group));
    let taken = 0;
    for (const { events, resolve } of group) {
      resolve(appended.slice(taken, taken + events.length));
      taken += events.length;
    }
  } catch (error) {
    if (group.length > 1 && error instanceof StoreContentRefused) {
      for (const call of group) await writeGroup(deps, tenant, [call]);
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
