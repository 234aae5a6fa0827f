import { tenantsPerBlock } from '../../core/tenant-blocks.ts';
import type { Database } from './database.ts';
import type { StoreIdentity } from './identity.ts';

/**
 * See `LogStore.headMarks`. Heads never fall and ids are not reused, so no two states have the same
 * mark. Written apart from SQLite, where no fail-over or restore can change the store meanwhile.
 */
export function headMarks({
  db,
  identity,
}: {
  readonly db: Database;
  readonly identity: StoreIdentity;
}): Promise<ReadonlyMap<number, string>> {
  return identity.compared(async ({ generation, identity: own, flushed, seen }) => {
    // At least one row: the comparison is also needed where there are no tenants.
    const rows = await db.all<{
      block: number | null;
      mark: string | null;
      flushed: number | null;
    }>`
      with compared as materialized (
        select leat_compare(${generation}, ${own}, ${flushed}) as flushed),
      marks as (
        select id / ${tenantsPerBlock}::int as block,
          count(*) || ' ' || max(id) || ' ' || sum(head) as mark
        from tenants group by 1)
      select block, mark, flushed from compared left join marks on true`;
    seen(rows[0]?.flushed);
    return new Map(
      rows.flatMap(({ block, mark }) => (block === null || mark === null ? [] : [[block, mark]])),
    );
  });
}
