import type { LRUCache } from 'lru-cache';
import type { Millis } from '../../core/clock.ts';
import { storedFilter } from '../../core/filter.ts';
import type { Filter } from '../../core/filter-program.ts';
import type { Json } from '../../core/filter-values.ts';
import { inTurns, runInSlices, yieldToEventLoop } from '../../core/slices.ts';
import type { StreamState } from '../../core/stream-state.ts';
import { spanAt } from '../../core/subscription.ts';
import type { Offset, Selection, StreamStatus, Subscription } from '../../core/types.ts';
import type { FoundEvent } from '../port/event-log.ts';
import { type Command, sql } from './command.ts';
import { oneOfMany, positionIn } from './dialect.ts';
import { readRelated, type RelatedStreams } from './event-related.ts';
import { readStreamsBehind, type StreamListDeps } from './stream-list.ts';
import {
  keptSubscriptions,
  readSubscriptions,
  type SubscriptionDeps,
} from './stream-subscriptions.ts';

/** A stream to check (a candidate): the event may concern it, as it is subscribed to the type, was, or has a row. */
export interface Candidate {
  readonly id: string;
  readonly name: string;
  readonly key: number;
  /** Whether its cursor is at the offset of the event or after it. */
  readonly isPassed: boolean;
  readonly isBeforeStart: boolean;
  /** Whether it was subscribed to the type of the event at some time that is still known. */
  readonly wasSubscribed: boolean;
  /** Disabled, paused or neither. */
  readonly state: StreamState;
  /** What it selected at the offset of the event; absent when that is a past selection. */
  readonly selection: EventSelection | undefined;
}

/** A selection as far as it concerns an event: its types may have 100 kB. */
export interface EventSelection extends Pick<Selection, 'filter'> {
  readonly hasType: boolean;
}

type CandidateDeps = StreamListDeps &
  SubscriptionDeps & { readonly kept: { readonly filters: LRUCache<string, Filter> } };

/**
 * Streams that are searched at once: some milliseconds on SQLite where each has 100 kB of types, which it
 * also reads to find a row.
 */
const streamsAtOnce = 100;

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
  const subscribed = isLogged ? await readSubscribed(deps, tenant, event) : [];
  const known = new Set(subscribed.map(({ id }) => id));
  const related = await readRelated(deps, tenant, event);
  const all = new Set([...related.traced, ...related.subscribed]);
  const ids = [...all].filter((id) => !known.has(id));
  const found = await readCandidates(deps, tenant, event, { ids, past: related.subscribed });
  return [...subscribed, ...found].toSorted((one, other) => (one.id < other.id ? -1 : 1));
}

/**
 * Reads the streams that are subscribed to the type of the event, in no order. Of those whose subscriptions
 * are in memory nothing else is read than which of them have not passed the event.
 */
async function readSubscribed(
  deps: CandidateDeps,
  tenant: number,
  event: FoundEvent,
): Promise<Candidate[]> {
  const { offset = 0 } = event;
  const { list, behind } = await readStreamsBehind(deps, tenant, offset);
  const found: Candidate[] = [];
  const unknown: string[] = [];
  for await (const some of inTurns(list.streams)) {
    for (const stream of some) {
      const known = keptSubscriptions(deps, tenant, stream);
      // Not known of streams of versions before the baseline.
      if (behind === undefined || known === undefined || known.firstOffset === null) {
        unknown.push(stream.id);
      } else if (hasType(known.subscriptions, event)) {
        const isPassed = !behind.has(stream.id);
        const isBeforeStart = offset <= known.firstOffset;
        const place = { isPassed, isBeforeStart, wasSubscribed: true };
        found.push(candidateOf({ ...stream, ...known, ...place }, event));
      }
    }
  }
  const others = await readCandidates(deps, tenant, event, { ids: unknown, past: undefined });
  return [...found, ...others];
}

function hasType(
  subscriptions: readonly Subscription[],
  { type }: Pick<FoundEvent, 'type'>,
): boolean {
  return subscriptions.some(({ types }) => types.includes(type));
}

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
}

/**
 * Reads some streams, in no order: those that were subscribed to the type of the event, and with `past`,
 * the streams that had it in past selections, also others.
 */
