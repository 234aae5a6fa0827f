import { checkOf } from '../core/offset.ts';
import type { Offset } from '../core/types.ts';
import { idAt } from '../pull/start-position.ts';
import type { LogStore } from '../store/port/log.ts';
import { positionOf } from './formats.ts';
import { badBody, type Problem } from './http/problem.ts';

/** A property of a body that contains an offset. */
export interface OffsetProperty {
  readonly text: string;
  readonly property: string;
  readonly description: string;
}

/**
 * Returns the offset of a property of a body. Throws 400 if it is malformed, is beyond `head`, or
 * belongs to another event than the log has at that offset.
 */
export async function offsetOf(
  log: Pick<LogStore, 'page'>,
  tenant: number,
  head: Offset,
  { text, property, description }: OffsetProperty,
): Promise<Offset> {
  const bad = (reason: string): Problem => badBody(reason, property, description);
  const { offset, check } = positionOf(text, bad);
  if (offset > head) throw bad('No event has this offset yet, send an offset of this tenant');
  if (check === undefined || offset === 0) return offset;
  const id = await idAt(log, tenant, offset);
  if (id === undefined || checkOf(id) === check) return offset;
  throw bad('Another event has this offset since the store was restored, send a date instead');
}
