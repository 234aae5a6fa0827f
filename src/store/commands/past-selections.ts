import { selectionsMax } from '../../core/subscription.ts';
import type { Offset, Subscription } from '../../core/types.ts';
import type { EventLogStore } from '../port/event-log.ts';
import { type Command, type On, sql, type Statement } from './command.ts';
import { oneOf, verbatim } from './dialect.ts';
import { oldestAfter } from './runs.ts';

export interface PastSelectionDeps extends On {}

/** A selection that no longer applies to any event after the cursor, and the last one that it applied to. */
interface PastSelection extends Subscription {
  readonly upTo: Offset;
}

/** Returns the selections of `all` that are not among `kept`, which are the last ones of them. */
export function passedSelections(
  all: readonly Subscription[],
  kept: readonly Subscription[],
): PastSelection[] {
  const passed = all.slice(0, all.length - kept.length);
  return passed.map((one, index) => ({ ...one, upTo: all[index + 1]?.after ?? one.after }));
}

/** Keeps selections of a stream while the log has events to which they applied. */
export function* keepPast(
  tenant: number,
  stream: string,
  passed: readonly PastSelection[],
): Command<void> {
  for (const { after, upTo, types, filter } of passed) {
    yield* sql.run`
      insert into past_selections (tenant, stream, after_offset, to_offset, types, filter)
      values (${tenant}, ${stream}, ${after}, ${upTo}, ${JSON.stringify(types)}, ${filter})
      -- A store that went back may have it already.
      on conflict do nothing`;
  }
}

/** Returns whether a stream would have more selections of retained events than are kept. */
export function* hasTooManySelections(
  tenant: number,
  stream: string,
  present: readonly Subscription[],
): Command<boolean> {
  const oldest = yield* oldestAfter(tenant, 0);
  const row = yield* sql.get<{ count: number }>`
    select count(*) as count from past_selections
    where tenant = ${tenant} and stream = ${stream} and to_offset >= ${oldest}`;
  return present.length + (row?.count ?? 0) > selectionsMax;
}

/** Removes the past selections of a stream. */
export function removePast(tenant: number, stream: string): Statement<number> {
  return sql.run`delete from past_selections where tenant = ${tenant} and stream = ${stream}`;
}

/**
 * Notes events of which failures of the stream are about to be dismissed by a request, as far as they are
 * in the log, with what their rows have.
 */
export function noteDismissed(
  tenant: number,
  stream: string,
  { dismissal, ids }: { readonly dismissal: string; readonly ids: readonly string[] },
): Statement<number> {
  return sql.run`
    insert into dismissed_events (tenant, "offset", stream, dismissal, event_id, type, time, kind,
      attempt, failed_at, error_code)
    select tenant, "offset", stream, ${dismissal}, event_id, type, time, kind, attempt, failed_at,
      error_code
    from deliveries
    where tenant = ${tenant} and stream = ${stream} and event_id ${oneOf(ids)}
      and "offset" is not null
    on conflict (tenant, "offset", stream) do update set dismissal = excluded.dismissal,
      event_id = excluded.event_id, type = excluded.type, time = excluded.time,
      kind = excluded.kind, attempt = excluded.attempt, failed_at = excluded.failed_at,
      error_code = excluded.error_code`;
}

/** Creates the step of upkeep that removes what belongs to events that the log no longer has. */
export function createPastPruner({ on }: PastSelectionDeps): Pick<EventLogStore, 'prune'> {
  return {
    prune: (tenant, take) => on.commands.transact('relaxed', () => prune(tenant, take)),
  };
}

function* prune(tenant: number, take: number): Command<number> {
  const oldest = yield* oldestAfter(tenant, 0);
  let removed = 0;
  for (const { table, key, last } of records) {
    removed += yield* sql.run`
      delete from ${table} where (${key}) in (
        select ${key} from ${table} where tenant = ${tenant} and ${last} < ${oldest}
        limit ${take - removed})`;
  }
  return removed;
}

/** Tables of records about events, by their keys and the last offset that a record is about. */
const records = [
  recordOf('past_selections', 'tenant, stream, after_offset', 'to_offset'),
  recordOf('skipped_ranges', 'tenant, stream, from_offset', 'to_offset'),
  recordOf('dismissed_events', 'tenant, "offset", stream', '"offset"'),
  recordOf('event_types', 'tenant, type', 'last_offset'),
];

function recordOf(table: string, key: string, last: string) {
  return { table: verbatim(table), key: verbatim(key), last: verbatim(last) };
}
