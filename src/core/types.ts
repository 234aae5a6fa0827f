/**
 * The nouns of Leat. Read this file first, then `store/port/store.ts`, then `delivery/`.
 *
 * A tenant has one append-only log of events. An event stream is a cursor on that log with
 * subscriptions and a destination. A successful delivery has no row of its own; only exceptions
 * (retries, failures, redeliveries, tests) become a {@link Delivery}.
 */
import type { Millis } from './clock.ts';

/** Position in one tenant's log: 1, 2, 3, … without gaps. 0 is the position before the first event. */
export type Offset = number;

export interface Tenant {
  readonly id: number;
  readonly name: string;
  /** `host[:port]`, lower case; issuer, audience and links contain it. */
  readonly domain: string;
}

// Events

/** An event to append to the log. */
export interface NewEvent {
  /** `evt_` and 22 base58 characters. */
  readonly id: string;
  /** True when the id comes from a client: only then the store checks whether the log has it. */
  readonly chosen: boolean;
  /** Of a chosen one: 32 hexadecimal digits, the same for events with the same type and data. */
  readonly content?: string | undefined;
  readonly type: string;
  /** When it happened, according to its publisher. */
  readonly time: Millis;
  /** The envelope of docs/http-api.md#event-envelope without the field of the stream, as JSON text. */
  readonly body: string;
  /** The `traceparent` of the request that published it, if valid, and its `tracestate`: see `traceOf`. */
  readonly trace?: string | undefined;
}

/** An event in the log. */
export interface LogEvent {
  readonly offset: Offset;
  readonly id: string;
  readonly type: string;
  readonly time: Millis;
  /** When Leat accepted it; never decreases along the log. */
  readonly publishedAt: Millis;
  readonly body: string;
  readonly trace?: string | undefined;
}

/** The result of publishing one event: its position in the log. */
export interface Appended {
  readonly id: string;
  readonly offset: Offset;
  /** True when the log had the id already; then nothing was written. */
  readonly repeated: boolean;
}

// Event streams

export type StreamStatus = 'enabled' | 'disabled';

/** An event stream as configured; counters and cursor are in `Run` (`store/rows/runs.ts`). */
export interface Stream {
  readonly tenant: number;
  /** `est_` and 22 base58 characters. */
  readonly id: string;
  readonly name: string;
  readonly status: StreamStatus;
  /** Oldest first; more than one while the cursor has not passed the offset of a change. */
  readonly subscriptions: readonly Subscription[];
  readonly destination: Destination;
  /** Absent where nothing is set. */
  readonly delivery?: DeliveryOptions | undefined;
  /** Absent unless it is paused. */
  readonly paused?: Pause | undefined;
  /** Newest first, one or two. */
  readonly signingSecrets: readonly SigningSecret[];
  /** Rises with every change. */
  readonly version: number;
  readonly createdAt: Millis;
  readonly updatedAt: Millis;
}

/** While a stream is paused, it sends redeliveries and test events only. */
export interface Pause {
  readonly at: Millis;
  /** As sent by the client; absent without one. */
  readonly reason?: string | undefined;
}

/** The events of a log that a stream receives: of one of these types, and matching the filter. */
export interface Selection {
  /** As sent by the client, with order and repeats. */
  readonly types: readonly string[];
  /** A condition as JSON text, see `filter.ts`; absent without one. */
  readonly filter?: string | undefined;
}

/** A selection for the events after an offset, up to the `after` of the next item. */
export interface Subscription extends Selection {
  /** The head of the log at the change; -1 for the subscriptions of a new stream. */
  readonly after: Offset;
}

export interface Destination {
  readonly type: 'webhook';
  readonly endpoint: string;
  readonly authorization: Authorization;
  /** Shown to the endpoint in TLS; absent without one. */
  readonly clientCertificate?: ClientCertificate | undefined;
}

/** A certificate of a client with its chain, in PEM. */
export interface ClientCertificate {
  readonly certificate: string;
  readonly privateKey: string;
  /** When the first certificate of the chain expires. */
  readonly expiresAt: Millis;
}

export type Authorization =
  | { readonly method: 'basic'; readonly username: string; readonly password: string }
  | { readonly method: 'bearer'; readonly token: string }
  | { readonly method: 'custom_header'; readonly headerKey: string; readonly headerValue: string }
  | (ClientCredentials & { readonly method: 'oauth2_client_credentials' });

/** What an access token is requested with (RFC 6749 section 4.4). */
export interface ClientCredentials {
  readonly tokenEndpoint: string;
  readonly clientId: string;
  readonly clientSecret: string;
  readonly scope?: string | undefined;
  readonly audience?: string | undefined;
}

