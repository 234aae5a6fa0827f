import { isIPv6 } from 'node:net';
import { networkInterfaces } from 'node:os';
import type { TransportErrorKind, AttemptResult, Shortage } from '../../core/retry.ts';
import { noNameServer } from './shortages.ts';
import { BlockedAddress, LookupFailed } from './egress.ts';

/** The phases of an attempt: TCP, TLS, request written, response head read. */
export type Phase = 'connecting' | 'securing' | 'sent' | 'receiving';

/**
 * The connection was dropped because of its data; `message` is shown, so it never quotes the
 * receiver.
 */
export class InvalidResponse extends Error {
  readonly code = 'invalid_response';
  override readonly name = 'InvalidResponse';
}

/**
 * The peer has closed a connection before a request was written. After an error of its own for that undici would
 * connect again, without end.
 */
export class ClosedConnection extends Error {
  readonly code = 'closed';
  override readonly name = 'ClosedConnection';
}

/** The client certificate of a stream has expired; nothing is sent then. */
export class CertificateExpired extends Error {
  override readonly name = 'CertificateExpired';
}

/**
 * Returns the shortage of this node that an error is about; `undefined` for all other errors. `hasFamily`
 * returns whether the machine has an IPv6 address.
 */
export function shortageOf(error: unknown, hasFamily = hasIPv6): Shortage | undefined {
  if (error instanceof AggregateError) return shortageOfAll(error.errors, hasFamily);
  const code = codeOf(error);
  // Linux says so of IPv6 in two cases: no port is left (connect(2)), or no interface has an address of the
  // family to connect from, as with the sysctl disable_ipv6. With an address but no route it is ENETUNREACH.
  const isOtherFamily = code === 'EADDRNOTAVAIL' && isIPv6(addressOf(error)) && !hasFamily();
  return ownCodes.has(code) && !isOtherFamily ? { kind: 'shortage', code } : undefined;
}

/** Returns whether an interface of this machine has an IPv6 address. */
export function hasIPv6(): boolean {
  return Object.values(networkInterfaces()).some((addresses) =>
    addresses?.some(({ family }) => family === 'IPv6'),
  );
}

/** One for each address of a name: one that has refused, or was too slow, is about the receiver. */
function shortageOfAll(
  errors: readonly unknown[],
  hasFamily: typeof hasIPv6,
): Shortage | undefined {
  if (errors.some((error) => ofReceiver.has(codeOf(error)))) return undefined;
  return errors
    .map((error) => shortageOf(error, hasFamily))
    .find((shortage) => shortage !== undefined);
}

/** File descriptors, ports, memory, and name servers of this machine. */
const ownCodes = new Set([
  'EMFILE',
  'ENFILE',
  'EADDRNOTAVAIL',
  'ENOBUFS',
  'ENOMEM',
  'EAGAIN',
  noNameServer,
]);
const ofReceiver = new Set(['ECONNREFUSED', 'ECONNRESET', 'ETIMEDOUT']);

function addressOf(error: unknown): string {
  const { address } = (error ?? {}) as { readonly address?: unknown };
  return typeof address === 'string' ? address : '';
}

/**
 * Classifies an error of a socket, of TLS or of undici by docs/http-api.md#attempt-errors. The
 * detail is an error code or a text of ours: messages of errors may quote the receiver.
 */
export function classifyTransportError(
  error: unknown,
  phase: Phase,
): AttemptResult & { readonly kind: 'error' } {
  if (error instanceof BlockedAddress) {
    const { address = 'no allowed address' } = error;
    return errorOf('blocked address', `${address} (LEAT_EGRESS_ALLOW)`);
  }
  const code = codeOf(error);
  if (error instanceof LookupFailed) return errorOf('dns', shown(code));
  if (error instanceof CertificateExpired) return errorOf('tls', 'client certificate expired');
  if (error instanceof InvalidResponse) return errorOf('protocol', error.message);
  const reason = parserReasonOf(error);
  if (reason === 'Invalid EOF state') return errorOf('reset', closedEarly);
  if (reason !== undefined) return errorOf('protocol', reason);
  if (code === 'ETIMEDOUT') return errorOf('timeout', undefined);
  // undici reports any error of the parser like this once it has read a length.
  if (code === 'UND_ERR_RES_CONTENT_LENGTH_MISMATCH') {
    return phase === 'receiving' ? errorOf('reset', closedEarly) : errorOf('protocol', undefined);
  }
  if (code in definiteCodes) return errorOf(...definiteCodeOf(code, error));
  if (phase === 'connecting') return errorOf('refused', shown(code));
  return errorOf(phase === 'securing' || tlsCode.test(code) ? 'tls' : 'protocol', shown(code));
}

