import type { Millis } from '../../core/clock.ts';
import type { Delivery, DeliveryKind } from '../../core/types.ts';
import { chooseDue } from '../due.ts';
import type { DueAnswer, DueAsk } from '../port.ts';
import type { Run } from '../rows/runs.ts';
import type { Database } from './database.ts';
import { deliveredEventOf, type EventColumns } from '../rows/delivered-event.ts';
import { readRun } from './runs.ts';

/** Takes one stream's rows that are due; see {@link DeliveryStore.claimDue}. */
export function claimDue(db: Database, ask: DueAsk, now: Millis, leaseUntil: Millis): DueAnswer {
  const { tenant, stream } = ask;
  const run = readRun(db, tenant, stream);
  if (run === undefined || run.epoch !== ask.epoch || run.owner === null) {
    return { tenant, stream, rows: [], nextDueAt: undefined };
  }
  // One row more than asked for says when the next is due.
  const rows = [...dueRows(db, run, ask.take + 1), ...replayRows(db, run, ask.take + 1)];
  const { taken, nextDueAt } = chooseDue(rows, ask.take, now);
  for (const row of taken) park(db, run, row.event_id, leaseUntil);
  return { tenant, stream, rows: taken.map((row) => deliveryOf(row, leaseUntil)), nextDueAt };
}

interface DueRow extends EventColumns {
  readonly kind: DeliveryKind;
  readonly attempt: number;
  readonly due_at: Millis;
}

/** Oldest first; of a disabled stream redeliveries only, whatever else its last attempts left. */
function dueRows(db: Database, run: Run, take: number): DueRow[] {
  return db.all<DueRow>`
    select d.event_id, d.offset, d.type, d.time, d.kind, d.attempt, d.due_at,
      coalesce(d.body, k.body, e.body) as body, coalesce(d.trace, k.trace, e.trace) as trace
    from deliveries d left join events e on e.tenant = d.tenant and e.offset = d.offset
      left join kept_events k on k.tenant = d.tenant and k.offset = d.offset
    where d.tenant = ${run.tenant} and d.stream = ${run.stream} and d.due_at is not null
      and d.kind <> 'replay' and (${run.status === 'enabled'} or d.kind = 'redelivery')
    order by d.due_at, d.event_id limit ${take}`;
}

/** Those of a replay, found by an index of their own however many others wait. */
function replayRows(db: Database, run: Run, take: number): DueRow[] {
  if (run.status === 'disabled') return [];
  return db.all<DueRow>`
    select d.event_id, d.offset, d.type, d.time, d.kind, d.attempt, d.due_at,
      coalesce(d.body, k.body, e.body) as body, coalesce(d.trace, k.trace, e.trace) as trace
    from deliveries d left join events e on e.tenant = d.tenant and e.offset = d.offset
      left join kept_events k on k.tenant = d.tenant and k.offset = d.offset
    where d.tenant = ${run.tenant} and d.stream = ${run.stream} and d.due_at is not null
      and d.kind = 'replay'
    order by d.due_at, d.event_id limit ${take}`;
}

function park(db: Database, run: Run, eventId: string, leaseUntil: Millis): void {
  db.run`
    update deliveries set state = 'parked', due_at = ${leaseUntil}
    where tenant = ${run.tenant} and stream = ${run.stream} and event_id = ${eventId}`;
}

function deliveryOf(row: DueRow, leaseUntil: Millis): Delivery {
  const { kind, attempt } = row;
  return { event: deliveredEventOf(row), kind, state: 'parked', attempt, dueAt: leaseUntil };
}
