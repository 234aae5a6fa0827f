import type { Millis } from '../../core/clock.ts';
import type { Attempt } from '../../core/types.ts';
import { type Database, numbers, type Queries } from './database.ts';
import { dayMs, dayOf, dropAttemptDays } from './days.ts';
import type { Run } from './runs.ts';
import {
  attemptOf,
  type AttemptRow,
  type HistoryEvent,
  outcomeCodes,
  shownMax,
} from '../rows/attempts.ts';

/** An entry for the history of a stream's delivery. */
export interface Entry {
  readonly run: Pick<Run, 'tenant' | 'key'>;
  readonly event: HistoryEvent;
  readonly attempt: Attempt;
}

/** Adds entries in their order, all in one statement. */
export async function addAttempts(tx: Queries, entries: readonly Entry[]): Promise<void> {
  if (entries.length === 0) return;
  const attempts = entries.map(({ attempt }) => attempt);
  await tx.run`
    insert into attempts (day, tenant, stream_key, "offset", event_id, at, duration_ms, outcome,
      status, error)
    select u.at / ${dayMs}, u.tenant, u.stream_key, u."offset", u.event_id, u.at, u.duration_ms,
      u.outcome, u.status, u.error
    from unnest(${numbers(entries.map(({ run }) => run.tenant))}::int[],
      ${numbers(entries.map(({ run }) => run.key))}::bigint[],
      ${numbers(entries.map(({ event }) => event.offset))}::bigint[],
      ${allOrNone(entries.map(({ event }) => (typeof event.offset === 'number' ? null : event.id)))}::text[],
      ${numbers(attempts.map(({ at }) => at))}::bigint[],
      ${numbers(attempts.map(({ durationMs }) => durationMs))}::double precision[],
      ${numbers(attempts.map(({ outcome }) => outcomeCodes[outcome]))}::smallint[],
      ${numbers(attempts.map(({ status }) => status))}::int[],
      ${allOrNone(attempts.map(({ error }) => error))}::text[]) with ordinality
      as u(tenant, stream_key, "offset", event_id, at, duration_ms, outcome, status, error, n)
    order by u.n`;
}

/** Mostly nothing failed: an empty array reads as nothing but nulls. */
function allOrNone(
  values: readonly (string | null | undefined)[],
): readonly (string | null | undefined)[] {
  return values.some((value) => typeof value === 'string') ? values : [];
}

/** The newest entries of deliveries of one stream, oldest first, in the order of `events`. */
export async function historiesOf(
  db: Queries,
  run: Pick<Run, 'tenant' | 'key'>,
  events: readonly HistoryEvent[],
): Promise<Attempt[][]> {
  if (events.length === 0) return [];
  const rows = await db.all<AttemptRow & { readonly n: number }>`
    select u.n, a.at, a.duration_ms, a.outcome, a.status, a.error
    from unnest(${numbers(events.map(({ offset }) => offset))}::bigint[],
      ${events.map(({ id }) => id)}::text[]) with ordinality as u("offset", id, n)
    cross join lateral (
      (select * from attempts
        where tenant = ${run.tenant} and stream_key = ${run.key} and "offset" = u."offset"
        order by number desc limit ${shownMax})
      union all
      (select * from attempts
        where tenant = ${run.tenant} and stream_key = ${run.key}
          and u."offset" is null and event_id = u.id
        order by number desc limit ${shownMax})
    ) as a
    order by u.n, a.number`;
  const histories: Attempt[][] = events.map(() => []);
  for (const row of rows) histories[row.n - 1]?.push(attemptOf(row));
  return histories;
}

/** Whether the history of an event, of the log or a test, has a success. */
export async function wasDelivered(
  db: Queries,
  run: Pick<Run, 'tenant' | 'key'>,
  eventId: string,
): Promise<boolean> {
  const { tenant, key } = run;
  const found = await db.get`
    select 1 from attempts
    where tenant = ${tenant} and stream_key = ${key} and outcome = ${outcomeCodes.delivered}
      and (event_id = ${eventId} or "offset" = (
        select e."offset" from events e join tenants t on t.id = e.tenant
        where e.tenant = ${tenant} and e.id = ${eventId} and e."offset" > t.pruned_to limit 1))
    limit 1`;
  return found !== undefined;
}

/**
 * Whole days go at once, for every tenant. What is left of the day of `before`, and what open
 * deliveries kept, goes one by one; so ask for the beginning of a day where there is a choice.
 */
export async function pruneAttempts(
  db: Database,
  tenant: number,
  { before, take }: { readonly before: Millis; readonly take: number },
): Promise<number> {
  await dropAttemptDays(db, before);
  const day = before % dayMs === 0 ? 0 : dayOf(before);
  return db.transact(
    'relaxed',
    (tx) => tx.run`
      delete from attempts where day in (0, ${day}) and tenant = ${tenant} and number in (
        select a.number from attempts a
        where a.day in (0, ${day}) and a.tenant = ${tenant} and a.at < ${before}
          and not exists (
            select 1 from runs r join deliveries d on d.tenant = r.tenant and d.stream = r.stream
            where r.tenant = a.tenant and r.key = a.stream_key
              and (d."offset" = a."offset" or d.event_id = a.event_id))
        order by a.number limit ${take})`,
  );
}
