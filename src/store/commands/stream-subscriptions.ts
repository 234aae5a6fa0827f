import type { LRUCache } from 'lru-cache';
import { yieldToEventLoop } from '../../core/slices.ts';
import type { Offset, Subscription } from '../../core/types.ts';
import type { BoundedRows } from '../rows/bounded.ts';
import { type Command, PageRead, type Reads, sql } from './command.ts';
import { oneOf } from './dialect.ts';

/** The subscriptions of a stream, which change with its version only. */
export interface VersionedSubscriptions {
  readonly version: number;
  readonly subscriptions: readonly Subscription[];
  /** The key of its run… */
  readonly key: number;
  /** …and the cursor with which it was created, which never change. */
  readonly firstOffset: Offset | null;
}

export interface SubscriptionDeps {
  readonly commands: Reads;
  readonly kept: { readonly subscriptions: LRUCache<string, VersionedSubscriptions> };
}

/** What a stream takes in memory in addition, as characters: one of a single type, ten times its text. */
const otherSize = 80;

interface VersionedStream {
  readonly id: string;
  readonly version: number;
}

interface StreamOfRun extends VersionedStream {
  readonly key: number;
  readonly first_offset: Offset | null;
}

interface StreamSubscriptions {
  readonly id: string;
  readonly subscriptions: readonly Subscription[];
}

/**
 * Yields the subscriptions of some streams, from memory unless their versions differ, in parts: those of
 * all together may have gigabytes. Those of a stream that was deleted are missing.
 */
export async function* readSubscriptions(
  { commands, kept }: SubscriptionDeps,
  tenant: number,
  streams: readonly StreamOfRun[],
): AsyncGenerator<readonly StreamSubscriptions[], void> {
  const found: StreamSubscriptions[] = [];
  const unknown = new Map<string, StreamOfRun>();
  for (const stream of streams) {
    const { id } = stream;
    const known = keptSubscriptions({ kept }, tenant, stream);
    if (known === undefined) unknown.set(id, stream);
    else found.push({ id, subscriptions: known.subscriptions });
  }
  yield found;
  for await (const rows of subscriptionRows(commands, tenant, [...unknown.keys()])) {
    yield rows.map(({ id, version, subscriptions: text }) => {
      const subscriptions = JSON.parse(text) as Subscription[];
      const { key = 0, first_offset: firstOffset = null } = unknown.get(id) ?? {};
      const read = { version, subscriptions, key, firstOffset };
      kept.subscriptions.set(`${tenant} ${id}`, read, { size: text.length + otherSize });
      return { id, subscriptions };
    });
  }
}

/** Returns the subscriptions of a stream; `undefined` when those of its version are not in memory. */
export function keptSubscriptions(
  { kept }: Pick<SubscriptionDeps, 'kept'>,
  tenant: number,
  { id, version }: VersionedStream,
): VersionedSubscriptions | undefined {
  const known = kept.subscriptions.get(`${tenant} ${id}`);
  return known?.version === version ? known : undefined;
}

export interface SubscriptionRow {
  readonly id: string;
  readonly version: number;
  /** As JSON; may have megabytes. */
  readonly subscriptions: string;
}

/** Streams whose subscriptions are read at once. */
const streamsAtOnce = { take: 500, bytesMax: 512 * 1024 } as const;

/** Yields the subscriptions of streams in parts, between which other work runs. Their ids are in order. */
export async function* subscriptionRows(
  { read }: Reads,
  tenant: number,
  ids: readonly string[],
): AsyncGenerator<readonly SubscriptionRow[], void> {
  for (let index = 0; index < ids.length;) {
    const some = ids.slice(index, index + streamsAtOnce.take);
    const { rows, hasMore } = await read(rowsOf(tenant, some));
    yield rows;
    // A page that ends early has at least one row.
    index += hasMore ? some.indexOf(rows.at(-1)?.id ?? '') + 1 : some.length;
    await yieldToEventLoop();
  }
}

function* rowsOf(tenant: number, ids: readonly string[]): Command<BoundedRows<SubscriptionRow>> {
  return yield* new PageRead<SubscriptionRow>({
    ...streamsAtOnce,
    columns: ['subscriptions'],
    order: 'id',
    rowsAfter: (rows, limit) => sql.all`
      select id, version, subscriptions from streams
      where tenant = ${tenant} and id ${oneOf(ids)} and id > ${rows.at(-1)?.id ?? ''}
      order by id limit ${limit}`,
  });
}
