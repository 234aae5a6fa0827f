import type { Offset } from '../../core/types.ts';
import type { EventLogStore, StreamAttempt } from '../port/event-log.ts';
import type { Page } from '../port/page.ts';
import { attemptOf, type AttemptRow } from '../rows/attempts.ts';
import { type Command, type On, sql } from './command.ts';
import { Fragment, oneOfNumbers, piece } from './dialect.ts';
import { oldestAfter, stretchOf } from './runs.ts';

interface Deps extends On {}

/** Creates the list of attempts of a stream. */
export function createStreamAttempts({ on }: Deps): EventLogStore['attempts'] {
  return (tenant, stream, page) => on.lists.read(list(tenant, stream, page));
}

/** The position of an entry: its event and its number. */
interface EntryKey {
  readonly event: Offset;
  readonly number: number;
}

type EntryRow = AttemptRow & { readonly event_key: Offset; readonly number: number };

function* list(
  tenant: number,
  stream: string,
  { after, take }: Parameters<EventLogStore['attempts']>[2],
): Command<Page<StreamAttempt>> {
  const run = yield* sql.get<{ key: number }>`
    select key from runs where tenant = ${tenant} and stream = ${stream}`;
  const before = after === undefined ? newest : parseEntryKey(after);
  if (run === undefined || before === undefined) return { items: [], next: undefined };
  const rows = yield* sql.all<EntryRow>`
    select event_key, number, at, duration_ms, outcome, status, error
    from ${entriesBefore(tenant, run.key, before, take + 1)} as entries
    order by event_key desc, number desc limit ${take + 1}`;
  const shown = rows.slice(0, take);
  const events = yield* eventsAt(
    tenant,
    shown.map((row) => row.event_key),
  );
  const last = rows.length > take ? shown.at(-1) : undefined;
  return {
    items: shown.map((row) => ({
      offset: row.event_key,
      event: events.get(row.event_key),
      attempt: attemptOf(row),
    })),
    next: last && `${last.event_key}.${last.number}`,
  };
}

/** Before all entries. */
const newest: EntryKey = { event: Number.MAX_SAFE_INTEGER, number: 0 };

/** Parses the `next` of a page; `undefined` for any other text. Kept entries have numbers below zero. */
function parseEntryKey(text: string): EntryKey | undefined {
  const parts = /^([0-9]{1,15})\.(-?[0-9]{1,16})$/.exec(text);
  return parts === null ? undefined : { event: Number(parts[1]), number: Number(parts[2]) };
}

/**
 * The first entries before a key, in the order of the index by event: an index by time would slow every
 * settlement. Test events have keys below zero and are left out.
 */
function entriesBefore(
  tenant: number,
  streamKey: number,
  { event, number }: EntryKey,
  take: number,
): Fragment {
  return new Fragment({
    sqlite: piece`(
      select * from (
        select event_key, rowid as number, at, duration_ms, outcome, status, error from attempts
        where stream_key = ${streamKey} and event_key between 0 and ${event}
          and (event_key, rowid) < (${event}, ${number})
        order by event_key desc, rowid desc limit ${take})
      union all
      select * from (
        select event_key, number, at, duration_ms, outcome, status, error from attempts_kept
        where stream_key = ${streamKey} and event_key between 0 and ${event}
          and (event_key, number) < (${event}, ${number})
        order by event_key desc, number desc limit ${take}))`,
    postgres: piece`(
      select event_key, number, at, duration_ms, outcome, status, error from attempts
      where tenant = ${tenant} and stream_key = ${streamKey} and event_key between 0 and ${event}
        and (event_key, number) < (${event}, ${number})
      order by event_key desc, number desc limit ${take})`,
  });
}

interface NameRow {
  readonly offset: Offset;
  readonly id: string;
  readonly type: string;
}

/** Reads the ids and types of events that the log has. */
function* eventsAt(
  tenant: number,
  offsets: readonly Offset[],
): Command<ReadonlyMap<Offset, Pick<NameRow, 'id' | 'type'>>> {
  const found = new Map<Offset, Pick<NameRow, 'id' | 'type'>>();
  const last = Math.max(0, ...offsets);
  const oldest = yield* oldestAfter(tenant, 0);
  for (let from = Math.max(oldest, Math.min(last, ...offsets)) - 1; from < last;) {
    const { upTo, inDays } = yield* stretchOf(tenant, { after: from, upTo: last });
    const rows = yield* sql.all<NameRow>`
      select "offset", id, type from events
      where tenant = ${tenant} and "offset" ${oneOfNumbers(offsets)}
        and "offset" > ${from} and "offset" <= ${upTo} ${inDays}`;
    for (const { offset, id, type } of rows) found.set(offset, { id, type });
    from = upTo;
  }
  return found;
}
