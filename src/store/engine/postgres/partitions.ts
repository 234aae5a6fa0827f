import pg from 'pg';
import { dayMs, dayOf } from '../../../core/units.ts';
import type { Database } from './database.ts';
import { causeOf } from './errors.ts';

/** Tables with a partition for each day (UTC). */
export type Daily = 'events' | 'attempts';

/** Days created ahead, including today. */
const daysAhead = 3;
/** A process that creates partitions or migrates holds this lock until its transaction ends. */
export const schemaLock = 7_532_812;

/**
 * Creates today's partitions and those of the next days, by the clock of the server. A new table is
 * attached under SHARE UPDATE EXCLUSIVE, which allows reads and writes; a partition created in
 * place takes ACCESS EXCLUSIVE.
 *
 * @param lockMs how long to wait for each lock; 0 for no limit
 */
export async function makeDaysAhead(db: Pick<Database, 'script'>, lockMs = 0): Promise<void> {
  await db.script(`
    begin;
    set local lock_timeout = ${lockMs};
    select pg_advisory_xact_lock(${schemaLock});
    do $$ declare
      today integer := floor(extract(epoch from clock_timestamp()) / 86400);
      made integer;
    begin
      for made in today .. today + ${daysAhead - 1} loop
        ${makeDay('events', 'made')}
        ${makeDay('attempts', 'made')}
      end loop;
    end $$;
    commit`);
}

/** Creates the partitions of these days before rows of them are written in bulk. */
export async function makeDays(
  db: Pick<Database, 'script'>,
  table: Daily,
  days: readonly number[],
): Promise<void> {
  await db.script(`
    begin;
    select pg_advisory_xact_lock(${schemaLock});
    do $$ begin ${days.map((day) => makeDay(table, String(day))).join('')} end $$;
    commit`);
}

/** Returns one statement of PL/pgSQL; `day` is a number or the name of a variable. */
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
 * Creates the partition that a row needs: a caller may pass any instant. Returns true when the
 * statement is worth another try.
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

/** PostgreSQL names the table, and has the value in parentheses in a text of any language. */
function missingDayOf(error: unknown): { table: Daily; day: number } | undefined {
  const cause = causeOf(error);
  if (!(cause instanceof pg.DatabaseError) || cause.code !== '23514') return undefined;
  if (cause.constraint !== undefined) return undefined;
  const value = /\((-?\d+)\)[^()]*$/.exec(cause.detail ?? '')?.[1];
  if (value === undefined) return undefined;
  if (cause.table === 'events') return { table: 'events', day: dayOf(Number(value)) };
  return cause.table === 'attempts' ? { table: 'attempts', day: Number(value) } : undefined;
}
