import type { Millis } from '../../core/clock.ts';
import { storedFilter } from '../../core/filter.ts';
import type { Json } from '../../core/filter-values.ts';
import { runInSlices, yieldToEventLoop } from '../../core/slices.ts';
import { spanAt } from '../../core/subscription.ts';
import type { Offset, Selection, StreamStatus, Subscription } from '../../core/types.ts';
import type { FoundEvent } from '../port/event-log.ts';
import type { BoundedRows } from '../rows/bounded.ts';
import { type Command, type Commands, PageRead, sql } from './command.ts';
import { oneOf, perDialect } from './dialect.ts';
import { jsonList, listOf } from './stream-list.ts';
import { readSubscriptions, type SubscriptionDeps } from './stream-subscriptions.ts';

/** A stream that may have to do with the event. */
export interface Candidate {
  readonly id: string;
  readonly name: string;
  readonly key: number;
  readonly isPassed: boolean;
  readonly isBeforeStart: boolean;
  /** Whether it was subscribed to the type of the event at some time that is still known. */
  readonly wasSubscribed: boolean;
  readonly status: StreamStatus;
  readonly isPaused: boolean;
  /** What it selected at the offset of the event; absent when that is a past selection. */
  readonly selection: EventSelection | undefined;
}

/** A selection as far as it concerns an event: its types may have 100 kB. */
export interface EventSelection extends Pick<Selection, 'filter'> {
  readonly hasType: boolean;
}

interface CandidateDeps extends SubscriptionDeps {
  readonly commands: Pick<Commands, 'read'>;
}

interface Related {
  /** Streams with a trace of the event. */
  readonly traced: readonly string[];
  /** Streams that were subscribed to its type before. */
  readonly subscribed: ReadonlySet<string>;
}

async function relatedTo(
  { commands: { read } }: CandidateDeps,
  tenant: number,
  event: FoundEvent,
): Promise<Related> {
  const traced = await read(withTrace(tenant, event));
  const subscribed = new Set<string>();
  if (event.publishedAt === undefined) return { traced, subscribed };
  // A replay sends by a later selection, and an owner that has not seen a change by the one before.
  for (let after: PastKey | undefined = firstPast; after !== undefined;) {
    const { streams, end }: PastStep = await read(pastStep(tenant, event.type, after));
    for (const stream of streams) subscribed.add(stream);
    after = end;
    if (after !== undefined) await yieldToEventLoop();
  }
  return { traced, subscribed };
}

function* withTrace(tenant: number, { id, offset, publishedAt }: FoundEvent): Command<string[]> {
  const at = publishedAt === undefined ? undefined : offset;
  const rows = yield* sql.all<{ stream: string }>`
    select stream from deliveries where tenant = ${tenant} and event_id = ${id}
    union
    select stream from dismissed_events where tenant = ${tenant} and "offset" = ${at}
    union
    -- A selection between two changes without an event in between is not kept, but a replay may have used it.
    select stream from replays where tenant = ${tenant} and from_offset < ${at} and to_offset >= ${at}`;
  return rows.map(({ stream }) => stream);
}

interface PastKey {
  readonly stream: string;
  readonly after_offset: Offset;
}

interface PastStep {
  readonly streams: readonly string[];
  /** Where the next step begins; absent after the last one. */
  readonly end: PastKey | undefined;
}

interface PastRow extends PastKey {
  readonly streams: string | null;
  readonly count: number;
}

/** Before all past selections of a tenant. */
const firstPast: PastKey = { stream: '', after_offset: 0 };

/** Past selections that are read at once: some milliseconds. */
const pastMax = 1000;

/** Reads the next past selections, and returns the streams of those with the type. */
function* pastStep(tenant: number, type: string, after: PastKey): Command<PastStep> {
  const row = yield* sql.get<PastRow>`
    with part as (
      select stream, after_offset, ${positionIn}(types, ${JSON.stringify(type)}) > 0 as has_type
      from past_selections
      where tenant = ${tenant} and (stream, after_offset) > (${after.stream}, ${after.after_offset})
      order by stream, after_offset limit ${pastMax})
    select stream, after_offset, (select count(*) from part) as count, (
      select cast(${jsonList}(distinct stream) as text) from part where has_type) as streams
    from part order by stream desc, after_offset desc limit 1`;
  return { streams: listOf(row?.streams), end: row?.count === pastMax ? row : undefined };
}

/** Returns where a type as JSON begins in a list of types as JSON; 0 when it is not in the list. */
export const positionIn = perDialect({ sqlite: 'instr', postgres: 'strpos' });

interface CandidateRow {
  readonly id: string;
  readonly name: string;
  readonly status: StreamStatus;
  readonly version: number;
  readonly paused_at: Millis | null;
  readonly created_at: Millis;
  readonly key: number;
  readonly cursor: Offset;
  readonly first_offset: Offset | null;
  /** Bytes of the subscriptions. */
  readonly searched: number;
}

