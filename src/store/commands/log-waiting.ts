import type { Millis } from '../../core/clock.ts';
import type { Offset, Subscription } from '../../core/types.ts';
import { type Command, type Reads, sql } from './command.ts';
import { oneOf, oneOfNumbers, perDialect } from './dialect.ts';
import { type Offsets, type WantedTypes, wantedTypes } from './log-types.ts';
import { subscriptionRows } from './stream-subscriptions.ts';

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

/** Yields streams of one tenant in parts, in the order of their ids, with the subscriptions of each. */
export async function* withSubscriptions<Some extends { readonly id: string }>(
  commands: Reads,
  tenant: number,
  streams: readonly Some[],
): AsyncGenerator<readonly (readonly [Some, readonly WantedTypes[]])[], void> {
  const byId = new Map(streams.map((each) => [each.id, each]));
  for await (const rows of subscriptionRows(commands, tenant, [...byId.keys()])) {
    const parsed = wantedOf();
    yield rows.flatMap(({ id, subscriptions }) => {
      const each = byId.get(id);
      return each === undefined ? [] : [[each, parsed(subscriptions)] as const];
    });
  }
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
