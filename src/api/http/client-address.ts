import { isIP } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { isPeerWithin, parseNetworks } from '../../core/address.ts';
import type { CheckedRequest } from './checked-request.ts';

/** The client of a request and the host that it requested, with the headers of trusted proxies. */
export interface ClientAddress {
  /** An IP address; empty when the connection is closed already. */
  readonly address: string;
  /** `host[:port]` as sent. */
  readonly host: string;
  /** Whether the address is that of a trusted proxy, which has not named its client. */
  readonly isProxy: boolean;
}

/**
 * Creates the reader of a request's {@link ClientAddress}. `trusted` are addresses and CIDR ranges of
 * proxies: only their `X-Forwarded-For` and `X-Forwarded-Host` count.
 */
export function createClientAddressReader(
  trusted: readonly string[],
): (request: CheckedRequest) => ClientAddress {
  if (trusted.length === 0) {
    return (request) => ({
      address: request.socket.remoteAddress ?? '',
      host: request.headers.host ?? '',
      isProxy: false,
    });
  }
  const isProxy = createProxyCheck(trusted);
  return (request) => {
    const { socket, headers } = request;
    const peer = socket.remoteAddress ?? '';
    const host = headers.host ?? '';
    if (!isProxy(peer)) return { address: peer, host, isProxy: false };
    const forwardedHost = entriesOf(headers['x-forwarded-host']).at(-1);
    const hops = entriesOf(headers['x-forwarded-for']);
    return { ...clientOf(isProxy, hops, peer), host: forwardedHost ?? host };
  };
}

/**
 * Creates the check whether a request came over TLS: to Leat, or to a proxy of `trusted` that sends
 * `X-Forwarded-Proto: https`.
 */
export function createSecureReader(
  trusted: readonly string[],
): (request: CheckedRequest) => boolean {
  const isProxy = createProxyCheck(trusted);
  return ({ socket, headers }) => {
    if ((socket as Partial<TLSSocket>).encrypted === true) return true;
    if (!isProxy(socket.remoteAddress ?? '')) return false;
    return entriesOf(headers['x-forwarded-proto']).at(-1)?.toLowerCase() === 'https';
  };
}

/** Returns the right-most hop that is not a trusted proxy; an entry that is no address ends the search. */
function clientOf(
  isProxy: (address: string) => boolean,
  hops: readonly string[],
  peer: string,
): Pick<ClientAddress, 'address' | 'isProxy'> {
  let address = peer;
  for (const hop of hops.toReversed()) {
    if (isIP(hop) === 0) return { address, isProxy: true };
    address = hop;
    if (!isProxy(hop)) break;
  }
  return { address, isProxy: hops.length === 0 };
}

function entriesOf(header: string | readonly string[] | undefined): string[] {
  const text = typeof header === 'string' ? header : (header ?? []).join(',');
  return text
    .split(',')
    .map((entry) => entry.trim())
    .filter((entry) => entry !== '');
}

/**
 * Creates the check whether an address belongs to a trusted proxy: LEAT_TRUST_PROXY, addresses and
 * CIDR ranges. An IPv4 range includes its addresses in IPv4-mapped form (`::ffff:10.0.0.1`); a zone
 * (`%eth0`) is ignored.
 */
export function createProxyCheck(ranges: readonly string[]): (address: string) => boolean {
  const networks = parseNetworks(ranges);
  return (address) => networks.length > 0 && isPeerWithin(address, networks);
}
