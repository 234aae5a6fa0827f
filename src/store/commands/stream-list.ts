import type { LRUCache } from 'lru-cache';
import { inTurns, runInSlices, yieldToEventLoop } from '../../core/slices.ts';
import { sorted } from '../../core/sorting.ts';
import type { StreamState } from '../../core/stream-state.ts';
import type { Offset } from '../../core/types.ts';
import type { StreamStanding } from '../port/streams.ts';
import { type Command, type Reads, sql } from './command.ts';
import { Fragment, jsonList, listOf, piece, verbatim } from './dialect.ts';

export interface StreamListDeps {
  readonly commands: Reads;
  readonly kept: { readonly streams: LRUCache<number, StreamList> };
}

/** The streams of a tenant, in the order of their ids, each as if nothing failed and nothing waited. */
export interface StreamList {
  readonly streams: readonly StreamStanding[];
  readonly places: ReadonlyMap<string, number>;
  /** Differs from that of any list that was read before or after a change. */
  readonly mark: Mark;
}

/** Returns the streams, from memory unless one was created, changed or deleted since they were read. */
export async function readStreamList(
  { commands, kept }: StreamListDeps,
  tenant: number,
): Promise<StreamList> {
  const known = kept.streams.get(tenant);
  const { mark } = await markIn({ commands, kept }, tenant, partsOf(known));
  if (known !== undefined && isSame(known.mark, mark)) return known;
  const streams: StreamStanding[] = [];
  const places = new Map<string, number>();
  let [keys, versions] = [0, 0];
  for (let after = ''; ;) {
    const last =
      mark.count > streamsPerRead ? await commands.read(lastOfPart(tenant, after)) : undefined;
    const part = await commands.read(partOf(tenant, after, last ?? afterIds));
    await yieldToEventLoop();
    keys += part.keys;
    // PostgreSQL reads them in no order: to sort them there takes longer.
    const inOrder = sorted(part.streams, (one, other) => (one.id < other.id ? -1 : 1));
    for await (const some of inTurns(await runInSlices(inOrder))) {
      for (const stream of some) {
        places.set(stream.id, streams.push(stream) - 1);
        versions += stream.version;
      }
    }
    await yieldToEventLoop();
    if (last === undefined) break;
    after = last;
  }
  const list = { streams, places, mark };
  // Of streams that were created since the mark and are deleted again the next mark would not tell.
  if (isSame(mark, { count: streams.length, keys, versions })) kept.streams.set(tenant, list);
  return list;
}

/** Returns the mark of the streams of a tenant as a text. */
export async function streamsMark(deps: StreamListDeps, tenant: number): Promise<string> {
  const { mark } = await markIn(deps, tenant, partsOf(deps.kept.streams.get(tenant)));
  return `${mark.count} ${mark.keys} ${mark.versions}`;
}

/** Times that a list is read again that changes all the time. */
const listTries = 3;

/**
 * Returns the streams along with the ids of those whose cursors are before an offset, as of the moment of
 * their mark. The ids are `undefined` when streams change all the time.
 */
export async function readStreamsBehind(
  deps: StreamListDeps,
  tenant: number,
  offset: Offset,
): Promise<{ readonly list: StreamList; readonly behind: ReadonlySet<string> | undefined }> {
  let list = deps.kept.streams.get(tenant) ?? (await readStreamList(deps, tenant));
  for (let tries = 1; tries <= listTries; tries += 1) {
    const { mark, behind } = await markIn(deps, tenant, partsOf(list), offset);
    if (isSame(list.mark, mark)) return { list, behind };
    list = await readStreamList(deps, tenant);
  }
  return { list, behind: undefined };
}

/**
 * Reads the mark in parts of ids, between which other work runs, and the ids of streams whose cursors are
 * before `offset`; none without it.
 */
async function markIn(
  { commands }: StreamListDeps,
  tenant: number,
  parts: readonly IdRange[],
  offset?: Offset,
): Promise<{ readonly mark: Mark; readonly behind: ReadonlySet<string> }> {
  const mark = { count: 0, keys: 0, versions: 0 };
  const behind = new Set<string>();
  for (const part of parts) {
    const row = await commands.read(markOf(tenant, part, offset));
    mark.count += row?.count ?? 0;
    mark.keys += row?.keys ?? 0;
    mark.versions += row?.versions ?? 0;
    for (const id of row?.behind?.split(',') ?? []) behind.add(id);
    if (parts.length > 1) await yieldToEventLoop();
  }
  return { mark, behind };
}

