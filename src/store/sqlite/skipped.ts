import { type PassedOver, stepsOf } from '../rules/enable.ts';
import type { Database } from './database.ts';
import { oldestAfter } from './log.ts';

/** Offsets counted between two turns of the event loop: some 4 ms. */
const stepMax = 10_000;

/**
 * See `StreamDeps.countSkipped`. In steps, because a million events at once would block the process
 * for half a second.
 */
export async function countSkipped(
  deps: { readonly db: Database; readonly defer: (action: () => void) => void },
  passedOver: PassedOver,
): Promise<number> {
  const { tenant, after, withRow } = passedOver;
  const rows = JSON.stringify(withRow);
  let skipped = 0;
  const oldest = oldestAfter(deps.db, tenant, after);
  for (const { from, to, types } of stepsOf(passedOver, oldest, stepMax)) {
    const row = deps.db.get<{ count: number }>`
      select count(*) as count from events
      where tenant = ${tenant} and offset between ${from} and ${to}
        and type in (select value from json_each(${JSON.stringify(types)}))
        and offset not in (select value from json_each(${rows}))`;
    skipped += row?.count ?? 0;
    await new Promise<void>(deps.defer);
  }
  return skipped;
}
