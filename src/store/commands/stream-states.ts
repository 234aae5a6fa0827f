import type { Millis } from '../../core/clock.ts';
import { inTurns, runInSlices, yieldToEventLoop } from '../../core/slices.ts';
import { sorted } from '../../core/sorting.ts';
import { type FailingSources, firstOf, isFailing, laggingMs } from '../../core/stream-state.ts';
import type { Offset } from '../../core/types.ts';
import type { StreamStanding, StreamStore } from '../port/streams.ts';
import { type Command, type On, type Reads, sql, together } from './command.ts';
import { jsonList, listOf } from './dialect.ts';
import { LogTypes, type Offsets, type WantedTypes } from './log-types.ts';
import {
  firstSince,
  type Positioned,
  rowsAbove,
  waitingMax,
  withSubscriptions,
} from './log-waiting.ts';
import { type OverdueStream, overdueStreams } from './overdue.ts';
import type { Kept, ReadCache } from './read-cache.ts';
import { headOf, oldestAfter, storeNow } from './runs.ts';
import { type IdRange, partsOf, readStreamList, type StreamList } from './stream-list.ts';

export interface StateDeps extends On {
  readonly readCache: ReadCache;
}

/** The same for one reading. */
interface ReadingDeps extends Omit<StateDeps, 'readCache' | 'on'> {
  readonly commands: Reads;
  readonly kept: Kept;
}

/** Creates the query of the states of all streams of a tenant. */
export function createStreamStates({ on, readCache }: StateDeps): StreamStore['states'] {
  return (tenant, { lagsOf }) =>
    on.lists.bounded(async () => {
      const deps: ReadingDeps = { commands: on.lists, kept: readCache.present };
      const oldMs = { none: Infinity, lagging: laggingMs, active: sortedMs, all: sortedMs }[lagsOf];
      const listing = readStreamList(deps, tenant);
      const [list, { now, young, runs, overdue, ...log }] = await Promise.all([
        listing,
        readRuns(deps, tenant, oldMs, listing),
      ]);
      const streams = list.streams.slice();
      const behind: Behind[] = [];
      for await (const some of inTurns(runs)) {
        for (const run of some) {
          const place = list.places.get(run.id);
          const stream = place === undefined ? undefined : streams[place];
          // The stream was created or deleted in between.
          if (place === undefined || stream === undefined) continue;
          streams[place] = failing(stream, run, now);
          const isActive = stream.state === 'ok';
          if (run.cursor + 1 >= young || (!isActive && lagsOf !== 'all')) continue;
          behind.push({ id: run.id, cursor: run.cursor, isActive, place });
        }
      }
      for (const { id, since: overdueSince } of overdue) {
        const place = list.places.get(id);
        const stream = place === undefined ? undefined : streams[place];
        if (place === undefined || stream === undefined) continue;
        const state = isFailing({ ...notFailing, overdueSince }, now) ? 'failing' : 'ok';
        streams[place] = { ...stream, state: firstOf(stream.state, state) };
      }
      await yieldToEventLoop();
      const inOrder = await runInSlices(sorted(behind, (one, other) => one.place - other.place));
      const lags = new Lags(deps, tenant, new LogTypes(deps, tenant, log));
      const found = await lags.find(inOrder, now - oldMs);
      for await (const some of inTurns(inOrder)) {
        for (const { id, place } of some) {
          const [stream, since] = [streams[place], found.get(id)];
          if (stream === undefined || since === undefined) continue;
          streams[place] = waiting(stream, since, now);
        }
      }
      return { now, streams };
    });
}

/**
 * Shorter lags are not looked up: nodes write the cursor of a stream without events once a minute, so that
 * most streams of a busy tenant seem to be a minute behind.
 */
const sortedMs = 90_000;

/** A stream that has not passed all old events. */
interface Behind extends Positioned {
  /** Whether it is enabled and not paused: its state depends on its lag. */
  readonly isActive: boolean;
  /** Its index among all streams. */
  readonly place: number;
}

const notFailing = {
  consecutive: 0,
  isRefused: false,
  failingSince: undefined,
  overdueSince: undefined,
} as const;

function failing(stream: StreamStanding, run: RunRead, now: Millis): StreamStanding {
  const { openFailures, failedAt: lastFailedAt } = run;
  const state = firstOf(stream.state, isFailing(run, now) ? 'failing' : 'ok');
  return { ...stream, state, openFailures, lastFailedAt };
}

function waiting(stream: StreamStanding, since: Millis, now: Millis): StreamStanding {
  const state = firstOf(stream.state, now - since >= laggingMs ? 'lagging' : 'ok');
  return { ...stream, state, waitingSince: since };
}

/** Both ends of a log, its oldest retained offset and its head, as of one instant. */
interface Ends extends Offsets {
  readonly now: Millis;
  /** The offset of the first event that is not old. */
  readonly young: Offset;
}

function* readEnds(tenant: number, oldMs: number): Command<Ends> {
  const [now, from, upTo] = yield* together(storeNow(), oldestAfter(tenant, 0), headOf(tenant));
  const since = now - oldMs + 1;
  const young = since > 0 ? yield* firstSince(tenant, { from, upTo }, since) : 0;
  return { now, from, upTo, young };
}

// Runs

