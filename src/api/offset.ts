import { parseOffset } from '../core/offset.ts';
import type { Offset } from '../core/types.ts';
import { badBody, quoted } from './problem.ts';

/** The offset that a member of a body names. Throws 400 for one that is none, or beyond `head`. */
export function offsetOf(
  text: string,
  head: Offset,
  property: string,
  description: string,
): Offset {
  const offset = parseOffset(text);
  if (offset === undefined) {
    const reason = `Object didn't pass validation for format offset: ${quoted(text)}`;
    throw badBody(reason, property, description);
  }
  if (offset > head) {
    const reason = 'No event has this offset yet, send an offset of this tenant';
    throw badBody(reason, property, description);
  }
  return offset;
}
