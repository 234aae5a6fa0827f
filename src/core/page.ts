import type { Millis } from './clock.ts';

/** Keys longer than this were not made by Leat. */
const cursorLengthMax = 1024;

/** The key of a page as clients see it in `next`: base64url, so that it is opaque and fits a URL. */
export function formatCursor(key: string): string {
  return new TextEncoder().encode(key).toBase64({ alphabet: 'base64url', omitPadding: true });
}

/** The key of such a text; `undefined` for anything that {@link formatCursor} does not make. */
export function parseCursor(text: string): string | undefined {
  if (!/^[A-Za-z0-9_-]+$/.test(text) || text.length > cursorLengthMax) return undefined;
  try {
    const bytes = Uint8Array.fromBase64(text, { alphabet: 'base64url' });
    const key = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
    return formatCursor(key) === text ? key : undefined;
  } catch {
    // Not base64, or not the UTF-8 of any text.
    return undefined;
  }
}

/** Where a page of failures ends: the list is ordered by this pair, newest first. */
export interface FailureKey {
  readonly failedAt: Millis;
  readonly eventId: string;
}

/** The `next` of a page of failures, as the store speaks it; {@link formatCursor} comes on top. */
export function formatFailureKey(key: FailureKey): string {
  return `${key.failedAt}.${key.eventId}`;
}

/** The pair of such a key; `undefined` for anything else, which the API answers with 400. */
export function parseFailureKey(text: string): FailureKey | undefined {
  const parts = /^([0-9]{1,15})\.([!-~]{1,64})$/.exec(text);
  if (parts?.[1] === undefined || parts[2] === undefined) return undefined;
  return { failedAt: Number(parts[1]), eventId: parts[2] };
}