/** Streams that are read at once. */
const streamsAtOnce = 1000;

/**
 * Reads the streams that may have to do with an event, in the order of their ids: those that are
 * subscribed to its type, and then those with a trace of it or a past selection. A stream whose selection
 * becomes a past one in between is found by the first read.
 */
export async function candidatesOf(
  deps: CandidateDeps,
  tenant: number,
  event: FoundEvent,
): Promise<Candidate[]> {
  const isLogged = event.publishedAt !== undefined;
  const subscribed = isLogged ? await readCandidates(deps, tenant, event, undefined) : [];
  const known = new Set(subscribed.map(({ id }) => id));
  const related = await relatedTo(deps, tenant, event);
  const all = new Set([...related.traced, ...related.subscribed]);
  const others = { ids: [...all].filter((id) => !known.has(id)), subscribed: related.subscribed };
  const found = others.ids.length === 0 ? [] : await readCandidates(deps, tenant, event, others);
  return [...subscribed, ...found].toSorted((one, other) => (one.id < other.id ? -1 : 1));
}

/** Reads the others, or those that mention the type of the event, in no order. */
async function readCandidates(
  deps: CandidateDeps,
  tenant: number,
  event: FoundEvent,
  others:
    { readonly ids: readonly string[]; readonly subscribed: Related['subscribed'] } | undefined,
): Promise<Candidate[]> {
  const all: Candidate[] = [];
  const ids = others?.ids;
  for (let after = ''; ;) {
    const query = { type: event.type, ids, after };
    const { rows, hasMore } = await deps.commands.read(candidateRows(tenant, query));
    const byId = new Map(rows.map((row) => [row.id, row]));
    for await (const some of readSubscriptions(deps, tenant, rows)) {
      for (const { id, subscriptions } of some) {
        const row = byId.get(id);
        const candidate = row && candidateOf(row, subscriptions, event, others?.subscribed);
        if (candidate !== undefined) all.push(candidate);
      }
    }
    const last = rows.at(-1);
    if (!hasMore || last === undefined) return all;
    after = last.id;
    await yieldToEventLoop();
  }
}

function* candidateRows(
  tenant: number,
  query: {
    readonly type: string;
    readonly ids: readonly string[] | undefined;
    readonly after: string;
  },
): Command<BoundedRows<CandidateRow>> {
  const { type, ids, after } = query;
  return yield* new PageRead<CandidateRow>({
    take: streamsAtOnce,
    columns: [],
    sizes: ['searched'],
    order: 'id',
    rowsAfter: (rows, limit) => sql.all`
      select s.id, s.name, s.status, s.version, s.paused_at, s.created_at, r.key, r.cursor,
        r.first_offset, octet_length(s.subscriptions) as searched
      from streams s join runs r on r.tenant = s.tenant and r.stream = s.id
      where s.tenant = ${tenant} and s.id > ${rows.at(-1)?.id ?? after}
        and (${ids === undefined} and ${positionIn}(s.subscriptions, ${JSON.stringify(type)}) > 0
          or s.id ${oneOf(ids ?? [])})
      order by s.id limit ${limit}`,
  });
}

function candidateOf(
  row: CandidateRow,
  subscriptions: readonly Subscription[],
  { type, offset = 0, publishedAt }: FoundEvent,
  subscribedBefore: Related['subscribed'] | undefined,
): Candidate | undefined {
  const { id, name, key, status, cursor, first_offset: first, created_at: createdAt } = row;
  const covers = (subscriptions[0]?.after ?? Infinity) < offset;
  const span = covers ? spanAt(subscriptions, offset) : undefined;
  const isSubscribed = subscriptions.some(({ types }) => types.includes(type));
  if (!isSubscribed && subscribedBefore === undefined) return undefined;
  return {
    id,
    name,
    key,
    status,
    selection: span && { hasType: span.types.includes(type), filter: span.filter },
    wasSubscribed: isSubscribed || subscribedBefore?.has(id) === true,
    isPaused: row.paused_at !== null,
    isPassed: offset <= cursor,
    // Programs of before did not record where a stream began.
    isBeforeStart: first === null ? (publishedAt ?? 0) < createdAt : offset <= first,
  };
}

/**
 * Returns which of the streams selected the event, by `selections` where that is a past one. Filters are
 * evaluated in slices.
 */
export async function selectedBy(
  { body }: FoundEvent,
  candidates: readonly Candidate[],
  selections: ReadonlyMap<string, EventSelection>,
): Promise<(stream: Candidate) => boolean> {
  const selected = new Set<string>();
  const matches = new Map<string, boolean>();
  let envelope: Json | undefined;
  for (const { id, selection = selections.get(id) } of candidates) {
    if (selection?.hasType !== true) continue;
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
