import type { Clock, Millis } from '../../core/clock.ts';
import { addressKey, type Buckets, createBuckets, type RateState } from '../../core/rate.ts';
import type { ApiSettings } from '../settings.ts';
import type { HeaderSink } from './checked-request.ts';
import { tooManyRequests } from './problem.ts';

/** The rate limit buckets of this node (docs/http-api.md#rate-limit-buckets). */
export interface RateLimiter {
  /**
   * Takes one for a request with a verified token; `bucket` names its client. Both the bucket of the
   * client and that of the tenant must admit it; returns the state of the emptier one.
   */
  takeOfClient(tenant: number, bucket: string): RateState;
  /** Gives back what a 304 costs less than another response, to both buckets. */
  refundNotModified(tenant: number, bucket: string): RateState;
  /** Takes one for every other request, and for token requests. */
  takeOfAddress(address: string): RateState;
  /** Takes one for a readiness probe: rejected requests of its address must not make a node unready. */
  takeOfProbe(address: string): RateState;
  /** Takes one for the key set or a discovery document, which verifiers need to accept any token. */
  takeOfVerifier(address: string): RateState;
  /** Takes one for a secret of a console session that is not known to be valid: the store is asked. */
  takeOfSecret(address: string): RateState;
  /** Takes one for publishing; admitted while the tenant has anything left. */
  takeOfTenant(tenant: number): RateState;
  /** Takes the further events of an admitted publish. */
  spendOfTenant(tenant: number, events: number): RateState;
  /** Takes the bytes of a body to publish before it is read; admitted while any byte is left. */
  takeBytes(tenant: number, bytes: number): RateState;
  /** Takes further bytes of an admitted body. */
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
  /** Buckets of one second's worth; a request may take more than is left. */
  const overdrawnOf = (perSecond: number): Buckets =>
    createBuckets({ capacity: perSecond, perSecond, overdraft: true }, rateBucketsMax);

  const clients = bucketsOf(settings.rateLimitBurst, settings.rateLimitPerSecond);
  const ofAddresses = (): ((address: string) => RateState) => {
    const buckets = bucketsOf(settings.rateLimitBurst, settings.rateLimitPerSecond);
    return (address) => buckets.take(addressKey(address), clock.elapsedMs());
  };
  const tenants = bucketsOf(settings.tenantRateBurst, settings.tenantRatePerSecond);
  const events = overdrawnOf(settings.publishLimitPerSecond);
  const bytes = overdrawnOf(settings.publishLimitBytesPerSecond);
  return {
    takeOfClient: (tenant, bucket) => {
      const elapsedMs = clock.elapsedMs();
      // A rejected client takes nothing off its tenant's bucket, nor the other way round.
      const ofTenant = tenants.peek(String(tenant), elapsedMs);
      if (!ofTenant.admitted) return ofTenant;
      const ofClient = clients.take(`${tenant}/${bucket}`, elapsedMs);
      if (!ofClient.admitted) return ofClient;
      return emptier(ofClient, tenants.take(String(tenant), elapsedMs));
    },
    refundNotModified: (tenant, bucket) => {
      const elapsedMs = clock.elapsedMs();
      const tokens = notModifiedTokens - 1;
      return emptier(
        clients.spend(`${tenant}/${bucket}`, tokens, elapsedMs),
        tenants.spend(String(tenant), tokens, elapsedMs),
      );
    },
    takeOfAddress: ofAddresses(),
    takeOfProbe: ofAddresses(),
    takeOfVerifier: ofAddresses(),
    takeOfSecret: ofAddresses(),
    takeOfTenant: (tenant) => events.take(String(tenant), clock.elapsedMs()),
    spendOfTenant: (tenant, count) => events.spend(String(tenant), count, clock.elapsedMs()),
    takeBytes: (tenant, count) => bytes.take(String(tenant), clock.elapsedMs(), count),
    spendBytes: (tenant, count) => void bytes.spend(String(tenant), count, clock.elapsedMs()),
  };
}

/** What a 304 takes: pages that read again what has not changed leave room for other requests. */
const notModifiedTokens = 0.2;

function emptier(one: RateState, other: RateState): RateState {
  return other.remaining < one.remaining ? other : one;
}

/** Returns the three rate limit headers that every response has. */
export function rateHeaders(state: RateState, now: Millis): Record<string, string> {
  return {
    'x-ratelimit-limit': String(state.limit),
    'x-ratelimit-remaining': String(state.remaining),
    'x-ratelimit-reset': String(Math.ceil((now + state.fullInMs) / 1000)),
  };
}

/** Sets the rate limit headers of a response. Throws 429 unless the request is admitted. */
export function admitByRate(reply: HeaderSink, rate: RateState, now: Millis): void {
  reply.headers(rateHeaders(rate, now));
  if (!rate.admitted) throw tooManyRequests(retryAfterSeconds(rate));
}

/** Returns the whole seconds until a rejected request may be repeated, at least 1. */
export function retryAfterSeconds(state: RateState): number {
  return Math.max(1, Math.ceil(state.openInMs / 1000));
}
