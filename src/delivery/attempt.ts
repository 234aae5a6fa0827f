import type { Millis } from '../core/clock.ts';
import { deliveryBody } from '../core/envelope.ts';
import { classify, decide, type PostResult } from '../core/retry.ts';
import { decodeSecret, sign } from '../core/sign.ts';
import type { Authorization, DeliveredEvent, DeliveryKind, Offset, Stream } from '../core/types.ts';
import type { Outcome } from '../store/port/settlement.ts';
import type { DeliverySettings } from './settings.ts';
import type { PendingRequest, WebhookRequest } from './http/transport.ts';
import type { WindowEntry } from './window.ts';

/** One HTTP request for one event to one destination, from its start until it is settled. */
export interface Attempt extends WindowEntry {
  readonly event: DeliveredEvent;
  readonly kind: DeliveryKind;
  /** 1-indexed within the cycle. */
  readonly attempt: number;
  /** Taken from the log by this runner, not from a row. */
  readonly fresh: boolean;
  /** The event's offset; 0 for what is not {@link fresh} and moves no cursor. */
  readonly offset: Offset;
  /** When the event was accepted; `undefined` where this runner did not take it from the log. */
  readonly publishedAt: Millis | undefined;
  /** By the clock of this node: receivers judge the signature by it. */
  readonly at: Millis;
  /** Monotonic start; later by what the attempt waited for a name lookup. */
  startedMs: number;
  /** Whether `deliveries` has a row for it, or will have with the next batch. */
  hasRow: boolean;
  /** Where it was sent to; the stream's secrets may have changed since. */
  template: RequestTemplate | undefined;
  request: PendingRequest | undefined;
}

/** What of a request is the same for every event, as long as the stream does not change. */
export interface RequestTemplate {
  readonly tenant: number;
  readonly origin: string;
  readonly path: string;
  readonly headers: readonly string[];
  /** Newest first. */
  readonly keys: readonly SigningKey[];
  /** What must not appear in an error message. */
  readonly secrets: readonly string[];
  readonly stream: string;
  readonly attributePrefix: string;
}

interface SigningKey {
  readonly key: Uint8Array;
  readonly expiresAt: Millis | undefined;
}

/** Works out once per version of a stream what its requests share. */
export function requestTemplateOf(
  { id, tenant, destination, signingSecrets }: Stream,
  settings: Pick<DeliverySettings, 'userAgent' | 'attributePrefix'>,
): RequestTemplate {
  const { origin, pathname, search } = new URL(destination.endpoint);
  const { header, secrets } = credentialsOf(destination.authorization);
  const { userAgent, attributePrefix } = settings;
  return {
    tenant,
    origin,
    path: `${pathname}${search}`,
    headers: ['content-type', 'application/json', 'user-agent', userAgent, ...header],
    keys: signingSecrets.map(({ secret, expiresAt }) => ({ key: decodeSecret(secret), expiresAt })),
    secrets: [...secrets, ...signingSecrets.map(({ secret }) => secret)],
    stream: id,
    attributePrefix,
  };
}

/**
 * The request of docs/http-api.md#webhook-request for one event, signed at `now` with every secret that lives
 * then (Standard Webhooks, Signature scheme).
 */
export function prepareRequest(
  target: RequestTemplate,
  event: Pick<DeliveredEvent, 'id' | 'body' | 'trace'>,
  now: Millis,
): WebhookRequest {
  const body = deliveryBody(event.body, target.attributePrefix, target.stream);
  const seconds = Math.floor(now / 1000);
  const keys = target.keys.filter(({ expiresAt }) => expiresAt === undefined || expiresAt > now);
  const signature = sign(
    keys.map(({ key }) => key),
    event.id,
    seconds,
    body,
  );
  const signed = ['webhook-id', event.id, 'webhook-timestamp', `${seconds}`];
  const headers = [...target.headers, ...signed, 'webhook-signature', signature];
  if (event.trace !== undefined) headers.push('traceparent', event.trace);
  return { tenant: target.tenant, origin: target.origin, path: target.path, headers, body };
}

/** What is recorded of an attempt that has ended. */
export function outcomeOf(
  attempt: Attempt,
  result: PostResult,
  ended: { readonly now: Millis; readonly elapsedMs: number },
  rules: Pick<DeliverySettings, 'retryDelaysMs' | 'retry4xx'>,
): Ended {
  const { now } = ended;
  const secrets = attempt.template?.secrets ?? [];
  const verdict = classify(result, { retry4xx: rules.retry4xx, secrets, now });
  const decision = decide(verdict, attempt.attempt, rules.retryDelaysMs);
  const same = {
    event: attempt.event,
    kind: attempt.kind,
    attempt: attempt.attempt,
    hasRow: attempt.hasRow,
    agoMs: ended.elapsedMs - attempt.startedMs,
    // Microseconds say all there is to say; what a double adds behind them is noise.
    durationMs: Math.round((ended.elapsedMs - attempt.startedMs) * 1000) / 1000,
    status: verdict.status,
  };
  if (decision.kind === 'delivered') return { ...same, result: 'delivered' };
  if (decision.kind === 'fail') return { ...same, result: 'failed', error: decision.message };
  return { ...same, result: 'retry', delayMs: decision.waitMs, error: decision.message };
}

export type Ended = Exclude<Outcome, { readonly result: 'parked' }>;

/** How many rows more an outcome leaves of those that count against the stream's fresh work. */
export function rowsMore({ kind, hasRow, result }: Outcome): number {
  if (kind === 'redelivery' || kind === 'replay') return 0;
  const after = result === 'parked' || result === 'retry' ? 1 : 0;
  return after - (hasRow ? 1 : 0);
}

interface Credentials {
  /** The header that tells the receiver who calls (docs/http-api.md#destination-authorization), as name and value. */
  readonly header: readonly [name: string, value: string];
  /** What of it is a secret, in every form that it is sent in. */
  readonly secrets: readonly string[];
}

function credentialsOf(authorization: Authorization): Credentials {
  if (authorization.method === 'basic') {
    const { username, password } = authorization;
    // RFC 7617 section 2, with the UTF-8 that its section 2.1 allows.
    const basic = Buffer.from(`${username}:${password}`, 'utf8').toString('base64');
    return { header: ['authorization', `Basic ${basic}`], secrets: [password, basic] };
  }
  if (authorization.method === 'bearer') {
    const { token } = authorization;
    return { header: ['authorization', `Bearer ${headerText(token)}`], secrets: [token] };
  }
  const { headerKey, headerValue } = authorization;
  return { header: [headerKey, headerText(headerValue)], secrets: [headerValue] };
}

/** A header is written byte by byte as Latin-1: in this form any text leaves as its UTF-8. */
function headerText(value: string): string {
  return Buffer.from(value, 'utf8').toString('latin1');
}
