import type { Millis } from '../../core/clock.ts';
import { yieldToEventLoop } from '../../core/slices.ts';
import type { Offset, Subscription } from '../../core/types.ts';
import type { BoundedRows } from '../rows/bounded.ts';
import { type Command, type Commands, PageRead, sql } from './command.ts';
import { oneOf, oneOfNumbers, perDialect } from './dialect.ts';
import { type Offsets, type WantedTypes, wantedTypes } from './log-types.ts';

/** Events after the cursor of a stream that are read to find those that wait. */
export const waitingMax = 10_000;

/** A stream, and the offset up to which nothing waits. */
export interface Positioned {
  readonly id: string;
  readonly cursor: Offset;
}

/** Returns a function that parses subscriptions; streams with the same ones share the result. */
function wantedOf(): (subscriptions: string) => readonly WantedTypes[] {
  const parsed = new Map<string, readonly WantedTypes[]>();
  return (text) => {
    const known = parsed.get(text) ?? wantedTypes(JSON.parse(text) as Subscription[]);
    parsed.set(text, known);
    return known;
  };
}

/** Streams whose subscriptions are read at once. */
const streamsAtOnce = { take: 500, bytesMax: 512 * 1024 } as const;

interface SubscriptionsRow {
  readonly id: string;
  readonly subscriptions: string;
}

/** Yields streams of one tenant in parts, in the order of their ids, with the subscriptions of each. */
export async function* withSubscriptions<Some extends { readonly id: string }>(
  { read }: Pick<Commands, 'read'>,
  tenant: number,
  streams: readonly Some[],
): AsyncGenerator<readonly (readonly [Some, readonly WantedTypes[]])[], void> {
  for (let index = 0; index < streams.length;) {
    const some = streams.slice(index, index + streamsAtOnce.take);
    const ids = some.map(({ id }) => id);
    const { rows, hasMore } = await read(subscriptionsOf(tenant, ids));
    const texts = new Map(rows.map(({ id, subscriptions }) => [id, subscriptions]));
    const parsed = wantedOf();
    yield some.flatMap((each) => {
      const text = texts.get(each.id);
      return text === undefined ? [] : [[each, parsed(text)] as const];
    });
    // A page that ends early has at least one row.
    index += hasMore ? ids.indexOf(rows.at(-1)?.id ?? '') + 1 : some.length;
    await yieldToEventLoop();
  }
}

function* subscriptionsOf(
  tenant: number,
  ids: readonly string[],
): Command<BoundedRows<SubscriptionsRow>> {
  return yield* new PageRead<SubscriptionsRow>({
    ...streamsAtOnce,
    columns: ['subscriptions'],
    order: 'id',
    rowsAfter: (rows, limit) => sql.all`
      select id, subscriptions from streams
      where tenant = ${tenant} and id ${oneOf(ids)} and id > ${rows.at(-1)?.id ?? ''}
      order by id limit ${limit}`,
  });
}

/** Reads the offsets above the cursors of streams that have a row. Returns a function of the id. */
export function* rowsAbove(
  tenant: number,
  streams: readonly Positioned[],
): Command<(id: string) => ReadonlySet<Offset>> {
  const rows = yield* sql.all<{ stream: string; offset: Offset }>`
    select d.stream, d."offset"
    from (
      select tenant, stream, cursor from runs
      where tenant = ${tenant} and stream ${oneOf(streams.map(({ id }) => id))}) as r
    ${eachDelivery} d.tenant = r.tenant and d.stream = r.stream and d."offset" > r.cursor
    ${endOfEach}`;
  const byStream = Map.groupBy(rows, ({ stream }) => stream);
  const sets = new Map(
    [...byStream].map(([id, some]) => [id, new Set(some.map(({ offset }) => offset))]),
  );
  return (id) => sets.get(id) ?? none;
}

/** Joins deliveries in the order of the runs: PostgreSQL would scan all of them. */
const eachDelivery = perDialect({
  sqlite: 'cross join deliveries d where',
  postgres: 'cross join lateral (select d.stream, d."offset" from deliveries d where',
});
const endOfEach = perDialect({ sqlite: '', postgres: 'order by d."offset") as d' });

const none: ReadonlySet<Offset> = new Set();

/** Probes of one statement. */
const probesMax = 256;

/**
 * Returns the offset of the first of some events that was published since an instant, or the one after
 * them: `published_at` never falls along the log, and PostgreSQL opens the last days only.
 */
export function* firstSince(
  tenant: number,
  { from, upTo }: Offsets,
  since: Millis,
): Command<Offset> {
  let [low, high] = [from, upTo + 1];
  while (low < high) {
    const step = Math.ceil((high - low) / probesMax);
    const count = Math.ceil((high - low) / step);
    const probes = Array.from({ length: count }, (_, index) => low + index * step);
    const row = yield* sql.get<{ offset: Offset | null }>`
      select min("offset") as "offset" from events
      where tenant = ${tenant} and "offset" ${oneOfNumbers(probes)} and published_at >= ${since}`;
    const found = row?.offset ?? undefined;
    low = found === undefined ? low + (count - 1) * step + 1 : Math.max(low, found - step + 1);
    high = found ?? high;
  }
  return high;
}
