import { BlockList, isIP } from 'node:net';

/**
 * Creates the check whether an address belongs to a trusted proxy: LEAT_TRUST_PROXY, addresses and
 * CIDR ranges. An IPv4 range also covers its addresses as a dual-stack socket writes them
 * (`::ffff:10.0.0.1`); a zone (`%eth0`) is ignored.
 */
export function createProxyCheck(ranges: readonly string[]): (address: string) => boolean {
  if (ranges.length === 0) return () => false;
  const list = new BlockList();
  for (const range of ranges) {
    const [address = '', bits] = range.split('/');
    const family = isIP(address) === 6 ? 'ipv6' : 'ipv4';
    if (bits === undefined) list.addAddress(address, family);
    else list.addSubnet(address, Number(bits), family);
  }
  return (address) => {
    const plain = address.replace(/^::ffff:(?=[0-9.]+$)/i, '').replace(/%.*$/, '');
    const family = isIP(plain);
    return family !== 0 && list.check(plain, family === 6 ? 'ipv6' : 'ipv4');
  };
}
