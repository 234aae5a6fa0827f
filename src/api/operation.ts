import type { AccessCheck } from '../pull/access-checks.ts';
import type { ServerResponse } from 'node:http';
import type { AuditEntry } from '../core/audit-log.ts';
import type { Millis } from '../core/clock.ts';
import type { ConsoleRole } from '../core/console-session.ts';
import type { Tenant } from '../core/types.ts';
import type { Static, TSchema } from '../schemas/schema.ts';
import type { Guard } from '../store/port/guard.ts';

/**
 * Describes one operation of the management API. The same description routes it, checks its caller,
 * media type, path, query and body, and documents it. The types of `handle` follow the schemas.
 */
export function operation<
  P extends TSchema = NoFields,
  Q extends TSchema = NoFields,
  B extends BodyRule = NoBody,
>(definition: Definition<P, Q, B>): Operation {
  return definition;
}

/** An operation without the types of its parts. */
export interface Operation extends Description {
  readonly params?: TSchema | undefined;
  readonly query?: TSchema | undefined;
  readonly body?: BodyRule | undefined;
  /** Rejects a caller before path, query and body are checked. Throws a 403. */
  admit?(call: Pick<Call, 'tenant' | 'caller'>): void;
  handle(call: Call): OperationResponse | Promise<OperationResponse>;
}

/** An operation without its handler and the schemas of its request. */
export interface Description {
  readonly operationId: string;
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** Relative to `/api/v2`, parameters with a colon: `/event-streams/:id`. */
  readonly path: string;
  readonly summary: string;
  /** Longer text for the reference, when the summary is not enough. */
  readonly description?: string | undefined;
  /** The group of the reference that it belongs to. */
  readonly tag: string;
  /** Any one of these is enough; in the order in which the 403 lists them. */
  readonly scopes: readonly string[];
  readonly lifecycle: Lifecycle;
  /** Not in the API that Leat is compatible with. */
  readonly extension?: boolean | undefined;
  /** Status of success. */
  readonly success: number;
  /** Headers that it reads; used by the reference only. */
  readonly headers?: TSchema | undefined;
  /** Body of success; absent when there is none. */
  readonly response?: TSchema | undefined;
  /** Body of a 200 when that is not the status of success. */
  readonly response200?: TSchema | undefined;
  /** Its media type; default `application/json`. */
  readonly responseType?: string | undefined;
  /** Whether the audit log records its requests; by default it does unless it is a GET. */
  readonly audited?: boolean | undefined;
  /** Whether its requests count against the tenant's bucket of events instead of the client's. */
  readonly countsEvents?: boolean | undefined;
  /** Whether it returns a page of a list, which may be large. */
  readonly isList?: boolean | undefined;
  /** Error statuses besides those of checking a request, which follow from its parts. */
  readonly errors?: readonly number[] | undefined;
}

export type Lifecycle = 'Early Access' | 'Generally Available' | 'Deprecated' | 'Planned' | 'Beta';

/** How a request body is read and checked. */
export interface BodyRule {
  readonly schema: TSchema;
  /** Without a body: 400 when true, else `undefined` reaches the handler. */
  readonly required: boolean;
  /** A longer body is 413; default is the limit of the management API. */
  readonly bytesMax?: number | undefined;
  /** Schemas of further media types, next to `application/json`; any other is 415. */
  readonly mediaTypes?: Readonly<Record<string, TSchema>> | undefined;
  /**
   * Fields of the body in which numbers stay as they were sent: the handler receives those that a
   * double cannot hold as `JSON.rawJSON`. Elsewhere a number that would be rounded is 400.
   */
  readonly numbersKept?: readonly string[] | undefined;
  /** The handler receives the bytes of the body and checks them itself; the schemas document it. */
  readonly unparsed?: boolean | undefined;
}

/** One authorized request, its parts checked. */
export interface Call<P = unknown, Q = unknown, B = unknown> {
  readonly tenant: Tenant;
  readonly caller: Caller;
  readonly params: P;
  /** Parameters by name: numbers and booleans converted, those of an array schema collected. */
  readonly query: Q;
  readonly body: B;
  /** Media type of the body in lower case, without parameters; empty when none was sent. */
  readonly mediaType: string;
  /** When the request arrived: the one instant of everything it does. */
  readonly now: Millis;
  /** How long it has waited for the store, before it was handled. */
  readonly waitedMs: Millis;
  /** The trace for the events that it publishes, see `traceOf`; `undefined` without a valid one. */
  readonly trace: string | undefined;
  /** Returns the values of a header by its name in lower case, one for each time that it was sent. */
  headerValues(name: string): readonly string[];
  /** Returns the entry of the audit log about what the call changes: the ids `targets`. */
  entry(...targets: readonly string[]): AuditEntry;
  /**
   * Creates the guard for a change of what clients may do, which requires the operation's scope and
   * all of these.
   */
  guard(required?: readonly string[]): CallerGuard;
  /** Whether the client has disconnected. */
  isGone(): boolean;
  /** Verifies the caller's token again, for a response that lasts. */
  readonly access: AccessCheck;
}

/** Checks the caller in the transaction of a change of what clients may do. */
export type CallerGuard = Guard & {
  /** Throws 403 unless the caller has these scopes of the management API; after `check`. */
  requireScopes(scopes: readonly string[]): void;
};

/** The client that a verified token names, or a session of the console. */
export interface Caller {
  /** `console` for every session. */
  readonly clientId: string;
  readonly scopes: readonly string[];
  readonly session?: CallerSession | undefined;
}

/** The session of the console that a request belongs to. */
export interface CallerSession {
  readonly id: string;
  /** Who signed in. */
  readonly user: string;
  readonly role: ConsoleRole;
}

/** Returns the name of a caller that is stored with what it created. */
export function nameOfCaller({ clientId, session }: Caller): string {
  return session === undefined ? clientId : `${clientId}:${session.user}`;
}

/** Returns what shares a limit of connections: a client, or a session. */
export function connectionOwner({ clientId, session }: Caller): string {
  return session?.id ?? clientId;
}

/** The result of a handler. Without `body`, `json` and `live` the response has no body. */
export interface OperationResponse {
  /** Default is the operation's `success`. */
  readonly status?: number | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly body?: unknown;
  /** The body as JSON text, instead of `body`. */
  readonly json?: string | undefined;
  /** A body that is written piece by piece; its media type is in `headers`. */
  readonly live?: LiveBody | undefined;
  /** Events after the first one that a publish takes off the tenant's bucket. */
  readonly extraEvents?: number | undefined;
}

/** Exactly one of the two methods is called. */
export interface LiveBody {
  /** Called after the head of the response was written. */
  begin(response: ServerResponse): void;
  /** Called when no body is wanted: the client has disconnected, or sent HEAD. */
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
type NoFields = TSchema & { static: Record<string, never> };
interface NoBody extends BodyRule {
  readonly schema: NoFields;
  readonly required: false;
}
