import type { LookupFunction } from 'node:net';
import { isPublicAddress, isWithin, parseAddress, parseNetwork } from '../core/address.ts';

/** Which addresses webhooks may be sent to (contract section 7, Egress). */
export interface EgressRule {
  /**
   * The address as an error message shows it, when nothing may be sent there; `undefined` when it
   * may. What is no address is blocked.
   */
  blocked(address: string): string | undefined;
}

/**
 * Blocks every address that is not public, unless the operator allows it.
 *
 * @param allow addresses and CIDR blocks (LEAT_EGRESS_ALLOW); throws on anything else
 */
export function createEgressRule({ allow }: { readonly allow: readonly string[] }): EgressRule {
  const allowed = allow.map((text) => {
    const network = parseNetwork(text);
    if (network === undefined) throw new TypeError(`${text} is no address and no CIDR block`);
    return network;
  });
  return {
    blocked: (address) => {
      if (isPublicAddress(address) || isWithin(address, allowed)) return undefined;
      return parseAddress(address) === undefined ? 'not an address' : address;
    },
  };
}

/** A connection was not made, or not used, because of its address. */
export class BlockedAddress extends Error {
  readonly code = 'blocked_address';
  override readonly name = 'BlockedAddress';
  /** As an error message shows it. */
  readonly address: string;

  constructor(address: string) {
    super(`blocked address: ${address}`);
    this.address = address;
  }
}

/**
 * A look-up for `net.connect` that judges what it found. The connection is made to an address out
 * of this very answer, so that a name cannot change between the check and the connection. One
 * blocked address among several refuses the name: which of them is taken is not ours to foresee.
 *
 * Connections that ask for a name while it is being looked up share the answer: a slow name server
 * holds up one look-up for each name instead of one for each attempt.
 */
export function guardLookup(lookup: LookupFunction, egress: EgressRule): LookupFunction {
  const waiting = new Map<string, Waiting[]>();
  return (hostname, options, callback) => {
    const key = JSON.stringify([hostname, options]);
    const others = waiting.get(key);
    if (others !== undefined) {
      others.push(callback);
      return;
    }
    waiting.set(key, [callback]);
    lookup(hostname, options, (error, found, family) => {
      const all = waiting.get(key) ?? [];
      waiting.delete(key);
      const refusal = error ?? judge(typeof found === 'string' ? [found] : found, egress);
      for (const each of all) each(refusal, refusal === null ? found : [], family);
    });
  };
}

type Waiting = Parameters<LookupFunction>[2];

function judge(
  found: readonly (string | { readonly address: string })[],
  egress: EgressRule,
): NodeJS.ErrnoException | null {
  if (found.length === 0) return Object.assign(new Error('no address'), { code: 'ENOTFOUND' });
  for (const entry of found) {
    const blocked = egress.blocked(typeof entry === 'string' ? entry : entry.address);
    if (blocked !== undefined) return new BlockedAddress(blocked);
  }
  return null;
}
