import type { Millis } from '../../core/clock.ts';
import { yieldToEventLoop } from '../../core/slices.ts';
import { laggingMs, streamStateOf } from '../../core/stream-state.ts';
import type { StreamStanding, StreamStore } from '../port/streams.ts';
import type { BoundedRows } from '../rows/bounded.ts';
import { type Command, type Commands, PageRead, sql } from './command.ts';
import { oneOf } from './dialect.ts';
import { jsonList, LogTypes, numbersOf, type Offsets } from './log-types.ts';
import { type Positioned, rowsAbove, waitingMax, wantedOf } from './log-waiting.ts';
import type { Runs } from './runs.ts';

export interface StateDeps {
  readonly commands: Commands;
  readonly runs: Runs;
}

/** Creates the query of the states of all streams of a tenant. */
export function createStreamStates(deps: StateDeps): StreamStore['states'] {
  return async (tenant, { withLags }) => {
    const { now, ...log } = await deps.commands.read(endsOf(deps.runs, tenant));
    const streams = await positionsOf(deps, tenant);
    const lags = new Lags(deps, tenant, new LogTypes(deps, tenant, log));
    const youngest = now - (withLags ? shownMs : laggingMs);
    const found = await lags.find(
      streams.filter(({ isActive, cursor }) => (withLags || isActive) && cursor < log.upTo),
      youngest,
    );
    return { now, streams: streams.map((stream) => standingOf(stream, found.get(stream.id), now)) };
  };
}

/** Shorter lags are shown as 0. */
const shownMs = 1000;

interface Position extends Positioned {
  readonly name: string;
  readonly version: number;
  readonly status: 'enabled' | 'disabled';
  readonly isPaused: boolean;
  readonly consecutive: number;
  readonly openFailures: number;
  readonly lastFailedAt: Millis | undefined;
  /** Whether it is enabled and not paused: its state depends on its lag. */
  readonly isActive: boolean;
}

function standingOf(position: Position, since: Millis | undefined, now: Millis): StreamStanding {
  const { id, name, version, openFailures, lastFailedAt } = position;
  const lagMs = since === undefined ? 0 : now - since;
  const state = streamStateOf({ ...position, lagMs });
  return { id, name, version, state, openFailures, lastFailedAt, waitingSince: since };
}

// Positions

function* endsOf(runs: Runs, tenant: number): Command<Offsets & { readonly now: Millis }> {
  const now = yield* runs.now();
  const from = yield* runs.oldestAfter(tenant, 0);
  return { now, from, upTo: yield* runs.head(tenant) };
}

/** Streams of one statement: about 2 ms on SQLite. */
const streamsPerRead = 2500;

async function positionsOf({ commands }: StateDeps, tenant: number): Promise<Position[]> {
  const all: Position[] = [];
  for (;;) {
    const part = await commands.read(positionsAfter(tenant, all.at(-1)?.id ?? ''));
    all.push(...part);
    if (part.length < streamsPerRead) return all;
    await yieldToEventLoop();
  }
}

type PositionColumns = Readonly<
  Record<
    'ids' | 'names' | 'versions' | 'flags' | 'cursors' | 'consecutive' | 'total' | 'failed_at',
    string | null
  >
>;

