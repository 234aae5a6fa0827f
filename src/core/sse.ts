import { formatOffset, formatPosition, type Position } from './offset.ts';
import type { LogEvent } from './types.ts';

/**
 * The frames of a pull (docs/http-api.md#pull-frames). Each is a whole block of server-sent events (HTML
 * Living Standard, section 9.2), so a client ignores one that was cut off.
 */

/** The beginning of every pull. A client reconnects after 2 s. */
export const greeting = ':connected\n\nretry: 2000\n\n';

/** Keeps the connection open at the client and at proxies. */
export const heartbeat = ': heartbeat\n\n';

/** Returns the frame of an event. Its body is JSON text without line breaks, as JSON escapes them. */
export function eventFrame({
  offset,
  id: eventId,
  type,
  body,
}: Pick<LogEvent, 'offset' | 'id' | 'type' | 'body'>): string {
  const id = formatOffset(offset, eventId);
  return `event: ${type}\nid: ${id}\ndata: {"offset":"${id}","event":${body}}\n\n`;
}

/** Returns a frame that moves the client's offset past events that its filter excludes. */
export function offsetFrame(position: Position): string {
  const id = formatPosition(position);
  return `event: offset-only\nid: ${id}\ndata: {"offset":"${id}"}\n\n`;
}

/** The reason why a pull ends early. */
export type PullErrorCode = 'cursor_expired' | 'processing_error' | 'service_unavailable';

const messages: Readonly<Record<PullErrorCode, string>> = {
  cursor_expired: 'Cursor points to data no longer available in the stream.',
  processing_error: 'Internal Server Error',
  service_unavailable: 'Service Unavailable',
};

/** Returns the last frame of a pull that fails; all events up to `position`, if known, were sent. */
export function errorFrame(code: PullErrorCode, position: Position | undefined): string {
  const offset = position && formatPosition(position);
  const error = { code, message: messages[code], offset };
  return `event: error\ndata: ${JSON.stringify({ error })}\n\n`;
}
