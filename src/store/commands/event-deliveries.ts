import type { Millis } from '../../core/clock.ts';
import { type EventState, eventStateOf } from '../../core/event-state.ts';
import type { Attempt, DeliveryKind, DeliveryState } from '../../core/types.ts';
import {
  type EventDeliveries,
  type EventDelivery,
  type EventLogStore,
  type FoundEvent,
  historyMax,
} from '../port/event-log.ts';
import { attemptOf, type AttemptRow, eventKeyOf, outcomeCodes } from '../rows/attempts.ts';
import { mayBeSent } from '../rules/pause.ts';
import { type Command, type On, type Reads, sql } from './command.ts';
import { Fragment, jsonList, listOf, oneOf, piece, positionIn } from './dialect.ts';
import { entriesOf } from './history.ts';
import {
  type Candidate,
  candidatesOf,
  type EventSelection,
  selectedBy,
} from './event-candidates.ts';
import type { Kept, ReadCache } from './read-cache.ts';

export interface EventDeliveryDeps extends On {
  readonly readCache: ReadCache;
}

interface ReadingDeps {
  readonly commands: Reads;
  readonly kept: Kept;
}

/** Creates the query of what became of an event. */
export function createEventDeliveries({
  on: { lists },
  readCache,
}: EventDeliveryDeps): EventLogStore['deliveries'] {
  return (tenant, event, page) =>
    lists.bounded(async () => {
      const kept = readCache.present;
      for (let tries = 1; ; tries += 1) {
        const { found, basis } = await derived({ commands: lists, kept }, { tenant, event, page });
        const ids = found.items.map(({ stream }) => stream);
        const present = await lists.read(basisOf(tenant, event, ids));
        // A change in between would mix the state before it with the attempts after it.
        const isChanged = present?.rows !== basis.rows || (present.streams ?? '') !== basis.streams;
        const isMixed = isChanged || found.items.some(hasBegun);
        if (!isMixed || tries === triesMax) return found;
      }
    });
}

/** Tries until an event whose deliveries change all the time is shown as it was read. */
const triesMax = 4;

/** Returns whether a delivery that was waiting has been attempted since. */
function hasBegun({ state, attempts }: EventDelivery): boolean {
  return state === 'waiting' && attempts.length > 0;
}

interface Query {
  readonly tenant: number;
  readonly event: FoundEvent;
  readonly page: Parameters<EventLogStore['deliveries']>[2];
}

/**
 * What the result depends on (its basis), as far as it may change while states and attempts are read: it is
 * read again at the end, and a difference repeats the whole read.
 */
interface Basis {
  /** Rows of deliveries as JSON. */
  readonly rows: string | null;
  /** Ids of streams, joined by commas. */
  readonly streams: string | null;
}

function* basisOf(
  tenant: number,
  { id }: FoundEvent,
  streams: readonly string[],
): Command<Basis | undefined> {
  return yield* sql.get<Basis>`
    select ${rowsOf(tenant, id)} as rows, (
      select string_agg(id, ',' order by id) from streams
      where tenant = ${tenant} and id ${oneOf(streams)}) as streams`;
}

/**
 * Derives what became of an event. The streams and their cursors are read first, and the traces of the
 * event after them: a delivery that ends in between has then either a row, or an entry in its history,
 * or its stream has not passed the event.
 */
async function derived(
  deps: ReadingDeps,
  { tenant, event, page: { after, take } }: Query,
): Promise<{ readonly found: EventDeliveries; readonly basis: Basis }> {
  const { read } = deps.commands;
  const candidates = await candidatesOf(deps, tenant, event);
  const traces = await read(tracesOf(tenant, event, candidates));
  const isSelected = await selectedBy(deps, event, candidates, traces.selections);
  const delivered = await read(
    deliveredTo(tenant, event, toSearch(candidates, traces, isSelected)),
  );
  const listed: Listed[] = candidates.flatMap((stream) => {
    const { id } = stream;
    const state = eventStateOf({
      row: traces.rows.get(id)?.state,
      isDelivered: delivered.has(stream.key),
      isDismissed: traces.dismissed.has(id),
      isBeforeStart: stream.isBeforeStart,
      wasSubscribed: stream.wasSubscribed,
      isSkipped: traces.skipped.has(id),
      isSelected: isSelected(stream),
      isPassed: stream.isPassed,
    });
    return state === undefined ? [] : [{ stream, state }];
  });
  const rest = listed.filter(({ stream }) => after === undefined || stream.id > after);
  const page = rest.slice(0, take);
  const histories = await read(historiesOf(tenant, event, page));
  const found = {
    items: page.map((one) => deliveryOf(one, traces, histories)),
    next: rest.length > take ? page.at(-1)?.stream.id : undefined,
    counts: Object.fromEntries(
      [...Map.groupBy(listed, ({ state }) => state)].map(([state, all]) => [state, all.length]),
    ),
  };
  const streams = page.map(({ stream }) => stream.id).join();
  return { found, basis: { rows: traces.rowsText, streams } };
}

interface Listed {
  readonly stream: Candidate;
  readonly state: EventState;
}

function deliveryOf(
  { stream, state }: Listed,
  { rows }: Traces,
  histories: ReadonlyMap<number, Attempt[]>,
): EventDelivery {
  const { id, name, key, state: streamState } = stream;
  const row = rows.get(id);
  const status = streamState === 'disabled' ? 'disabled' : 'enabled';
  const sending = { status, isPaused: streamState === 'paused' } as const;
  const isWaiting = row?.state === 'retrying' && mayBeSent(row.kind, sending);
  return {
    stream: id,
    name,
    state,
    nextAttemptAt: isWaiting ? (row.dueAt ?? undefined) : undefined,
    attempts: histories.get(key) ?? [],
  };
}

