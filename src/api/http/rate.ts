import type { Clock, Millis } from '../../core/clock.ts';
import { addressKey, type Buckets, createBuckets, type RateState } from '../../core/rate.ts';
import type { ApiSettings } from '../settings.ts';

/** The buckets of docs/http-api.md#rate-limit-buckets, counted by this node. */
export interface RateLimiter {
  /**
   * For a request with a verified token; `bucket` names its client. It is admitted by the bucket of
   * the client and by that of all clients of the tenant; the state is that of the emptier one.
   */
  takeOfClient(tenant: number, bucket: string): RateState;
  /** For every other request, and for tokens asked for. */
  takeOfAddress(address: string): RateState;
  /** For publishing: admitted while the tenant has anything left. */
  takeOfTenant(tenant: number): RateState;
  /** Takes the further events of an admitted publish off. */
  spendOfTenant(tenant: number, events: number): RateState;
  /** For a body to publish, before it is read: admitted while the tenant has any byte left. */
  takeBytes(tenant: number, bytes: number): RateState;
  /** Takes further bytes of an admitted body off. */
  spendBytes(tenant: number, bytes: number): void;
}

export interface RateLimiterDeps {
  readonly clock: Pick<Clock, 'elapsedMs'>;
  readonly settings: Pick<
    ApiSettings,
    | 'rateLimitBurst'
    | 'rateLimitPerSecond'
    | 'tenantRateBurst'
    | 'tenantRatePerSecond'
    | 'publishLimitPerSecond'
    | 'publishLimitBytesPerSecond'
    | 'limits'
  >;
}

/** Creates the limiter; every bucket is full. */
export function createRateLimiter({ clock, settings }: RateLimiterDeps): RateLimiter {
  const { rateBucketsMax } = settings.limits;
  const bucketsOf = (capacity: number, perSecond: number): Buckets =>
    createBuckets({ capacity, perSecond }, rateBucketsMax);
  /** One second's worth, of which one request may take off more than there is. */
  const overdrawnOf = (perSecond: number): Buckets =>
    createBuckets({ capacity: perSecond, perSecond, overdraft: true }, rateBucketsMax);

  const clients = bucketsOf(settings.rateLimitBurst, settings.rateLimitPerSecond);
  const addresses = bucketsOf(settings.rateLimitBurst, settings.rateLimitPerSecond);
  const tenants = bucketsOf(settings.tenantRateBurst, settings.tenantRatePerSecond);
  const events = overdrawnOf(settings.publishLimitPerSecond);
  const bytes = overdrawnOf(settings.publishLimitBytesPerSecond);
  return {
    takeOfClient: (tenant, bucket) => {
      const elapsedMs = clock.elapsedMs();
      // A client that is refused takes nothing from the others of its tenant, nor they from it.
      const ofTenant = tenants.peek(String(tenant), elapsedMs);
      if (!ofTenant.admitted) return ofTenant;
      const ofClient = clients.take(`${tenant}/${bucket}`, elapsedMs);
      if (!ofClient.admitted) return ofClient;
      return emptier(ofClient, tenants.take(String(tenant), elapsedMs));
    },
    takeOfAddress: (address) => addresses.take(addressKey(address), clock.elapsedMs()),
    takeOfTenant: (tenant) => events.take(String(tenant), clock.elapsedMs()),
    spendOfTenant: (tenant, count) => events.spend(String(tenant), count, clock.elapsedMs()),
    takeBytes: (tenant, count) => bytes.take(String(tenant), clock.elapsedMs(), count),
    spendBytes: (tenant, count) => void bytes.spend(String(tenant), count, clock.elapsedMs()),
  };
}

function emptier(one: RateState, other: RateState): RateState {
  return other.remaining < one.remaining ? other : one;
}

/** The three headers that every answer carries. */
export function rateHeaders(state: RateState, now: Millis): Record<string, string> {
  return {
    'x-ratelimit-limit': String(state.limit),
    'x-ratelimit-remaining': String(state.remaining),
    'x-ratelimit-reset': String(Math.ceil((now + state.fullInMs) / 1000)),
  };
}

/** Whole seconds until a refused request may be repeated, at least 1. */
export function retryAfterSeconds(state: RateState): number {
  return Math.max(1, Math.ceil(state.openInMs / 1000));
}
