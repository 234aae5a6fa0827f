import { disabledMessage } from './health.ts';
import type { TransportErrorKind } from './retry.ts';
import type { Attempt } from './types.ts';

/** Why an attempt failed: a closed list (docs/http-api.md#error-codes). */
export type ErrorCode = `http_${number}` | CauseCode | 'stream_disabled';

type CauseCode =
  | 'timeout'
  | 'dns'
  | 'refused'
  | 'reset'
  | 'tls'
  | 'protocol'
  | 'blocked_address'
  | 'authorization';

/**
 * Returns the code of a failed attempt. Histories have the message only, so it is read from that: it
 * begins with the status, or with the cause (docs/http-api.md#attempt-errors).
 */
export function errorCodeOf({ status, error = '' }: Pick<Attempt, 'status' | 'error'>): ErrorCode {
  if (status !== undefined) return `http_${status}`;
  if (error === disabledMessage) return 'stream_disabled';
  const [cause = ''] = error.split(':', 1);
  return isCause(cause) ? codes[cause] : 'protocol';
}

/** Returns whether a code is one of these, of which `http_4xx` and `http_5xx` are classes. */
export function isOfCodes(code: ErrorCode, among: readonly string[]): boolean {
  return among.includes(code) || among.includes(code.replace(/^(http_[45])[0-9]{2}$/, '$1xx'));
}

const codes: Readonly<Record<TransportErrorKind, CauseCode>> = {
  timeout: 'timeout',
  dns: 'dns',
  refused: 'refused',
  reset: 'reset',
  tls: 'tls',
  protocol: 'protocol',
  'blocked address': 'blocked_address',
  authorization: 'authorization',
  // The node cut the attempt off.
  cancelled: 'reset',
};

function isCause(text: string): text is TransportErrorKind {
  return Object.hasOwn(codes, text);
}
