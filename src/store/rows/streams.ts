import type { Millis } from '../../core/clock.ts';
import type {
  DeliveryOptions,
  Destination,
  SigningSecret,
  Stream,
  StreamStatus,
  Subscription,
} from '../../core/types.ts';
import { mapInSlices } from '../../core/slices.ts';
import type { ListedStream } from '../port/streams.ts';
import { type Place, placeIn } from '../sealed-columns.ts';
import type { Seal } from '../seal.ts';
import { unlessBroken } from './broken.ts';

/** The columns of a stream. */
export interface StreamRow {
  readonly tenant: number;
  readonly id: string;
  readonly name: string;
  readonly status: StreamStatus;
  readonly subscriptions: string;
  readonly destination: Uint8Array;
  /** JSON. */
  readonly delivery: string | null;
  readonly paused_at: Millis | null;
  readonly pause_reason: string | null;
  readonly signing_secrets: Uint8Array;
  readonly version: number;
  readonly created_at: Millis;
  readonly updated_at: Millis;
}

export type ListedStreamRow = Omit<StreamRow, 'subscriptions'>;

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
    tenant: row.tenant,
    id: row.id,
    name: row.name,
    status: row.status,
    destination: open('destination') as Destination,
    ...(row.delivery === null ? {} : { delivery: JSON.parse(row.delivery) as DeliveryOptions }),
    ...pausedOf(row),
    signingSecrets: (open('signing_secrets') as StoredSecret[]).map(secretOf),
    version: row.version,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  };
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
