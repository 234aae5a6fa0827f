import { StoreUnavailable } from '../../core/errors.ts';
import pg from 'pg';
import type { Millis } from '../../core/clock.ts';
import { causeOf, type Database, stateOf } from './database.ts';

/** Tables with a partition for each day (UTC). */
type Daily = 'events' | 'attempts';

export const dayMs = 86_400_000;
/** Days made ahead, today included: a node that runs looks every hour. */
const daysAhead = 3;
/** Whoever makes partitions or migrates holds this lock until its transaction ends. */
export const schemaLock = 7_532_812;

/** In whole days since the epoch. */
export const dayOf = (at: Millis): number => Math.floor(at / dayMs);

/**
 * Makes today's partitions and those of the next days, by the clock of the server. A new table is
 * attached, which lets others go on writing; made in place it would wait for all of them.
 */
export async function makeDaysAhead(db: Pick<Database, 'script'>): Promise<void> {
  await db.script(`
    select pg_advisory_xact_lock(${schemaLock});
    do $$ declare
      today integer := floor(extract(epoch from clock_timestamp()) / 86400);
      made integer;
    begin
      for made in today .. today + ${daysAhead - 1} loop
        ${makeDay('events', 'made')}
        ${makeDay('attempts', 'made')}
      end loop;
    end $$`);
}

/** Makes the partitions of these days, before rows of them come in bulk. */
export async function makeDays(
  db: Pick<Database, 'script'>,
  table: Daily,
  days: readonly number[],
): Promise<void> {
  await db.script(`
    select pg_advisory_xact_lock(${schemaLock});
    do $$ begin ${days.map((day) => makeDay(table, String(day))).join('')} end $$`);
}

/** One statement of PL/pgSQL; `day` is a number or the name of a variable. */
function makeDay(table: Daily, day: string): string {
  const unit = table === 'events' ? `${dayMs}::bigint` : '1';
  return `
    if to_regclass('${table}_d' || ${day}) is null then
      execute format('create table %I (like ${table} including all)', '${table}_d' || ${day});
      execute format('alter table ${table} attach partition %I for values from (%s) to (%s)',
        '${table}_d' || ${day}, ${day} * ${unit}, (${day} + 1) * ${unit});
    end if;`;
}

/**
 * Makes the partition that a row had no place in: an instant given by a caller may lie anywhere.
 * True when the statement is worth another try.
 */
export async function makeMissingDay(
  db: Pick<Database, 'script'>,
  error: unknown,
): Promise<boolean> {
  const missing = missingDayOf(error);
  if (missing === undefined) return false;
  await makeDays(db, missing.table, [missing.day]);
  return true;
}

/** PostgreSQL names the table, and the value in parentheses in a text of any language. */
function missingDayOf(error: unknown): { table: Daily; day: number } | undefined {
  const cause = causeOf(error);
  if (!(cause instanceof pg.DatabaseError) || cause.code !== '23514') return undefined;
  if (cause.constraint !== undefined) return undefined;
  const value = /\((-?\d+)\)[^()]*$/.exec(cause.detail ?? '')?.[1];
  if (value === undefined) return undefined;
  if (cause.table === 'events') return { table: 'events', day: dayOf(Number(value)) };
  return cause.table === 'attempts' ? { table: 'attempts', day: Number(value) } : undefined;
}

/** Days of a table that lie wholly before an instant, oldest first. */
async function daysBefore(db: Database, table: Daily, before: Millis): Promise<number[]> {
  const rows = await db.all<{ name: string }>`
    select c.relname as name from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent = ${table}::regclass`;
  const days = rows.map(({ name }) => Number(/_d(\d+)$/.exec(name)?.[1] ?? Infinity));
  return days.filter((day) => (day + 1) * dayMs <= before).toSorted((one, other) => one - other);
}

/**
 * Drops the days before `before` of whose events none is left: every tenant has pruned them. The
 * bodies that open deliveries still need go to those first. Whoever settles a delivery of such an
 * event either did so before the lock, and is seen, or finds no event afterwards.
 */
export async function dropEventDays(db: Database, before: Millis): Promise<void> {
  for (const day of await daysBefore(db, 'events', before)) {
    // Asked without the lock first, or a stream that lags would have it taken at every look.
    if (await isNeeded(db, day)) continue;
    await drop(
      db,
      'events',
      `do $$ begin
        -- Another node was here first.
        if to_regclass('events_d${day}') is null then return; end if;
        if exists (
          select 1 from tenants t where exists (
            select 1 from events_d${day} e where e.tenant = t.id and e."offset" > t.pruned_to)
        ) then return; end if;
        update deliveries d set body = e.body, trace = e.trace from events_d${day} e
          where d.body is null and e.tenant = d.tenant and e.id = d.event_id
            and e."offset" = d."offset";
        drop table events_d${day};
      end $$`,
    );
  }
}

/** Whether some tenant has not pruned all events of the day. */
async function isNeeded(db: Database, day: number): Promise<boolean> {
  const needed = await db.get`
    select 1 from tenants t where exists (
      select 1 from events e
      where e.tenant = t.id and e."offset" > t.pruned_to
        and e.published_at >= ${day * dayMs} and e.published_at < ${(day + 1) * dayMs})
    limit 1`;
  return needed !== undefined;
}

/** Drops the days before `before`; attempts of open deliveries move to day 0. */
export async function dropAttemptDays(db: Database, before: Millis): Promise<void> {
  for (const day of await daysBefore(db, 'attempts', before)) {
    await drop(
      db,
      'attempts',
      `update attempts a set day = 0
        from runs r join deliveries d on d.tenant = r.tenant and d.stream = r.stream
        where a.day = ${day} and r.tenant = a.tenant and r.key = a.stream_key
          and (d."offset" = a."offset" or d.event_id = a.event_id);
      drop table if exists attempts_d${day}`,
    );
  }
}

/** Others wait while it lasts, so it gives up where it cannot have the table soon. */
async function drop(db: Database, table: Daily, statements: string): Promise<void> {
  try {
    await db.script(`
      begin;
      set local lock_timeout = 1000;
      lock table only ${table} in access exclusive mode;
      ${statements};
      commit`);
  } catch (error) {
    if (!(error instanceof StoreUnavailable) || stateOf(error) !== lockNotAvailable) throw error;
  }
}

/** The table is in use: the next look drops the day. */
const lockNotAvailable = '55P03';
