import type { Millis } from '../../core/clock.ts';
import { failingMs } from '../../core/stream-state.ts';
import { type Command, sql } from './command.ts';
import { byDue } from './delivery-indexes.ts';

/** A stream with an attempt that is due and was not made. */
export interface OverdueStream {
  readonly id: string;
  /** See {@link overdueSince}. */
  readonly since: Millis;
}

/** Returns since when an attempt is overdue; at the earliest since the last success. */
export function overdueSince(
  dueAt: Millis | undefined,
  deliveredAt: Millis | null,
): Millis | undefined {
  return dueAt === undefined ? undefined : Math.max(dueAt, deliveredAt ?? 0);
}

interface OverdueRow {
  readonly id: string;
  readonly due_at: Millis;
  readonly last_delivered_at: Millis | null;
}

/**
 * Returns the streams of a tenant with an attempt that has been overdue for a minute. It takes two searches
 * of the index for each stream with deliveries that wait, however many these are.
 */
export function* overdueStreams(tenant: number, now: Millis): Command<OverdueStream[]> {
  const rows = yield* sql.all<OverdueRow>`
    with recursive waiting (stream) as (
      select min(stream) from deliveries ${byDue}
      where tenant = ${tenant} and stream > '' and due_at is not null
      union all
      select (
        select min(d.stream) from deliveries d ${byDue}
        where d.tenant = ${tenant} and d.stream > w.stream and d.due_at is not null)
      from waiting w where w.stream is not null)
    select w.stream as id, w.due_at, r.last_delivered_at
    from (
      select stream, (
        select min(d.due_at) from deliveries d ${byDue}
        where d.tenant = ${tenant} and d.stream = waiting.stream and d.due_at is not null) as due_at
      from waiting where stream is not null) as w
    join runs r on r.tenant = ${tenant} and r.stream = w.stream
    where w.due_at <= ${now - failingMs}`;
  return rows.map(({ id, due_at: dueAt, last_delivered_at: deliveredAt }) => ({
    id,
    since: overdueSince(dueAt, deliveredAt) ?? dueAt,
  }));
}
