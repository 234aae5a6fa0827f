import type { Setting } from '../core/setting.ts';
import { cidr, flag, list, serverAddress } from '../core/value.ts';
import { dayMs, KIB, MIB } from '../core/units.ts';

/** Which addresses and name servers the service may use. */
export const networkSettings = {
  egressAllow: {
    variable: 'LEAT_EGRESS_ALLOW',
    parse: list(cidr, 1000),
    fallback: '',
    example: '10.20.0.0/16,127.0.0.1',
    doc: 'blocked addresses that webhooks may be sent to nevertheless, comma separated',
  },
  egressDeny: {
    variable: 'LEAT_EGRESS_DENY',
    parse: list(cidr, 1000),
    fallback: '',
    example: '2001:db8:7::/48',
    doc: 'public addresses of your own network, which webhooks may not be sent to, comma separated',
  },
  dnsServers: {
    variable: 'LEAT_DNS_SERVERS',
    parse: list(serverAddress, 3),
    fallback: '',
    example: '10.0.0.53,10.0.0.54:5353',
    doc: 'DNS servers to query, comma separated; by default those of the system',
  },
  allowHttpEndpoints: {
    variable: 'LEAT_ALLOW_HTTP_ENDPOINTS',
    parse: flag,
    fallback: 'false',
    example: 'true',
    doc: 'whether webhook endpoints may be http://',
  },
} as const satisfies Record<string, Setting>;

/** Reading the response of a webhook endpoint. */
export const responseLimits = {
  /** Read at most; then the connection is dropped and the status decides. */
  bodyBytesMax: 64 * KIB,
  /** Stored as text for the error message. */
  textBytesMax: 2 * KIB,
} as const;

/** The access tokens of a node, of destinations with `oauth2_client_credentials`. */
export const tokenLimits = {
  /** One fetch, from the start of its name lookup to the end of the response. */
  timeoutMs: 10_000,
  bodyBytesMax: 64 * KIB,
  /** Fetches under way: of one endpoint for a tenant, for a tenant, and in total. */
  perEndpoint: 8,
  perTenant: 32,
  total: 256,
  /** A token is replaced this long before it expires, or after three quarters of its life. */
  refreshMs: 60_000,
  /** How long a failure is used instead of another fetch. */
  failureKeptMs: 1000,
  /** From one fetch because of a 401 to the next. */
  replaceMs: 60_000,
  /** Tokens of one client that are searched for in texts of receivers, the former ones included. */
  rememberedTokens: 3,
  /** Of all tokens and what they belong to. */
  charactersMax: 16 * MIB,
} as const;

/** One name lookup. */
export const resolverLimits = {
  /** Addresses of each family that are used of one response. */
  addressesMax: 8,
} as const;

/** The name lookups of a node. */
export const nameLimits = {
  /**
   * Classes of names by how long their lookups take, with the lookups that may be in progress: on
   * the node, and for one tenant or the service itself. Each number includes the slower classes.
   */
  classes: [
    { belowMs: 50, atOnce: 64, atOncePerOwner: 8 },
    { belowMs: 200, atOnce: 56, atOncePerOwner: 7 },
    { belowMs: 400, atOnce: 48, atOncePerOwner: 6 },
    // All names are here when the first DNS server is down: the next one is queried after 700 ms.
    { belowMs: 1000, atOnce: 32, atOncePerOwner: 4 },
    { belowMs: Infinity, atOnce: 16, atOncePerOwner: 2 },
  ],
  /** Index of the class of a name without a measured lookup. */
  unknownClass: 1,
  /** Timeout of a lookup of the slowest class. */
  timeoutMs: 5000,
  /** How long addresses and failures are cached. */
  keptMs: 5000,
  failureKeptMs: 1000,
  /**
   * Cached addresses up to this age are used while a refresh runs or fails. Less than the shortest life of a
   * connection by default, so that one that replaces an older one connects to addresses of a new lookup.
   */
  usableMs: 50_000,
  /** Cached names, some 300 bytes each. */
  namesMax: 50_000,
} as const;

/** The inspectors of streams, which are receivers in memory; `delivery/http/inspector.ts`. */
export const inspectorLimits = {
  requestsMax: 50,
  bytesMax: MIB,
  keptMs: dayMs,
  totalBytesMax: 64 * MIB,
  perSecond: 10,
  waitMaxMs: 5000,
  expireEveryMs: 10 * 60_000,
  bucketsMax: 10_000,
} as const;
