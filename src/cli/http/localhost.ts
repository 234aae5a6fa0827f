import { isLoopback } from '../../core/value.ts';

/** An address, as `dns.lookup` returns it with `all`. */
interface Address {
  readonly address: string;
  readonly family: 4 | 6;
}

const addresses: readonly Address[] = [
  { address: '127.0.0.1', family: 4 },
  { address: '::1', family: 6 },
];

/** Returns whether a host is `localhost` or a name below it, which is loopback (RFC 6761, section 6.3). */
export function isLocalhostName(hostname: string): boolean {
  return /(?:^|\.)localhost\.?$/i.test(hostname);
}

/** Returns whether the host of a URL is this machine, whatever a resolver says. */
export function isThisMachine(hostname: string): boolean {
  return isLoopback(hostname) || isLocalhostName(hostname);
}

/**
 * Resolves a name below `localhost` as `dns.lookup` does, without asking a resolver: many do not know
 * such names, and one that sent them elsewhere would get the secret.
 */
export function resolveLocalhost(
  _hostname: string,
  { all, family }: { readonly all?: boolean | undefined; readonly family?: unknown },
  callback: (error: null, address: string | Address[], family?: number) => void,
): void {
  const isChosen = family === 4 || family === 6;
  const wanted = addresses.filter((each) => !isChosen || each.family === family);
  const [first] = wanted;
  if (all === true || first === undefined) callback(null, wanted);
  else callback(null, first.address, first.family);
}