/**
 * Sums of the streams of a tenant. Keys of runs and versions only rise, so that none are as before after a
 * change: a stream that was created since has a higher key than each that was deleted.
 */
interface Mark {
  readonly count: number;
  readonly keys: number;
  readonly versions: number;
}

function isSame(one: Mark, other: Mark): boolean {
  return one.count === other.count && one.keys === other.keys && one.versions === other.versions;
}

/** A mark, and ids of streams, joined by commas. */
type MarkRow = Mark & { readonly behind: string | null };

function* markOf(
  tenant: number,
  [after, upTo]: IdRange,
  offset: Offset | undefined,
): Command<MarkRow | undefined> {
  return yield* sql.get<MarkRow>`
    select count, keys, behind, (
        select coalesce(sum(version), 0) from streams
        where tenant = ${tenant} and id > ${after} and id <= ${upTo}) as versions
    from (
      select count(*) as count, cast(coalesce(sum(key), 0) as bigint) as keys,
        ${idsBefore(offset)} as behind
      from runs where tenant = ${tenant} and stream > ${after} and stream <= ${upTo}) as all_runs`;
}

/** The ids of runs whose cursors are before an offset. Without one the statement does not read the cursors. */
function idsBefore(offset: Offset | undefined): Fragment {
  if (offset === undefined) return verbatim('null');
  const ids = piece`string_agg(stream, ',') filter (where cursor < ${offset})`;
  return new Fragment({ sqlite: ids, postgres: ids });
}

export type IdRange = readonly [after: string, upTo: string];

/** Returns ranges of ids: without a limit PostgreSQL reads in half of the time. */
export function partsOf({ streams }: Pick<StreamList, 'streams'> = { streams: [] }): IdRange[] {
  const parts: IdRange[] = [];
  for (let end = streamsPerRead; end < streams.length; end += streamsPerRead) {
    parts.push([parts.at(-1)?.[1] ?? '', streams[end - 1]?.id ?? '']);
  }
  return [...parts, [parts.at(-1)?.[1] ?? '', afterIds]];
}

/** Streams of one statement: about 2 ms on SQLite; all of a tenant, unless it may have more than usual. */
const streamsPerRead = 12_000;

/** Comes after every id. */
const afterIds = '~';

/** Returns the last id of the next part; `undefined` when it has all that are left. */
function* lastOfPart(tenant: number, after: string): Command<string | undefined> {
  const last = yield* sql.get<{ id: string }>`
    select id from streams where tenant = ${tenant} and id > ${after}
    order by id limit 1 offset ${streamsPerRead - 1}`;
  return last?.id;
}

type Columns = Readonly<Record<'ids' | 'names' | 'versions' | 'states', string | null>> & {
  /** The sum of those of their runs. */
  readonly keys: number;
};

const stateOfSign: Readonly<Record<string, StreamState>> = {
  d: 'disabled',
  p: 'paused',
  o: 'ok',
};

/** Reads streams in one row of lists: reading it takes a third of the time of rows. */
function* partOf(tenant: number, after: string, upTo: string): Command<Part> {
  const row = yield* sql.get<Columns>`
    select string_agg(id, ',') as ids, cast(${jsonList}(name) as text) as names,
      string_agg(cast(version as text), ',') as versions,
      string_agg(case when status = 'disabled' then 'd' when paused_at is not null then 'p'
        else 'o' end, '') as states, (
        select cast(coalesce(sum(key), 0) as bigint) from runs
        where tenant = ${tenant} and stream > ${after} and stream <= ${upTo}) as keys
    from streams where tenant = ${tenant} and id > ${after} and id <= ${upTo}`;
  const names = listOf<string>(row?.names);
  const versions = row?.versions?.split(',') ?? [];
  const streams = (row?.ids?.split(',') ?? []).map((id, index) => ({
    id,
    name: names[index] ?? '',
    version: Number(versions[index]),
    state: stateOfSign[row?.states?.[index] ?? ''] ?? 'ok',
    openFailures: 0,
    lastFailedAt: undefined,
    waitingSince: undefined,
  }));
  return { streams, keys: row?.keys ?? 0 };
}

interface Part {
  readonly streams: readonly StreamStanding[];
  /** The sum of the keys of their runs. */
  readonly keys: number;
}
