import { connect as connectTcp, isIP, type LookupFunction, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { literalAddress } from '../../core/address.ts';
import { BlockedAddress, guardLookup, type EgressRule } from './egress.ts';

/** Where to connect to, as undici says it. */
export interface ConnectTarget {
  /** A name or an address without brackets. */
  readonly hostname: string;
  /** Empty for the port of the protocol. */
  readonly port: string;
  readonly protocol: string;
}

/** Called once, when the connection can be used or cannot be made. */
export type Connected = (
  ...args: [error: null, socket: Socket] | [error: Error, none: null]
) => void;

/**
 * Begins to connect; destroying the socket that it answers ends that without a call. `lookup` is as
 * `dns.lookup`; it is asked for all addresses of a name.
 */
export type Connect = (
  target: ConnectTarget,
  lookup: LookupFunction,
  connected: Connected,
) => Socket;

export interface ConnectDeps {
  readonly egress: EgressRule;
  readonly tls?: { readonly ca?: string | undefined } | undefined;
}

/**
 * Connections to judged addresses alone: a literal address is judged before the connection, those
 * of a name when they are found, and the one that was reached once more.
 *
 * @throws {BlockedAddress} at once for a literal address that is blocked
 */
export function createConnect({ egress, tls }: ConnectDeps): Connect {
  return ({ hostname, port, protocol }, lookup, connected) => {
    refuse(literalAddress(hostname), egress);
    const isSecure = protocol === 'https:';
    const host = {
      host: hostname,
      port: Number(port || (isSecure ? 443 : 80)),
      lookup: guardLookup(lookup, egress),
    };
    const socket = isSecure
      ? connectTls({ ...host, ...nameOf(hostname), ...secure, ca: tls?.ca })
      : connectTcp(host);
    let isReported = false;
    const report: Connected = (...args) => {
      if (!isReported) connected(...args);
      isReported = true;
    };
    socket.setNoDelay(true);
    socket.setKeepAlive(true, keepAliveProbeMs);
    // Stays for good: an error that comes when nobody else listens must not end the process.
    socket.on('error', (error) => report(error, null));
    socket.once(isSecure ? 'secureConnect' : 'connect', () => {
      try {
        refuse(socket.remoteAddress, egress);
        report(null, socket);
      } catch (error) {
        socket.destroy(error as Error);
      }
    });
    return socket;
  };
}

function refuse(address: string | undefined, egress: EgressRule): void {
  const blocked = address === undefined ? undefined : egress.blocked(address);
  if (blocked !== undefined) throw new BlockedAddress(blocked);
}

/** The name goes into the handshake without the dot that may end it; an address never does. */
function nameOf(hostname: string): { readonly servername?: string } {
  return isIP(hostname) === 0 ? { servername: hostname.replace(/\.$/, '') } : {};
}

const secure = {
  ALPNProtocols: ['http/1.1'],
  // Whatever NODE_TLS_REJECT_UNAUTHORIZED says.
  rejectUnauthorized: true,
};

const keepAliveProbeMs = 60_000;
