import { ownBytes, type OwnBytes } from '../core/own-bytes.ts';
import { checkOf, type Position } from '../core/offset.ts';
import { eventFrame } from '../core/sse.ts';
import type { Offset } from '../core/types.ts';
import type { LogPage } from '../store/port/log.ts';

/** A page of the log in the bytes that readers of one filter group receive. */
export interface Page {
  /** Its frames; empty when no event matched. */
  readonly bytes: OwnBytes;
  /** The last event in it; absent when there is none. */
  readonly last: Position | undefined;
  readonly scannedTo: Offset;
  /** Events of it may have been pruned before it was read. */
  readonly isOvertaken: boolean;
}

/** Returns events of the log as a page. */
export function pageOf({ events, scannedTo }: LogPage, isOvertaken = false): Page {
  const bytes = ownBytes(Buffer.from(events.map(eventFrame).join('')));
  const last = events.at(-1);
  const position = last && { offset: last.offset, check: checkOf(last.id) };
  return { bytes, last: position, scannedTo, isOvertaken };
}
