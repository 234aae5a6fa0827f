import { connect as connectTcp, isIP, type LookupFunction, type Socket } from 'node:net';
import { connect as connectTls, createSecureContext, type SecureContext } from 'node:tls';
import type { Millis } from '../../core/clock.ts';
import { literalAddress, patientConnect } from '../../core/address.ts';
import { afterPoll, whenSilent } from './early-response.ts';
import { BlockedAddress, type BlockedFound, guardLookup, type EgressRule } from './egress.ts';
import { ClosedConnection } from './transport-error.ts';

/** The target of a connection, as undici passes it. */
export interface ConnectTarget {
  /** A name, or an address without brackets. */
  readonly hostname: string;
  /** Empty for the port of the protocol. */
  readonly port: string;
  readonly protocol: string;
  /** Shown to the server when it asks for a certificate; not used without TLS. */
  readonly identity?: ClientIdentity | undefined;
  /** Of all that the connection is for. */
  readonly timeoutMs?: number | undefined;
  /** Calls `ready` after a while in which a peer that sends without a request has time to do so. */
  readonly wait?: ((ready: () => void) => void) | undefined;
}

/** The certificate of a stream. */
export interface ClientIdentity {
  /** Differs for different certificates, keys and tenants. */
  readonly id: string;
  /** PEM with the chain. */
  readonly certificate: string;
  readonly privateKey: string;
  readonly expiresAt: Millis;
}

/** Called once, when the connection is ready or has failed. */
export type Connected = (
  ...args: [error: null, socket: Socket] | [error: Error, none: null]
) => void;

/**
 * Begins to connect and returns the socket; destroying it cancels without a call. `lookup` has the
 * signature of `dns.lookup` and is called for all addresses of a name.
 */
export type Connect = (
  target: ConnectTarget,
  lookup: LookupFunction,
  connected: Connected,
) => Socket;

export interface ConnectDeps {
  readonly egress: EgressRule;
  readonly blockedFound?: BlockedFound | undefined;
  readonly tls?: { readonly ca?: string | undefined } | undefined;
}

/**
 * Creates a function that connects only to allowed addresses: it checks a literal address before
 * connecting, the addresses of a name when they are resolved, and the address of the connected peer
 * again. A connection whose peer sends before it was asked for anything fails.
 *
 * @throws {BlockedAddress} at once for a literal address that is blocked
 */
export function createConnect({ egress, blockedFound, tls }: ConnectDeps): Connect {
  // Of all connections without a certificate: it is made once, as it takes as long as a handshake.
  let shared: SecureContext | undefined;
  const contextOf = (identity: ClientIdentity | undefined): SecureContext => {
    if (identity === undefined) return (shared ??= createSecureContext({ ca: tls?.ca }));
    const { certificate: cert, privateKey: key } = identity;
    return createSecureContext({ ca: tls?.ca, cert, key });
  };
  return ({ hostname, port, protocol, identity, timeoutMs, wait }, lookup, connected) => {
    const literal = literalAddress(hostname);
    requireAllowed(literal, egress);
    const isSecure = protocol === 'https:';
    const host = {
      ...patientConnect(timeoutMs),
      host: hostname,
      port: Number(port || (isSecure ? 443 : 80)),
      lookup: guardLookup(lookup, egress, blockedFound),
    };
    const socket = isSecure
      ? connectTls({ ...host, ...nameOf(hostname), ...secure, secureContext: contextOf(identity) })
      : connectTcp(host);
    let isReported = false;
    const report: Connected = (...args) => {
      if (!isReported) connected(...args);
      isReported = true;
    };
    if (isSecure) readAlertBeforeReset(socket);
    socket.setNoDelay(true);
    socket.setKeepAlive(true, keepAliveProbeMs);
    // Never removed: an error event without a listener would end the process.
    socket.on('error', (error) => report(error, null));
    socket.once(isSecure ? 'secureConnect' : 'connect', () => {
      try {
        requireAllowed(socket.remoteAddress, egress, (address) => {
          if (literal !== undefined) return new BlockedAddress(address);
          blockedFound?.(hostname, address);
          return new BlockedAddress();
        });
        // Without an error, while the connection is silent: nobody else listens yet.
        socket.once('end', () => report(new ClosedConnection(), null));
        const check = (): void => whenSilent(socket, () => report(null, socket));
        if (wait === undefined) check();
        else wait(check);
      } catch (error) {
        socket.destroy(error as Error);
      }
    });
    return socket;
  };
}

/**
 * Delays the end of a connection whose write failed until what the peer sent before was read: in TLS 1.3 it
 * refuses a client certificate after the handshake, by an alert and a reset, and the system reports the
 * reset to a write first.
 */
function readAlertBeforeReset(socket: Socket): void {
  const destroy = socket.destroy.bind(socket);
  let isDelayed = false;
  socket.destroy = (error?: Error & { readonly syscall?: string }) => {
    if (isDelayed || error?.syscall !== 'write') return destroy(error);
    isDelayed = true;
    afterPoll(() => destroy(error));
    return socket;
  };
}

function requireAllowed(
  address: string | undefined,
  egress: EgressRule,
  errorOf = (blocked: string): BlockedAddress => new BlockedAddress(blocked),
): void {
  const blocked = address === undefined ? undefined : egress.blocked(address);
  if (blocked !== undefined) throw errorOf(blocked);
}

/**
 * Returns the server name for the handshake, without a trailing dot; none for an address (RFC 6066
 * section 3).
 */
function nameOf(hostname: string): { readonly servername?: string } {
  return isIP(hostname) === 0 ? { servername: hostname.replace(/\.$/, '') } : {};
}

const secure = {
  ALPNProtocols: ['http/1.1'],
  // Overrides NODE_TLS_REJECT_UNAUTHORIZED.
  rejectUnauthorized: true,
};

const keepAliveProbeMs = 60_000;
