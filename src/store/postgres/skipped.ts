import { type PassedOver, stepsOf } from '../rules/enable.ts';
import { numbers, type Queries } from './database.ts';
import { stretchOf } from './log-days.ts';
import { oldestAfter } from './log.ts';

/** Offsets counted by one statement, so that none takes long. */
const stepMax = 200_000;

/** See `StreamDeps.countSkipped`. */
export async function countSkipped(db: Queries, passedOver: PassedOver): Promise<number> {
  const { tenant, after, withRow } = passedOver;
  const oldest = await oldestAfter(db, tenant, after);
  let skipped = 0;
  for (const { from, to, types } of stepsOf(passedOver, oldest, stepMax)) {
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
