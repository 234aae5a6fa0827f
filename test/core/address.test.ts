import assert from 'node:assert/strict';
import { BlockList, isIP } from 'node:net';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import {
  isPublicAddress,
  isPeerWithin,
  isWithin,
  literalAddress,
  parseAddress,
  parseNetwork,
} from '../../src/core/address.ts';

/** Every range that is not public, with its first and last address. */
const notPublic: readonly (readonly [name: string, ...addresses: string[]])[] = [
  ['unspecified and this network', '0.0.0.0', '0.0.0.1', '0.255.255.255'],
  ['private 10/8', '10.0.0.0', '10.255.255.255'],
  ['carrier-grade NAT', '100.64.0.0', '100.100.100.200', '100.127.255.255'],
  ['loopback', '127.0.0.0', '127.0.0.1', '127.255.255.255'],
  ['link-local and metadata', '169.254.0.0', '169.254.169.254', '169.254.255.255'],
  ['Azure metadata', '168.63.129.16'],
  ['private 172.16/12', '172.16.0.0', '172.31.255.255'],
  ['IETF protocol assignments', '192.0.0.0', '192.0.0.192', '192.0.0.255'],
  ['documentation 1', '192.0.2.0', '192.0.2.255'],
  ['6to4 relays', '192.88.99.0', '192.88.99.255'],
  ['private 192.168/16', '192.168.0.0', '192.168.255.255'],
  ['benchmarking', '198.18.0.0', '198.19.255.255'],
  ['documentation 2', '198.51.100.0', '198.51.100.255'],
  ['documentation 3', '203.0.113.0', '203.0.113.255'],
  ['multicast', '224.0.0.0', '239.255.255.255'],
  ['reserved and broadcast', '240.0.0.0', '255.255.255.254', '255.255.255.255'],
  ['IPv6 unspecified and loopback', '::', '::1', '0:0:0:0:0:0:0:1'],
  ['IPv4-compatible', '::127.0.0.1', '::8.8.8.8', '::a00:1'],
  ['IPv4-mapped', '::ffff:127.0.0.1', '::ffff:7f00:1', '::FFFF:10.0.0.1', '0:0:0:0:0:ffff:a00:1'],
  ['IPv4-translated', '::ffff:0:127.0.0.1', '::ffff:0:8.8.8.8'],
  ['NAT64', '64:ff9b::127.0.0.1', '64:ff9b::a9fe:a9fe', '64:ff9b::10.0.0.1'],
  ['NAT64 beyond the well-known prefix', '64:ff9b:0:0:1::8.8.8.8'],
  ['NAT64 of local use', '64:ff9b:1::', '64:ff9b:1::8.8.8.8', '64:ff9b:1:ffff:ffff:ffff:ffff:ffff'],
  ['discard-only', '100::', '100::ffff:ffff:ffff:ffff'],
  ['6to4 of a private address', '2002:7f00:1::', '2002:a00:1::1', '2002:c0a8:1:2::3'],
  ['Teredo', '2001::', '2001:0:4136:e378:8000:63bf:3fff:fdd2'],
  ['IETF protocol assignments of IPv6', '2001:2::1', '2001:10::1', '2001:1ff:ffff::1'],
  ['IPv6 documentation', '2001:db8::', '2001:db8:ffff::1', '3fff::1', '3fff:fff::1'],
  ['segment routing', '5f00::1'],
  ['not allocated', '4000::1', '8000::1', 'e000::1'],
  ['unique local and AWS metadata', 'fc00::', 'fd00:ec2::254', 'fdff:ffff::1'],
  ['link-local of IPv6', 'fe80::', 'fe80::1', 'febf::1', 'fe80::1%eth0', 'fe80::1%1'],
  ['site-local', 'fec0::1', 'feff::1'],
  ['multicast of IPv6', 'ff00::', 'ff02::1', 'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'],
  ['with a zone', '::1%lo', '::ffff:127.0.0.1%eth0'],
];

const isPublic = [
  ['1.0.0.0', '8.8.8.8', '9.255.255.255', '11.0.0.0', '100.63.255.255', '100.128.0.0'],
  ['126.255.255.255', '128.0.0.0', '168.63.129.15', '168.63.129.17', '169.253.255.255'],
  ['169.255.0.0', '172.15.255.255', '172.32.0.0', '191.255.255.255', '192.0.1.0', '192.0.3.0'],
  ['192.88.98.255', '192.88.100.0', '192.167.255.255', '192.169.0.0', '198.17.255.255'],
  ['198.20.0.0', '198.51.99.255', '198.51.101.0', '203.0.112.255', '203.0.114.0'],
  ['223.255.255.255', '2000::', '2001:200::', '2001:4860:4860::8888', '2001:db7:ffff::1'],
  ['2001:db9::', '2003::1', '2606:4700::1111', '3ffe:ffff::1', '3fff:1000::1'],
  ['::ffff:8.8.8.8', '64:ff9b::8.8.8.8', '2002:808:808::1'],
].flat();

