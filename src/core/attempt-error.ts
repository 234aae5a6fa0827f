import type { ErrorCode } from './error-code.ts';
import { disabledMessage } from './health.ts';
import type { TransportErrorKind } from './retry.ts';
import type { Attempt } from './types.ts';

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

const codes: Readonly<Record<TransportErrorKind, ErrorCode>> = {
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
