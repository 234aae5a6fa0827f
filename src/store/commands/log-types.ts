import type { Millis } from '../../core/clock.ts';
import { yieldToEventLoop } from '../../core/slices.ts';
import type { Offset, Subscription } from '../../core/types.ts';
import { type Command, type Reads, sql } from './command.ts';
import { Fragment, jsonOf, perDialect, piece } from './dialect.ts';
import { type Block, blockEvents, blockOf, emptyBlock, endOf } from './log-blocks.ts';
import type { Kept } from './read-cache.ts';
import { stretchOf } from './runs.ts';

export interface LogTypesDeps {
  readonly commands: Reads;
  readonly kept: Pick<Kept, 'blocks'>;
}

/** Offsets of a log, both included. */
export interface Offsets {
  readonly from: Offset;
  readonly upTo: Offset;
}

/** The events that a stream waits for. */
export interface Wanted {
  readonly subscriptions: readonly WantedTypes[];
  /** Offsets with a row, which do not wait. */
  readonly withRow: ReadonlySet<Offset>;
}

/** The types of a subscription, to be searched. */
export interface WantedTypes {
  readonly after: Offset;
  readonly types: ReadonlySet<string>;
}

/** Returns subscriptions as the searches take them. */
export function wantedTypes(subscriptions: readonly Subscription[]): WantedTypes[] {
  return subscriptions.map(({ after, types }) => ({ after, types: new Set(types) }));
}

/** Blocks of one statement: about 3 ms on SQLite. */
const blocksPerRead = 160;

/**
 * The types of events in parts of one log, read in blocks and shared by all streams that are behind:
 * many streams wait in the same part, and the log has no index by type.
 */
export class LogTypes {
  readonly #deps: LogTypesDeps;
  readonly #tenant: number;
  readonly #log: Offsets;
  readonly #blocks = new Map<number, Block>();
  /** At least the last offset of each type among the events that were read. */
  readonly #newest = new Map<string, Offset>();

  /** @param log its first retained offset, and its head */
  constructor(deps: LogTypesDeps, tenant: number, log: Offsets) {
    this.#deps = deps;
    this.#tenant = tenant;
    this.#log = log;
  }

