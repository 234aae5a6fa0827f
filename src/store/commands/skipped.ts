import type { Json } from '../../core/filter-values.ts';
import { storedFilter } from '../../core/filter.ts';
import { runInSlices } from '../../core/slices.ts';
import { spanAt } from '../../core/subscription.ts';
import type { Offset, Subscription } from '../../core/types.ts';
import type { BoundedRows } from '../rows/bounded.ts';
import type { Run } from '../rows/runs.ts';
import type { PassedOver } from '../rules/enable.ts';
import { type Command, PageRead, type Reads, sql, together } from './command.ts';
import { oneOf, oneOfNumbers } from './dialect.ts';
import { oldestAfter, stretchOf } from './runs.ts';

export interface SkippedDeps {
  readonly commands: Reads;
  /** Runs `action` after other work of the event loop had its turn. */
  readonly defer: (action: () => void) => void;
  /** Maximum offsets that one statement counts, so that it does not block others for long. */
  readonly countMax: number;
}

/**
 * Counts retained events that enabling a stream passed over, that it wanted and that have no row.
 * Behind the head only pruning changes the log, so the count runs after the commit, in steps. At
 * most {@link filteredMax} events are filtered; then the count is a lower bound.
 */
export async function countSkipped(
  deps: SkippedDeps,
  passedOver: PassedOver,
): Promise<CountedSkipped> {
  let count = 0;
  let filtered = 0;
  let { from } = passedOver;
  while (from <= passedOver.upTo && filtered < filteredMax) {
    const { filter } = spanAt(passedOver.subscriptions, from);
    const step =
      filter === undefined
        ? await deps.commands.read(countFrom(deps, passedOver, from))
        : await countMatching(deps, passedOver, from, filter);
    count += step.count;
    filtered += step.filtered ?? 0;
    from = step.upTo + 1;
    await new Promise<void>(deps.defer);
  }
  return { count, atLeast: from <= passedOver.upTo };
}

export interface CountedSkipped {
  readonly count: number;
  /** There may be more. */
  readonly atLeast: boolean;
}

/** Events that are filtered to be counted. */
const filteredMax = 10_000;

interface Counted {
  readonly count: number;
  /** Events that were filtered. */
  readonly filtered?: number;
  readonly upTo: Offset;
}

/** Does the same as {@link countFrom} for events that the stream wanted by a filter. */
async function countMatching(
  { commands, countMax }: SkippedDeps,
  { tenant, upTo: end, subscriptions, withRow }: PassedOver,
  from: Offset,
  text: string,
): Promise<Counted> {
  const span = spanAt(subscriptions, from);
  const last = Math.min(end, span.upTo ?? end, from + countMax - 1);
  const filter = storedFilter(text);
  const { rows, hasMore, upTo } = await commands.read(bodies());
  let count = 0;
  for (const { body } of rows) {
    if (await runInSlices(filter.matches(JSON.parse(body) as Json))) count += 1;
  }
  return { count, filtered: rows.length, upTo: hasMore ? (rows.at(-1)?.offset ?? upTo) : upTo };

  function* bodies(): Command<BoundedRows<BodyRow> & { readonly upTo: Offset }> {
    const stretch = yield* stretchOf(tenant, { after: from - 1, upTo: last });
    const page = yield* new PageRead<BodyRow>({
      take: 256,
      bytesMax: 512 * 1024,
      columns: ['body'],
      order: '"offset"',
      rowsAfter: (read, limit) => sql.all`
        select "offset", body from events
        where tenant = ${tenant} and "offset" between ${(read.at(-1)?.offset ?? from - 1) + 1}
            and ${stretch.upTo} ${stretch.inDays}
          and type ${oneOf(span.types)} and not "offset" ${oneOfNumbers(withRow)}
        order by "offset" limit ${limit}`,
    });
    return { ...page, upTo: stretch.upTo };
  }
}

interface BodyRow {
  readonly offset: Offset;
  readonly body: string;
}

/** Counts those of one step, whose events the stream wanted by one subscription. */
function* countFrom(
  { countMax }: SkippedDeps,
  { tenant, upTo: end, subscriptions, withRow }: PassedOver,
  from: Offset,
): Command<Counted> {
  const span = spanAt(subscriptions, from);
  const last = Math.min(end, span.upTo ?? end, from + countMax - 1);
  const { upTo, inDays } = yield* stretchOf(tenant, { after: from - 1, upTo: last });
  const row = yield* sql.get<{ count: number }>`
    select count(*) as count from events
    where tenant = ${tenant} and "offset" between ${from} and ${upTo} ${inDays}
      and type ${oneOf(span.types)} and not "offset" ${oneOfNumbers(withRow)}`;
  return { count: row?.count ?? 0, upTo };
}

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