// Traces of the event

interface Traces {
  readonly rows: ReadonlyMap<string, TraceRow>;
  /** The same as JSON. */
  readonly rowsText: string | null;
  readonly dismissed: ReadonlySet<string>;
  readonly skipped: ReadonlySet<string>;
  /** Past selections that applied to the event. */
  readonly selections: ReadonlyMap<string, EventSelection>;
}

interface TraceRow {
  readonly state: DeliveryState;
  readonly kind: DeliveryKind;
  readonly dueAt: Millis | null;
}

type ListedRow = readonly [
  stream: string,
  state: DeliveryState,
  kind: DeliveryKind,
  dueAt: Millis | null,
];

interface TraceLists {
  readonly rows: string | null;
  readonly dismissed: string | null;
  readonly skipped: string | null;
}

interface PastRow {
  readonly stream: string;
  readonly has_type: 0 | 1;
  readonly filter: string | null;
}

/** Reads what streams have of an event. One that the log does not have is followed by its rows alone. */
function* tracesOf(
  tenant: number,
  event: FoundEvent,
  candidates: readonly Candidate[],
): Command<Traces> {
  const at = event.publishedAt === undefined ? undefined : event.offset;
  const lists = yield* sql.get<TraceLists>`
    select ${rowsOf(tenant, event.id)} as rows, (
      select cast(${jsonList}(stream) as text) from dismissed_events
      where tenant = ${tenant} and "offset" = ${at}) as dismissed, (
      select cast(${jsonList}(stream) as text) from skipped_ranges
      where tenant = ${tenant} and from_offset < ${at} and to_offset >= ${at}) as skipped`;
  const past = candidates.filter(({ selection }) => selection === undefined);
  const ids = past.map(({ id }) => id);
  const rows = listOf<ListedRow>(lists?.rows).map(
    ([stream, state, kind, dueAt]) => [stream, { state, kind, dueAt }] as const,
  );
  return {
    rows: new Map(rows),
    rowsText: lists?.rows ?? null,
    dismissed: new Set(listOf<string>(lists?.dismissed)),
    skipped: new Set(listOf<string>(lists?.skipped)),
    selections: yield* pastSelections(tenant, event, at === undefined ? [] : ids),
  };
}

/** Returns the past selections of streams that applied to an event. */
function* pastSelections(
  tenant: number,
  { type, offset }: FoundEvent,
  streams: readonly string[],
): Command<Traces['selections']> {
  if (streams.length === 0) return new Map();
  const rows = yield* sql.all<PastRow>`
    select stream, filter,
      case when ${positionIn}(types, ${JSON.stringify(type)}) > 0 then 1 else 0 end as has_type
    from past_selections
    where tenant = ${tenant} and stream ${oneOf(streams)}
      and after_offset < ${offset} and to_offset >= ${offset}`;
  return new Map(
    rows.map(({ stream, has_type: hasType, filter }) => [
      stream,
      { hasType: hasType === 1, filter: filter ?? undefined },
    ]),
  );
}

/** The rows of the deliveries of an event, as one list of {@link ListedRow} in the order of their streams. */
function rowsOf(tenant: number, eventId: string): Fragment {
  return new Fragment({
    sqlite: piece`(
      select json_group_array(json_array(stream, state, kind, due_at) order by stream)
      from deliveries where tenant = ${tenant} and event_id = ${eventId})`,
    postgres: piece`(
      select cast(json_agg(json_build_array(stream, state, kind, due_at) order by stream) as text)
      from deliveries where tenant = ${tenant} and event_id = ${eventId})`,
  });
}

// Histories

/** Returns the keys of the streams whose state depends on whether the history has a success. */
function toSearch(
  candidates: readonly Candidate[],
  { rows, dismissed, skipped }: Traces,
  isSelected: (stream: Candidate) => boolean,
): number[] {
  return candidates
    .filter((stream) => {
      const { id, isPassed, isBeforeStart } = stream;
      if (rows.has(id)) return false;
      const isPlain = isPassed && !isBeforeStart && !skipped.has(id) && isSelected(stream);
      return !isPlain || dismissed.has(id);
    })
    .map(({ key }) => key);
}

function* deliveredTo(
  tenant: number,
  event: FoundEvent,
  keys: readonly number[],
): Command<ReadonlySet<number>> {
  if (keys.length === 0) return new Set();
  const rows = yield* sql.all<{ stream_key: number }>`
    select stream_key from ${entriesOf(tenant, eventKeyOf(event), keys)} as entries
    where outcome = ${outcomeCodes.delivered}`;
  return new Set(rows.map((row) => row.stream_key));
}

type HistoryRow = AttemptRow & { readonly stream_key: number };

function* historiesOf(
  tenant: number,
  event: FoundEvent,
  page: readonly Listed[],
): Command<ReadonlyMap<number, Attempt[]>> {
  const keys = page.map(({ stream }) => stream.key);
  const rows = yield* sql.all<HistoryRow>`
    select stream_key, at, duration_ms, outcome, status, error from (
      select entries.*, row_number() over (partition by stream_key order by number desc) as nth
      from ${entriesOf(tenant, eventKeyOf(event), keys)} as entries) as counted
    where nth <= ${historyMax} order by stream_key, number`;
  const histories = Map.groupBy(rows, (row) => row.stream_key);
  return new Map([...histories].map(([key, entries]) => [key, entries.map(attemptOf)]));
}