function* positionsAfter(tenant: number, after: string): Command<Position[]> {
  const row = yield* sql.get<PositionColumns>`
    select cast(${jsonList}(id) as text) as ids, cast(${jsonList}(name) as text) as names,
      cast(${jsonList}(version) as text) as versions, cast(${jsonList}(flags) as text) as flags,
      cast(${jsonList}(cursor) as text) as cursors,
      cast(${jsonList}(consecutive_failures) as text) as consecutive,
      cast(${jsonList}(total_failures) as text) as total,
      cast(${jsonList}(last_failed_at) as text) as failed_at
    from (
      select s.id, s.name, s.version, r.cursor, r.consecutive_failures, r.total_failures,
        r.last_failed_at, case when s.status = 'enabled' then 0 else 1 end
          + case when s.paused_at is null then 0 else 2 end as flags
      from streams s cross join runs r
      where s.tenant = ${tenant} and s.id > ${after} and r.tenant = s.tenant and r.stream = s.id
      order by s.id limit ${streamsPerRead}) as page`;
  const [names, ids] = [textsOf(row?.names), textsOf(row?.ids)];
  const [versions, flags] = [numbersOf(row?.versions), numbersOf(row?.flags)];
  const [cursors, consecutive] = [numbersOf(row?.cursors), numbersOf(row?.consecutive)];
  const [total, failedAt] = [numbersOf(row?.total), numbersOf(row?.failed_at)];
  return ids.map((id, index) => {
    const flag = flags[index] ?? 0;
    return {
      id,
      name: names[index] ?? '',
      version: versions[index] ?? 0,
      status: (flag & 1) === 0 ? 'enabled' : 'disabled',
      isPaused: flag >= 2,
      isActive: flag === 0,
      cursor: cursors[index] ?? 0,
      consecutive: consecutive[index] ?? 0,
      openFailures: total[index] ?? 0,
      lastFailedAt: failedAt[index] ?? undefined,
    };
  });
}

function textsOf(list: string | null | undefined): string[] {
  return JSON.parse(list ?? '[]') as string[];
}

// Lags

/** Events that are searched first: usually a stream wants one of the next ones. */
const probeEvents = 128;

/** Blocks that are read for streams that are not active: together about 8 ms on SQLite. */
const inactiveBlocksMax = 512;

/** Streams whose subscriptions are read at once. */
const streamsAtOnce = { take: 500, bytesMax: 512 * 1024 } as const;

interface SubscriptionsRow {
  readonly id: string;
  readonly subscriptions: string;
}

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
  async find(streams: readonly Position[], youngest: Millis): Promise<ReadonlyMap<string, Millis>> {
    await this.#read(streams, 1);
    const old = streams.filter(({ cursor }) => {
      const { from } = this.#log.after(cursor);
      return (this.#log.at(from) ?? -Infinity) <= youngest;
    });
    for (let index = 0; index < old.length;) {
      const chunk = old.slice(index, index + streamsAtOnce.take);
      const ids = chunk.map(({ id }) => id);
      const { rows, hasMore } = await this.#deps.commands.read(subscriptionsOf(this.#tenant, ids));
      await this.#search(chunk, rows, youngest);
      // A page that ends early has at least one row.
      index += hasMore ? ids.indexOf(rows.at(-1)?.id ?? '') + 1 : chunk.length;
      await yieldToEventLoop();
    }
    return this.#since;
  }

  /** Reads the next events of streams; of streams that are not active only within a bound in total. */
  async #read(streams: readonly Position[], eventsMax: number): Promise<void> {
    const rangesOf = (some: readonly Position[]) =>
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
    chunk: readonly Position[],
    rows: readonly SubscriptionsRow[],
    youngest: Millis,
  ): Promise<void> {
    const texts = new Map(rows.map(({ id, subscriptions }) => [id, subscriptions]));
    const parsed = wantedOf();
    let rest = chunk.filter(({ id }) => texts.has(id));
    const above = await this.#deps.commands.read(rowsAbove(this.#tenant, rest));
    for (const eventsMax of [probeEvents, waitingMax]) {
      await this.#read(rest, eventsMax);
      rest = rest.filter(({ id, cursor }) => {
        const wanted = { subscriptions: parsed(texts.get(id) ?? '[]'), withRow: above(id) };
        const since = this.#log.firstAt(wanted, this.#log.after(cursor, eventsMax));
        if (since !== undefined && since <= youngest) this.#since.set(id, since);
        return since === undefined;
      });
    }
  }
}

function* subscriptionsOf(
  tenant: number,
  ids: readonly string[],
): Command<BoundedRows<SubscriptionsRow>> {
  return yield* new PageRead<SubscriptionsRow>({
    ...streamsAtOnce,
    columns: ['subscriptions'],
    order: 'id',
    rowsAfter: (rows, limit) => sql.all`
      select id, subscriptions from streams
      where tenant = ${tenant} and id ${oneOf(ids)} and id > ${rows.at(-1)?.id ?? ''}
      order by id limit ${limit}`,
  });
}
