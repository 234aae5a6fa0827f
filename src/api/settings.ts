import type { RetryOption } from '../core/types.ts';

/** The settings that the management API uses. */
export interface ApiSettings {
  /** LEAT_SERVICE_NAME: source of events, user id provider, metric names. */
  readonly serviceName: string;
  /** LEAT_ATTRIBUTE_PREFIX: prefix of the attributes that Leat adds to the envelope. */
  readonly attributePrefix: string;
  /** Returns whether the issuer and the links of a tenant domain begin with `http://`. */
  plainHttp(domain: string): boolean;
  /** LEAT_TRUST_PROXY: addresses and ranges whose `X-Forwarded-*` headers are trusted. */
  readonly trustProxy: readonly string[];
  /** LEAT_MAX_CONNECTIONS_PER_ADDRESS; behind trusted proxies, concurrent requests of one client. */
  readonly maxConnectionsPerAddress: number;
  /** LEAT_KEEP_ALIVE_SECONDS: how long idle connections stay open. */
  readonly keepAliveSeconds: number;
  /** LEAT_UNKNOWN_HOST: what becomes of requests for a host that is the domain of no tenant. */
  readonly unknownHost: 'first' | 'refuse';
  /** LEAT_MANAGEMENT_TOKEN_SECONDS: lifetime of tokens for the management API. */
  readonly managementTokenSeconds: number;
  /** LEAT_TRUSTED_ISSUERS. */
  readonly trustedIssuers: readonly string[];
  /** LEAT_ALLOW_HTTP_ENDPOINTS. */
  readonly allowHttpEndpoints: boolean;
  /** Returns the address to report if a URL's host is a literal address that is blocked for webhooks. */
  blockedLiteral(hostname: string): string | undefined;
  /** LEAT_MAX_STREAMS, per tenant. */
  readonly maxStreams: number;
  /** LEAT_STREAM_CONCURRENCY: attempts at once of one stream. */
  readonly streamConcurrency: number;
  /** LEAT_RETRY: the schedule of streams without one of their own. */
  readonly retry?: RetryOption | undefined;
  /** LEAT_ATTEMPT_TIMEOUT_MS. */
  readonly attemptTimeoutMs: number;
  /** How much longer the lease of an attempt lasts than its timeout. */
  readonly leaseGraceMs: number;
  /** LEAT_ATTEMPT_RETENTION_DAYS. */
  readonly attemptRetentionDays: number;
  /** LEAT_DISABLE_CONSECUTIVE: consecutive failures at which a stream is disabled. */
  readonly disableConsecutive: number;
  /** LEAT_DISABLE_TOTAL: number of open failures at which a stream cannot be enabled. */
  readonly disableTotal: number;
  /** LEAT_RATE_LIMIT_BURST and LEAT_RATE_LIMIT_PER_SECOND, per client and per remote address. */
  readonly rateLimitBurst: number;
  readonly rateLimitPerSecond: number;
  /** LEAT_TENANT_RATE_BURST and LEAT_TENANT_RATE_PER_SECOND, for all clients of a tenant together. */
  readonly tenantRateBurst: number;
  readonly tenantRatePerSecond: number;
  /** LEAT_PUBLISH_LIMIT_PER_SECOND, events per tenant. */
  readonly publishLimitPerSecond: number;
  /** LEAT_PUBLISH_LIMIT_BYTES_PER_SECOND, bytes of request bodies per tenant. */
  readonly publishLimitBytesPerSecond: number;
  readonly limits: ApiLimits;
}

/** Limits that cannot be configured. */
export interface ApiLimits {
  readonly bodyBytesMax: number;
  readonly publishBodyBytesMax: number;
  readonly testEventBodyBytesMax: number;
  readonly tokenBodyBytesMax: number;
  /** Memory of a node for request bodies that arrive or wait, shared by tenants. */
  readonly bodiesBytesMax: number;
  /** One published event as JSON. */
  readonly eventBytesMax: number;
  /** Default of `take`. */
  readonly pageItems: number;
  /** A page of a list, unless a single stored item is larger. */
  readonly pageBytesMax: number;
  /** Bytes of responses buffered for one client; above it the connection is closed. */
  readonly unreadBytesMax: number;
  /** Memory of a node for buffered responses, shared by tenants. */
  readonly unreadOfAllBytesMax: number;
  /** Items of the bare list of failures. */
  readonly failuresListedMax: number;
  /** Users of a tenant, and bytes of their profiles, up to which the list sorts without an index. */
  readonly sortedUsersMax: number;
  readonly sortedBytesMax: number;
  /** How long states of streams, which lists are sorted by, are kept and shared by requests. */
  readonly recentMs: number;
  /** How long pages that were made of them are kept and shared by requests. */
  readonly pagesMs: number;
  readonly pagesMax: number;
  /** How long states and pages are read again, ahead of requests, after the last request for them. */
  readonly watchedMs: number;
  /** Pages of a kind for which that is done. */
  readonly watchedPagesMax: number;
  /** Streams whose states a node keeps. */
  readonly recentStreamsMax: number;
  /** Hosts of endpoints that a node keeps to search in. */
  readonly endpointHostsMax: number;
  /** Rate buckets in memory, for clients and for remote addresses each. */
  readonly rateBucketsMax: number;
  /** Grace period for requests in progress when the service stops. */
  readonly closingMs: number;
}
