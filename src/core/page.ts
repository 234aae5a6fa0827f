import type { Millis } from './clock.ts';

/** Longer than any cursor that Leat makes. */
const cursorLengthMax = 1024;

/** Returns the cursor of a page as clients see it in `next`: base64url, opaque and safe in a URL. */
export function formatCursor(key: string): string {
  return new TextEncoder().encode(key).toBase64({ alphabet: 'base64url', omitPadding: true });
}

/** Returns the key of a cursor; `undefined` for anything that {@link formatCursor} does not make. */
export function parseCursor(text: string): string | undefined {
  if (!/^[A-Za-z0-9_-]+$/.test(text) || text.length > cursorLengthMax) return undefined;
  try {
    const bytes = Uint8Array.fromBase64(text, { alphabet: 'base64url' });
    const key = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
    return formatCursor(key) === text ? key : undefined;
  } catch {
    // Not base64, or not valid UTF-8.
    return undefined;
  }
}

/** The key that the list of failures is ordered by, newest first. */
export interface FailureKey {
  readonly failedAt: Millis;
  readonly eventId: string;
}

/** Returns the key as the store's `next`; the API applies {@link formatCursor} to it. */
export function formatFailureKey(key: FailureKey): string {
  return `${key.failedAt}.${key.eventId}`;
}

/** Parses a text of {@link formatFailureKey}; `undefined` for anything else (400 in the API). */
export function parseFailureKey(text: string): FailureKey | undefined {
  const parts = /^([0-9]{1,15})\.([!-~]{1,64})$/.exec(text);
  if (parts?.[1] === undefined || parts[2] === undefined) return undefined;
  return { failedAt: Number(parts[1]), eventId: parts[2] };
}

/** The key that the list of all failures is ordered by, newest first. */
export interface ListedKey {
  readonly at: Millis;
  readonly eventId: string;
  readonly stream: string;
}

/** Returns the key as the store's `next`. */
export function formatListedKey({ at, eventId, stream }: ListedKey): string {
  return `${at}.${eventId}.${stream}`;
}

/** Parses a text of {@link formatListedKey}; `undefined` for anything else. */
export function parseListedKey(text: string): ListedKey | undefined {
  const parts = /^([0-9]{1,15})\.([!-~]{1,64})\.([A-Za-z0-9_]{1,64})$/.exec(text);
  const [, at, eventId, stream] = parts ?? [];
  if (at === undefined || eventId === undefined || stream === undefined) return undefined;
  return { at: Number(at), eventId, stream };
}

/** The orders of groups of failures: the largest, or those with the last attempt first. */
export type GroupSort = '-count' | '-last_attempt_at';

/** The key of a group of failures in one of its orders. */
export interface GroupKey {
  readonly sort: GroupSort;
  /** What the order is by, the highest first. */
  readonly value: number;
  readonly stream: string;
  /** Empty where it is not known. */
  readonly code: string;
}

/** Returns the key as the store's `next`. */
export function formatGroupKey({ sort, value, stream, code }: GroupKey): string {
  return `${sort === '-count' ? '' : 'a'}${value}.${stream}.${code}`;
}

/** Parses a text of {@link formatGroupKey}; `undefined` for anything else. */
export function parseGroupKey(text: string): GroupKey | undefined {
  const parts = /^(a?)([0-9]{1,15})\.([A-Za-z0-9_]{1,64})\.([a-z0-9_]{0,32})$/.exec(text);
  const [, mark, value, stream, code] = parts ?? [];
  if (value === undefined || stream === undefined || code === undefined) return undefined;
  return { sort: mark === '' ? '-count' : '-last_attempt_at', value: Number(value), stream, code };
}

/** The key of a stream in a list of streams with several orders, lowest first. */
export type StandingKey =
  | { readonly sort: 'name'; readonly value: string; readonly id: string }
  | { readonly sort: NumberSort; readonly value: number; readonly id: string };

type NumberSort = '-open_failures' | '-lag' | '-last_failed_at';

/** Returns the key as the `next` of a page; a name comes last, because it may have any character. */
export function formatStandingKey({ sort, value, id }: StandingKey): string {
  return `${sort} ${id} ${value}`;
}

/** Parses a text of {@link formatStandingKey}; `undefined` for anything else. */
export function parseStandingKey(text: string): StandingKey | undefined {
  const parts = /^(name|-open_failures|-lag|-last_failed_at) ([A-Za-z0-9_]{1,64}) (.+)$/su.exec(
    text,
  );
  const [, sort, id, value] = parts ?? [];
  if (sort === undefined || id === undefined || value === undefined) return undefined;
  if (sort === 'name') return { sort, value, id };
  if (!/^(?:0|-?[1-9][0-9]{0,15})$/.test(value)) return undefined;
  return { sort: sort as NumberSort, value: Number(value), id };
}
