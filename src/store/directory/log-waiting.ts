import type { Offset, Subscription } from '../../core/types.ts';
import { type Command, sql } from './command.ts';
import { oneOf } from './dialect.ts';
import { type WantedTypes, wantedTypes } from './log-types.ts';

/** Events after the cursor of a stream that are read to find those that wait. */
export const waitingMax = 10_000;

/** A stream, and the offset up to which nothing waits. */
export interface Positioned {
  readonly id: string;
  readonly cursor: Offset;
}

/** Returns a function that parses subscriptions; streams with the same ones share the result. */
export function wantedOf(): (subscriptions: string) => readonly WantedTypes[] {
  const parsed = new Map<string, readonly WantedTypes[]>();
  return (text) => {
    const known = parsed.get(text) ?? wantedTypes(JSON.parse(text) as Subscription[]);
    parsed.set(text, known);
    return known;
  };
}

/** Reads the offsets above the cursors of streams that have a row. Returns a function of the id. */
export function* rowsAbove(
  tenant: number,
  streams: readonly Positioned[],
): Command<(id: string) => ReadonlySet<Offset>> {
  const rows = yield* sql.all<{ stream: string; offset: Offset }>`
    select d.stream, d."offset" from runs r cross join deliveries d
    where r.tenant = ${tenant} and r.stream ${oneOf(streams.map(({ id }) => id))}
      and d.tenant = r.tenant and d.stream = r.stream and d."offset" > r.cursor`;
  const byStream = Map.groupBy(rows, ({ stream }) => stream);
  const sets = new Map(
    [...byStream].map(([id, some]) => [id, new Set(some.map(({ offset }) => offset))]),
  );
  return (id) => sets.get(id) ?? none;
}

const none: ReadonlySet<Offset> = new Set();
