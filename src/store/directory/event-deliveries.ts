import type { Millis } from '../../core/clock.ts';
import { type EventState, eventStateOf } from '../../core/event-state.ts';
import { storedFilter } from '../../core/filter.ts';
import type { Json } from '../../core/filter-values.ts';
import { runInSlices, yieldToEventLoop } from '../../core/slices.ts';
import { spanAt } from '../../core/subscription.ts';
import type {
  Attempt,
  DeliveryKind,
  DeliveryState,
  Offset,
  Selection,
  StreamStatus,
  Subscription,
} from '../../core/types.ts';
import {
  type EventDelivery,
  type EventLogStore,
  type FoundEvent,
  historyMax,
} from '../port/event-log.ts';
import { attemptOf, type AttemptRow, eventKeyOf, outcomeCodes } from '../rows/attempts.ts';
import type { BoundedRows } from '../rows/bounded.ts';
import { type Command, type Commands, PageRead, sql, together } from './command.ts';
import { Fragment, oneOf, oneOfNumbers, perDialect, piece, postgresOnly } from './dialect.ts';
import { byEvent } from './kept.ts';

interface Deps {
  readonly commands: Commands;
}

/** A stream that may have to do with the event. */
interface Candidate {
  readonly id: string;
  readonly name: string;
  readonly key: number;
  readonly isPassed: boolean;
  readonly isBeforeStart: boolean;
  readonly status: StreamStatus;
  readonly isPaused: boolean;
  /** What it selected at the offset of the event; absent when that is a past selection. */
  readonly selection: Selection | undefined;
}

/**
 * Creates the query of what became of an event. The streams and their cursors are read first, and the
 * traces of the event after them: a delivery that ends in between has then either a row, or an entry
 * in its history, or its stream has not passed the event.
 */
export function createEventDeliveries({ commands }: Deps): EventLogStore['deliveries'] {
  const { read } = commands;
  return async (tenant, event, { after, take }) => {
    const ids = await read(relatedTo(tenant, event));
    const candidates = await candidatesOf(commands, tenant, event, ids);
    const traces = await read(tracesOf(tenant, event));
    const isSelected = await selectedBy(event, candidates, traces);
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
        isSkipped: traces.skipped.has(id),
        isSelected: isSelected(stream),
        isPassed: stream.isPassed,
      });
      return state === undefined ? [] : [{ stream, state }];
    });
    const rest = listed.filter(({ stream }) => after === undefined || stream.id > after);
    const page = rest.slice(0, take);
    const histories = await read(historiesOf(tenant, event, page));
    return {
      items: page.map((one) => deliveryOf(one, traces, histories)),
      next: rest.length > take ? page.at(-1)?.stream.id : undefined,
      counts: Object.fromEntries(
        [...Map.groupBy(listed, ({ state }) => state)].map(([state, all]) => [state, all.length]),
      ),
    };
  };
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
  const { id, name, key, status, isPaused } = stream;
  const row = rows.get(id);
  const isSent =
    row?.kind === 'redelivery' || (status === 'enabled' && (!isPaused || row?.kind === 'test'));
  const isWaiting = row?.state === 'retrying' && isSent;
  return {
    stream: id,
    name,
    state,
    nextAttemptAt: isWaiting ? (row.due_at ?? undefined) : undefined,
    attempts: histories.get(key) ?? [],
  };
}

// Traces of the event

interface Traces {
  readonly rows: ReadonlyMap<string, TraceRow>;
  readonly dismissed: ReadonlySet<string>;
  readonly skipped: ReadonlySet<string>;
  /** Past selections that applied to the event. */
  readonly selections: ReadonlyMap<string, Selection>;
}

interface TraceRow {
  readonly stream: string;
  readonly state: DeliveryState;
  readonly kind: DeliveryKind;
  readonly due_at: Millis | null;
}

interface PastRow {
  readonly stream: string;
  readonly types: string;
  readonly filter: string | null;
}

/** Reads what streams have of an event. One that the log does not have is followed by its rows alone. */
function* tracesOf(tenant: number, { id, offset, publishedAt }: FoundEvent): Command<Traces> {
  const at = publishedAt === undefined ? undefined : offset;
  const [rows, dismissed, skipped, selections] = yield* together(
    sql.all<TraceRow>`
      select stream, state, kind, due_at from deliveries ${byEvent}
      where tenant = ${tenant} and event_id = ${id}`,
    sql.all<{ stream: string }>`
      select stream from dismissed_events where tenant = ${tenant} and "offset" = ${at}`,
    sql.all<{ stream: string }>`
      select stream from skipped_ranges
      where tenant = ${tenant} and from_offset < ${at} and to_offset >= ${at}`,
    sql.all<PastRow>`
      select stream, types, filter from past_selections
      where tenant = ${tenant} and after_offset < ${at} and to_offset >= ${at}`,
  );
  return {
    rows: new Map(rows.map((row) => [row.stream, row])),
    dismissed: new Set(dismissed.map(({ stream }) => stream)),
    skipped: new Set(skipped.map(({ stream }) => stream)),
    selections: new Map(
      selections.map(({ stream, types, filter }) => [
        stream,
        { types: JSON.parse(types) as string[], filter: filter ?? undefined },
      ]),
    ),
  };
}

