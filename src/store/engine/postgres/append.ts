import type { Millis } from '../../../core/clock.ts';
import { StoreEventIdInUse, StoreTenantGone } from '../../../core/errors.ts';
import type { Appended, LogEvent, NewEvent, Offset } from '../../../core/types.ts';
import { traced } from '../../rows/delivered-event.ts';
import { numbers, type Queries } from './database.ts';
import { type KnownStore, unknownStore } from './identity.ts';

interface AppendRow {
  readonly head: Offset | null;
  readonly published_at: Millis;
  readonly known: string[] | null;
  readonly known_at: string[] | null;
  readonly in_use: string | null;
  readonly flushed: number | null;
}

/**
 * Appends `events` in the caller's transaction, as its last statement before the commit, or in one
 * of its own. Emit `{ kind: 'appended' }` with `written` after the commit, unless it is empty.
 * Throws `StoreTenantGone`, and `StoreContentRefused` when the content is at fault. Outside a
 * transaction that has compared the store, the statement compares it with the `known` one before it
 * commits, and waits for each lock at most `waitMs`.
 */
export async function appendWithin(
  tx: Queries,
  tenant: number,
  events: readonly NewEvent[],
  { known = unknownStore, waitMs }: { readonly known?: KnownStore; readonly waitMs?: Millis } = {},
): Promise<{ appended: Appended[]; written: LogEvent[] }> {
  const ids = new Set<string>();
  const different = events.filter(({ id }) => !ids.has(id) && ids.add(id));
  const row = await tx.get<AppendRow>`
    select *, leat_compare(${known.generation}, ${known.identity}, ${known.flushed}) as flushed
    from leat_append((select ${tenant}::integer from set_config('lock_timeout',
        coalesce(${waitMs}::integer::text, current_setting('lock_timeout')), true)),
      ${textArray(different.map(({ id }) => id))}::text[],
      ${different.map(({ chosen }) => chosen)}::boolean[],
      ${textArray(different.map(({ type }) => type))}::text[],
      ${numbers(different.map(({ time }) => time))}::bigint[],
      ${textArray(different.map(({ body }) => body))}::text[],
      ${textArray(sometimes(different, ({ trace }) => trace))}::text[],
      ${textArray(sometimes(different, ({ content }) => content))}::text[])`;
  if (row === undefined || row.head === null) {
    throw new StoreTenantGone(tenant);
  }
  known.seen(row.flushed);
  if (row.in_use !== null) {
    throw new StoreEventIdInUse(events.findIndex(({ id }) => id === row.in_use));
  }
  const repeated = new Map(row.known?.map((id, index) => [id, Number(row.known_at?.[index])]));
  return placed(events, row.head, row.published_at, repeated);
}

/** Returns what few events have: none where no event has it. */
function sometimes(
  events: readonly NewEvent[],
  of: (event: NewEvent) => string | undefined,
): (string | undefined)[] {
  const values = events.map(of);
  return values.every((value) => value === undefined) ? [] : values;
}

/** Returns the offset of each event: new ones follow the head in their order. */
function placed(
  events: readonly NewEvent[],
  formerHead: Offset,
  publishedAt: Millis,
  known: Map<string, Offset>,
): { appended: Appended[]; written: LogEvent[] } {
  const appended: Appended[] = [];
  const written: LogEvent[] = [];
  let head = formerHead;
  for (const { id, type, time, body, trace } of events) {
    const first = known.get(id);
    if (first !== undefined) {
      appended.push({ id, offset: first, repeated: true });
      continue;
    }
    const offset = (head += 1);
    known.set(id, offset);
    appended.push({ id, offset, repeated: false });
    written.push({ offset, id, type, time, publishedAt, body, ...traced(trace) });
  }
  return { appended, written };
}

/** The type of `text` in a binary array. */
const textOid = 25;

/**
 * Returns texts as one array value, to be bound as `text[]`. It is in the binary format: in the other one
 * both sides go through each text character by character, to quote it.
 */
export function textArray(values: readonly (string | null | undefined)[]): Uint8Array {
  const lengths = values.map((value) => (isText(value) ? Buffer.byteLength(value) : -1));
  const textBytes = lengths.reduce((sum, length) => sum + 4 + Math.max(0, length), 0);
  // An empty array has no dimensions, any other one here a length and a first index.
  const dimensions = values.length === 0 ? [] : [values.length, 1];
  const header = [dimensions.length / 2, lengths.includes(-1) ? 1 : 0, textOid, ...dimensions];
  const bytes = Buffer.allocUnsafe(header.length * 4 + textBytes);
  let end = 0;
  for (const field of header) end = bytes.writeInt32BE(field, end);
  for (const [index, value] of values.entries()) {
    end = bytes.writeInt32BE(lengths[index] ?? -1, end);
    if (isText(value)) end += bytes.write(value, end);
  }
  return bytes;
}

function isText(value: string | null | undefined): value is string {
  return typeof value === 'string';
}
