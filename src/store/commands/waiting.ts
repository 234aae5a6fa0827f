import type { Millis } from '../../core/clock.ts';
import type { Offset } from '../../core/types.ts';
import type { BroughtForward, OwnedWaiting, Released, ReleaseRequest } from '../port/deliveries.ts';
import type { Run } from '../rows/runs.ts';
import { sentKinds } from '../rules/pause.ts';
import { type Command, sql, type Statement, together } from './command.ts';
import { oneOf } from './dialect.ts';
import { lockRun, noteDue, storeNow } from './runs.ts';

/** Maximum deliveries that one step of {@link makeWaitingDue} makes due: some milliseconds. */
export const stepMax = 1000;

/**
 * Makes waiting retries of a stream due, those that are due next first, at most {@link stepMax}.
 * Returns how many. See {@link DeliveryStore.retryNow}.
 */
export function* makeWaitingDue(tenant: number, stream: string): Command<number> {
  const [run, now] = yield* together(lockRun(tenant, stream), storeNow());
  if (run === undefined) return 0;
  const due = yield* makeDue(run, now);
  if (due > 0) yield* noteDue(run);
  return due;
}

/** Makes waiting retries of a range due, for the owner; see {@link DeliveryStore.releaseWaiting}. */
export function* releaseWaiting({
  after,
  upTo,
  take,
  ...owned
}: ReleaseRequest): Command<Released> {
  const { tenant, stream } = owned;
  const [run, now] = yield* together(lockRun(tenant, stream), storeNow());
  if (!isOwner(run, owned) || run.status === 'disabled') return { due: 0, upTo };
  const released = yield* sql.all<{ offset: Offset }>`
    update deliveries set due_at = ${now}
    where tenant = ${tenant} and stream = ${stream} and event_id in (
      select event_id from deliveries
      where tenant = ${tenant} and stream = ${stream} and "offset" > ${after}
        and "offset" <= ${upTo} and state = 'retrying' and due_at > ${now}
      order by "offset" limit ${take})
    returning "offset"`;
  const last = released.reduce((latest, { offset }) => Math.max(latest, offset), after);
  return { due: released.length, upTo: released.length < take ? upTo : last };
}

/** Makes one delivery due before its time; see {@link DeliveryStore.bringForward}. */
export function* bringForward({
  after,
  ...owned
}: OwnedWaiting & { readonly after: Offset }): Command<BroughtForward | undefined> {
  const { tenant, stream } = owned;
  const [run, now] = yield* together(lockRun(tenant, stream), storeNow());
  if (!isOwner(run, owned) || run.status === 'disabled') return undefined;
  const next = yield* sql.get<{ id: string; offset: Offset; due_at: Millis }>`
    select event_id as id, "offset", due_at from deliveries
    where tenant = ${tenant} and stream = ${stream} and "offset" > ${after}
      and state = 'retrying' and due_at > ${now} and kind <> 'redelivery'
    order by "offset" limit 1`;
  if (next === undefined) return undefined;
  yield* sql.run`
    update deliveries set due_at = ${now}
    where tenant = ${tenant} and stream = ${stream} and event_id = ${next.id}`;
  return { eventId: next.id, offset: next.offset, waitMs: next.due_at - now };
}

function isOwner(run: Run | undefined, { epoch }: OwnedWaiting): run is Run {
  return run?.epoch === epoch && run.owner !== null;
}

/**
 * Lets the next attempts of waiting deliveries begin now, those of the oldest cycles first; of a paused
 * stream once it is resumed.
 */
function makeDue({ tenant, stream, status }: Run, now: Millis): Statement<number> {
  return sql.run`
    update deliveries set due_at = case when cycle_at < ${now} then cycle_at else ${now} end
    where tenant = ${tenant} and stream = ${stream} and event_id in (
      select event_id from deliveries
      where tenant = ${tenant} and stream = ${stream} and state = 'retrying' and due_at > ${now}
        and kind ${oneOf(sentKinds({ status, isPaused: false }))}
      order by due_at, event_id limit ${stepMax})`;
}
