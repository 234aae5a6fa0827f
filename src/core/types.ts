/**
 * The nouns of Leat. Read this file first, then `store/port/store.ts`, then `delivery/`.
 *
 * A tenant has one append-only log of events. An event stream is a cursor on that log with a filter
 * (its subscriptions) and a destination. What went well leaves no row of its own; only exceptions
 * (retries, failures, redeliveries, tests) become a {@link Delivery}.
 */
import type { Millis } from './clock.ts';

/** Position in one tenant's log: 1, 2, 3, … without gaps. 0 stands before the first event. */
export type Offset = number;

export interface Tenant {
  readonly id: number;
  readonly name: string;
  /** `host[:port]`, lower case; issuer, audience and links are built from it. */
  readonly domain: string;
}

// Events

/** An event on its way into the log. */
export interface NewEvent {
  /** `evt_` and 22 base58 characters. */
  readonly id: string;
  /** True when a client chose the id: only then the log is asked whether it already has it. */
  readonly chosen: boolean;
  readonly type: string;
  /** When it happened, as its publisher says. */
  readonly time: Millis;
  /** The whole envelope of docs/http-api.md#event-envelope without the stream's member, as JSON text. */
  readonly body: string;
  /** The `traceparent` of the request that published it, where it had a valid one. */
  readonly trace?: string | undefined;
}

/** An event in the log. */
export interface LogEvent {
  readonly offset: Offset;
  readonly id: string;
  readonly type: string;
  readonly time: Millis;
  /** When Leat accepted it; never falls along the log. */
  readonly publishedAt: Millis;
  readonly body: string;
  readonly trace?: string | undefined;
}

/** The answer to one published event: where it stands in the log. */
export interface Appended {
  readonly id: string;
  readonly offset: Offset;
  /** True when the log had the id before; nothing was written then. */
  readonly repeated: boolean;
}

// Event streams

export type StreamStatus = 'enabled' | 'disabled';

/** What the operator configured; counters and cursor are in {@link Run}. */
export interface Stream {
  readonly tenant: number;
  /** `est_` and 22 base58 characters. */
  readonly id: string;
  readonly name: string;
  readonly status: StreamStatus;
  /** Oldest first; more than one while the cursor has not passed the offset of a change. */
  readonly subscriptions: readonly Subscription[];
  readonly destination: Destination;
  /** Newest first, one or two. */
  readonly signingSecrets: readonly SigningSecret[];
  /** Rises with every change. */
  readonly version: number;
  readonly createdAt: Millis;
  readonly updatedAt: Millis;
}

/** Event types wanted for the events after an offset, up to the `after` of the next item. */
export interface Subscription {
  /** The head of the log at the change; -1 for what a stream was created with. */
  readonly after: Offset;
  /** As the client sent them: order kept, repeats kept. */
  readonly types: readonly string[];
}

export interface Destination {
  readonly type: 'webhook';
  readonly endpoint: string;
  readonly authorization: Authorization;
}

export type Authorization =
  | { readonly method: 'basic'; readonly username: string; readonly password: string }
  | { readonly method: 'bearer'; readonly token: string }
  | { readonly method: 'custom_header'; readonly headerKey: string; readonly headerValue: string };

export interface SigningSecret {
  /** `whsec_` and the base64 of 32 bytes (Standard Webhooks). */
  readonly secret: string;
  readonly createdAt: Millis;
  /** Set on the previous secret only: from then on it no longer signs. */
  readonly expiresAt: Millis | undefined;
}

/** The two counters of docs/http-api.md#failure-counters. */
export interface Health {
  /** Failed deliveries since the last success. */
  readonly consecutive: number;
  /** Failure records now open. */
  readonly total: number;
}

/** When a stream is disabled by itself; `total` also governs enabling it again. */
export interface HealthLimits {
  readonly consecutive: number;
  readonly total: number;
}

// Deliveries

/**
 * Why an event is being delivered. `first`: it came along the log. `redelivery`: an operator asked
 * for a new cycle of a failure, so the row is an open failure record until it succeeds. `test`: it
 * was never in the log. `replay`: it lies in the range of a {@link Replay}.
 */
export type DeliveryKind = 'first' | 'redelivery' | 'test' | 'replay';

/**
 * `parked`: an attempt is under way and the row lets the cursor pass. `retrying`: the next attempt
 * waits for its time. `failed`: the cycle is over, an open failure record.
 */
export type DeliveryState = 'parked' | 'retrying' | 'failed';

