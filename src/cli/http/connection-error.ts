import { codeOf } from '../../core/errors.ts';
import { CommandFailed, exitCodes } from '../errors.ts';

/**
 * Translates an error of a socket, of TLS or of undici into a {@link CommandFailed} that says what
 * to do. Returns any other error, and that of an aborted request, unchanged.
 */
export function connectionError(url: string, error: unknown): unknown {
  if (error instanceof CommandFailed || !(error instanceof Error)) return error;
  const code = parserReasonOf(error) ?? codeOf(error) ?? '';
  if (code === '' || (error.name === 'AbortError' && code !== tunnelRejected)) return error;
  const cause = { cause: error };
  // A header that cannot be sent was made of what the server sent before.
  if (code === 'UND_ERR_INVALID_ARG') return new TypeError(error.message, cause);
  if (certificateCode.test(code)) {
    const way =
      'trust its authority with --ca <file> or NODE_EXTRA_CA_CERTS (the server prints it)';
    const message = `The certificate of ${url} is not trusted (${code}): ${way}.`;
    return new CommandFailed(exitCodes.failed, message, cause);
  }
  if (otherProtocol.test(code)) {
    const message = `${url} does not speak ${url.startsWith('https:') ? 'HTTPS' : 'HTTP'}: check the scheme and the port.`;
    return new CommandFailed(exitCodes.failed, message, cause);
  }
  const reason = reasons[code] ?? `the connection failed (${code}): is it running?`;
  return new CommandFailed(exitCodes.unavailable, `${url} ${unreachable}: ${reason}`, cause);
}

/** In the message of a failure to connect. */
export const unreachable = 'cannot be reached';

const certificateCode = /CERT|SELF_SIGNED|UNABLE_TO_VERIFY|ISSUER|ALTNAME/;

/** A TLS handshake that fails, or bytes that are not the beginning of an HTTP response. */
const otherProtocol = /^(?:EPROTO$|ERR_SSL_|Expected HTTP\/|invalid_response$)/;

/** Returns the reason in the message of undici's HTTP parser, whose errors have no code. */
function parserReasonOf({ name, message }: Error): string | undefined {
  if (name !== 'HTTPParserError') return undefined;
  return /\((?<reason>[^()]+)\)$/.exec(message)?.groups?.['reason'] ?? 'not HTTP';
}

/** undici's code when a proxy rejects CONNECT; an aborted request has that of its signal. */
const tunnelRejected = 'UND_ERR_ABORTED';

const connectionCut = 'the connection was cut. Is the server running, and the scheme right?';

const reasons: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'nothing listens there (connection refused). Is the server running?',
  ENOTFOUND: 'there is no host of that name. Is the address right?',
  EAI_AGAIN: 'its name cannot be looked up now. Is there a network?',
  ECONNRESET: connectionCut,
  [tunnelRejected]: 'the proxy does not connect to it. Is the address right?',
  UND_ERR_SOCKET: connectionCut,
  UND_ERR_RES_CONTENT_LENGTH_MISMATCH: connectionCut,
  UND_ERR_CONNECT_TIMEOUT: 'it did not answer in time. Is the server running?',
};
