import { formatOffset, formatPosition, type Position } from './offset.ts';
import type { LogEvent } from './types.ts';

/**
 * The texts of a pull (docs/http-api.md#pull-frames), each a whole block of server-sent events (HTML Living
 * Standard, section 9.2): what is written is complete, or the client never sees it.
 */

/** What every pull begins with. A client waits 2 s before it comes back. */
export const greeting = ':connected\n\nretry: 2000\n\n';

/** Tells the client, and whatever lies between, that the connection lives. */
export const heartbeat = ': heartbeat\n\n';

/**
 * An event. Its body is the JSON text that `core/envelope.ts` made, which has no line break: JSON
 * escapes them.
 */
export function eventFrame({
  offset,
  id: eventId,
  type,
  body,
}: Pick<LogEvent, 'offset' | 'id' | 'type' | 'body'>): string {
  const id = formatOffset(offset, eventId);
  return `event: ${type}\nid: ${id}\ndata: {"offset":"${id}","event":${body}}\n\n`;
}

/** The client has everything it asked for up to here. */
export function offsetFrame(position: Position): string {
  const id = formatPosition(position);
  return `event: offset-only\nid: ${id}\ndata: {"offset":"${id}"}\n\n`;
}

/** Why a pull ends before its time. */
export type PullErrorCode = 'cursor_expired' | 'processing_error' | 'service_unavailable';

const messages: Readonly<Record<PullErrorCode, string>> = {
  cursor_expired: 'Cursor points to data no longer available in the stream.',
  processing_error: 'Internal Server Error',
  service_unavailable: 'Service Unavailable',
};

/** The last text of a pull that cannot go on; the client had everything up to the position, if known. */
export function errorFrame(code: PullErrorCode, position: Position | undefined): string {
  const offset = position && formatPosition(position);
  const error = { code, message: messages[code], offset };
  return `event: error\ndata: ${JSON.stringify({ error })}\n\n`;
}
