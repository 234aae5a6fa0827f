import { spanAt } from '../../core/subscription.ts';
import type { Offset } from '../../core/types.ts';
import type { PassedOver } from '../rules/enable.ts';
import { type Command, type Commands, sql } from './command.ts';
import { oneOf, oneOfNumbers } from './dialect.ts';
import type { Runs } from './runs.ts';

export interface SkippedDeps {
  readonly commands: Commands;
  readonly runs: Runs;
  /** Runs `action` after other work of the event loop had its turn. */
  readonly defer: (action: () => void) => void;
  /** Maximum offsets that one statement counts, so that it does not block others for long. */
  readonly countMax: number;
}

/**
 * Counts retained events that enabling a stream passed over, that it wanted and that have no row.
 * Behind the head only pruning changes the log, so the count runs after the commit, in steps.
 */
export async function countSkipped(deps: SkippedDeps, passedOver: PassedOver): Promise<number> {
  let skipped = 0;
  for (let from = passedOver.from; from <= passedOver.upTo;) {
    const { count, upTo } = await deps.commands.read(countFrom(deps, passedOver, from));
    skipped += count;
    from = upTo + 1;
    await new Promise<void>(deps.defer);
  }
  return skipped;
}

/** Counts those of one step, whose events the stream wanted by one subscription. */
function* countFrom(
  { runs, countMax }: SkippedDeps,
  { tenant, upTo: end, subscriptions, withRow }: PassedOver,
  from: Offset,
): Command<{ readonly count: number; readonly upTo: Offset }> {
  const span = spanAt(subscriptions, from);
  const last = Math.min(end, span.upTo ?? end, from + countMax - 1);
  const { upTo, inDays } = yield* runs.stretch(tenant, { after: from - 1, upTo: last });
  const row = yield* sql.get<{ count: number }>`
    select count(*) as count from events
    where tenant = ${tenant} and "offset" between ${from} and ${upTo} ${inDays}
      and type ${oneOf(span.types)} and not "offset" ${oneOfNumbers(withRow)}`;
  return { count: row?.count ?? 0, upTo };
}