/** Forms of 127.0.0.1 and others that some resolvers accept; none is an address here. */
const noAddress = [
  ['', ' ', 'localhost', 'example.com', '127.1', '127.0.1', '2130706433', '0x7f000001'],
  ['0177.0.0.1', '0x7f.0.0.1', '127.0.0.01', '127.0.0.1.', '127.0.0.1 ', ' 127.0.0.1', '1.2.3'],
  ['256.0.0.1', '1.2.3.4.5', '1.2.3.-4', '1e0.0.0.1', '١٢٧.0.0.1', '1.2.3.4%eth0', '1.2.3.4/8'],
  [':', ':::', '1:', ':1', '1::2::3', '1:2:3:4:5:6:7', '1:2:3:4:5:6:7:8:9', '12345::', 'g::'],
  ['1:2:3:4:5:6:7:8::', '::1%', '::1%a%b', '[::1]', '1.2.3.4::', '::1.2.3.4:5', '::1.2.3'],
  ['1:2:3:4:5:6:7:1.2.3.4', '::ffff:127.0.0.256', '-1::', '+1::', '0x1::'],
].flat();

describe('isPublicAddress: false', () => {
  for (const [name, ...addresses] of notPublic) {
    for (const address of addresses) {
      test(`${name}: ${address}`, () => assert.equal(isPublicAddress(address), false));
    }
  }
  for (const address of noAddress) {
    test(`not an address: ${JSON.stringify(address)}`, () => {
      assert.equal(parseAddress(address), undefined);
      assert.equal(isPublicAddress(address), false);
    });
  }
});

describe('isPublicAddress: true', () => {
  for (const address of isPublic) {
    test(address, () => assert.equal(isPublicAddress(address), true));
  }
});

describe('parseAddress', () => {
  const ipv6Text = fc.oneof(
    fc.ipV6(),
    fc.ipV6().map((text) => text.toUpperCase()),
    fc.string({ unit: fc.constantFrom(...'0123456789abcdfF:.'.split('')), maxLength: 40 }),
    fc
      .array(fc.constantFrom('0', '1', 'ffff', '', '7f00', '1.2.3.4'), { maxLength: 9 })
      .map((parts) => parts.join(':')),
  );

  test('parseAddress: accepts the same texts as node:net', () => {
    fc.assert(
      fc.property(fc.oneof(fc.ipV4(), fc.ipV4Extended(), ipv6Text), (text) => {
        assert.equal((parseAddress(text)?.length ?? 0) / 4, { 0: 0, 4: 1, 6: 4 }[isIP(text)]);
      }),
      { numRuns: 3000 },
    );
  });

  test('parseAddress: never throws', { tags: ['long'] }, () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        assert.equal(isPublicAddress(text) && parseAddress(text) === undefined, false);
      }),
    );
  });
});