/** How events are delivered to one stream; an absent field has its default. */
export interface DeliveryOptions {
  /** The schedule of first deliveries and replays, instead of LEAT_RETRY_DELAYS_MS. */
  readonly retry?: RetryOption | undefined;
  /** Attempts per second. */
  readonly perSecond?: number | undefined;
  /** Headers of every attempt; not secret. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Attempts at once, instead of LEAT_STREAM_CONCURRENCY. */
  readonly concurrency?: number | undefined;
  /** Timeout of an attempt, instead of LEAT_ATTEMPT_TIMEOUT_MS. */
  readonly timeoutMs?: number | undefined;
  /** How attempts are signed, instead of `v1`. */
  readonly signature?: 'v1' | 'v1a' | 'v1 v1a' | undefined;
  /** A path (field-path.ts): events with the same value there are sent one after the other. */
  readonly orderBy?: string | undefined;
  /** `block`: after a failure the events with its value wait until it is delivered or dismissed. */
  readonly onFailure?: 'continue' | 'block' | undefined;
}

/** A schedule by its name, or its waits. */
export type RetryOption =
  | RetryPreset
  | {
      /** 1 to 20 waits. */
      readonly delaysSeconds: readonly number[];
      /** Instead of LEAT_RETRY_4XX. */
      readonly retry4xx?: readonly number[] | undefined;
    };

export type RetryPreset = 'quick' | 'hours' | 'days';

export interface SigningSecret {
  /** `whsec_` and the base64 of 32 bytes (Standard Webhooks). */
  readonly secret: string;
  readonly createdAt: Millis;
  /** End of its use for signing; set on the former secret only. */
  readonly expiresAt: Millis | undefined;
}

/** The two counters of docs/http-api.md#failure-counters. */
export interface Health {
  /** Failed deliveries since the last success. */
  readonly consecutive: number;
  /** Open failure records. */
  readonly total: number;
}

/** Limits at which a stream is disabled automatically; `total` also prevents enabling it. */
export interface HealthLimits {
  readonly consecutive: number;
  readonly total: number;
}

// Deliveries

/**
 * Why an event is delivered. `first`: the stream's cursor reached it. `redelivery`: an operator
 * requested a new cycle of a failure, so the row is an open failure record until it succeeds. `test`:
 * a test event, never part of the log. `replay`: it is in the range of a {@link Replay}.
 */
export type DeliveryKind = 'first' | 'redelivery' | 'test' | 'replay';

/**
 * `parked`: a slow attempt is in progress; the row allows the cursor to pass. `retrying`: the next
 * attempt is scheduled. `failed`: the cycle is over, an open failure record. `blocked`: an earlier
 * event with the same key is not delivered yet.
 */
export type DeliveryState = 'parked' | 'retrying' | 'failed' | 'blocked';

/**
 * A delivery whose first attempt was slow or failed, or that is not from the cursor. It is an open
 * failure record (counted in {@link Health.total} and listed) if and only if `state` is `failed` or
 * `kind` is `redelivery`.
 */
export interface Delivery {
  readonly event: DeliveredEvent;
  readonly kind: DeliveryKind;
  readonly state: DeliveryState;
  /** Attempt of the cycle that is in progress or next, 1-indexed; the last one when failed. */
  readonly attempt: number;
  /** See `order-key.ts`; of first deliveries and their redeliveries. */
  readonly orderKey?: string | undefined;
}

/** The fields of an event that an attempt needs; a test event has no offset. */
export type DeliveredEvent = Omit<LogEvent, 'offset' | 'publishedAt'> & {
  readonly offset: Offset | undefined;
  /** Present only for an event read from the log, not from a delivery row. */
  readonly publishedAt?: Millis | undefined;
};

/**
 * A range of the log that is sent to one stream again. A stream has at most one `running` replay,
 * which includes one that pauses because the stream is disabled.
 */
export interface Replay {
  readonly tenant: number;
  readonly stream: string;
  /** `rpl_` and 22 base58 characters. */
  readonly id: string;
  /** `failed`: the rest of the range was pruned before it could be sent. */
  readonly status: 'running' | 'done' | 'cancelled' | 'failed';
  /** It begins with the event after this offset. */
  readonly from: Offset;
  /** Events found so far. */
  readonly matched: number;
  /** Of these, events delivered. */
  readonly sent: number;
  /** Of these, events that became failures. */
  readonly failed: number;
  readonly createdAt: Millis;
  /** `undefined` while it is running. */
  readonly finishedAt: Millis | undefined;
}

