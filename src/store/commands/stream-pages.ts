import type { Millis } from '../../core/clock.ts';
import { mapInSlices, yieldToEventLoop } from '../../core/slices.ts';
import type { Destination } from '../../core/types.ts';
import type { ListedStream, StreamPage, StreamStore } from '../port/streams.ts';
import type { BoundedRows } from '../rows/bounded.ts';
import { unlessBroken } from '../rows/broken.ts';
import {
  type ListedStreamRow,
  listedStreamsOf,
  otherStreamColumns,
  placeOfStream,
  type StreamRow,
  streamsOf,
  typeNamesBytes,
} from '../rows/streams.ts';
import type { Seal } from '../seal.ts';
import { tables } from '../tables.ts';
import { columnsOf } from './columns.ts';
import { type Command, type Lists, PageRead, sql } from './command.ts';
import { oneOf } from './dialect.ts';
import { openAll } from './sealing.ts';

interface Deps {
  readonly commands: Lists;
  readonly seal: Seal;
  /** Receives each stream that does not open. */
  readonly report: (error: unknown) => void;
}

/** Creates the queries of many streams, and of their hourly counts. */
export function createStreamPages(
  deps: Deps,
): Pick<StreamStore, 'list' | 'opened' | 'endpointHosts' | 'names' | 'stats' | 'statsSums'> {
  const { read, bounded } = deps.commands;
  return {
    list: (tenant, page) => bounded(() => list(deps, tenant, page)),
    opened: (tenant, ids) => bounded(() => openedStreams(deps, tenant, ids)),
    endpointHosts: (tenant, ids) => bounded(() => endpointHosts(deps, tenant, ids)),
    names: (tenant, ids) => read(names(tenant, ids)),
    stats: (tenant, id, window) => read(stats(tenant, id, window)),
    statsSums: (tenant, ids, window) => read(statsSums(tenant, ids, window)),
  };
}

/** The columns of a {@link StreamRow}. */
export const streamColumns = columnsOf(tables.streams, { without: otherStreamColumns });
const columnsWithoutTypes = columnsOf(tables.streams, {
  without: [...otherStreamColumns, 'subscriptions'],
});

/** Ids rise with their time of creation, so their order is that of creation. */
async function list(
  deps: Deps,
  tenant: number,
  page: Parameters<StreamStore['list']>[1],
): Promise<StreamPage> {
  const { rows, hasMore } = await deps.commands.read(streamRows(tenant, page));
  const opened = await openAll(deps, (broken) => streamsOf(deps.seal, rows, broken));
  const items = opened.filter((stream) => stream !== undefined);
  const broken = rows.filter((_row, index) => opened[index] === undefined).map(({ id }) => id);
  return { items, broken, next: hasMore ? rows.at(-1)?.id : undefined };
}

function* streamRows(
  tenant: number,
  { after = '', take, bytesMax }: Parameters<StreamStore['list']>[1],
): Command<BoundedRows<StreamRow>> {
  return yield* new PageRead<StreamRow>({
    take,
    bytesMax,
    columns: ['subscriptions', 'destination', 'delivery'],
    otherBytes: typeNamesBytes,
    order: 'id',
    rowsAfter: (read, limit) => sql.all`
      select ${streamColumns} from streams where tenant = ${tenant} and id > ${read.at(-1)?.id ?? after}
      order by id limit ${limit}`,
  });
}

/** Streams that are read at once: SQLite reads over their types, and 1,000 take a tenth of a millisecond. */
const rowsAtOnce = 25;

async function openedStreams(
  deps: Deps,
  tenant: number,
  ids: readonly string[],
): Promise<ReadonlyMap<string, ListedStream>> {
  const opened = new Map<string, ListedStream>();
  for (let index = 0; index < ids.length; index += rowsAtOnce) {
    const some = ids.slice(index, index + rowsAtOnce);
    const rows = await deps.commands.read(rowsOf(tenant, some));
    const streams = await openAll(deps, (broken) => listedStreamsOf(deps.seal, rows, broken));
    for (const stream of streams) if (stream) opened.set(stream.id, stream);
    await yieldToEventLoop();
  }
  return opened;
}

function* rowsOf(tenant: number, ids: readonly string[]): Command<ListedStreamRow[]> {
  return yield* sql.all<ListedStreamRow>`
    select ${columnsWithoutTypes} from streams where tenant = ${tenant} and id ${oneOf(ids)}`;
}

type SealedDestination = Pick<StreamRow, 'tenant' | 'id' | 'destination'>;

/** Streams whose destinations are read at once. */
const destinationsAtOnce = 100;

async function endpointHosts(
  deps: Deps,
  tenant: number,
  ids: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  const hosts = new Map<string, string>();
  for (let index = 0; index < ids.length; index += destinationsAtOnce) {
    const some = ids.slice(index, index + destinationsAtOnce);
    const rows = await deps.commands.read(destinationsOf(tenant, some));
    const found = await openAll(deps, (broken) =>
      mapInSlices(
        rows,
        (row) => hostOf(deps.seal, row, broken),
        // Opening costs more than its bytes.
        ({ destination }) => 1024 + destination.length,
      ),
    );
    for (const [place, { id }] of rows.entries()) hosts.set(id, found[place] ?? '');
    await yieldToEventLoop();
  }
  return hosts;
}

function* destinationsOf(tenant: number, ids: readonly string[]): Command<SealedDestination[]> {
  return yield* sql.all<SealedDestination>`
    select tenant, id, destination from streams where tenant = ${tenant} and id ${oneOf(ids)}`;
}

function hostOf(
  seal: Seal,
  row: SealedDestination,
  report: (error: unknown) => void,
): string | undefined {
  const consequence = `Stream ${row.id} of tenant ${row.tenant} is not delivered`;
  return unlessBroken(consequence, report, () => {
    const text = seal.open(row.destination, placeOfStream(row, 'destination'));
    return new URL((JSON.parse(text) as Destination).endpoint).host;
  });
}

function* names(tenant: number, ids: readonly string[]): Command<ReadonlyMap<string, string>> {
  const rows = yield* sql.all<{ id: string; name: string }>`
    select id, name from streams where tenant = ${tenant} and id ${oneOf(ids)}`;
  return new Map(rows.map(({ id, name }) => [id, name]));
}

/** Returns the hours of the window that have counts, oldest first. */
function* stats(
  tenant: number,
  id: string,
  window: Parameters<StreamStore['stats']>[2],
): Command<Awaited<ReturnType<StreamStore['stats']>>> {
  const rows = yield* sql.all<{ hour: Millis; delivered: number; failed: number }>`
    select hour, delivered, failed from stream_stats
    where tenant = ${tenant} and stream = ${id} and hour >= ${window.from} and hour < ${window.to}
    order by hour`;
  return rows.map((row) => ({ ...row }));
}

function* statsSums(
  tenant: number,
  ids: readonly string[],
  window: Parameters<StreamStore['statsSums']>[2],
): Command<Awaited<ReturnType<StreamStore['statsSums']>>> {
  const rows = yield* sql.all<{ stream: string; delivered: number; failed: number }>`
    select stream, cast(sum(delivered) as bigint) as delivered,
      cast(sum(failed) as bigint) as failed
    from stream_stats
    where tenant = ${tenant} and stream ${oneOf(ids)} and hour >= ${window.from}
      and hour < ${window.to}
    group by stream`;
  return new Map(rows.map(({ stream, delivered, failed }) => [stream, { delivered, failed }]));
}