/** Reads those that differ from most, in the parts of the list that is known: any parts have all of them. */
async function readRuns(
  { commands, kept }: ReadingDeps,
  tenant: number,
  oldMs: number,
  listing: Promise<StreamList>,
): Promise<Ends & Found> {
  const ends = await commands.read(readEnds(tenant, oldMs));
  const found: RunRead[] = [];
  for (const part of partsOf(kept.streams.get(tenant) ?? (await listing))) {
    found.push(...(await commands.read(runsOf(tenant, part, ends.young))));
    await yieldToEventLoop();
  }
  const overdue = await commands.read(overdueStreams(tenant, ends.now));
  return { ...ends, runs: found, overdue };
}

interface Found {
  readonly runs: readonly RunRead[];
  readonly overdue: readonly OverdueStream[];
}

/** What is overdue is read apart from it. */
interface RunRead extends FailingSources {
  readonly id: string;
  readonly cursor: Offset;
  readonly openFailures: number;
  readonly failedAt: Millis | undefined;
}

type Columns = Readonly<
  Record<
    'ids' | 'cursors' | 'consecutive' | 'total' | 'failed_at' | 'failing_since' | 'refused_at',
    string | null
  >
>;

/** Reads those with failures, or that have not passed all old events, in one row of lists. */
function* runsOf(tenant: number, [after, upTo]: IdRange, young: Offset): Command<RunRead[]> {
  const row = yield* sql.get<Columns>`
    select string_agg(stream, ',') as ids, cast(${jsonList}(cursor) as text) as cursors,
      cast(${jsonList}(consecutive_failures) as text) as consecutive,
      cast(${jsonList}(total_failures) as text) as total,
      cast(${jsonList}(last_failed_at) as text) as failed_at,
      cast(${jsonList}(failing_since) as text) as failing_since,
      cast(${jsonList}(refused_at) as text) as refused_at
    from runs where tenant = ${tenant} and stream > ${after} and stream <= ${upTo}
      and (cursor + 1 < ${young} or consecutive_failures > 0 or total_failures > 0
        or last_failed_at is not null or refused_at is not null)`;
  const [cursors, consecutive] = [listOf<Offset>(row?.cursors), listOf<number>(row?.consecutive)];
  const [total, failedAt] = [listOf<number>(row?.total), listOf<Millis | null>(row?.failed_at)];
  const refusedAt = listOf<Millis | null>(row?.refused_at);
  const failingSince = listOf<Millis | null>(row?.failing_since);
  return (row?.ids?.split(',') ?? []).map((id, index) => ({
    id,
    cursor: cursors[index] ?? 0,
    consecutive: consecutive[index] ?? 0,
    openFailures: total[index] ?? 0,
    failedAt: failedAt[index] ?? undefined,
    isRefused: (refusedAt[index] ?? null) !== null,
    failingSince: failingSince[index] ?? undefined,
    overdueSince: undefined,
  }));
}

// Lags

/** Events that are searched one after the other: usually a stream wants one of the next ones. */
const searched = [128, 1024, waitingMax] as const;

/** Blocks that are read for streams that are not active: together about 4 ms on SQLite. */
const inactiveBlocksMax = 256;

/** Finds since when events wait, for many streams of one tenant. */
class Lags {
  readonly #deps: ReadingDeps;
  readonly #tenant: number;
  readonly #log: LogTypes;
  readonly #since = new Map<string, Millis>();
  #inactiveBlocks = 0;

  constructor(deps: ReadingDeps, tenant: number, log: LogTypes) {
    this.#deps = deps;
    this.#tenant = tenant;
    this.#log = log;
  }

  /** Returns when the oldest event was accepted that waits, by stream, unless that is later than `youngest`. */
  async find(streams: readonly Behind[], youngest: Millis): Promise<ReadonlyMap<string, Millis>> {
    for await (const part of withSubscriptions(this.#deps.commands, this.#tenant, streams)) {
      await this.#search(part, youngest);
    }
    return this.#since;
  }

  /** Reads the next events of streams; of streams that are not active only within a bound in total. */
  async #read(streams: readonly Behind[], eventsMax: number): Promise<void> {
    const rangesOf = (some: readonly Behind[]) =>
      some.map(({ cursor }) => this.#log.after(cursor, eventsMax));
    const active = streams.filter(({ isActive }) => isActive);
    await this.#log.read(this.#log.missing(rangesOf(active)));
    if (active.length === streams.length) return;
    const missing = this.#log.missing(rangesOf(streams));
    const wanted = [...missing].slice(0, inactiveBlocksMax - this.#inactiveBlocks);
    this.#inactiveBlocks += wanted.length;
    await this.#log.read(wanted);
  }

  async #search(
    part: readonly (readonly [Behind, readonly WantedTypes[]])[],
    youngest: Millis,
  ): Promise<void> {
    let rest = part;
    const streams = part.map(([stream]) => stream);
    const above = await this.#deps.commands.read(rowsAbove(this.#tenant, streams));
    for (const eventsMax of searched) {
      await this.#read(
        rest.map(([stream]) => stream),
        eventsMax,
      );
      rest = rest.filter(([{ id, cursor }, subscriptions]) => {
        const wanted = { subscriptions, withRow: above(id) };
        const since = this.#log.firstAt(wanted, this.#log.after(cursor, eventsMax));
        if (since !== undefined && since <= youngest) this.#since.set(id, since);
        return since === undefined;
      });
    }
  }
}
