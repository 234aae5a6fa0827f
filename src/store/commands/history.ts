import type { Millis } from '../../core/clock.ts';
import type { Offset } from '../../core/types.ts';
import { dayOf } from '../../core/units.ts';
import { outcomeCodes, testKeyOf } from '../rows/attempts.ts';
import type { Run } from '../rows/runs.ts';
import { type Command, sql } from './command.ts';
import { Fragment, piece, postgresOnly } from './dialect.ts';

// PostgreSQL has a partition of the history for each day, and deliveries have the days of theirs.

/** Within an update of deliveries whose history gets an entry. */
export function entryAt(at: Millis): Fragment {
  const day = dayOf(at);
  return postgresOnly`, attempts_from = least(attempts_from, ${day}),
    attempts_to = greatest(attempts_to, ${day})`;
}

/** More columns of a new delivery, for the values of {@link newDays}. */
export const dayColumns = postgresOnly`, event_day, attempts_from, attempts_to`;

/** The days of a delivery whose event is new. */
export function newDays(now: Millis): Fragment {
  const day = dayOf(now);
  return postgresOnly`, ${day}, ${day}, ${day}`;
}

/**
 * Returns how the delivery of an event without a row, of the log or a test, has ended: by its history, in
 * which a success counts more than a dismissal; `undefined` when that has neither. All days are
 * searched: a delivery that succeeded at once has no row with its day, and the clock may have been
 * set since.
 */
export function* endOf(
  { tenant, key }: Run,
  eventId: string,
): Command<'delivered' | 'dismissed' | undefined> {
  // A pruned event may still be in the partition of its day.
  const retained = postgresOnly`and "offset" > (select pruned_to from tenants where id = ${tenant})`;
  const event = yield* sql.get<{ offset: Offset }>`
    select "offset" from events where tenant = ${tenant} and id = ${eventId} ${retained} limit 1`;
  const found = yield* sql.get<{ outcome: number }>`
    select outcome from ${entriesOf(tenant, event?.offset ?? testKeyOf(eventId), [key])} as entries
    where outcome in (${outcomeCodes.delivered}, ${outcomeCodes.dismissed})
    order by outcome limit 1`;
  if (found === undefined) return undefined;
  return found.outcome === outcomeCodes.delivered ? 'delivered' : 'dismissed';
}

/** The entries of the histories of one event. SQLite has those that were kept in a table of their own. */
export function entriesOf(tenant: number, eventKey: number, keys: readonly number[]): Fragment {
  const list = JSON.stringify(keys);
  return new Fragment({
    sqlite: piece`(
      select rowid as number, stream_key, at, duration_ms, outcome, status, error from attempts
      where stream_key in (select value from json_each(${list})) and event_key = ${eventKey}
      union all
      select number, stream_key, at, duration_ms, outcome, status, error from attempts_kept
      where stream_key in (select value from json_each(${list})) and event_key = ${eventKey})`,
    postgres: piece`(
      select number, stream_key, at, duration_ms, outcome, status, error from attempts
      where tenant = ${tenant} and stream_key = any((select ${keys}::bigint[])::bigint[])
        and event_key = ${eventKey})`,
  });
}
