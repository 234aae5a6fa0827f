/** Rules for IP addresses in text form: which are public, which belong to a network. No DNS. */

/**
 * Returns whether an address in text form is a public unicast address. Loopback, private, link-local,
 * carrier-grade NAT, multicast, unspecified, documentation and reserved ranges are not (IANA IPv4
 * and IPv6 Special-Purpose Address Registries), nor are the metadata services of clouds. An IPv4
 * address inside IPv4-mapped, NAT64 or 6to4 form counts instead, because that is where the packets
 * go. A text that is not an address is not public.
 */
export function isPublicAddress(address: string): boolean {
  const bytes = parseAddress(address);
  if (bytes === undefined) return false;
  const ipv4 = bytes.length === 4 ? bytes : embeddedIpv4(bytes);
  if (ipv4 !== undefined) return !isInAny(ipv4, specialIpv4);
  return isIn(bytes, globalUnicast) && !isInAny(bytes, specialIpv6);
}

/**
 * Returns options of a connection to a name: how long an address is tried before the next one. Node gives
 * it up for good after 500 ms, and a SYN that is lost is sent again after a second (RFC 6298). Of less
 * time in all a quarter, so that further addresses have theirs.
 */
export function patientConnect(timeoutMs = Infinity) {
  return { autoSelectFamilyAttemptTimeout: Math.min(1500, Math.max(timeoutMs / 4, 500)) } as const;
}

/** Returns the address in a URL's `hostname`, without brackets; `undefined` for a name. */
export function literalAddress(hostname: string): string | undefined {
  const bare = /^\[(?<address>.*)\]$/.exec(hostname)?.groups?.['address'] ?? hostname;
  return parseAddress(bare) === undefined ? undefined : bare;
}

/** Returns whether an address is one of the machine itself, also in IPv4-mapped form. */
export function isLoopbackAddress(address: string): boolean {
  return isPeerWithin(address, loopback);
}

/** A block of addresses of one family. */
export interface Network {
  /** 4 for IPv4, 16 for IPv6; bits after the prefix are ignored. */
  readonly bytes: readonly number[];
  readonly prefixBits: number;
}

/**
 * Parses a CIDR block (`10.0.0.0/8`) or a single address; returns `undefined` for any other text. A
 * block of IPv4-mapped addresses becomes the block of those IPv4 addresses.
 */
export function parseNetwork(text: string): Network | undefined {
  const [address = '', length, ...more] = text.split('/');
  const bytes = address.includes('%') ? undefined : parseAddress(address);
  if (bytes === undefined || more.length > 0) return undefined;
  if (!/^(?:0|[1-9]\d{0,2})$/.test(length ?? '0')) return undefined;
  const prefixBits = length === undefined ? bytes.length * 8 : Number(length);
  if (prefixBits > bytes.length * 8) return undefined;
  const isMapped = prefixBits >= ipv4Mapped.prefixBits && isIn(bytes, ipv4Mapped);
  return isMapped
    ? { bytes: bytes.slice(12), prefixBits: prefixBits - ipv4Mapped.prefixBits }
    : { bytes, prefixBits };
}

/** Parses addresses and CIDR blocks by {@link parseNetwork}; throws on anything else. */
export function parseNetworks(texts: readonly string[]): Network[] {
  return texts.map((text) => {
    const network = parseNetwork(text);
    if (network === undefined) throw new TypeError(`${text} is not an address or a CIDR block`);
    return network;
  });
}

/**
 * Returns whether packets to an address go to one of the networks: that of the address itself or of an
 * IPv4 address in IPv4-mapped, NAT64 or 6to4 form.
 */
export function isWithin(address: string, networks: readonly Network[]): boolean {
  const bytes = parseAddress(address);
  if (bytes === undefined) return false;
  const ipv4 = embeddedIpv4(bytes);
  return isInAny(bytes, networks) || (ipv4 !== undefined && isInAny(ipv4, networks));
}

/**
 * Returns whether the address of a peer is in one of the networks. An IPv4 address and its
 * IPv4-mapped form are one peer: which of them a socket reports depends on the address that it
 * listens on. In NAT64 and 6to4 form anybody could claim to be an IPv4 address.
 */
export function isPeerWithin(address: string, networks: readonly Network[]): boolean {
  const bytes = parseAddress(address);
  if (bytes === undefined) return false;
  const other =
    bytes.length === 4 ? [...ipv4Mapped.bytes.slice(0, 12), ...bytes] : mappedIpv4(bytes);
  return isInAny(bytes, networks) || (other !== undefined && isInAny(other, networks));
}