/**
 * A delivery that did not settle at once. It is an open failure record (it counts in
 * {@link Health.total} and is listed) exactly when `state` is `failed` or `kind` is `redelivery`.
 */
export interface Delivery {
  readonly event: DeliveredEvent;
  readonly kind: DeliveryKind;
  readonly state: DeliveryState;
  /** Attempt of the cycle that is under way or due next, 1-indexed; the last one when failed. */
  readonly attempt: number;
}

/** What an attempt needs of an event; a test event has no offset. */
export type DeliveredEvent = Omit<LogEvent, 'offset' | 'publishedAt'> & {
  readonly offset: Offset | undefined;
  /** Only of an event that was read from the log, not from a row. */
  readonly publishedAt?: Millis | undefined;
};

/**
 * A range of the log that is sent to one stream again. Of a stream at most one is `running`, which
 * includes one that pauses because the stream is disabled.
 */
export interface Replay {
  readonly tenant: number;
  readonly stream: string;
  /** `rpl_` and 22 base58 characters. */
  readonly id: string;
  /** `failed`: the rest of the range was pruned before it could be sent. */
  readonly status: 'running' | 'done' | 'cancelled' | 'failed';
  /** It begins with the event after this one. */
  readonly from: Offset;
  /** Events found so far… */
  readonly matched: number;
  /** …and how many of them were delivered, and became failures. */
  readonly sent: number;
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
  /** `redelivered` marks that an operator asked for a new cycle; it is no HTTP request. */
  readonly outcome: 'delivered' | 'failed' | 'redelivered';
  /** HTTP status, when an answer came. */
  readonly status: number | undefined;
  /** The error message of docs/http-api.md#attempt-errors; `undefined` unless failed. */
  readonly error: string | undefined;
}

/** An open failure record with its history, as the deliveries list shows it. */
export interface Failure {
  readonly event: DeliveredEvent;
  /** When the record was opened; the list is ordered by it. */
  readonly failedAt: Millis;
  /** Oldest first, at most the newest 100. */
  readonly attempts: readonly Attempt[];
}

// Access

/** Who may ask for tokens, or whose external tokens are accepted. */
export interface Client {
  readonly tenant: number;
  readonly id: string;
  readonly name: string;
  /** Only global clients may use the management API. */
  readonly global: boolean;
  /** External issuer this client belongs to; it has neither secret nor keys then. */
  readonly issuer: string | undefined;
  /** SHA-256 of the secret (a random 256-bit value, so a plain hash is enough), base64url. */
  readonly secretHash: string | undefined;
  /** Public keys for private_key_jwt, a JWK Set as JSON text. */
  readonly jwks: string | undefined;
  /** Rises with every change; cached verdicts about the client end with it. */
  readonly version: number;
  readonly createdAt: Millis;
}

/** An API that tokens are made for, the management API excepted: that one is no row. */
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
  readonly createdAt: Millis;
}

/** Id that a grant uses for the management API, whatever the tenant's domain is. */
export const managementApiId = 'management';

export interface Grant {
  readonly tenant: number;
  readonly id: string;
  readonly client: string;
  /** Id of the API, or {@link managementApiId}. */
  readonly api: string;
  readonly scope: readonly string[];
}

/** A group of permissions; clients and users can hold it. */
export interface Role {
  readonly tenant: number;
  readonly id: string;
  /** Unique in the tenant. */
  readonly name: string;
  readonly description: string;
  readonly createdAt: Millis;
}

/** One permission of a role: a scope of an API. */
export interface Permission {
  /** Id of the API, or {@link managementApiId}. */
  readonly api: string;
  readonly name: string;
}

/** A key that signs access tokens. */
export interface SigningKey {
  readonly tenant: number;
  readonly kid: string;
  /** Private RSA key as a JWK in JSON text; sealed by the store while at rest. */
  readonly privateJwk: string;
  readonly createdAt: Millis;
  /** From then on it signs, when no newer key does. */
  readonly signsFrom: Millis;
  /** From then on it is no longer published; `undefined` while no newer key replaced it. */
  readonly expiresAt: Millis | undefined;
}

// Users

/** A user of a database connection; `createdAt` and `updatedAt` are shown as ISO 8601. */
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
   * The other members of the user object, by their wire names: name, nickname, picture,
   * email_verified, user_metadata, … A JSON object as `JSON.stringify` writes it, and nothing else
   * while nobody needs a value of it: parsing and writing one of 1 MiB takes up to 100 ms.
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
