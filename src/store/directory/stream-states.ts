import type { Millis } from '../../core/clock.ts';
import { yieldToEventLoop } from '../../core/slices.ts';
import { laggingMs, streamStateOf } from '../../core/stream-state.ts';
import type { Offset } from '../../core/types.ts';
import type { StreamStanding, StreamStore } from '../port/streams.ts';
import { type Command, type Commands, sql, together } from './command.ts';
import { jsonList, listOf, LogTypes, type Offsets, type WantedTypes } from './log-types.ts';
import {
  firstSince,
  type Positioned,
  rowsAbove,
  waitingMax,
  withSubscriptions,
} from './log-waiting.ts';
import type { Runs } from './runs.ts';

export interface StateDeps {
  readonly commands: Commands;
  readonly runs: Runs;
}

/** Creates the query of the states of all streams of a tenant. */
export function createStreamStates(deps: StateDeps): StreamStore['states'] {
  return async (tenant, { lagsOf }) => {
    const { read } = deps.commands;
    const { now, ...log } = await read(endsOf(deps.runs, tenant));
    const oldMs = lagsOf === 'lagging' ? laggingMs : sortedMs;
    const young = await read(firstSince(tenant, log, now - oldMs + 1));
    const parts = await partsOf(deps, tenant, young);
    await yieldToEventLoop();
    const behind = parts
      .flatMap((part) => behindOf(part, young))
      .toSorted((one, other) => (one.id < other.id ? -1 : 1));
    const wanted = lagsOf === 'all' ? behind : behind.filter(({ isActive }) => isActive);
    const lags = new Lags(deps, tenant, new LogTypes(deps, tenant, log));
    const found = await lags.find(wanted, now - oldMs);
    await yieldToEventLoop();
    return { now, streams: parts.flatMap((part) => standingsOf(part, found, now)) };
  };
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
}

function behindOf({ disabled, paused, runs }: Part, young: Offset): Behind[] {
  return [...runs].flatMap(([id, { cursor }]) =>
    cursor + 1 < young ? [{ id, cursor, isActive: !disabled.has(id) && !paused.has(id) }] : [],
  );
}

function standingsOf(
  { ids, names, disabled, paused, runs }: Part,
  found: ReadonlyMap<string, Millis>,
  now: Millis,
): StreamStanding[] {
  return ids.map((id, index) => {
    const run = runs.get(id);
    const since = found.get(id);
    const state = streamStateOf({
      status: disabled.has(id) ? 'disabled' : 'enabled',
      isPaused: paused.has(id),
      consecutive: run?.consecutive ?? 0,
      lagMs: since === undefined ? 0 : now - since,
    });
    return {
      id,
      name: names[index] ?? '',
      state,
      openFailures: run?.openFailures ?? 0,
      lastFailedAt: run?.failedAt,
      waitingSince: since,
    };
  });
}

// All streams

function* endsOf(runs: Runs, tenant: number): Command<Offsets & { readonly now: Millis }> {
  const [now, from, upTo] = yield* together(
    runs.now(),
    runs.oldestAfter(tenant, 0),
    runs.head(tenant),
  );
  return { now, from, upTo };
}

/** Streams of one statement: about 2 ms on SQLite; all of a tenant, unless it may have more than usual. */
const streamsPerRead = 12_000;

/** Returns the streams in parts. Without a limit PostgreSQL reads the tables in half of the time. */
async function partsOf(
  { commands }: StateDeps,
  tenant: number,
  young: Offset,
): Promise<readonly Part[]> {
  const parts: Part[] = [];
  for (let after = ''; ;) {
    const last = await commands.read(lastOfPart(tenant, after));
    parts.push(await commands.read(partOf(tenant, { after, upTo: last ?? afterIds }, young)));
    if (last === undefined) return parts;
    after = last;
    await yieldToEventLoop();
  }
}

/** Comes after every id. */
const afterIds = '~';