/**
 * Returns the bytes of an IPv4 address of four decimal numbers, or of an IPv6 address (RFC 4291
 * section 2.2; a zone is dropped). Returns `undefined` for any other text, also for the short, octal
 * and hexadecimal forms of IPv4: a URL parser has already turned those into four numbers.
 */
export function parseAddress(text: string): readonly number[] | undefined {
  if (!text.includes(':')) return parseIpv4(text);
  const [address = '', zone, ...more] = text.split('%');
  if (more.length > 0 || zone === '') return undefined;
  const [head = '', tail, ...rest] = address.split('::');
  if (rest.length > 0) return undefined;
  const first = parseGroups(head, tail === undefined);
  if (tail === undefined) return first?.length === 16 ? first : undefined;
  const last = parseGroups(tail, true);
  if (first === undefined || last === undefined || first.length + last.length > 14)
    return undefined;
  const zeros = Array.from({ length: 16 - first.length - last.length }, () => 0);
  return [...first, ...zeros, ...last];
}

/** Parses groups of up to four hexadecimal digits; at the end the last one may be an IPv4 address. */
function parseGroups(text: string, isEnd: boolean): readonly number[] | undefined {
  if (text === '') return [];
  const groups = text.split(':');
  const ipv4 = isEnd ? parseIpv4(groups.at(-1) ?? '') : undefined;
  const hexadecimal = ipv4 === undefined ? groups : groups.slice(0, -1);
  if (!hexadecimal.every((group) => /^[0-9a-f]{1,4}$/i.test(group))) return undefined;
  const values = hexadecimal.map((group) => parseInt(group, 16));
  return [...values.flatMap((value) => [value >> 8, value & 0xff]), ...(ipv4 ?? [])];
}

function parseIpv4(text: string): readonly number[] | undefined {
  const parts = text.split('.');
  const isWritten = parts.length === 4 && parts.every((part) => /^(0|[1-9]\d{0,2})$/.test(part));
  const bytes = parts.map(Number);
  return isWritten && bytes.every((byte) => byte < 256) ? bytes : undefined;
}

function embeddedIpv4(bytes: readonly number[]): readonly number[] | undefined {
  if (isIn(bytes, nat64)) return bytes.slice(12);
  return isIn(bytes, sixToFour) ? bytes.slice(2, 6) : mappedIpv4(bytes);
}

function mappedIpv4(bytes: readonly number[]): readonly number[] | undefined {
  return isIn(bytes, ipv4Mapped) ? bytes.slice(12) : undefined;
}

function isInAny(bytes: readonly number[], networks: readonly Network[]): boolean {
  return networks.some((network) => isIn(bytes, network));
}

function isIn(bytes: readonly number[], network: Network): boolean {
  if (bytes.length !== network.bytes.length) return false;
  return bytes.every((byte, index) => {
    const bits = Math.min(Math.max(network.prefixBits - index * 8, 0), 8);
    return (byte ^ (network.bytes[index] ?? 0)) >> (8 - bits) === 0;
  });
}

function known(address: string, prefixBits: number): Network {
  return { bytes: parseAddress(address) ?? [], prefixBits };
}

const loopback = [known('127.0.0.0', 8), known('::1', 128)];
const ipv4Mapped = known('::ffff:0:0', 96);
/** The well-known prefix (RFC 6052). The local-use one, 64:ff9b:1::/48, is private as a whole. */
const nat64 = known('64:ff9b::', 96);
const sixToFour = known('2002::', 16);

/** The IPv6 addresses allocated so far; all others are rejected. */
const globalUnicast = known('2000::', 3);

const specialIpv6 = [
  // IETF protocol assignments: Teredo, benchmarking, ORCHID, anycast services.
  known('2001::', 23),
  known('2001:db8::', 32),
  known('3fff::', 20),
];

const specialIpv4 = [
  known('0.0.0.0', 8),
  known('10.0.0.0', 8),
  known('100.64.0.0', 10),
  known('127.0.0.0', 8),
  // Azure's metadata service has a public address.
  known('168.63.129.16', 32),
  known('169.254.0.0', 16),
  known('172.16.0.0', 12),
  known('192.0.0.0', 24),
  known('192.0.2.0', 24),
  known('192.88.99.0', 24),
  known('192.168.0.0', 16),
  known('198.18.0.0', 15),
  known('198.51.100.0', 24),
  known('203.0.113.0', 24),
  // Multicast, reserved, broadcast.
  known('224.0.0.0', 3),
];
