import type { Clock, Millis } from '../core/clock.ts';
import { addressKey, createBuckets, type RateState } from '../core/rate.ts';
import type { ApiSettings } from './settings.ts';

/** The buckets of contract section 3.2, counted by this node. */
export interface RateLimiter {
  /** For a request with a verified token; `bucket` names its client. */
  takeOfClient(tenant: number, bucket: string): RateState;
  /** For every other request, and for tokens asked for. */
  takeOfAddress(address: string): RateState;
  /** For publishing: admitted while the tenant has anything left. */
  takeOfTenant(tenant: number): RateState;
  /** Takes the further events of an admitted publish off. */
  spendOfTenant(tenant: number, events: number): RateState;
}

export interface RateLimiterDeps {
  readonly clock: Pick<Clock, 'elapsedMs'>;
  readonly settings: Pick<
    ApiSettings,
    'rateLimitBurst' | 'rateLimitPerSecond' | 'publishLimitPerSecond' | 'limits'
  >;
}

/** Creates the limiter; every bucket is full. */
export function createRateLimiter({ clock, settings }: RateLimiterDeps): RateLimiter {
  const { rateLimitBurst: capacity, rateLimitPerSecond: perSecond } = settings;
  const { rateBucketsMax } = settings.limits;
  const clients = createBuckets({ capacity, perSecond }, rateBucketsMax);
  const addresses = createBuckets({ capacity, perSecond }, rateBucketsMax);
  const events = settings.publishLimitPerSecond;
  const rule = { capacity: events, perSecond: events, overdraft: true };
  const tenants = createBuckets(rule, rateBucketsMax);
  return {
    takeOfClient: (tenant, bucket) => clients.take(`${tenant}/${bucket}`, clock.elapsedMs()),
    takeOfAddress: (address) => addresses.take(addressKey(address), clock.elapsedMs()),
    takeOfTenant: (tenant) => tenants.take(String(tenant), clock.elapsedMs()),
    spendOfTenant: (tenant, count) => tenants.spend(String(tenant), count, clock.elapsedMs()),
  };
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