/** One entry of the history of a delivery. */
export interface Attempt {
  readonly at: Millis;
  /** Milliseconds, with a fraction. */
  readonly durationMs: number;
  /**
   * Two are not HTTP requests: `redelivered` marks that an operator requested a new cycle, `dismissed`
   * that an operator closed the failure.
   */
  readonly outcome: 'delivered' | 'failed' | 'redelivered' | 'dismissed';
  /** HTTP status, if a response arrived. */
  readonly status: number | undefined;
  /** The error message of docs/http-api.md#attempt-errors; `undefined` unless failed. */
  readonly error: string | undefined;
}

/** An open failure record with its history, as the deliveries list shows it. */
export interface Failure {
  readonly event: DeliveredEvent;
  /** When the record was opened; the order of the list. */
  readonly failedAt: Millis;
  /** Oldest first, at most the newest 100. */
  readonly attempts: readonly Attempt[];
}

// Access

/** A client that can request tokens, or whose external tokens are accepted. */
export interface Client {
  readonly tenant: number;
  readonly id: string;
  readonly name: string;
  /** Only global clients may use the management API. */
  readonly global: boolean;
  /** External issuer of the client's tokens; then it has neither secret nor keys. */
  readonly issuer: string | undefined;
  /** SHA-256 of the secret, base64url; a plain hash suffices for a random 256-bit value. */
  readonly secretHash: string | undefined;
  /** Public keys for private_key_jwt, a JWK Set as JSON text. */
  readonly jwks: string | undefined;
  /** Carried fields as JSON text of an object (see carried.ts); absent without any. */
  readonly carriedJson?: string | undefined;
  /** Rises with every change. */
  readonly version: number;
  /**
   * Rises when the secret is replaced or a key removed. Management tokens carry it, and one with
   * another version is no longer accepted: see clients.ts.
   */
  readonly credentialsVersion: number;
  readonly createdAt: Millis;
}

/** An API that tokens are issued for. The management API has no row. */
export interface Api {
  readonly tenant: number;
  readonly id: string;
  /** The audience; never changes. */
  readonly identifier: string;
  readonly name: string;
  readonly scopes: readonly { readonly value: string; readonly description: string }[];
  readonly enforcePolicies: boolean;
  readonly tokenDialect: 'access_token' | 'access_token_authz';
  readonly tokenLifetimeSeconds: number;
  /** Carried fields as JSON text of an object (see carried.ts); absent without any. */
  readonly carriedJson?: string | undefined;
  readonly createdAt: Millis;
}

/** Id of the management API in grants and permissions, independent of the tenant's domain. */
export const managementApiId = 'management';

export interface Grant {
  readonly tenant: number;
  readonly id: string;
  readonly client: string;
  /** Id of the API, or {@link managementApiId}. */
  readonly api: string;
  readonly scope: readonly string[];
  /** Carried fields as JSON text of an object (see carried.ts); absent without any. */
  readonly carriedJson?: string | undefined;
}

/** A group of permissions; clients and users can hold it. */
export interface Role {
  readonly tenant: number;
  readonly id: string;
  /** Unique in the tenant. */
  readonly name: string;
  readonly description: string;
  /** Carried fields as JSON text of an object (see carried.ts); absent without any. */
  readonly carriedJson?: string | undefined;
  readonly createdAt: Millis;
}

/** One permission of a role: a scope of an API. */
export interface Permission {
  /** Id of the API, or {@link managementApiId}. */
  readonly api: string;
  readonly name: string;
}

/** A key that signs access tokens, or webhooks. */
export interface SigningKey {
  readonly tenant: number;
  readonly kid: string;
  /** Private key as a JWK in JSON text (RSA, or Ed25519 of webhooks); the store encrypts it at rest. */
  readonly privateJwk: string;
  readonly createdAt: Millis;
  /** From then on it signs, unless a newer key does. */
  readonly signsFrom: Millis;
  /** From then on it is no longer published; `undefined` until a newer key replaces it. */
  readonly expiresAt: Millis | undefined;
}

// Users

/** A user of a database connection. */
export interface User {
  readonly tenant: number;
  /** `<provider>|<local id>`. */
  readonly id: string;
  readonly connection: string;
  /** Lower case. */
  readonly email: string;
  readonly username: string | undefined;
  /** argon2id hash in PHC string form. */
  readonly passwordHash: string;
  /**
   * The other fields of the user object, by their wire names: name, nickname, picture,
   * email_verified, user_metadata, … A JSON object as `JSON.stringify` writes it. It stays text until
   * a value is needed, because parsing and writing 1 MiB takes up to 100 ms.
   */
  readonly profileJson: string;
  readonly createdAt: Millis;
  readonly updatedAt: Millis;
}

export interface StreamRef {
  readonly tenant: number;
  readonly stream: string;
}

/** A running Leat process; `incarnation` rises each time it joins. */
export interface Node {
  readonly id: string;
  readonly incarnation: number;
}
