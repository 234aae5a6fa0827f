import type { Millis } from '../../core/clock.ts';
import type { Offset } from '../../core/types.ts';
import type { DeliveryStore } from '../port.ts';
import type { Database } from './database.ts';

/**
 * Removes the history of deliveries that are over, in the order in which it was written, going on
 * where the call before stopped. It walks over the entries of open deliveries; a walk that reaches
 * what is too young begins anew and finds those that were closed meanwhile. Entries of a deleted
 * stream, which nothing can reach any more, leave in the same way, at their age: removing millions
 * of them in the command that deletes a stream would hold the process up.
 *
 * A call walks in steps of `take` rows, each a transaction of its own, and lets other work run
 * between them: what has to stay can be far more than what may go.
 */
export function createAttemptPruner(deps: {
  readonly db: Database;
  readonly defer: (action: () => void) => void;
}): DeliveryStore['pruneAttempts'] {
  const { db, defer } = deps;
  // Per tenant: the row that the walk has reached.
  const reached = new Map<number, number>();

  const step = (tenant: number, query: { before: Millis; take: number }): number => {
    const rows = walk(db, reached.get(tenant) ?? 0, query.take);
    const old = rows.filter((row) => row.at < query.before);
    const last = rows.at(-1);
    if (last === undefined || old.at(-1) !== last) reached.delete(tenant);
    else reached.set(tenant, last.row);
    const mustStay = openDeliveries(db, tenant);
    return remove(
      db,
      old.filter((row) => !mustStay(row)),
    );
  };

  return async (tenant, { before, take }) => {
    let removed = 0;
    do {
      const query = { before, take: take - removed };
      removed += db.transact('relaxed', () => step(tenant, query));
      await new Promise<void>(defer);
    } while (removed < take && reached.has(tenant));
    return removed;
  };
}

interface WalkedRow {
  readonly row: number;
  readonly stream_key: number;
  readonly offset: Offset | null;
  readonly event_id: string | null;
  readonly at: Millis;
}

function walk(db: Database, after: number, take: number): WalkedRow[] {
  return db.all<WalkedRow>`
    select rowid as row, stream_key, offset, event_id, at from attempts
    where rowid > ${after} order by rowid limit ${take}`;
}

function remove(db: Database, rows: readonly WalkedRow[]): number {
  return db.run`
    delete from attempts where rowid in
      (select value from json_each(${JSON.stringify(rows.map(({ row }) => row))}))`;
}

/** Says of a row whether it must stay: its delivery is open, or it belongs to another tenant. */
function openDeliveries(db: Database, tenant: number): (row: WalkedRow) => boolean {
  const byStream = new Map<number, Set<Offset | string> | 'foreign'>();
  return (row) => {
    let open = byStream.get(row.stream_key);
    if (open === undefined) {
      open = openOf(db, tenant, row.stream_key);
      byStream.set(row.stream_key, open);
    }
    return open === 'foreign' || open.has(row.offset ?? row.event_id ?? '');
  };
}

function openOf(db: Database, tenant: number, streamKey: number): Set<Offset | string> | 'foreign' {
  const run = db.get<{ tenant: number; stream: string }>`
    select tenant, stream from runs where key = ${streamKey}`;
  if (run === undefined) return new Set();
  if (run.tenant !== tenant) return 'foreign';
  const rows = db.all<{ offset: Offset | null; event_id: string }>`
    select offset, event_id from deliveries
    where tenant = ${tenant} and stream = ${run.stream}`;
  return new Set(rows.map((row) => row.offset ?? row.event_id));
}
