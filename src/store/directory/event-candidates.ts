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
  readonly selection: Selection | undefined;
}

interface Related {
  /** Streams with a trace of the event. */
  readonly traced: readonly string[];
  /** Streams that were subscribed to its type before. */
  readonly subscribed: ReadonlySet<string>;
}

async function relatedTo({ read }: Commands, tenant: number, event: FoundEvent): Promise<Related> {
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

/** Before and after all past selections of a tenant. */
const firstPast: PastKey = { stream: '', after_offset: 0 };
const lastPast: PastKey = { stream: '\u007f', after_offset: 0 };

/** Past selections that are read at once: some milliseconds. */
const pastMax = 1000;

/** Reads the next past selections, and returns the streams of those with the type. */
function* pastStep(tenant: number, type: string, after: PastKey): Command<PastStep> {
  const end = yield* sql.get<PastKey>`
    select stream, after_offset from past_selections
    where tenant = ${tenant} and (stream, after_offset) > (${after.stream}, ${after.after_offset})
    order by stream, after_offset limit 1 offset ${pastMax - 1}`;
  const last = end ?? lastPast;
  const rows = yield* sql.all<{ stream: string }>`
    select distinct stream from past_selections
    where tenant = ${tenant} and (stream, after_offset) > (${after.stream}, ${after.after_offset})
      and (stream, after_offset) <= (${last.stream}, ${last.after_offset})
      and ${positionIn}(types, ${JSON.stringify(type)}) > 0`;
  return { streams: rows.map(({ stream }) => stream), end };
}

const positionIn = perDialect({ sqlite: 'instr', postgres: 'strpos' });

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

/**
 * Reads the streams that may have to do with an event, in the order of their ids: those that are
 * subscribed to its type, and then those with a trace of it or a past selection. A stream whose selection
 * becomes a past one in between is found by the first read.
 */
export async function candidatesOf(
  commands: Commands,
  tenant: number,
  event: FoundEvent,
): Promise<Candidate[]> {
  const isLogged = event.publishedAt !== undefined;
  const subscribed = isLogged ? await readCandidates(commands, tenant, event, undefined) : [];
  const known = new Set(subscribed.map(({ id }) => id));
  const related = await relatedTo(commands, tenant, event);
  const all = new Set([...related.traced, ...related.subscribed]);
  const others = { ids: [...all].filter((id) => !known.has(id)), subscribed: related.subscribed };
  if (others.ids.length === 0) return subscribed;
  const found = await readCandidates(commands, tenant, event, others);
  return [...subscribed, ...found].toSorted((one, other) => (one.id < other.id ? -1 : 1));
}

/** Reads the others, or those that mention the type of the event. */
async function readCandidates(
  { read }: Commands,
  tenant: number,
  event: FoundEvent,
  others:
    { readonly ids: readonly string[]; readonly subscribed: Related['subscribed'] } | undefined,
): Promise<Candidate[]> {
  const all: Candidate[] = [];
  const ids = others?.ids;
  for (let after = ''; ;) {
    const { rows, hasMore } = await read(candidateRows(tenant, { type: event.type, ids, after }));
    all.push(...rows.flatMap((row) => candidateOf(row, event, others?.subscribed) ?? []));
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
    ...streamsAtOnce,
    columns: ['subscriptions'],
    order: 'id',
    rowsAfter: (rows, limit) => sql.all`
      select s.id, s.name, s.status, s.subscriptions, s.paused_at, s.created_at, r.key, r.cursor,
        r.first_offset
      from streams s join runs r on r.tenant = s.tenant and r.stream = s.id
      where s.tenant = ${tenant} and s.id > ${rows.at(-1)?.id ?? after}
        and (${ids === undefined} and ${positionIn}(s.subscriptions, ${JSON.stringify(type)}) > 0
          or s.id ${oneOf(ids ?? [])})
      order by s.id limit ${limit}`,
  });
}

function candidateOf(
  row: CandidateRow,
  { type, offset = 0, publishedAt }: FoundEvent,
  subscribedBefore: Related['subscribed'] | undefined,
): Candidate | undefined {
  const { id, name, key, status, cursor, first_offset: first, created_at: createdAt } = row;
  const subscriptions = JSON.parse(row.subscriptions) as Subscription[];
  const covers = (subscriptions[0]?.after ?? Infinity) < offset;
  const selection = covers ? spanAt(subscriptions, offset) : undefined;
  const isSubscribed = subscriptions.some(({ types }) => types.includes(type));
  if (!isSubscribed && subscribedBefore === undefined) return undefined;
  return {
    id,
    name,
    key,
    status,
    selection,
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
  { type, body }: FoundEvent,
  candidates: readonly Candidate[],
  selections: ReadonlyMap<string, Selection>,
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
