import type { AccessCheck } from '../pull/reader.ts';
import type { ServerResponse } from 'node:http';
import type { Millis } from '../core/clock.ts';
import type { Tenant } from '../core/types.ts';
import type { Static, TSchema } from '../schemas/schema.ts';

/**
 * Describes one operation of the management API. The same description routes it, checks its caller,
 * its media type, its path, query and body, and documents it. Types of `handle` follow the schemas.
 */
export function operation<
  P extends TSchema = NoMembers,
  Q extends TSchema = NoMembers,
  B extends BodyRule = NoBody,
>(definition: Definition<P, Q, B>): Operation {
  return definition;
}

/** An operation whatever the types of its parts. */
export interface Operation extends Description {
  readonly params?: TSchema | undefined;
  readonly query?: TSchema | undefined;
  readonly body?: BodyRule | undefined;
  /** Refuses a caller before anything of the request is checked; throws a 403. */
  admit?(call: Pick<Call, 'tenant' | 'caller'>): void;
  handle(call: Call): OperationResponse | Promise<OperationResponse>;
}

/** What is said of an operation, its schemas aside. */
export interface Description {
  readonly operationId: string;
  readonly method: 'GET' | 'POST' | 'PATCH' | 'DELETE';
  /** Relative to `/api/v2`, parameters with a colon: `/event-streams/:id`. */
  readonly path: string;
  readonly summary: string;
  /** Longer text for the reference, when the summary is not enough. */
  readonly description?: string | undefined;
  /** The noun it belongs to. */
  readonly tag: string;
  /** Any one of these is enough; in the order in which a refusal names them. */
  readonly scopes: readonly string[];
  readonly lifecycle: Lifecycle;
  /** Neither seed document has it. */
  readonly extension?: boolean | undefined;
  /** Status of success. */
  readonly success: number;
  /** Headers that it reads; only the reference goes by this. */
  readonly headers?: TSchema | undefined;
  /** Body of success; absent when there is none. */
  readonly response?: TSchema | undefined;
  /** Its media type, `application/json` unless said. */
  readonly responseType?: string | undefined;
  /** Whether its requests come off the tenant's bucket of events instead of the client's. */
  readonly countsEvents?: boolean | undefined;
  /** Whether it answers with a page of a list, which may be large. */
  readonly isList?: boolean | undefined;
  /** Statuses of failure besides those that every operation has. */
  readonly errors: readonly number[];
}

export type Lifecycle = 'Early Access' | 'Generally Available' | 'Deprecated' | 'Planned' | 'Beta';

/** How a request body is read and checked. */
export interface BodyRule {
  readonly schema: TSchema;
  /** Without a body: 400 when true, else `undefined` reaches the handler. */
  readonly required: boolean;
  /** The limit of the management API unless said; more is 413. */
  readonly bytesMax?: number | undefined;
  /** Schemas of media types besides `application/json`; any other is 415. */
  readonly mediaTypes?: Readonly<Record<string, TSchema>> | undefined;
  /** The handler gets the bytes of the body, which it checks by the schemas; they say the same. */
  readonly unparsed?: boolean | undefined;
}

/** One request of a caller who may make it, its parts checked. */
export interface Call<P = unknown, Q = unknown, B = unknown> {
  readonly tenant: Tenant;
  readonly caller: Caller;
  readonly params: P;
  /** Parameters by name: numbers and booleans converted, those of an array schema collected. */
  readonly query: Q;
  readonly body: B;
  /** Media type of the body in lower case, without parameters; empty when none was sent. */
  readonly mediaType: string;
  /** When the request came; the one time of everything it does. */
  readonly now: Millis;
  /** The `traceparent` to hand on with the events that it publishes, where it sent a valid one. */
  readonly trace: string | undefined;
  /** Names in lower case; each is sent once, or its values are joined. */
  header(name: string): string | undefined;
  /** Whether the client has gone, so that nobody waits for the answer. */
  isGone(): boolean;
  /** Judges the caller's token again, for an answer that goes on for a while. */
  readonly access: AccessCheck;
}

/** The client that a verified token names. */
export interface Caller {
  readonly clientId: string;
  readonly scopes: readonly string[];
}

/** What a handler answers. Without `body` and `json` the answer has no body. */
export interface OperationResponse {
  /** The operation's `success` unless said. */
  readonly status?: number | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly body?: unknown;
  /** The body as JSON text, where it is text already. */
  readonly json?: string | undefined;
  /** A body that is written as it comes; its media type is among the headers. */
  readonly live?: LiveBody | undefined;
  /** Events beyond the first that a publish takes off the tenant's bucket. */
  readonly extraEvents?: number | undefined;
}

/** Exactly one of the two is called. */
export interface LiveBody {
  /** The head of the answer was written. */
  begin(response: ServerResponse): void;
  /** Nobody waits for the body: the client has gone, or asked for the head alone. */
  drop(): void;
}

type Definition<P extends TSchema, Q extends TSchema, B extends BodyRule> = Description & {
  readonly params?: P;
  readonly query?: Q;
  readonly body?: B;
  admit?(call: Pick<Call, 'tenant' | 'caller'>): void;
  handle(
    call: Call<Static<P>, Static<Q>, StaticBody<B>>,
  ): OperationResponse | Promise<OperationResponse>;
};

type StaticBody<B extends BodyRule> =
  | (B['unparsed'] extends true ? Uint8Array : Static<B['schema']>)
  | (B['required'] extends true ? never : undefined);

/** The type of an absent schema: no parameter, no body. */
type NoMembers = TSchema & { static: Record<string, never> };
interface NoBody extends BodyRule {
  readonly schema: NoMembers;
  readonly required: false;
}