/** Returns the last id of the next part; `undefined` when it has all that are left. */
function* lastOfPart(tenant: number, after: string): Command<string | undefined> {
  const row = yield* sql.get<{ count: number }>`
    select count(*) as count from streams where tenant = ${tenant}`;
  if ((row?.count ?? 0) <= streamsPerRead) return undefined;
  const last = yield* sql.get<{ id: string }>`
    select id from streams where tenant = ${tenant} and id > ${after}
    order by id limit 1 offset ${streamsPerRead - 1}`;
  return last?.id;
}

/** Some streams. */
interface Part {
  readonly ids: readonly string[];
  readonly names: readonly string[];
  readonly disabled: ReadonlySet<string>;
  readonly paused: ReadonlySet<string>;
  /** Of those with failures, or that have not passed all old events. */
  readonly runs: ReadonlyMap<string, RunPart>;
}

interface RunPart {
  readonly cursor: Offset;
  readonly consecutive: number;
  readonly openFailures: number;
  readonly failedAt: Millis | undefined;
}

type Columns<Name extends string> = Readonly<Record<Name, string | null>>;

/**
 * Reads both tables, which is faster than to join them, each in one row of lists, and of the runs only
 * those that differ from most.
 */
function* partOf(
  tenant: number,
  { after, upTo }: { readonly after: string; readonly upTo: string },
  young: Offset,
): Command<Part> {
  const [streams, runs] = yield* together(
    sql.get<Columns<'ids' | 'names' | 'disabled' | 'paused'>>`
      select string_agg(id, ',') as ids, cast(${jsonList}(name) as text) as names,
        string_agg(id, ',') filter (where status = 'disabled') as disabled,
        string_agg(id, ',') filter (where paused_at is not null) as paused
      from streams where tenant = ${tenant} and id > ${after} and id <= ${upTo}`,
    sql.get<Columns<'ids' | 'cursors' | 'consecutive' | 'total' | 'failed_at'>>`
      select string_agg(stream, ',') as ids, cast(${jsonList}(cursor) as text) as cursors,
        cast(${jsonList}(consecutive_failures) as text) as consecutive,
        cast(${jsonList}(total_failures) as text) as total,
        cast(${jsonList}(last_failed_at) as text) as failed_at
      from runs where tenant = ${tenant} and stream > ${after} and stream <= ${upTo}
        and (cursor + 1 < ${young} or consecutive_failures > 0 or total_failures > 0
          or last_failed_at is not null)`,
  );
  const [cursors, consecutive] = [listOf<Offset>(runs?.cursors), listOf<number>(runs?.consecutive)];
  const [total, failedAt] = [listOf<number>(runs?.total), listOf<Millis | null>(runs?.failed_at)];
  return {
    ids: splitIds(streams?.ids),
    names: listOf(streams?.names),
    disabled: new Set(splitIds(streams?.disabled)),
    paused: new Set(splitIds(streams?.paused)),
    runs: new Map(
      splitIds(runs?.ids).map((id, index) => [
        id,
        {
          cursor: cursors[index] ?? 0,
          consecutive: consecutive[index] ?? 0,
          openFailures: total[index] ?? 0,
          failedAt: failedAt[index] ?? undefined,
        },
      ]),
    ),
  };
}

function splitIds(ids: string | null | undefined): string[] {
  return ids === null || ids === undefined ? [] : ids.split(',');
}

// Lags

/** Events that are searched first: usually a stream wants one of the next ones. */
const probeEvents = 128;

/** Blocks that are read for streams that are not active: together about 4 ms on SQLite. */
const inactiveBlocksMax = 256;

/** Finds since when events wait, for many streams of one tenant. */
class Lags {
  readonly #deps: StateDeps;
  readonly #tenant: number;
  readonly #log: LogTypes;
  readonly #since = new Map<string, Millis>();
  #inactiveBlocks = 0;

  constructor(deps: StateDeps, tenant: number, log: LogTypes) {
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
    for (const eventsMax of [probeEvents, waitingMax]) {
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