function errorOf(
  cause: TransportErrorKind,
  detail: string | undefined,
): AttemptResult & { readonly kind: 'error' } {
  return { kind: 'error', cause, detail };
}

/** Returns whether a connection ended because of bytes of its peer, when no response was expected. */
export function isUnasked(error: unknown): boolean {
  return parserReasonOf(error) !== undefined || isUnexpected(error);
}

/** Returns why a response is not HTTP: one of the fixed sentences of the parser. */
function parserReasonOf(error: unknown): string | undefined {
  if (!(error instanceof Error) || error.name !== 'HTTPParserError') return undefined;
  return /\((?<reason>[\w /,.`'-]{1,80})\)$/.exec(error.message)?.groups?.['reason'] ?? 'not HTTP';
}

const closedEarly = 'closed before the end of the answer';

/** Codes with the same meaning in every phase. */
const definiteCodes: Readonly<Record<string, readonly [TransportErrorKind, string | undefined]>> = {
  ECONNREFUSED: ['refused', 'ECONNREFUSED'],
  ECONNRESET: ['reset', 'ECONNRESET'],
  ECONNABORTED: ['reset', 'ECONNABORTED'],
  EPIPE: ['reset', 'EPIPE'],
  ENETDOWN: ['refused', 'ENETDOWN'],
  ENETUNREACH: ['refused', 'ENETUNREACH'],
  EHOSTUNREACH: ['refused', 'EHOSTUNREACH'],
  UND_ERR_SOCKET: ['reset', closedEarly],
  closed: ['reset', closedEarly],
  UND_ERR_HEADERS_OVERFLOW: ['protocol', 'headers too large'],
  UND_ERR_INVALID_ARG: ['protocol', 'the request cannot be written'],
  UND_ERR_REQ_CONTENT_LENGTH_MISMATCH: ['protocol', 'the request cannot be written'],
};

function definiteCodeOf(
  code: string,
  error: unknown,
): readonly [TransportErrorKind, string | undefined] {
  if (isUnexpected(error)) return ['protocol', 'unexpected answer'];
  return definiteCodes[code] ?? ['protocol', undefined];
}

/** undici has the code of a closed socket also for an unsolicited response, a 100 and a 101. */
function isUnexpected(error: unknown): boolean {
  const isBad = error instanceof Error && /^bad (response|upgrade)$/.test(error.message);
  return isBad && codeOf(error) === 'UND_ERR_SOCKET';
}

/** Alerts after the handshake, such as for a missing client certificate. */
const tlsCode = /^(ERR_SSL_|ERR_TLS_|EPROTO$)/;

/** Returns the code of an error; of the first one when every address of a name failed. */
function codeOf(error: unknown): string {
  const { code } = (error ?? {}) as { readonly code?: unknown };
  if (typeof code === 'string') return code;
  return error instanceof AggregateError ? codeOf(error.errors[0]) : '';
}

/**
 * Returns a code of the system, of TLS or of the parser; others are not shown. OpenSSL has names with a slash,
 * such as `ERR_SSL_SSL/TLS_ALERT_HANDSHAKE_FAILURE`, which are shown without it.
 */
function shown(code: string): string | undefined {
  const name = code.replace('SSL/TLS_', 'TLS_');
  return /^(?!UND_ERR_|ERR_ASSERTION|ERR_INTERNAL)[A-Z][A-Z0-9_]{2,63}$/.test(name)
    ? name
    : undefined;
}
