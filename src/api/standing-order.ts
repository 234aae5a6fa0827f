import type { Millis } from '../core/clock.ts';
import type { StandingKey } from '../core/page.ts';
import type { StreamSort } from '../schemas/stream-health.ts';
import type { StreamStanding } from '../store/port/streams.ts';

const numbersBy = {
  '-open_failures': ({ openFailures }: StreamStanding): number => -openFailures,
  '-last_failed_at': ({ lastFailedAt = 0 }: StreamStanding): number => -lastFailedAt,
  // An age would change from page to page. Streams without a lag come last.
  '-lag': ({ waitingSince = Number.MAX_SAFE_INTEGER }: StreamStanding): Millis => waitingSince,
} as const;

/** The values that lists of streams are in the order of, lowest first, and then by id. */
export const valuesBy: Readonly<Record<StreamSort, (stream: StreamStanding) => string | number>> = {
  name: ({ name }) => name,
  ...numbersBy,
};

/** Returns the key of a stream in the order of a list. */
export function keyOf(stream: StreamStanding, sort: StreamSort): StandingKey {
  const { id, name } = stream;
  return sort === 'name' ? { sort, value: name, id } : { sort, value: numbersBy[sort](stream), id };
}

/** Returns a number below 0 if a value comes before the other one, and above 0 if it comes after it. */
export function compare<V extends string | number>(one: V, other: V): number {
  if (one === other) return 0;
  return one < other ? -1 : 1;
}

/** Returns the index of the first stream after a key, in a sorted list. */
export function firstAfter(
  streams: readonly StreamStanding[],
  { sort, value, id }: StandingKey,
): number {
  const valueOf = valuesBy[sort];
  const index = streams.findIndex(
    (stream) => (compare(valueOf(stream), value) || compare(stream.id, id)) > 0,
  );
  return index === -1 ? streams.length : index;
}
