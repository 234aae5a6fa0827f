import { blockOf, tenantsPerBlock } from '../../core/tenant-blocks.ts';
import type { Offset } from '../../core/types.ts';
import type { Database } from './database.ts';

/**
 * See `LogStore.headMarks`. Heads never fall and ids are not reused, so no two states have the same
 * mark. Written apart from PostgreSQL, where a node first compares the store with the one it knows.
 */
export function headMarks(
  db: Database,
  syncedHeads: ReadonlyMap<number, Offset>,
): ReadonlyMap<number, string> {
  // SQLite receives a number of JavaScript as a real.
  const rows = db.all<{ block: number; mark: string }>`
    select id / cast(${tenantsPerBlock} as integer) as block,
      count(*) || ' ' || max(id) || ' ' || sum(head) as mark
    from tenants group by 1`;
  const marks = new Map(rows.map(({ block, mark }) => [block, mark]));
  // The mark changes once the rest is visible.
  for (const [tenant, head] of syncedHeads) {
    const block = blockOf(tenant);
    marks.set(block, `${marks.get(block)} ${tenant} at ${head}`);
  }
  return marks;
}
