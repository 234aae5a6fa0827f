import type { Millis } from '../../core/clock.ts';
import type { Destination, SigningSecret, Stream, Subscription } from '../../core/types.ts';
import { mapInSlices } from '../../core/slices.ts';
import { selectionNow } from '../../core/subscription.ts';
import type { ListedStream } from '../port/streams.ts';
import { type Place, placeIn } from '../sealed-columns.ts';
import type { NewRowOf, RowOf } from '../table.ts';
import { tables } from '../tables.ts';
import type { Seal } from '../seal.ts';
import { unlessBroken } from './broken.ts';
import { conversionOf } from './fields.ts';

/** The columns of `streams` for searches, for the alerts that were sent, and for how a stream was disabled. */
export const otherStreamColumns = [
  'filtered',
  'certificate_expires_at',
  'certificate_reported',
  'disabled_at',
  'disabled_reason',
  'disabled_since',
  'disabled_code',
  'lag_reported',
  'lag_at',
] as const;

/** The columns that make a stream. */
export type StreamRow = Omit<RowOf<typeof tables.streams>, (typeof otherStreamColumns)[number]>;

export type ListedStreamRow = Omit<StreamRow, 'subscriptions'>;

const { fieldsOf, cellsOf } = conversionOf(tables.streams, {
  without: [
    ...otherStreamColumns,
    'subscriptions',
    'destination',
    'paused_at',
    'pause_reason',
    'signing_secrets',
  ],
});

/** Returns a stream as the port has it. */
export function streamOf(seal: Seal, row: StreamRow): Stream {
  const subscriptions = JSON.parse(row.subscriptions) as Subscription[];
  return { ...listedStreamOf(seal, row), subscriptions };
}

/** The same without subscriptions, which may have megabytes. */
function listedStreamOf(seal: Seal, row: ListedStreamRow): ListedStream {
  const open = (column: 'destination' | 'signing_secrets'): unknown =>
    JSON.parse(seal.open(row[column], placeOfStream(row, column)));
  return {
    ...fieldsOf(row),
    destination: open('destination') as Destination,
    ...pausedOf(row),
    signingSecrets: (open('signing_secrets') as StoredSecret[]).map(secretOf),
  };
}

/** Returns the columns with which a stream is written. */
export function cellsOfStream(stream: Stream, seal: (text: string, place: Place) => Uint8Array) {
  const sealed = (column: 'destination' | 'signing_secrets', value: unknown): Uint8Array =>
    seal(JSON.stringify(value), placeOfStream(stream, column));
  return {
    ...cellsOf(stream),
    subscriptions: JSON.stringify(stream.subscriptions),
    filtered: isFiltered(stream),
    destination: sealed('destination', stream.destination),
    certificate_expires_at: stream.destination.clientCertificate?.expiresAt,
    paused_at: stream.paused?.at,
    pause_reason: stream.paused?.reason,
    signing_secrets: sealed('signing_secrets', stream.signingSecrets),
  } satisfies NewRowOf<typeof tables.streams>;
}

/** Returns 1 for a stream that has a filter now. */
export function isFiltered({ subscriptions }: Pick<Stream, 'subscriptions'>): 0 | 1 {
  return selectionNow(subscriptions).filter === undefined ? 0 : 1;
}

function pausedOf({
  paused_at: at,
  pause_reason: reason,
}: ListedStreamRow): Pick<Stream, 'paused'> {
  if (at === null) return {};
  return { paused: reason === null ? { at } : { at, reason } };
}

/** Does the same, but returns `undefined` for a stream whose secrets do not open, and reports it. */
export function openedStream(
  seal: Seal,
  row: StreamRow,
  report: (error: unknown) => void,
): Stream | undefined {
  return unlessBroken(consequenceOf(row), report, () => streamOf(seal, row));
}

function consequenceOf({ tenant, id }: Pick<StreamRow, 'tenant' | 'id'>): string {
  return `Stream ${id} of tenant ${tenant} is not delivered`;
}

/** Returns where a sealed column of a stream is stored. */
export function placeOfStream(
  { tenant, id }: Pick<Stream, 'tenant' | 'id'>,
  column: 'destination' | 'signing_secrets',
): Place {
  return placeIn('streams', { tenant, row: id }, column);
}

/** Returns the {@link openedStream} of each row of a page: streams may have many subscriptions. */
export function streamsOf(
  seal: Seal,
  rows: readonly StreamRow[],
  report: (error: unknown) => void,
): Promise<(Stream | undefined)[]> {
  return mapInSlices(rows, (row) => openedStream(seal, row, report), streamBytes);
}

/** Does the same without subscriptions. */
export function listedStreamsOf(
  seal: Seal,
  rows: readonly ListedStreamRow[],
  report: (error: unknown) => void,
): Promise<(ListedStream | undefined)[]> {
  return mapInSlices(
    rows,
    (row) => unlessBroken(consequenceOf(row), report, () => listedStreamOf(seal, row)),
    // Opening costs more than its bytes.
    ({ destination, delivery }) => 2048 + destination.length + (delivery?.length ?? 0),
  );
}

/** Bytes that a response adds to the types of a stream, 15 each: of at most 1,000 types. */
export const typeNamesBytes = 15_000;

/** Counts the bytes of a row in a page that is bounded in bytes. */
function streamBytes({ subscriptions, destination, delivery }: StreamRow): number {
  const texts = Buffer.byteLength(subscriptions) + Buffer.byteLength(delivery ?? '');
  return texts + destination.length + typeNamesBytes;
}

/** JSON drops a field that is undefined. */
type StoredSecret = Omit<SigningSecret, 'expiresAt'> & { readonly expiresAt?: Millis };

function secretOf(stored: StoredSecret): SigningSecret {
  return { ...stored, expiresAt: stored.expiresAt };
}
