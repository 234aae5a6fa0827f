import type { Offset, Subscription } from '../../core/types.ts';
import { type PassedOver, stepsOf } from '../rules/enable.ts';
import { numbers, type Queries } from './database.ts';
import { stretchOf } from './log-days.ts';
import { tipOf } from './log.ts';
import type { Run } from './runs.ts';

/** Read in the transaction that enables the stream, because rows change afterwards. */
export async function passedOverBy(
  tx: Queries,
  run: Run,
  subscriptions: readonly Subscription[],
  head: Offset,
): Promise<PassedOver> {
  const rows = await tx.all<{ offset: Offset }>`
    select "offset" from deliveries
    where tenant = ${run.tenant} and stream = ${run.stream} and "offset" > ${run.cursor}`;
  const withRow = rows.map((row) => row.offset);
  return { tenant: run.tenant, after: run.cursor, upTo: head, subscriptions, withRow };
}

/** Offsets counted by one statement, so that none takes long. */
const stepMax = 200_000;

/**
 * Counts retained events of the stretch that the stream wanted and that have no row. Behind the
 * head only pruning changes the log, so the count runs after the commit.
 */
export async function countSkipped(db: Queries, passedOver: PassedOver): Promise<number> {
  const { tenant, after, withRow } = passedOver;
  const { prunedTo } = await tipOf(db, tenant);
  let skipped = 0;
  for (const { from, to, types } of stepsOf(passedOver, Math.max(after, prunedTo) + 1, stepMax)) {
    const days = await stretchOf(db, tenant, { after: from - 1, upTo: to });
    const row = await db.get<{ count: number }>`
      select count(*) as count from events
      where tenant = ${tenant} and "offset" between ${from} and ${to}
        and published_at >= ${days.from} and published_at < ${days.to}
        and type = any(${types}::text[])
        and "offset" <> all(${numbers(withRow)}::bigint[])`;
    skipped += row?.count ?? 0;
  }
  return skipped;
}
