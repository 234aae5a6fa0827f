import type { TransportErrorKind, AttemptResult } from '../../core/retry.ts';
import { BlockedAddress, LookupFailed } from './egress.ts';

/** How far an attempt had come: TCP, TLS, the request was written, the answer's head was read. */
export type Phase = 'connecting' | 'securing' | 'sent' | 'answering';

/** The connection was dropped because of what came over it; `message` is shown, so it is ours. */
export class InvalidResponse extends Error {
  readonly code = 'bad_answer';
  override readonly name = 'BadAnswer';
}

/**
 * Puts an error of a socket, of TLS or of undici into the words of docs/http-api.md#attempt-errors. The detail
 * is an error code or a text of ours: messages of errors may quote the receiver.
 */
export function classifyTransportError(
  error: unknown,
  phase: Phase,
): AttemptResult & { readonly kind: 'error' } {
  if (error instanceof BlockedAddress) {
    return broken('blocked address', `${error.address} (LEAT_EGRESS_ALLOW)`);
  }
  const code = codeOf(error);
  if (error instanceof LookupFailed) return broken('dns', shown(code));
  if (error instanceof InvalidResponse) return broken('protocol', error.message);
  const reason = parserReasonOf(error);
  if (reason === 'Invalid EOF state') return broken('reset', closedEarly);
  if (reason !== undefined) return broken('protocol', reason);
  if (code === 'ETIMEDOUT') return broken('timeout', undefined);
  // undici says so of any error of the parser once it has read a length.
  if (code === 'UND_ERR_RES_CONTENT_LENGTH_MISMATCH') {
    return phase === 'answering' ? broken('reset', closedEarly) : broken('protocol', undefined);
  }
  if (code in tellingCodes) return broken(...tellingCodeOf(code, error));
  if (phase === 'connecting') return broken('refused', shown(code));
  return broken(phase === 'securing' || tlsCode.test(code) ? 'tls' : 'protocol', shown(code));
}

function broken(
  cause: TransportErrorKind,
  detail: string | undefined,
): AttemptResult & { readonly kind: 'error' } {
  return { kind: 'error', cause, detail };
}

/** What the parser says about an answer that is not HTTP: one of its own fixed sentences. */
function parserReasonOf(error: unknown): string | undefined {
  if (!(error instanceof Error) || error.name !== 'HTTPParserError') return undefined;
  return /\((?<reason>[\w /,.`'-]{1,80})\)$/.exec(error.message)?.groups?.['reason'] ?? 'not HTTP';
}

const closedEarly = 'closed before the end of the answer';

/** Codes that say the same in every phase. */
const tellingCodes: Readonly<Record<string, readonly [TransportErrorKind, string | undefined]>> = {
  ECONNREFUSED: ['refused', 'ECONNREFUSED'],
  ECONNRESET: ['reset', 'ECONNRESET'],
  ECONNABORTED: ['reset', 'ECONNABORTED'],
  EPIPE: ['reset', 'EPIPE'],
  ENETDOWN: ['refused', 'ENETDOWN'],
  ENETUNREACH: ['refused', 'ENETUNREACH'],
  EHOSTUNREACH: ['refused', 'EHOSTUNREACH'],
  UND_ERR_SOCKET: ['reset', closedEarly],
  UND_ERR_HEADERS_OVERFLOW: ['protocol', 'headers too large'],
  UND_ERR_INVALID_ARG: ['protocol', 'the request cannot be written'],
  UND_ERR_REQ_CONTENT_LENGTH_MISMATCH: ['protocol', 'the request cannot be written'],
};

function tellingCodeOf(
  code: string,
  error: unknown,
): readonly [TransportErrorKind, string | undefined] {
  // undici says so of an answer that nobody asked for, of a 100 and of a 101: of no closed socket.
  const isBad = error instanceof Error && /^bad (response|upgrade)$/.test(error.message);
  if (code === 'UND_ERR_SOCKET' && isBad) return ['protocol', 'unexpected answer'];
  return tellingCodes[code] ?? ['protocol', undefined];
}

/** After the handshake: an alert, such as that a client certificate is missing. */
const tlsCode = /^(ERR_SSL_|ERR_TLS_|EPROTO$)/;

/** When every address of a name failed, the first failure speaks for all. */
function codeOf(error: unknown): string {
  const { code } = (error ?? {}) as { readonly code?: unknown };
  if (typeof code === 'string') return code;
  return error instanceof AggregateError ? codeOf(error.errors[0]) : '';
}

/** Codes of the system, of TLS and of the parser are known words; the others say nothing. */
function shown(code: string): string | undefined {
  return /^(?!UND_ERR_|ERR_ASSERTION|ERR_INTERNAL)[A-Z][A-Z0-9_]{2,63}$/.test(code)
    ? code
    : undefined;
}