describe('networks', () => {
  test('isWithin: agrees with BlockList of node:net', () => {
    const sample = fc.oneof(
      fc.record({ address: fc.ipV4(), other: fc.ipV4(), bits: fc.integer({ min: 0, max: 32 }) }),
      fc.record({ address: fc.ipV6(), other: fc.ipV6(), bits: fc.integer({ min: 0, max: 128 }) }),
    );
    fc.assert(
      fc.property(sample, fc.boolean(), ({ address, other, bits }, same) => {
        // Unlike BlockList, isWithin also checks embedded IPv4 addresses.
        fc.pre(!/^(::ffff:|64:ff9b:|2002:)/i.test(address) && !address.startsWith('::'));
        const list = new BlockList();
        const family = isIP(address) === 4 ? 'ipv4' : 'ipv6';
        list.addSubnet(address, bits, family);
        const network = parseNetwork(`${address}/${bits}`);
        assert.ok(network);
        const candidate = same ? address : other;
        fc.pre(!/^(::ffff:|64:ff9b:|2002:)/i.test(candidate));
        assert.equal(isWithin(candidate, [network]), list.check(candidate, family));
        assert.equal(isPeerWithin(candidate, [network]), list.check(candidate, family));
      }),
      { numRuns: 1000 },
    );
  });

  const within: [address: string, network: string, expected: boolean][] = [
    ['127.0.0.1', '127.0.0.0/8', true],
    ['127.0.0.1', '127.0.0.1', true],
    ['127.0.0.2', '127.0.0.1', false],
    ['127.0.0.1', '0.0.0.0/0', true],
    ['::1', '0.0.0.0/0', false],
    ['127.0.0.1', '::/0', false],
    ['::1', '::1', true],
    ['10.1.2.3', '10.255.255.255/8', true],
    ['::ffff:127.0.0.1', '127.0.0.0/8', true],
    ['64:ff9b::127.0.0.1', '127.0.0.0/8', true],
    ['2002:7f00:1::', '127.0.0.0/8', true],
    ['127.0.0.1', '::ffff:127.0.0.0/104', true],
    ['128.0.0.1', '::ffff:127.0.0.0/104', false],
    ['127.0.0.1', '::ffff:127.0.0.1', true],
    ['fe80::1%eth0', 'fe80::/10', true],
    ['localhost', '0.0.0.0/0', false],
  ];
  for (const [address, network, expected] of within) {
    test(`isWithin: ${network} ${expected ? 'contains' : 'does not contain'} ${address}`, () => {
      const parsed = parseNetwork(network);
      assert.ok(parsed);
      assert.equal(isWithin(address, [parsed]), expected);
    });
  }

  const peers: [address: string, network: string, expected: boolean][] = [
    ['10.1.2.3', '10.0.0.0/8', true],
    ['::ffff:10.1.2.3', '10.0.0.0/8', true],
    ['::FFFF:10.1.2.3', '10.0.0.0/8', true],
    ['::ffff:10.1.2.3', '::ffff:10.0.0.0/104', true],
    ['fe80::1%eth0', 'fe80::/10', true],
    ['64:ff9b::10.1.2.3', '10.0.0.0/8', false],
    ['2002:a01:203::', '10.0.0.0/8', false],
    ['10.1.2.3', '::/0', true],
    ['10.1.2.3', '::ffff:0:0/90', true],
    ['10.1.2.3', 'fd00::/8', false],
    ['', '0.0.0.0/0', false],
  ];
  for (const [address, network, expected] of peers) {
    test(`isPeerWithin: ${network} ${expected ? 'has' : 'does not have'} the peer ${JSON.stringify(address)}`, () => {
      const parsed = parseNetwork(network);
      assert.ok(parsed);
      assert.equal(isPeerWithin(address, [parsed]), expected);
    });
  }

  const malformed = ['', '/', '/8', '10.0.0.0/', '10.0.0.0/33', '10.0.0.0/-1', '10.0.0.0/8/8'];
  for (const text of [
    ...malformed,
    '::/129',
    '10/8',
    '10.0.0.0/08',
    'fe80::1%eth0',
    '10.0.0.0/8 ',
    '10.0.0.0/1e1',
    'all',
  ]) {
    test(`parseNetwork: rejects ${JSON.stringify(text)}`, () =>
      assert.equal(parseNetwork(text), undefined));
  }
});

describe('literalAddress', () => {
  const literal: [host: string, address: string][] = [
    ['127.0.0.1', '127.0.0.1'],
    ['127.1', '127.0.0.1'],
    ['2130706433', '127.0.0.1'],
    ['017700000001', '127.0.0.1'],
    ['0x7f000001', '127.0.0.1'],
    ['0x7F.1', '127.0.0.1'],
    ['0177.0.0.01', '127.0.0.1'],
    ['127.0.0.1.', '127.0.0.1'],
    ['%31%32%37.0.0.1', '127.0.0.1'],
    ['１２７。０。０。１', '127.0.0.1'],
    ['①②⑦.0.0.1', '127.0.0.1'],
    ['0', '0.0.0.0'],
    ['[::1]', '::1'],
    ['[0:0::0:1]', '::1'],
    ['[::ffff:127.0.0.1]', '::ffff:7f00:1'],
    ['[::127.0.0.1]', '::7f00:1'],
    ['[64:ff9b::10.0.0.1]', '64:ff9b::a00:1'],
    ['[FE80::1]', 'fe80::1'],
  ];
  for (const [host, address] of literal) {
    test(`literalAddress: ${host} is the address ${address}`, () => {
      const { hostname } = new URL(`https://${host}:8443/hook`);
      assert.equal(literalAddress(hostname), address);
      assert.equal(isPublicAddress(address), false);
    });
  }

  for (const host of ['localhost', 'example.com', '127.0.0.1.example.com', '1.2.3.4.5.example']) {
    test(`literalAddress: ${host} is a name`, () => {
      assert.equal(literalAddress(new URL(`https://${host}/`).hostname), undefined);
    });
  }

  test('literalAddress: agrees with node:net for the host of any URL', () => {
    fc.assert(
      fc.property(fc.webAuthority({ withIPv4: true, withIPv6: true }), (authority) => {
        const { hostname } = new URL(`http://${authority}/`);
        const address = literalAddress(hostname);
        assert.equal(address === undefined, isIP(hostname.replaceAll(/^\[|\]$/g, '')) === 0);
      }),
      { numRuns: 500 },
    );
  });
});
