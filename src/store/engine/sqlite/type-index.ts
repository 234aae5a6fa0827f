import type { Offset } from '../../../core/types.ts';
import type { Database } from './database.ts';

/** Offsets of a stretch. */
const stretchOffsets = 8192;

/** Stretches in memory, 32 KiB each; the one that was used longest ago is dropped. */
const stretchesMax = 64;

/** Stretches that one read passes, and offsets that it returns: more would hold the thread for longer. */
const passedMax = 16;
const offsetsMax = 1000;

/** Types that have a number, and stretches that were searched; with more the memory of all is dropped. */
const typesMax = 100_000;
const searchedMax = 10_000;

/** The types of a fixed number of offsets that follow each other, as numbers. */
interface Stretch {
  readonly first: Offset;
  /** The number of each event's type; 0 without an event. */
  readonly types: Uint32Array;
  readTo: Offset;
}

function newStretch(first: Offset): Stretch {
  return { first, types: new Uint32Array(stretchOffsets), readTo: first - 1 };
}

interface TypeQuery {
  readonly types: readonly string[];
  readonly from: Offset;
  /** At most the end of the log on the disk. */
  readonly upTo: Offset;
  readonly take: number;
}

/**
 * The types of events in parts of the logs, in memory, for streams that lag and want few of the events:
 * without it each of them would read the whole log to find its own. An index in the database would make
 * every publish a fifth slower. A stretch is read when it is searched for a third time, and read on as
 * the log grows. Events that were pruned since are not found in the log.
 */
export class TypeIndex {
  readonly #db: Database;
  readonly #numbers = new Map<string, number>();
  /** The stretch that was used last is the last one. */
  readonly #stretches = new Map<string, Stretch>();
  /** How often other stretches were searched although few of their events were wanted. */
  readonly #searched = new Map<string, number>();

  constructor(db: Database) {
    this.#db = db;
  }

  /**
   * Returns the offsets of the events of these types, and the offset up to which these are all;
   * `undefined` where it does not know the types.
   */
  find(tenant: number, query: TypeQuery): { offsets: Offset[]; scannedTo: Offset } | undefined {
    const { from, upTo, take } = query;
    if (this.#numbers.size > typesMax) {
      this.#numbers.clear();
      this.#stretches.clear();
    }
    const most = Math.min(take, offsetsMax);
    const found: Offset[] = [];
    let scannedTo = from - 1;
    for (let passed = 0; passed < passedMax && scannedTo < upTo; passed += 1) {
      const first = firstOf(scannedTo + 1);
      const stretch = this.#stretch(tenant, first, passed === 0);
      if (stretch === undefined) break;
      const end = Math.min(upTo, first + stretchOffsets - 1);
      if (passed === 0 && stretch.readTo < end) this.#readOn(tenant, stretch, end);
      const readTo = Math.min(end, stretch.readTo);
      if (readTo <= scannedTo) break;
      this.#collect(stretch, query.types, { after: scannedTo, upTo: readTo, most }, found);
      scannedTo = readTo;
      const last = found[most - 1];
      if (last !== undefined) return { offsets: found, scannedTo: last };
    }
    return scannedTo < from ? undefined : { offsets: found, scannedTo };
  }

  /** Notes that a stretch was read from `from` on, although few of its events were wanted. */
  noteSearched(tenant: number, from: Offset): void {
    if (this.#searched.size >= searchedMax) this.#searched.clear();
    const key = `${tenant} ${firstOf(from)}`;
    this.#searched.set(key, (this.#searched.get(key) ?? 0) + 1);
  }

  /** Returns a stretch, also one that was searched twice if it may be read. */
  #stretch(tenant: number, first: Offset, mayRead: boolean): Stretch | undefined {
    const key = `${tenant} ${first}`;
    const isWanted = mayRead && (this.#searched.get(key) ?? 0) >= 2;
    const stretch = this.#stretches.get(key) ?? (isWanted ? newStretch(first) : undefined);
    if (stretch === undefined) return undefined;
    this.#searched.delete(key);
    this.#stretches.delete(key);
    this.#stretches.set(key, stretch);
    const [oldest] = this.#stretches.size > stretchesMax ? this.#stretches.keys() : [];
    if (oldest !== undefined) this.#stretches.delete(oldest);
    return stretch;
  }

  #readOn(tenant: number, stretch: Stretch, upTo: Offset): void {
    // One row, as thousands take three times as long as a scan that finds none.
    const row = this.#db.get<{ offsets: string; types: string }>`
      select json_group_array(offset) as offsets, json_group_array(type) as types from events
      where tenant = ${tenant} and offset between ${stretch.readTo + 1} and ${upTo}`;
    const offsets = JSON.parse(row?.offsets ?? '[]') as Offset[];
    const types = JSON.parse(row?.types ?? '[]') as string[];
    for (const [index, type] of types.entries()) {
      let number = this.#numbers.get(type);
      if (number === undefined) {
        number = this.#numbers.size + 1;
        this.#numbers.set(type, number);
      }
      stretch.types[(offsets[index] ?? 0) - stretch.first] = number;
    }
    stretch.readTo = upTo;
  }

  /** Adds the offsets of events of these types in a part of a stretch, until `most` were found. */
  #collect(
    { first, types }: Stretch,
    wanted: readonly string[],
    { after, upTo, most }: { readonly after: Offset; readonly upTo: Offset; readonly most: number },
    found: Offset[],
  ): void {
    const numbers = new Set(wanted.map((type) => this.#numbers.get(type)));
    numbers.delete(undefined);
    const [only] = numbers;
    if (only === undefined) return;
    const end = upTo - first;
    for (let at = after + 1 - first; at <= end && found.length < most; at += 1) {
      if (numbers.size === 1) {
        at = types.indexOf(only, at);
        if (at < 0 || at > end) return;
      } else if (!numbers.has(types[at])) continue;
      found.push(first + at);
    }
  }
}

/** Returns the first offset of the stretch with this offset. */
function firstOf(offset: Offset): Offset {
  return Math.floor((offset - 1) / stretchOffsets) * stretchOffsets + 1;
}
