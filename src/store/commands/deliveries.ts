import { yieldToEventLoop } from '../../core/slices.ts';
import type { DeliveryStore } from '../port/deliveries.ts';
import type { Hint } from '../port/hints.ts';
import { type Command, type On, sql, together } from './command.ts';
import { dayColumns, newDays } from './history.ts';
import type { Targeted } from './recording.ts';
import { redeliver, redeliverMany } from './redelivery.ts';
import { lockRun, noteDue, storeNow } from './runs.ts';
import { bringForward, makeWaitingDue, releaseWaiting, stepMax } from './waiting.ts';
import { claimDue } from './due.ts';

export interface DeliveryDeps extends On {
  readonly hint: (hint: Hint) => void;
}

/** Creates the commands that make deliveries due on request, and before their time. */
export function createDeliveryStore({
  on,
  hint,
}: DeliveryDeps): Omit<
  DeliveryStore,
  'listFailures' | 'newFailures' | 'failure' | 'settle' | 'pruneAttempts'
> {
  const { transact } = on.commands;
  return {
    redeliver: async (tenant, stream, eventId, allHaveSchedule = false) => {
      const result = await transact('durable', () =>
        redeliver(tenant, stream, eventId, allHaveSchedule),
      );
      if (result === 'accepted') hint({ kind: 'stream', tenant, stream });
      return result;
    },
    redeliverMany: async (tenant, stream, filter) => {
      const count = await transact('durable', () => redeliverMany(tenant, stream, filter));
      if (count > 0) hint({ kind: 'stream', tenant, stream });
      return count;
    },
    retryNow: async (tenant, stream) => {
      let due = await transact('durable', () => makeWaitingDue(tenant, stream));
      for (let last = due; last === stepMax; due += last) {
        // A synchronous engine does not yield by itself.
        await yieldToEventLoop();
        last = (await transact('durable', () => goOn(makeWaitingDue(tenant, stream)))).count;
      }
      if (due > 0) hint({ kind: 'stream', tenant, stream });
      return due;
    },
    claimDue: (requests) => on.delivering.transact('relaxed', () => claimDue(requests)),
    releaseWaiting: (request) => on.delivering.transact('settling', () => releaseWaiting(request)),
    bringForward: (request) => on.delivering.transact('settling', () => bringForward(request)),
    addTest: async (tenant, stream, event) => {
      const result = await transact('durable', () => addTest(tenant, stream, event));
      if (result === 'accepted') hint({ kind: 'stream', tenant, stream });
      return result;
    },
  };
}

/** Returns a further step of a change, of which the first one recorded the entry (see recording.ts). */
function* goOn(step: Command<number>): Command<Targeted & { readonly count: number }> {
  return { targets: [], count: yield* step };
}

/** A test starts as a row: due now, with its body, and never in the log. */
function* addTest(
  tenant: number,
  stream: string,
  event: Parameters<DeliveryStore['addTest']>[2],
): Command<Awaited<ReturnType<DeliveryStore['addTest']>>> {
  const [run, now] = yield* together(lockRun(tenant, stream), storeNow());
  if (run === undefined) return 'unknown';
  if (run.status === 'disabled') return 'disabled';
  yield* together(
    sql.run`
      insert into deliveries (tenant, stream, event_id, type, time, kind, state, attempt, due_at,
        body, trace ${dayColumns})
      values (${tenant}, ${stream}, ${event.id}, ${event.type}, ${event.time}, 'test', 'retrying',
        1, ${now}, ${event.body}, ${event.trace} ${newDays(now)})`,
    noteDue(run),
  );
  return 'accepted';
}
