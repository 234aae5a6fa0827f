import { BlockList, isIP } from 'node:net';
import type { IncomingMessage } from 'node:http';

/** Who sent a request and which host they asked for, as far as the proxies are to be believed. */
export interface Remote {
  /** An IP address; the empty text when the connection is gone already. */
  readonly address: string;
  /** `host[:port]` as sent. */
  readonly host: string;
}

/**
 * Creates the reader of a request's {@link Remote}. `trusted` are addresses and CIDR ranges of
 * proxies: their `X-Forwarded-For` and `X-Forwarded-Host` count, anybody else's do not.
 */
export function createRemoteReader(
  trusted: readonly string[],
): (request: IncomingMessage) => Remote {
  if (trusted.length === 0) {
    return ({ socket, headers }) => ({
      address: socket.remoteAddress ?? '',
      host: headers.host ?? '',
    });
  }
  const proxies = blockListOf(trusted);
  return ({ socket, headers }) => {
    const peer = socket.remoteAddress ?? '';
    const host = headers.host ?? '';
    if (!isListed(proxies, peer)) return { address: peer, host };
    const forwardedHost = entriesOf(headers['x-forwarded-host']).at(-1);
    const hops = entriesOf(headers['x-forwarded-for']);
    return { address: clientOf(proxies, hops, peer), host: forwardedHost ?? host };
  };
}

/** The right-most hop that is no trusted proxy; what is no address ends the search before it. */
function clientOf(proxies: BlockList, hops: readonly string[], peer: string): string {
  let client = peer;
  for (const hop of hops.toReversed()) {
    if (isIP(hop) === 0) return client;
    client = hop;
    if (!isListed(proxies, hop)) return client;
  }
  return client;
}

function entriesOf(header: string | readonly string[] | undefined): string[] {
  const text = typeof header === 'string' ? header : (header ?? []).join(',');
  return text
    .split(',')
    .map((entry) => entry.trim())
    .filter((entry) => entry !== '');
}

function blockListOf(ranges: readonly string[]): BlockList {
  const list = new BlockList();
  for (const range of ranges) {
    const [address = '', bits] = range.split('/');
    const family = isIP(address) === 6 ? 'ipv6' : 'ipv4';
    if (bits === undefined) list.addAddress(address, family);
    else list.addSubnet(address, Number(bits), family);
  }
  return list;
}

/** A list of IPv4 ranges also covers their addresses as a dual-stack socket writes them. */
function isListed(list: BlockList, address: string): boolean {
  const plain = address.replace(/^::ffff:(?=[0-9.]+$)/i, '').replace(/%.*$/, '');
  const family = isIP(plain);
  return family !== 0 && list.check(plain, family === 6 ? 'ipv6' : 'ipv4');
}
