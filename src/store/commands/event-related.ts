import { yieldToEventLoop } from '../../core/slices.ts';
import type { Offset } from '../../core/types.ts';
import type { FoundEvent } from '../port/event-log.ts';
import type { BoundedRows } from '../rows/bounded.ts';
import { type Command, PageRead, type Reads, sql } from './command.ts';
import { jsonList, listOf, positionIn } from './dialect.ts';

/** Streams that an event concerns (related ones) although they may not be subscribed to its type now. */
export interface RelatedStreams {
  /** Streams with a trace of the event. */
  readonly traced: readonly string[];
  /** Streams that were subscribed to its type before. */
  readonly subscribed: ReadonlySet<string>;
}

/** Reads the streams with a trace of an event, or with a past selection of its type. */
export async function readRelated(
  { commands: { read } }: { readonly commands: Reads },
  tenant: number,
  event: FoundEvent,
): Promise<RelatedStreams> {
  const isLogged = event.publishedAt !== undefined;
  const { traced, past } = await read(withTrace(tenant, event));
  if (!isLogged || past !== undefined) return { traced, subscribed: new Set(past) };
  const subscribed = new Set<string>();
  for (let after: PastKey = firstPast; ;) {
    const { rows, hasMore }: BoundedRows<PastRow> = await read(pastStep(tenant, event.type, after));
    for (const row of rows) if (row.has_type === 1) subscribed.add(row.stream);
    after = rows.at(-1) ?? after;
    if (!hasMore) return { traced, subscribed };
    await yieldToEventLoop();
  }
}

interface RelatedRow {
  readonly traced: string | null;
  readonly past: string | null;
  /** Past selections that were read… */
  readonly count: number;
  /** …and those of them that were searched. */
  readonly searched: number;
}

/**
 * Returns the streams with a trace of an event, and those with a past selection of its type: a replay sends
 * by a later selection, and an owner that has not seen a change by the one before. The latter are
 * `undefined` when there is too much to search for one statement.
 */
function* withTrace(
  tenant: number,
  { id, type, offset, publishedAt }: FoundEvent,
): Command<{ readonly traced: string[]; readonly past: string[] | undefined }> {
  const at = publishedAt === undefined ? undefined : offset;
  const row = yield* sql.get<RelatedRow>`
    select count(*) as count, count(has_type) as searched,
      cast(${jsonList}(stream) filter (where has_type) as text) as past, (
        select cast(${jsonList}(stream) as text) from (
          select stream from deliveries where tenant = ${tenant} and event_id = ${id}
          union
          select stream from dismissed_events where tenant = ${tenant} and "offset" = ${at}
          union
          -- A selection between two changes without an event in between is not kept, but a replay may have used it.
          select stream from replays
          where tenant = ${tenant} and from_offset < ${at} and to_offset >= ${at}) as others
      ) as traced
    from (
      select stream, case when octet_length(types) <= ${shortPast.bytesMax}
        then ${positionIn}(types, ${JSON.stringify(type)}) > 0 end as has_type
      from past_selections where tenant = ${tenant} and ${at !== undefined}
      -- By the key: without an order PostgreSQL may read those of other tenants until it has found enough.
      order by stream, after_offset limit ${shortPast.take}) as part`;
  const isWhole = row?.count === row?.searched && (row?.count ?? 0) < shortPast.take;
  return { traced: listOf(row?.traced), past: isWhole ? listOf(row?.past) : undefined };
}

/** Past selections that are searched at once, if these are all and none is long: some milliseconds. */
const shortPast = { take: 8000, bytesMax: 512 } as const;

interface PastKey {
  readonly stream: string;
  readonly after_offset: Offset;
}

interface PastRow extends PastKey {
  readonly has_type: 0 | 1;
  /** Bytes of the types. */
  readonly searched: number;
}

/** Before all past selections of a tenant. */
const firstPast: PastKey = { stream: '', after_offset: 0 };

/** Past selections that are read at once. */
const pastMax = 1000;

/** Reads the next past selections, on SQLite in pieces: the types of each may have 100 kB. */
function* pastStep(tenant: number, type: string, after: PastKey): Command<BoundedRows<PastRow>> {
  return yield* new PageRead<PastRow>({
    take: pastMax,
    columns: [],
    sizes: ['searched'],
    order: 'stream, after_offset',
    rowsAfter: (rows, limit) => {
      const last = rows.at(-1) ?? after;
      return sql.all`
        select stream, after_offset, octet_length(types) as searched,
          case when ${positionIn}(types, ${JSON.stringify(type)}) > 0 then 1 else 0 end as has_type
        from past_selections
        where tenant = ${tenant} and (stream, after_offset) > (${last.stream}, ${last.after_offset})
        order by stream, after_offset limit ${limit}`;
    },
  });
}
