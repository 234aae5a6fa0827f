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
 * proxies: only their `X-Forwarded-For` and `X-Forwarded-Host` count. `report` receives the first entry
 * of a trusted proxy that names no address: the clients of such entries share the limits of one.
 */
export function createClientAddressReader(
  trusted: readonly string[],
  report?: (entry: string) => void,
): (request: CheckedRequest) => ClientAddress {
  if (trusted.length === 0) {
    return (request) => ({
      address: request.socket.remoteAddress ?? '',
      host: request.headers.host ?? '',
      isProxy: false,
    });
  }
  const isProxy = createProxyCheck(trusted);
  let isReported = false;
  return (request) => {
    const { socket, headers } = request;
    const peer = socket.remoteAddress ?? '';
    const host = headers.host ?? '';
    if (!isProxy(peer)) return { address: peer, host, isProxy: false };
    const forwardedHost = entriesOf(headers['x-forwarded-host']).at(-1);
    const hops = entriesOf(headers['x-forwarded-for']);
    const { unreadable, ...client } = clientOf(isProxy, hops, peer);
    if (unreadable !== undefined && !isReported) {
      isReported = true;
      report?.(unreadable);
    }
    return { ...client, host: forwardedHost ?? host };
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

/** Returns the right-most hop that is not a trusted proxy; an entry without an address ends the search. */
function clientOf(
  isProxy: (address: string) => boolean,
  hops: readonly string[],
  peer: string,
): Pick<ClientAddress, 'address' | 'isProxy'> & { readonly unreadable?: string } {
  let address = peer;
  for (const hop of hops.toReversed()) {
    const named = addressOf(hop);
    if (named === undefined) return { address, isProxy: true, unreadable: hop };
    address = named;
    if (!isProxy(named)) break;
  }
  return { address, isProxy: hops.length === 0 };
}

/**
 * Returns the address of an entry: a bare one, or a node of RFC 7239 section 6, which may have a port,
 * brackets and quotation marks. `undefined` for `unknown`, a hidden name (`_x`) and any other text.
 */
function addressOf(entry: string): string | undefined {
  if (isIP(entry) !== 0) return entry;
  const { v6, v4, bare } = nodePattern.exec(entry)?.groups ?? {};
  if (v6 !== undefined) return isIP(v6) === 6 ? v6 : undefined;
  const address = v4 ?? bare ?? '';
  return isIP(address) === 0 ? undefined : address;
}

const nodePattern =
  /^(?<quote>"?)(?:\[(?<v6>[^\]]{2,64})\](?::(?:\d{1,5}|_[\w.-]+))?|(?<v4>[\d.]{7,15}):(?:\d{1,5}|_[\w.-]+)|(?<bare>[^"\]]{2,64}))\k<quote>$/;

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
