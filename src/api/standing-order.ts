import type { StandingKey } from '../core/page.ts';
import type { StreamSort } from '../schemas/stream-health.ts';
import type { StreamStanding } from '../store/port/streams.ts';

/** Returns the key of a stream in the order of a list. */
export function keyOf(stream: StreamStanding, sort: StreamSort): StandingKey {
  const { id } = stream;
  if (sort === 'name') return { sort, value: stream.name, id };
  if (sort === '-open_failures') return { sort, value: -stream.openFailures, id };
  if (sort === '-last_failed_at') return { sort, value: -(stream.lastFailedAt ?? 0), id };
  // An age would change from page to page. Streams without a lag come last.
  return { sort, value: stream.waitingSince ?? Number.MAX_SAFE_INTEGER, id };
}

/** Returns a number below 0 if one key comes before the other one, and above 0 if it comes after it. */
export function compareKeys(one: StandingKey, other: StandingKey): number {
  if (one.value !== other.value) return one.value < other.value ? -1 : 1;
  if (one.id === other.id) return 0;
  return one.id < other.id ? -1 : 1;
}