async function readCandidates(
  deps: CandidateDeps,
  tenant: number,
  event: FoundEvent,
  {
    ids,
    past,
  }: { readonly ids: readonly string[]; readonly past: RelatedStreams['subscribed'] | undefined },
): Promise<Candidate[]> {
  const all: Candidate[] = [];
  for (let from = 0; from < ids.length; from += streamsAtOnce) {
    const some = ids.slice(from, from + streamsAtOnce);
    const query = { ids: some, ...(past === undefined ? searchOf(deps, event) : searchAll) };
    const rows = await deps.commands.read(candidateRows(tenant, query));
    const byId = new Map(rows.map((row) => [row.id, row]));
    for await (const found of readSubscriptions(deps, tenant, rows)) {
      for (const { id, subscriptions } of found) {
        const row = byId.get(id);
        const isSubscribed = hasType(subscriptions, event);
        if (row === undefined || (!isSubscribed && past === undefined)) continue;
        const wasSubscribed = isSubscribed || past?.has(id) === true;
        const stream = { ...row, state: standingOf(row), subscriptions, wasSubscribed };
        all.push(candidateOf({ ...stream, ...placeOf(row, event) }, event));
      }
    }
    await yieldToEventLoop();
  }
  return all;
}

interface Search {
  /** The streams that mention it… */
  readonly type: string;
  /** …and those whose subscriptions have no more bytes. */
  readonly shortMax: number;
}

const searchAll: Search = { type: '', shortMax: 2 ** 31 - 1 };

/**
 * Returns the search for streams that mention a type. While there is room in memory it also finds those
 * with short subscriptions, so that the next event of another type finds them there.
 */
function searchOf({ kept }: CandidateDeps, { type }: FoundEvent): Search {
  const { calculatedSize, maxSize } = kept.subscriptions;
  return { type, shortMax: calculatedSize < maxSize / 2 ? 4096 : 0 };
}

function* candidateRows(
  tenant: number,
  { ids, type, shortMax }: Search & { readonly ids: readonly string[] },
): Command<CandidateRow[]> {
  return yield* sql.all<CandidateRow>`
    select s.id, s.name, s.status, s.version, s.paused_at, s.created_at, r.key, r.cursor, r.first_offset
    from streams s join runs r on r.tenant = s.tenant and r.stream = s.id
    where s.tenant = ${tenant} and s.id ${oneOfMany(ids)}
      and (octet_length(s.subscriptions) <= ${shortMax}
        or ${positionIn}(s.subscriptions, ${JSON.stringify(type)}) > 0)`;
}

/** Returns the state of a stream as if nothing failed and nothing waited, as the list of streams has it. */
function standingOf({ status, paused_at: pausedAt }: CandidateRow): StreamState {
  if (status === 'disabled') return 'disabled';
  return pausedAt === null ? 'ok' : 'paused';
}

function placeOf(
  { cursor, first_offset: first, created_at: createdAt }: CandidateRow,
  { offset = 0, publishedAt = 0 }: FoundEvent,
): Pick<Candidate, 'isPassed' | 'isBeforeStart'> {
  return {
    isPassed: offset <= cursor,
    // Not known of streams of versions before the baseline.
    isBeforeStart: first === null ? publishedAt < createdAt : offset <= first,
  };
}

function candidateOf(
  stream: Omit<Candidate, 'selection'> & { readonly subscriptions: readonly Subscription[] },
  { type, offset = 0 }: FoundEvent,
): Candidate {
  const { id, name, key, state, isPassed, isBeforeStart, wasSubscribed, subscriptions } = stream;
  const covers = (subscriptions[0]?.after ?? Infinity) < offset;
  const span = covers ? spanAt(subscriptions, offset) : undefined;
  const selection = span && { hasType: span.types.includes(type), filter: span.filter };
  return { id, name, key, state, isPassed, isBeforeStart, wasSubscribed, selection };
}

/**
 * Returns which of the streams selected the event, by `selections` where that is a past one. Filters are
 * evaluated in slices.
 */
export async function selectedBy(
  { kept }: Pick<CandidateDeps, 'kept'>,
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
    const isMatch = known ?? (await runInSlices(filterOf(kept, filter).matches(envelope)));
    matches.set(filter, isMatch);
    if (isMatch) selected.add(id);
    if (known === undefined && matches.size % filtersAtOnce === 0) await yieldToEventLoop();
  }
  return ({ id }) => selected.has(id);
}

/** Returns the filter of a stored text: to parse it takes longer than to evaluate it. */
function filterOf({ filters }: CandidateDeps['kept'], text: string): Filter {
  const known = filters.get(text);
  if (known !== undefined) return known;
  const filter = storedFilter(text);
  filters.set(text, filter, { size: text.length + otherFilterSize });
  return filter;
}

/** What a filter takes in memory in addition, as characters: one of a few comparisons, ten times its text. */
const otherFilterSize = 80;

/** Filters that are evaluated before other work has a turn: usually about a millisecond. */
const filtersAtOnce = 32;
