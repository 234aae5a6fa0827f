import type { Millis } from '../../core/clock.ts';
import type { SendResult, TransportErrorKind } from '../../core/retry.ts';
import type { NameResult } from '../http/name-lookups.ts';

/**
 * What the main thread and a sender thread tell each other. Many requests and results travel in one
 * message. Each is a few items in one flat array: an object per event would take three times as long to
 * clone.
 */
export interface ToSender {
  /** Templates and keys that requests name by number from now on. */
  readonly added: readonly (readonly [reference: number, value: object])[];
  /** Numbers that no request names any more. */
  readonly removed: readonly number[];
  /** {@link RequestItems} of each request, one after the other. */
  readonly requests: readonly unknown[];
  /** Requests to be cancelled. */
  readonly cancelled: readonly number[];
  /** Name lookups that have started… */
  readonly begun: readonly number[];
  /** …and those that have ended. */
  readonly found: readonly (readonly [lookup: number, result: NameResult])[];
  /** Origins that another thread has found to send responses without a request. */
  readonly unasked: readonly string[];
}

export interface FromSender {
  /** {@link ResultItems} of each attempt that has ended. */
  readonly results: readonly unknown[];
  /** Routes and their idle connections, where that number has changed. */
  readonly idle: readonly (readonly [route: string, connections: number])[];
  /** Names to be looked up. */
  readonly lookups: readonly (readonly [lookup: number, tenant: number, name: string])[];
  /** Names without an allowed address, each with one that is blocked. */
  readonly blocked: readonly (readonly [name: string, address: string])[];
  /** Origins that were found to send responses without a request. */
  readonly unasked: readonly string[];
  /** Why requests could not be built. */
  readonly unexpected: readonly Error[];
}

/** A message that is being written. */
export type Mutable<T> = {
  -readonly [K in keyof T]: T[K] extends readonly (infer I)[] ? I[] : T[K];
};

export type RequestItems = [
  request: number,
  template: number,
  eventId: string,
  body: string,
  trace: string | undefined,
  at: Millis,
  accessToken: string | undefined,
  /** Number and name of the key; 0 without one. */
  key: number,
  kid: string,
];

export const requestLength = 9;

/** The last four depend on the kind: see {@link pushResult}. */
export type ResultItems = [
  request: number,
  waitedMs: number,
  statusOrCause: number | TransportErrorKind | 'shortage',
  textOrDetail: string | undefined,
  retryAfter: string | undefined,
  cut: boolean,
];

export const resultLength = 6;

/** Appends the result of an attempt. */
export function pushResult(
  results: unknown[],
  request: number,
  waitedMs: number,
  result: SendResult,
): void {
  if (result.kind === 'response') {
    const { status, text, retryAfter, cut } = result;
    results.push(request, waitedMs, status, text, retryAfter, cut === true);
  } else if (result.kind === 'shortage') {
    results.push(request, waitedMs, result.kind, result.code, undefined, false);
  } else {
    results.push(request, waitedMs, result.cause, result.detail, undefined, false);
  }
}

/** Returns the result that {@link pushResult} has appended. */
export function resultOf(items: ResultItems): SendResult {
  const [, , statusOrCause, textOrDetail, retryAfter, cut] = items;
  if (statusOrCause === 'shortage') return { kind: 'shortage', code: textOrDetail ?? '' };
  if (typeof statusOrCause !== 'number') {
    return { kind: 'error', cause: statusOrCause, detail: textOrDetail };
  }
  const text = textOrDetail ?? '';
  const response = { kind: 'response', status: statusOrCause, text } as const;
  return cut ? { ...response, cut, retryAfter } : { ...response, retryAfter };
}
