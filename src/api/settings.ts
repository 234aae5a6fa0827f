/** What the operator set, as far as the management API goes by it. */
export interface ApiSettings {
  /** LEAT_SERVICE_NAME: source of events, user id provider, metric names. */
  readonly serviceName: string;
  /** LEAT_ATTRIBUTE_PREFIX: of the envelope's own attributes. */
  readonly attributePrefix: string;
  /** Whether the issuer and the links of a tenant domain begin with `http://`. */
  plainHttp(domain: string): boolean;
  /** LEAT_TRUST_PROXY: addresses and ranges whose `X-Forwarded-*` headers are believed. */
  readonly trustProxy: readonly string[];
  /** LEAT_MAX_CONNECTIONS_PER_ADDRESS; through proxies, requests under way of one client. */
  readonly maxConnectionsPerAddress: number;
  /** LEAT_TRUSTED_ISSUERS. */
  readonly trustedIssuers: readonly string[];
  /** LEAT_ALLOW_HTTP_ENDPOINTS. */
  readonly allowHttpEndpoints: boolean;
  /** The address to name when a URL's host is a literal address that webhooks may not be sent to. */
  blockedLiteral(hostname: string): string | undefined;
  /** LEAT_MAX_STREAMS, per tenant. */
  readonly maxStreams: number;
  /** LEAT_DISABLE_TOTAL: open failures from which on a stream cannot be enabled. */
  readonly disableTotal: number;
  /** LEAT_RATE_LIMIT_BURST and LEAT_RATE_LIMIT_PER_SECOND, per client and per remote address. */
  readonly rateLimitBurst: number;
  readonly rateLimitPerSecond: number;
  /** LEAT_TENANT_RATE_BURST and LEAT_TENANT_RATE_PER_SECOND, of all clients of a tenant together. */
  readonly tenantRateBurst: number;
  readonly tenantRatePerSecond: number;
  /** LEAT_PUBLISH_LIMIT_PER_SECOND, events per tenant. */
  readonly publishLimitPerSecond: number;
  /** LEAT_PUBLISH_LIMIT_BYTES_PER_SECOND, bytes of request bodies per tenant. */
  readonly publishLimitBytesPerSecond: number;
  readonly limits: ApiLimits;
}

/** Bounds that are no settings. */
export interface ApiLimits {
  readonly bodyBytesMax: number;
  readonly publishBodyBytesMax: number;
  readonly testEventBodyBytesMax: number;
  readonly tokenBodyBytesMax: number;
  /** Bodies of a node that come, or wait: a tenant has at most as many bytes as it leaves to others. */
  readonly bodiesBytesMax: number;
  /** One published event as JSON. */
  readonly eventBytesMax: number;
  /** Events of one request. */
  readonly publishEventsMax: number;
  /** `take` when it is not sent, and the most it may be. */
  readonly pageItems: number;
  readonly pageItemsMax: number;
  /** A page of a list; one item is more only where it was stored as such. */
  readonly pageBytesMax: number;
  /** Bytes of answers that may wait for one client; above it the connection is closed. */
  readonly unreadBytesMax: number;
  /** Such bytes of a node: for a tenant at most as many wait as it leaves to others. */
  readonly unreadOfAllBytesMax: number;
  /** Failures of the bare list. */
  readonly failuresListedMax: number;
  /**
   * Users of a tenant, and bytes of their profiles, up to which they are sorted by a field that has no
   * index.
   */
  readonly sortedUsersMax: number;
  readonly sortedBytesMax: number;
  /** Rate buckets kept, of clients and of remote addresses each. */
  readonly rateBucketsMax: number;
}