/** Returns the streams with a trace of the event, and those that were subscribed to its type before. */
function* relatedTo(
  tenant: number,
  { id, type, offset, publishedAt }: FoundEvent,
): Command<string[]> {
  const at = publishedAt === undefined ? undefined : offset;
  const rows = yield* sql.all<{ stream: string }>`
    select stream from deliveries ${byEvent} where tenant = ${tenant} and event_id = ${id}
    union
    select stream from dismissed_events where tenant = ${tenant} and "offset" = ${at}
    union
    -- A replay sends by a later selection, and an owner that has not seen a change by the one before.
    select stream from past_selections
    where tenant = ${tenant} and ${publishedAt !== undefined}
      and ${positionIn}(types, ${JSON.stringify(type)}) > 0`;
  return rows.map(({ stream }) => stream);
}

const positionIn = perDialect({ sqlite: 'instr', postgres: 'strpos' });

// Streams

interface CandidateRow {
  readonly id: string;
  readonly name: string;
  readonly status: StreamStatus;
  readonly subscriptions: string;
  readonly paused_at: Millis | null;
  readonly created_at: Millis;
  readonly key: number;
  readonly cursor: Offset;
  readonly first_offset: Offset | null;
}

/** Streams that are read at once. */
const streamsAtOnce = { take: 500, bytesMax: 512 * 1024 } as const;

/** Reads the streams that mention the type of the event, and those of `ids`. */
async function candidatesOf(
  { read }: Commands,
  tenant: number,
  event: FoundEvent,
  ids: readonly string[],
): Promise<Candidate[]> {
  const all: Candidate[] = [];
  const isLogged = event.publishedAt !== undefined;
  for (let after = ''; ;) {
    const { rows, hasMore } = await read(candidateRows(tenant, { isLogged, ...event, ids, after }));
    all.push(...rows.flatMap((row) => candidateOf(row, event, ids) ?? []));
    const last = rows.at(-1);
    if (!hasMore || last === undefined) return all;
    after = last.id;
    await yieldToEventLoop();
  }
}

function* candidateRows(
  tenant: number,
  query: {
    readonly isLogged: boolean;
    readonly type: string;
    readonly ids: readonly string[];
    readonly after: string;
  },
): Command<BoundedRows<CandidateRow>> {
  const { isLogged, type, ids, after } = query;
  return yield* new PageRead<CandidateRow>({
    ...streamsAtOnce,
    columns: ['subscriptions'],
    order: 'id',
    rowsAfter: (rows, limit) => sql.all`
      select s.id, s.name, s.status, s.subscriptions, s.paused_at, s.created_at, r.key, r.cursor,
        r.first_offset
      from streams s join runs r on r.tenant = s.tenant and r.stream = s.id
      where s.tenant = ${tenant} and s.id > ${rows.at(-1)?.id ?? after}
        and (${isLogged} and ${positionIn}(s.subscriptions, ${JSON.stringify(type)}) > 0
          or s.id ${oneOf(ids)})
      order by s.id limit ${limit}`,
  });
}

function candidateOf(
  row: CandidateRow,
  { type, offset = 0, publishedAt }: FoundEvent,
  ids: readonly string[],
): Candidate | undefined {
  const { id, name, key, status, cursor, first_offset: first, created_at: createdAt } = row;
  const subscriptions = JSON.parse(row.subscriptions) as Subscription[];
  const covers = (subscriptions[0]?.after ?? Infinity) < offset;
  const selection = covers ? spanAt(subscriptions, offset) : undefined;
  const isSubscribed = subscriptions.some(({ types }) => types.includes(type));
  if (!isSubscribed && !ids.includes(id)) return undefined;
  return {
    id,
    name,
    key,
    status,
    selection,
    isPaused: row.paused_at !== null,
    isPassed: offset <= cursor,
    // Programs of before did not record where a stream began.
    isBeforeStart: first === null ? (publishedAt ?? 0) < createdAt : offset <= first,
  };
}

/** Returns which of the streams selected the event. Filters are evaluated in slices. */
async function selectedBy(
  { type, body }: FoundEvent,
  candidates: readonly Candidate[],
  { selections }: Traces,
): Promise<(stream: Candidate) => boolean> {
  const selected = new Set<string>();
  const matches = new Map<string, boolean>();
  let envelope: Json | undefined;
  for (const { id, selection = selections.get(id) } of candidates) {
    if (selection?.types.includes(type) !== true) continue;
    const { filter } = selection;
    if (filter === undefined) {
      selected.add(id);
      continue;
    }
    const known = matches.get(filter);
    envelope ??= JSON.parse(body) as Json;
    const isMatch = known ?? (await runInSlices(storedFilter(filter).matches(envelope)));
    matches.set(filter, isMatch);
    if (isMatch) selected.add(id);
    if (known === undefined && matches.size % filtersAtOnce === 0) await yieldToEventLoop();
  }
  return ({ id }) => selected.has(id);
}

/** Filters that are evaluated before other work has a turn: usually about a millisecond. */
const filtersAtOnce = 32;

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
    select stream_key from attempts
    where ${postgresOnly`tenant = ${tenant} and`} stream_key ${oneOfNumbers(keys)}
      and event_key = ${eventKeyOf(event)} and outcome = ${outcomeCodes.delivered}`;
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

/** The entries of the histories of one event. SQLite has those that were kept in a table of their own. */
function entriesOf(tenant: number, eventKey: number, keys: readonly number[]): Fragment {
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
      where tenant = ${tenant} and stream_key = any(${keys}::bigint[]) and event_key = ${eventKey})`,
  });
}
