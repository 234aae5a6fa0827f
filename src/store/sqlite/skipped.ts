import { spanAt } from '../../core/subscription.ts';
import type { Offset, Subscription } from '../../core/types.ts';
import type { Run } from '../rows/runs.ts';
import type { Database } from './database.ts';
import { oldestAfter } from './log.ts';

/** A stretch of the log that enabling a stream passed over. */
export interface PassedOver {
  readonly tenant: number;
  readonly after: Offset;
  readonly upTo: Offset;
  readonly subscriptions: readonly Subscription[];
  /** Offsets that had a row, so that they were or will be sent. */
  readonly withRow: readonly Offset[];
}

/** Read in the transaction that enables the stream: rows come and go afterwards. */
export function passedOverBy(
  db: Database,
  run: Run,
  subscriptions: readonly Subscription[],
  head: Offset,
): PassedOver {
  const rows = db.all<{ offset: Offset }>`
    select offset from deliveries
    where tenant = ${run.tenant} and stream = ${run.stream} and offset > ${run.cursor}`;
  const withRow = rows.map((row) => row.offset);
  return { tenant: run.tenant, after: run.cursor, upTo: head, subscriptions, withRow };
}

/** Offsets counted between two turns of the event loop: some 4 ms. */
const stepMax = 10_000;

/**
 * Retained events of the stretch that the stream wanted and that have no row. The log behind the
 * head does not change but for pruning, so this is counted after the commit, in steps: a million
 * events in one would hold the process up for half a second.
 */
export async function countSkipped(
  deps: { readonly db: Database; readonly defer: (action: () => void) => void },
  { tenant, after, upTo, subscriptions, withRow }: PassedOver,
): Promise<number> {
  const rows = JSON.stringify(withRow);
  let skipped = 0;
  let from = oldestAfter(deps.db, tenant, after);
  while (from <= upTo) {
    const span = spanAt(subscriptions, from);
    const to = Math.min(upTo, span.upTo ?? upTo, from + stepMax - 1);
    const row = deps.db.get<{ count: number }>`
      select count(*) as count from events
      where tenant = ${tenant} and offset between ${from} and ${to}
        and type in (select value from json_each(${JSON.stringify(span.types)}))
        and offset not in (select value from json_each(${rows}))`;
    skipped += row?.count ?? 0;
    from = to + 1;
    await new Promise<void>(deps.defer);
  }
  return skipped;
}