  /** Returns the events after a cursor up to the head, `eventsMax` at most. */
  after(cursor: Offset, eventsMax = Infinity): Offsets {
    const from = Math.max(cursor + 1, this.#log.from);
    return { from, upTo: Math.min(this.#log.upTo, from + eventsMax - 1) };
  }

  /** Returns the blocks of these ranges that were not read. */
  missing(ranges: Iterable<Offsets>): Set<number> {
    const found = new Set<number>();
    for (const { from, upTo } of ranges) {
      for (let block = blockOf(from); block * blockEvents <= upTo; block += 1) {
        if (!this.#blocks.has(block) && !this.#take(block)) found.add(block);
      }
    }
    return found;
  }

  /** Whether the block is in memory from an earlier reading. */
  #take(number: number): boolean {
    const block = this.#deps.kept.blocks.get(`${this.#tenant} ${number}`);
    if (block === undefined) return false;
    this.#blocks.set(number, block);
    for (const type of block.counts.keys()) this.#sawType(type, endOf(number));
    return true;
  }

  #sawType(type: string, offset: Offset): void {
    if (offset > (this.#newest.get(type) ?? -1)) this.#newest.set(type, offset);
  }

  /** Reads blocks, in steps between which other work runs. */
  async read(blocks: Iterable<number>): Promise<void> {
    const rest = [...blocks].toSorted((one, other) => one - other);
    let after = this.#log.from - 1;
    while (rest.length > 0) {
      const step = await this.#deps.commands.read(this.#next(rest.slice(0, blocksPerRead), after));
      after = step;
      while (rest[0] !== undefined && Math.min(endOf(rest[0]), this.#log.upTo) <= after) {
        this.#keep(rest.shift() ?? 0);
      }
      await yieldToEventLoop();
    }
  }

  /** Keeps a block that was read, in memory as well unless its last events are still to come. */
  #keep(number: number): void {
    const block = this.#blocks.get(number) ?? emptyBlock();
    this.#blocks.set(number, block);
    if (endOf(number) > this.#log.upTo) return;
    this.#deps.kept.blocks.set(`${this.#tenant} ${number}`, block);
  }

  /** Reads events of blocks after an offset. Returns the offset up to which they are read. */
  *#next(blocks: readonly number[], after: Offset): Command<Offset> {
    const { upTo: head } = this.#log;
    const [first = 0] = blocks;
    const begin = Math.max(after, first * blockEvents - 1);
    const end = Math.min(head, endOf(blocks.at(-1) ?? first));
    const { upTo, inDays } = yield* stretchOf(this.#tenant, {
      after: begin,
      upTo: end,
    });
    const row = yield* sql.get<BlockRow>`
      select string_agg(cast(e."offset" as text), ',') as offsets,
        string_agg(e.type, ',') as types, string_agg(cast(e.published_at as text), ',') as at
      from ${listedOffsets(togetherOf(blocks))}
      ${eachEvent} e.tenant = ${this.#tenant} and e."offset" >= listed.first
        and e."offset" <= listed.last and e."offset" > ${begin} and e."offset" <= ${upTo} ${inDays}
      ${endOfEach}`;
    this.#add(row);
    return upTo;
  }

  #add(row: BlockRow | undefined): void {
    const types = row?.types?.split(',') ?? [];
    const at = row?.at?.split(',') ?? [];
    for (const [index, text] of (row?.offsets?.split(',') ?? []).entries()) {
      const offset = Number(text);
      const number = blockOf(offset);
      const block = this.#blocks.get(number) ?? emptyBlock();
      const [type = '', place] = [types[index], offset % blockEvents];
      block.types[place] = type;
      block.at[place] = Number(at[index]);
      block.counts.set(type, (block.counts.get(type) ?? 0) + 1);
      this.#sawType(type, offset);
      this.#blocks.set(number, block);
    }
  }

  /** Returns when the first of these events was accepted that a stream waits for. */
  firstAt({ subscriptions, withRow }: Wanted, offsets: Offsets): Millis | undefined {
    for (const { block, types, from, upTo } of this.#parts(subscriptions, offsets)) {
      for (let offset = from; offset <= upTo; offset += 1) {
        const type = block.types[offset % blockEvents];
        if (type !== undefined && types.has(type) && !withRow.has(offset)) {
          return block.at[offset % blockEvents];
        }
      }
    }
    return undefined;
  }

  /** Counts those of these events that a stream waits for. */
  count({ subscriptions, withRow }: Wanted, offsets: Offsets): number {
    let count = 0;
    for (const { block, types, from, upTo } of this.#parts(subscriptions, offsets)) {
      const isWhole = upTo - from + 1 === blockEvents;
      count += isWhole ? countOf(block, types) : countIn(block, types, { from, upTo });
      if (withRow.size === 0) continue;
      for (let offset = from; offset <= upTo; offset += 1) {
        const type = block.types[offset % blockEvents];
        if (withRow.has(offset) && type !== undefined && types.has(type)) count -= 1;
      }
    }
    return count;
  }

  /** Yields the parts of blocks with events that one subscription wants. */
  *#parts(subscriptions: readonly WantedTypes[], { from, upTo }: Offsets): Generator<Part> {
    if (!subscriptions.some(({ types }) => this.#hasSince(types, from))) return;
    for (let offset = from; offset <= upTo;) {
      const index = subscriptions.findLastIndex(({ after }) => after < offset);
      const types = subscriptions[index]?.types;
      const number = blockOf(offset);
      const end = Math.min(upTo, subscriptions[index + 1]?.after ?? upTo, endOf(number));
      const block = this.#blocks.get(number);
      if (block !== undefined && types !== undefined && hasAny(block, types)) {
        yield { block, types, from: offset, upTo: end };
      }
      offset = end + 1;
    }
  }

  #hasSince(types: ReadonlySet<string>, from: Offset): boolean {
    for (const type of types) if ((this.#newest.get(type) ?? -1) >= from) return true;
    return false;
  }
}

interface Part extends Offsets {
  readonly block: Block;
  readonly types: ReadonlySet<string>;
}

/** Separated by commas, which types do not have: JSON would take half as long again. */
interface BlockRow {
  readonly offsets: string | null;
  readonly types: string | null;
  readonly at: string | null;
}

/**
 * Joins the events of each row of `listed`. Differs because SQLite takes a cross join in this order, while
 * PostgreSQL would read all events once for each row.
 */
const eachEvent = perDialect({
  sqlite: 'cross join events e where',
  postgres: 'cross join lateral (select e."offset", e.type, e.published_at from events e where',
});
const endOfEach = perDialect({ sqlite: '', postgres: 'order by e."offset") as e' });

/** A table `listed` with ranges in the columns `first` and `last`. */
function listedOffsets(ranges: readonly Offsets[]): Fragment {
  const [first, last] = [ranges.map(({ from }) => from), ranges.map(({ upTo }) => upTo)];
  const rows = jsonOf(ranges.map(({ from, upTo }) => [from, upTo]));
  return new Fragment({
    sqlite: piece`(select value ->> 0 as first, value ->> 1 as last from json_each(${rows})) as listed`,
    postgres: piece`unnest(${first}::bigint[], ${last}::bigint[]) as listed (first, last)`,
  });
}

/** Returns the ranges of blocks in ascending order, those that touch as one. */
function togetherOf(blocks: readonly number[]): Offsets[] {
  const ranges: Offsets[] = [];
  for (const block of blocks) {
    const [from, upTo] = [block * blockEvents, endOf(block)];
    const last = ranges.at(-1);
    if (last?.upTo === from - 1) ranges[ranges.length - 1] = { from: last.from, upTo };
    else ranges.push({ from, upTo });
  }
  return ranges;
}

function hasAny({ counts }: Block, types: ReadonlySet<string>): boolean {
  if (types.size <= counts.size) {
    for (const type of types) if (counts.has(type)) return true;
    return false;
  }
  for (const type of counts.keys()) if (types.has(type)) return true;
  return false;
}

function countOf({ counts }: Block, types: ReadonlySet<string>): number {
  let count = 0;
  for (const [type, events] of counts) if (types.has(type)) count += events;
  return count;
}

function countIn(block: Block, types: ReadonlySet<string>, { from, upTo }: Offsets): number {
  let count = 0;
  for (let offset = from; offset <= upTo; offset += 1) {
    const type = block.types[offset % blockEvents];
    if (type !== undefined && types.has(type)) count += 1;
  }
  return count;
}
