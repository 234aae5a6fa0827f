import type { OracleCore } from './oracle-core.ts';
import type { SimulatedStream } from './simulated-stream.ts';
import type { Tables } from './tables.ts';

/** Whether a stream sends the events of a key one after the other. */
export const isOrdered = ({ delivery }: SimulatedStream): boolean => delivery.orderBy !== undefined;

/** Orders by key, as receivers see them. The keys of plans are the types of events, or one for all. */
export class Order {
  readonly #core: OracleCore;
  readonly #tables: Tables;

  constructor(core: OracleCore, tables: Tables) {
    this.#core = core;
    this.#tables = tables;
  }

  /**
   * Returns what is wrong with an attempt that begins. All before it has to be delivered or a failure in
   * the store, and it must not be recorded itself: so no two of a key are swapped or overlap, and a
   * new owner repeats at most the newest of a key.
   */
  begins(stream: SimulatedStream, eventId: string): string | undefined {
    const { counts, handedOut, label, log } = stream;
    const offset = log.offsetOf(eventId);
    const row = counts.rows.get(eventId);
    const isFirst = (row?.kind ?? handedOut.get(eventId) ?? 'first') === 'first';
    if (!isOrdered(stream) || offset === undefined || !isFirst) return undefined;
    const key = keyOf(stream, offset);
    for (let before = this.#firstOpen(stream); before < offset; before += 1) {
      if (keyOf(stream, before) !== key || this.#isOver(stream, before)) continue;
      if (this.#isUnknown(stream, before)) continue;
      return `${label} is sent ${offset} of ${key} before ${before} is delivered or failed`;
    }
    if (row === undefined && stream.deliveredAt.has(offset)) {
      return `${label} is sent ${offset} of ${key} again, which is recorded`;
    }
    const failed = failureOf(stream, key);
    return failed === undefined || failed === offset || !this.#tables.mustHold(stream)
      ? undefined
      : `${label} is sent ${offset} of ${key} while ${failed} has failed`;
  }

  /** Returns whether an event waits behind its key now. */
  waiting(stream: SimulatedStream): (offset: number) => boolean {
    if (!isOrdered(stream)) return () => false;
    /** The oldest event of each key that is not over; 0 where a failure blocks it. */
    const oldest = new Map<string, number>();
    for (let offset = this.#firstOpen(stream); offset <= stream.log.head; offset += 1) {
      const key = keyOf(stream, offset);
      if (oldest.has(key) || this.#isOver(stream, offset) || isOnItsWay(stream, offset)) continue;
      oldest.set(key, failureOf(stream, key) === undefined ? offset : 0);
    }
    return (offset) => (oldest.get(keyOf(stream, offset)) ?? offset) !== offset;
  }

  /** Returns the first offset that may not be over: all without a row are over up to the cursor. */
  #firstOpen({ counts }: SimulatedStream): number {
    const offsets = [...counts.rows.values()].flatMap(({ offset }) => offset ?? []);
    return Math.min(counts.cursor + 1, ...offsets);
  }

  /** Whether an event may be wanted only by a change that the owner has not seen, nor an operator been told of. */
  #isUnknown(stream: SimulatedStream, offset: number): boolean {
    const { log, spans } = stream;
    const type = log.event(offset)?.type ?? '';
    return !this.#tables.mustHold(stream) && !spans.every(({ types }) => types.includes(type));
  }

  /** Whether nothing of an event is left to send but redeliveries and replays. */
  #isOver(stream: SimulatedStream, offset: number): boolean {
    const row = stream.counts.rows.get(stream.log.event(offset)?.id ?? '');
    if (row?.offset === offset) return row.kind !== 'first' || row.state === 'failed';
    const isPassed = offset <= stream.counts.cursor || stream.deliveredAt.has(offset);
    return isPassed || stream.skipped.has(offset) || !this.#core.wants(stream, offset);
  }
}

/** Whether its receiver has accepted an event, and what waits behind it is sent once that is recorded. */
function isOnItsWay({ accepted, counts, log }: SimulatedStream, offset: number): boolean {
  const eventId = log.event(offset)?.id ?? '';
  return accepted.has(eventId) && counts.rows.get(eventId)?.state !== 'retrying';
}

/** Returns the offset of an open failure that blocks a key. */
export function failureOf(stream: SimulatedStream, key: string): number | undefined {
  if (stream.delivery.onFailure !== 'block') return undefined;
  const failures = stream.counts.rows.values().filter(({ failedAt }) => failedAt !== undefined);
  for (const { offset, orderKey } of failures) {
    if (orderKey === undefined || offset === undefined) continue;
    if (keyOf(stream, offset) === key) return offset;
  }
  return undefined;
}

/** Returns the key of an event, by name. */
export function keyOf({ delivery, log }: SimulatedStream, offset: number): string {
  return delivery.orderBy === '' ? 'all' : (log.event(offset)?.type ?? '');
}
