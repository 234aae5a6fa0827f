import { checkOf, parseOffset } from '../core/offset.ts';
import type { Offset } from '../core/types.ts';
import { idAt } from '../pull/start-position.ts';
import type { LogStore } from '../store/port/log.ts';
import { badBody, quoted } from './http/problem.ts';

/** A property of a body that holds an offset. */
export interface OffsetProperty {
  readonly text: string;
  readonly property: string;
  readonly description: string;
}

/**
 * Returns the offset that a property of a body names. Throws 400 for one that is malformed, that lies
 * beyond `head`, or whose event the log does not have at that place.
 */
export async function offsetOf(
  log: Pick<LogStore, 'page'>,
  tenant: number,
  head: Offset,
  { text, property, description }: OffsetProperty,
): Promise<Offset> {
  const position = parseOffset(text);
  if (position === undefined) {
    const reason = `Object didn't pass validation for format offset: ${quoted(text)}`;
    throw badBody(reason, property, description);
  }
  const { offset, check } = position;
  if (offset > head) {
    const reason = 'No event has this offset yet, send an offset of this tenant';
    throw badBody(reason, property, description);
  }
  if (check === undefined || offset === 0) return offset;
  const id = await idAt(log, tenant, offset);
  if (id === undefined || checkOf(id) === check) return offset;
  const reason = 'Another event has this offset since the store was restored, send a date instead';
  throw badBody(reason, property, description);
}
