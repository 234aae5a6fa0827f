import type { Offset, Subscription } from '../../core/types.ts';
import type { Run } from '../rows/runs.ts';
import type { PassedOver } from '../rules/enable.ts';
import { type Command, sql, together } from './command.ts';
import { oldestAfter } from './runs.ts';

/**
 * Returns the stretch of the log from the cursor of a stream up to the head. A change that enables the
 * stream reads it in its transaction, because rows change afterwards.
 */
export function* passedOverBy(
  { tenant, stream, cursor }: Pick<Run, 'tenant' | 'stream' | 'cursor'>,
  subscriptions: readonly Subscription[],
  head: Offset,
): Command<PassedOver> {
  const [rows, from] = yield* together(
    sql.all<{ offset: Offset }>`
      select "offset" from deliveries
      where tenant = ${tenant} and stream = ${stream} and "offset" > ${cursor}`,
    oldestAfter(tenant, cursor),
  );
  const withRow = rows.map(({ offset }) => offset);
  return { tenant, from, upTo: head, subscriptions, withRow };
}
