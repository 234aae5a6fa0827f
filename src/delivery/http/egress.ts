import type { LookupAddress } from 'node:dns';
import type { LookupFunction } from 'node:net';
import { isPublicAddress, isWithin, parseAddress, parseNetworks } from '../../core/address.ts';

/** Which addresses webhooks may be sent to (docs/http-api.md#egress-rules). */
export interface EgressRule {
  /**
   * Returns the address as an error message shows it when it is blocked; `undefined` when it is
   * allowed. A text that is no address is blocked.
   */
  blocked(address: string): string | undefined;
}

export interface EgressOptions {
  /** Addresses and CIDR blocks that are not blocked (LEAT_EGRESS_ALLOW). */
  readonly allow: readonly string[];
  /** The same for addresses that are blocked although they are public (LEAT_EGRESS_DENY). */
  readonly deny?: readonly string[];
}

/**
 * Creates the rule: every address that is not public, or that the operator denies, is blocked unless
 * the operator allows it. Throws on a text that is not an address or a CIDR block.
 */
export function createEgressRule({ allow, deny = [] }: EgressOptions): EgressRule {
  const allowed = parseNetworks(allow);
  const denied = parseNetworks(deny);
  return {
    blocked: (address) => {
      const isInside = !isPublicAddress(address) || isWithin(address, denied);
      if (!isInside || isWithin(address, allowed)) return undefined;
      return parseAddress(address) === undefined ? 'not an address' : address;
    },
  };
}

/** A connection was not made, or not used, because its address is blocked. */
export class BlockedAddress extends Error {
  readonly code = 'blocked_address';
  override readonly name = 'BlockedAddress';
  /**
   * As an error message shows it; absent for an address that a name has. A tenant reads the message, and must not
   * learn the addresses of names in the network of the operator.
   */
  readonly address: string | undefined;

  constructor(address?: string) {
    super(address === undefined ? 'blocked address' : `blocked address: ${address}`);
    this.address = address;
  }
}

/** A name has no address, or no name server responded. */
export class LookupFailed extends Error {
  override readonly name = 'LookupFailed';
  /** The code of getaddrinfo or of the resolver. */
  readonly code: string;

  constructor(code: string) {
    super(`lookup failed: ${code}`);
    this.code = code;
  }
}

/** Receives a name that a connection was not made to, and a blocked address of it. For the operator alone. */
export type BlockedFound = (name: string, address: string) => void;

/**
 * Returns a lookup for `net.connect` that yields allowed addresses only and fails when none is
 * left; `found` receives one of the others then. The connection is made to one of these addresses, so a name cannot change between the check
 * and the connection.
 */
export function guardLookup(
  lookup: LookupFunction,
  egress: EgressRule,
  found?: BlockedFound,
): LookupFunction {
  return (hostname, options, callback) =>
    lookup(hostname, options, (error, addresses, family) => {
      const blocked = (address: string): BlockedAddress => {
        found?.(hostname, address);
        return new BlockedAddress();
      };
      const allowed =
        error === null ? allowedOf(addresses, egress, blocked) : new LookupFailed(error.code ?? '');
      if (allowed instanceof Error) callback(allowed, []);
      else callback(null, allowed, family);
    });
}

function allowedOf(
  found: string | LookupAddress[],
  egress: EgressRule,
  blockedAt: (address: string) => BlockedAddress,
): string | LookupAddress[] | BlockedAddress | LookupFailed {
  const all = typeof found === 'string' ? [found] : found.map(({ address }) => address);
  const blocked = new Map(all.map((address) => [address, egress.blocked(address)]));
  const isAllowed = (address: string): boolean => blocked.get(address) === undefined;
  const [first] = all;
  if (first === undefined) return new LookupFailed('ENOTFOUND');
  if (!all.some(isAllowed)) return blockedAt(blocked.get(first) ?? first);
  return typeof found === 'string' ? found : found.filter(({ address }) => isAllowed(address));
}
