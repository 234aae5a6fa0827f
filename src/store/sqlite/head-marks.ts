import { blockOf, tenantsPerBlock } from '../../core/tenant-blocks.ts';
import type { Offset } from '../../core/types.ts';
import type { Database } from './database.ts';

/** See `LogStore.headMarks`. Heads never fall and ids are not given twice: no two states have one mark. */
export function headMarks(
  db: Database,
  syncedHeads: ReadonlyMap<number, Offset>,
): ReadonlyMap<number, string> {
  // A number of JavaScript is bound as a real one.
  const rows = db.all<{ block: number; mark: string }>`
    select id / cast(${tenantsPerBlock} as integer) as block,
      count(*) || ' ' || max(id) || ' ' || sum(head) as mark
    from tenants group by 1`;
  const marks = new Map(rows.map(({ block, mark }) => [block, mark]));
  // It is another mark once the rest is shown.
  for (const [tenant, head] of syncedHeads) {
    const block = blockOf(tenant);
    marks.set(block, `${marks.get(block)} ${tenant} at ${head}`);
  }
  return marks;
}
