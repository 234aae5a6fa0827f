import type { Millis } from '../../core/clock.ts';
import type { Delivery, DeliveryKind } from '../../core/types.ts';
import { chooseDue } from '../rules/due.ts';
import { mayBeSent, sendingOf, sentKinds } from '../rules/pause.ts';
import type { DueRows, DueRequest } from '../port/deliveries.ts';
import type { Run } from '../rows/runs.ts';
import type { Database } from './database.ts';
import { deliveredEventOf, type EventColumns } from '../rows/delivered-event.ts';
import { readRun } from './runs.ts';

/**
 * Claims due rows of one stream; see {@link DeliveryStore.claimDue}. Written apart from PostgreSQL
 * because a statement per stream costs no round trip here.
 */
export function claimDue(db: Database, request: DueRequest, now: Millis): DueRows {
  const { tenant, stream } = request;
  const run = readRun(db, tenant, stream);
  if (run === undefined || run.epoch !== request.epoch || run.owner === null) {
    return { tenant, stream, rows: [], nextDueInMs: undefined };
  }
  // One row more than requested shows when the next is due.
  const next = (request.keys ?? []).flatMap((key) => nextOfKey(db, run, key) ?? []);
  const take = request.take - next.length;
  const bounds = { take: take + 1, latest: now + request.longestWaitMs };
  const rows = [
    ...dueRows(db, run, bounds),
    ...replayRows(db, run, bounds),
    ...lateRows(db, run, bounds),
  ];
  const { taken: due, nextDueInMs } = chooseDue(rows, take, now, request);
  const taken = [...next, ...due];
  for (const row of taken) park(db, run, row.event_id, now + request.leaseMs);
  return { tenant, stream, rows: taken.map(deliveryOf), nextDueInMs };
}

interface DueRow extends EventColumns {
  readonly kind: DeliveryKind;
  readonly attempt: number;
  readonly due_at: Millis;
  readonly order_key: string | null;
}

interface Bounds {
  readonly take: number;
  /** The latest instant for which a rule lets a row wait. */
  readonly latest: Millis;
}

/**
 * Reads the oldest rows first; of a disabled stream only redeliveries, whatever other rows its last
 * attempts left, and of a paused one also tests.
 */
function dueRows(db: Database, run: Run, { take, latest }: Bounds): DueRow[] {
  return db.all<DueRow>`
    select d.event_id, d.offset, d.type, d.time, d.kind, d.attempt, d.due_at, d.order_key,
      coalesce(d.body, k.body, e.body) as body, coalesce(d.trace, k.trace, e.trace) as trace
    from deliveries d left join events e on e.tenant = d.tenant and e.offset = d.offset
      left join kept_events k on k.tenant = d.tenant and k.offset = d.offset
    where d.tenant = ${run.tenant} and d.stream = ${run.stream} and d.due_at <= ${latest}
      and d.kind <> 'replay'
      and d.kind in (select value from json_each(${kindsOf(run)}))
    order by d.due_at, d.event_id limit ${take}`;
}

/** Returns the kinds of rows that are claimed, as JSON. */
function kindsOf(run: Run): string {
  return JSON.stringify(sentKinds(sendingOf(run)));
}

/** Reads rows of a replay, by an index of their own however many others wait. */
function replayRows(db: Database, run: Run, { take, latest }: Bounds): DueRow[] {
  if (!mayBeSent('replay', sendingOf(run))) return [];
  return db.all<DueRow>`
    select d.event_id, d.offset, d.type, d.time, d.kind, d.attempt, d.due_at, d.order_key,
      coalesce(d.body, k.body, e.body) as body, coalesce(d.trace, k.trace, e.trace) as trace
    from deliveries d left join events e on e.tenant = d.tenant and e.offset = d.offset
      left join kept_events k on k.tenant = d.tenant and k.offset = d.offset
    where d.tenant = ${run.tenant} and d.stream = ${run.stream} and d.due_at <= ${latest}
      and d.kind = 'replay'
    order by d.due_at, d.event_id limit ${take}`;
}

/** Reads rows of all kinds that were written while the clock was ahead. */
function lateRows(db: Database, run: Run, { take, latest }: Bounds): DueRow[] {
  return db.all<DueRow>`
    select d.event_id, d.offset, d.type, d.time, d.kind, d.attempt, d.due_at, d.order_key,
      coalesce(d.body, k.body, e.body) as body, coalesce(d.trace, k.trace, e.trace) as trace
    from deliveries d left join events e on e.tenant = d.tenant and e.offset = d.offset
      left join kept_events k on k.tenant = d.tenant and k.offset = d.offset
    where d.tenant = ${run.tenant} and d.stream = ${run.stream} and d.due_at > ${latest}
      and d.kind in (select value from json_each(${kindsOf(run)}))
    order by d.due_at, d.event_id limit ${take}`;
}

/**
 * Reads the oldest blocked row of a key; none while another row of the key is in progress, as one
 * that a try of the same claim took before its result was lost.
 */
function nextOfKey(db: Database, run: Run, key: string): DueRow | undefined {
  if (!mayBeSent('first', sendingOf(run))) return undefined;
  return db.get<DueRow>`
    select d.event_id, d.offset, d.type, d.time, d.kind, d.attempt, d.due_at, d.order_key,
      coalesce(d.body, k.body, e.body) as body, coalesce(d.trace, k.trace, e.trace) as trace
    from deliveries d left join events e on e.tenant = d.tenant and e.offset = d.offset
      left join kept_events k on k.tenant = d.tenant and k.offset = d.offset
    where d.tenant = ${run.tenant} and d.stream = ${run.stream} and d.order_key = ${key}
      and d.state = 'blocked' and not exists (
        select 1 from deliveries h indexed by deliveries_order
        where h.tenant = ${run.tenant} and h.stream = ${run.stream} and h.order_key = ${key}
          and h.state in ('parked', 'retrying') and h.kind = 'first')
    order by d.offset limit 1`;
}

function park(db: Database, run: Run, eventId: string, leaseUntil: Millis): void {
  db.run`
    update deliveries set state = 'parked', due_at = ${leaseUntil}
    where tenant = ${run.tenant} and stream = ${run.stream} and event_id = ${eventId}`;
}

function deliveryOf(row: DueRow): Delivery {
  const { kind, attempt, order_key: orderKey } = row;
  const delivery = { event: deliveredEventOf(row), kind, state: 'parked', attempt } as const;
  return orderKey === null ? delivery : { ...delivery, orderKey };
}
