import { isPeerWithin, parseNetworks } from '../../core/address.ts';

/**
 * Creates the check whether an address belongs to a trusted proxy: LEAT_TRUST_PROXY, addresses and
 * CIDR ranges. An IPv4 range includes its addresses in IPv4-mapped form (`::ffff:10.0.0.1`); a zone
 * (`%eth0`) is ignored.
 */
export function createProxyCheck(ranges: readonly string[]): (address: string) => boolean {
  const networks = parseNetworks(ranges);
  return (address) => networks.length > 0 && isPeerWithin(address, networks);
}
