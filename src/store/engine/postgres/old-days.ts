import type { Clock } from '../../../core/clock.ts';
import { StoreUnavailable } from '../../../core/errors.ts';
import type { Database, Queries } from './database.ts';
import { stateOf } from './errors.ts';
import { type Daily } from './partitions.ts';
import { type KnownStore, requireSame, type StoreIdentity } from './identity.ts';

/**
 * Removes the partition of a day without a lock that others wait for. The partition is detached
 * concurrently: that takes SHARE UPDATE EXCLUSIVE on its parent, and waits without locks for
 * transactions that use the parent. Only the partition itself is locked as a whole, when no new
 * statement can find it any more.
 */

export interface DayDeps {
  readonly db: Database;
  readonly identity: StoreIdentity;
  /** Other connections, which cancel statements of the first ones. */
  readonly others: Queries;
  readonly clock: Pick<Clock, 'after'>;
}

/** A partition, or its remainder. */
export interface DayTable {
  readonly table: Daily;
  readonly day: number;
  /**
   * `pending`: a former process began to detach it. `detached`: it is a table of its own, to be
   * dropped.
   */
  readonly state: 'attached' | 'pending' | 'detached';
  /** It has no row, not even one of a transaction in progress. */
  readonly isEmpty: boolean;
}

/**
 * Returns the partitions of a table, leftover ones first, then the oldest first; without
 * `attempts_kept`. Only those of days before `before` are seen as empty: to ask is to wait for a `VACUUM FULL`.
 */
export async function daysOf(db: Database, table: Daily, before: number): Promise<DayTable[]> {
  const days = await db.all<DayTable>`
    select ${table}::text as "table", substring(c.relname from '[0-9]+$')::int as day,
      case when i.inhrelid is null then 'detached'
        when i.inhdetachpending then 'pending' else 'attached' end as state,
      -- One that another session has just dropped has no size, and is gone in the next step.
      coalesce(case when substring(c.relname from '[0-9]+$')::int < ${before}
        then pg_relation_size(c.oid) = 0 end, false) as "isEmpty"
    from pg_class c
    join pg_class p on p.oid = ${table}::regclass and p.relnamespace = c.relnamespace
    left join pg_inherits i on i.inhrelid = c.oid and i.inhparent = p.oid
    where c.relkind = 'r' and c.relname ~ ('^' || ${table} || '_d[0-9]+$')`;
  const rank = ({ state }: DayTable): number => (state === 'attached' ? 1 : 0);
  return days.toSorted((one, other) => rank(one) - rank(other) || one.day - other.day);
}

/**
 * Removes the first of the days that is not in use. Returns how many were removed: 0 or 1.
 *
 * @param known is compared with the store before each day, for days that this process removes
 * because it has copied what is needed; throws `StoreReplaced` at a difference
 */
export async function removeFirst(
  deps: DayDeps,
  days: readonly DayTable[],
  known?: KnownStore,
): Promise<number> {
  for (const day of days) {
    if (known !== undefined) await requireSame(deps.db, known);
    if (await removeDay(deps, day)) return 1;
  }
  return 0;
}

/**
 * Returns days that another step has already cleared, and that remain to be detached or dropped.
 */
export function isLeftOver({ state }: DayTable): boolean {
  return state !== 'attached';
}

/** Removes a day. Returns false when it is in use, to be called again later. */
async function removeDay(deps: DayDeps, { table, day, state }: DayTable): Promise<boolean> {
  const name = `${table}_d${day}`;
  if (state !== 'detached') {
    if (await isInUse(deps.db, name)) return false;
    const how = state === 'pending' ? 'finalize' : 'concurrently';
    if (!(await runBounded(deps, `alter table ${table} detach partition ${name} ${how}`))) {
      return false;
    }
  }
  return unlessInUse(() =>
    deps.db.script(`
      begin;
      set local lock_timeout = ${lockMs};
      drop table if exists ${name};
      commit`),
  );
}

/** Maximum wait of upkeep for a lock. */
export const lockMs = 50;
/** Maximum wait of detaching for transactions in progress; after it, another step tries again. */
const detachMs = 2000;

/**
 * Returns whether a transaction that has lasted for some time holds a lock on the table, as a
 * backup does: detaching would have to wait for it. Transactions of Leat last for milliseconds.
 */
async function isInUse(db: Database, name: string): Promise<boolean> {
  const row = await db.get`
    select 1 from pg_locks l left join pg_stat_activity a on a.pid = l.pid
    where l.relation = to_regclass(${name}) and l.pid is distinct from pg_backend_pid()
      and coalesce(a.xact_start, '-infinity') < clock_timestamp() - interval '1 s'
    limit 1`;
  return row !== undefined;
}

/**
 * Runs a statement that must not be in a transaction, and cancels it after some time: settings of a
 * session do not reach it through a pooler. Returns false when it was cancelled.
 */
async function runBounded({ db, others, clock }: DayDeps, statement: string): Promise<boolean> {
  const timer = clock.after(detachMs, () => {
    others.get`
      select count(pg_cancel_backend(pid)) from pg_stat_activity
      where datname = current_database() and state = 'active' and query = ${statement}`.catch(
      // The statement goes on waiting, and its work is done then.
      () => undefined,
    );
  });
  try {
    return await unlessInUse(() => db.script(statement));
  } finally {
    timer.cancel();
  }
}

/**
 * Returns false when the work met a lock of others, or was cancelled because it waited too long.
 */
export async function unlessInUse(work: () => Promise<unknown>): Promise<boolean> {
  try {
    await work();
    return true;
  } catch (error) {
    if (error instanceof StoreUnavailable && inUse.has(stateOf(error))) return false;
    throw error;
  }
}

/** lock_not_available, query_canceled, deadlock_detected, object_in_use */
const inUse = new Set(['55P03', '57014', '40P01', '55006']);
