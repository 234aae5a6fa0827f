import { connectionsPerAddress, keepAlive, type Setting } from '../core/setting.ts';
import { wholeNumber } from '../core/value.ts';
import { KIB, MIB } from '../core/units.ts';

/** Quotas of tenants, clients and addresses. */
export const quotaSettings = {
  maxStreams: {
    variable: 'LEAT_MAX_STREAMS',
    parse: wholeNumber(1, 1_000_000),
    fallback: '10000',
    doc: 'streams, per tenant',
  },
  sseMaxConnections: {
    variable: 'LEAT_SSE_MAX_CONNECTIONS',
    parse: wholeNumber(1, 100_000),
    fallback: '100',
    doc: 'open pulls per tenant on each node; one client has half of them',
  },
  maxConnectionsPerAddress: connectionsPerAddress,
  keepAliveSeconds: keepAlive,
  rateLimitBurst: {
    variable: 'LEAT_RATE_LIMIT_BURST',
    parse: wholeNumber(1, 10_000_000),
    fallback: '100',
    doc: 'burst of management requests, per client',
  },
  rateLimitPerSecond: {
    variable: 'LEAT_RATE_LIMIT_PER_SECOND',
    parse: wholeNumber(1, 10_000_000),
    fallback: '50',
    doc: 'management requests per second, per client',
  },
  tenantRateBurst: {
    variable: 'LEAT_TENANT_RATE_BURST',
    parse: wholeNumber(1, 10_000_000),
    fallback: '1000',
    doc: 'burst of management requests, all clients of a tenant together; publishing does not count',
  },
  tenantRatePerSecond: {
    variable: 'LEAT_TENANT_RATE_PER_SECOND',
    parse: wholeNumber(1, 10_000_000),
    fallback: '500',
    doc: 'management requests per second, all clients of a tenant together; publishing does not count',
  },
  publishLimitPerSecond: {
    variable: 'LEAT_PUBLISH_LIMIT_PER_SECOND',
    parse: wholeNumber(1, 1_000_000_000),
    fallback: '100000',
    doc: 'published events per second, per tenant',
  },
  publishLimitBytesPerSecond: {
    variable: 'LEAT_PUBLISH_LIMIT_BYTES_PER_SECOND',
    parse: wholeNumber(1, 1_000_000_000_000),
    fallback: '67108864',
    doc: 'bytes of published bodies per second, per tenant on each node',
  },
} as const satisfies Record<string, Setting>;

/** The management API and the token endpoint. */
export const apiLimits = {
  bodyBytesMax: MIB,
  publishBodyBytesMax: 4 * MIB,
  testEventBodyBytesMax: 256 * KIB,
  tokenBodyBytesMax: 64 * KIB,
  /** Request bodies of a node that are being received or wait to be processed. */
  bodiesBytesMax: 256 * MIB,
  /** One published event as JSON. */
  eventBytesMax: 256 * KIB,
  /** Default of `take`. */
  pageItems: 50,
  /** One page of a list: a page by key ends early, a page by number is rejected. */
  pageBytesMax: 8 * MIB,
  /** Response bytes that one client has not read; above it the connection is closed. */
  unreadBytesMax: 16 * MIB,
  /** The same for all clients of a node. */
  unreadOfAllBytesMax: 256 * MIB,
  /** Failures in a list without paging. */
  failuresListedMax: 100,
  /** Users of larger tenants are sorted by indexed fields only; others take some 20 ms on SQLite. */
  sortedUsersMax: 5000,
  sortedBytesMax: 4 * MIB,
  /** How long states of streams are kept: about as often 10,000 of them are read, in some 10 ms. */
  recentMs: 3_000,
  /** How long what pages show is kept: together with its states it is up to 5 s old. */
  pagesMs: 2_000,
  /** Pages in memory, of all tenants. */
  pagesMax: 100,
  /** Who reads a page now and then does not wait for it. */
  watchedMs: 60_000,
  /** A page takes some 10 ms every 1.6 s: together 1 to 2 % of a core. */
  watchedPagesMax: 2,
  /** Streams whose states are in memory, some 300 bytes each. */
  recentStreamsMax: 200_000,
  /** Hosts of endpoints in memory, some 100 bytes each. */
  endpointHostsMax: 200_000,
  /** Rate limit buckets in memory; the fullest are dropped first. */
  rateBucketsMax: 100_000,
  /** Grace period for requests in progress when the service stops. */
  closingMs: 5_000,
} as const;
