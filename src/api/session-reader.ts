import { consoleClientId, roleAccess } from '../auth/console-roles.ts';
import { createTtlCache } from '../auth/ttl-cache.ts';
import type { Clock } from '../core/clock.ts';
import type { ConsoleRole, ConsoleSession } from '../core/console-session.ts';
import type { Tenant } from '../core/types.ts';
import type { ConsoleSessionStore } from '../store/port/console-sessions.ts';
import { secretHash, secretsOf } from './console-cookie.ts';
import { foreignOriginProblem } from './origin-check.ts';
import type { CheckedRequest } from './http/checked-request.ts';
import type { ClientAddress } from './http/client-address.ts';
import { Problem, tooManyRequests } from './http/problem.ts';
import { type RateLimiter, retryAfterSeconds } from './http/rate.ts';
import type { Caller } from './operation.ts';

/** A session that ends counts on no node for longer than this. */
const freshMs = 1_000;
const entriesMax = 10_000;

/** Authenticates requests by the cookie of a console session. */
export interface SessionReader {
  /**
   * Reads the session of a request, which has no `Authorization` header. Returns `undefined` without a
   * cookie, and without a promise when the session is cached. Rejects with `StoreUnavailable`.
   *
   * @param isUse whether the request counts as use of the session
   */
  read(
    request: CheckedRequest,
    place: { readonly tenant: Tenant; readonly client: ClientAddress },
    isUse: boolean,
  ): SessionAuthentication | Promise<SessionAuthentication> | undefined;
  /**
   * Returns the session whose secret has this hash; that is no use of it. Rejects with `StoreUnavailable`.
   */
  ofHash(tenant: Tenant, hash: Uint8Array): SessionAuthentication | Promise<SessionAuthentication>;
  /** Drops a session that has ended from the cache. */
  drop(session: VerifiedSession): void;
}

/** `refused`: the response is this problem. */
export type SessionAuthentication =
  | { readonly kind: 'refused'; readonly problem: Problem }
  | VerifiedSession;

export interface VerifiedSession {
  readonly kind: 'session';
  readonly caller: SessionCaller;
  readonly session: ConsoleSession;
  readonly secretHash: Uint8Array;
  /** Reads the session again; that is no use of it. Rejects with `StoreUnavailable`. */
  again(): SessionAuthentication | Promise<SessionAuthentication>;
  /** Returns what counts instead once the store has this; `undefined` when the session has ended. */
  renewed(session: ConsoleSession | undefined): SessionAuthentication;
}

export interface SessionCaller extends Caller {
  readonly session: NonNullable<Caller['session']>;
  /** Key of its rate bucket. */
  readonly bucket: string;
}

export interface SessionReaderDeps {
  readonly store: { readonly consoleSessions: Pick<ConsoleSessionStore, 'get'> };
  readonly clock: Pick<Clock, 'elapsedMs'>;
  readonly limiter: Pick<RateLimiter, 'takeOfSecret'>;
  /** Whether a request came over TLS, to Leat or to a trusted proxy. */
  readonly isSecure: (request: CheckedRequest) => boolean;
  /** Returns the role that an entry of LEAT_CONSOLE_ROLES gives now; `undefined` when it is gone. */
  readonly roleOf: (mapping: string) => ConsoleRole | undefined;
}

/** Creates the reader; it caches sessions for a second. */
export function createSessionReader(deps: SessionReaderDeps): SessionReader {
  const { clock, limiter, isSecure } = deps;
  const { consoleSessions } = deps.store;
  const cache = createTtlCache<ConsoleSession | undefined>({ clock, freshMs, entriesMax });

  const readBySecret = (
    tenant: Tenant,
    hash: Uint8Array,
    isUse: boolean,
  ): SessionAuthentication | Promise<SessionAuthentication> => {
    const authenticationOf = (session: ConsoleSession | undefined): SessionAuthentication =>
      session !== undefined && hasItsRole(session, deps)
        ? {
            kind: 'session',
            caller: callerOf(session),
            session,
            secretHash: hash,
            again: () => readBySecret(tenant, hash, false),
            renewed: authenticationOf,
          }
        : signInAgain(tenant);
    const read = (): Promise<ConsoleSession | undefined> =>
      consoleSessions.get(tenant.id, hash, isUse);
    const found = cache.get(keyOf(tenant.id, hash, isUse), read);
    return found instanceof Promise ? found.then(authenticationOf) : authenticationOf(found);
  };

  /** Whether it was the secret of a session when it was last read. */
  const isKnown = (tenant: number, hash: Uint8Array): boolean =>
    [true, false].some((isUse) => cache.last(keyOf(tenant, hash, isUse)) !== undefined);

  return {
    read: (request, { tenant, client }, isUse) => {
      const secure = isSecure(request);
      const secrets = secretsOf(request.headers.cookie, secure);
      const [secret] = secrets;
      if (secret === undefined) return undefined;
      const problem = foreignOriginProblem(request, { isSecure: secure, host: client.host });
      if (problem !== undefined) return { kind: 'refused', problem };
      if (secrets.length > 1) return { kind: 'refused', problem: ambiguous() };
      const hash = secretHash(secret);
      if (hash === undefined) return signInAgain(tenant);
      if (!isKnown(tenant.id, hash)) {
        // The bucket of the request is taken from after this: invented secrets must not reach the store.
        const rate = limiter.takeOfSecret(client.address);
        if (!rate.admitted) {
          return { kind: 'refused', problem: tooManyRequests(retryAfterSeconds(rate)) };
        }
      }
      return readBySecret(tenant, hash, isUse);
    },
    ofHash: (tenant, hash) => readBySecret(tenant, hash, false),
    drop: ({ session: { tenant }, secretHash: hash }) => {
      for (const isUse of [true, false]) cache.expire(keyOf(tenant, hash, isUse));
    },
  };
}

function callerOf({ id, user, role }: ConsoleSession): SessionCaller {
  const session = { id, user, role };
  return {
    clientId: consoleClientId,
    scopes: roleAccess[role].scopes,
    session,
    bucket: `session ${id}`,
  };
}

/** One-time links have no mapping: their role stays. */
function hasItsRole(
  { mapping, role }: ConsoleSession,
  { roleOf }: Pick<SessionReaderDeps, 'roleOf'>,
): boolean {
  return mapping === undefined || roleOf(mapping) === role;
}

function signInAgain({ domain }: Tenant): SessionAuthentication {
  const message = 'The session of the console has ended. Sign in again at /console/.';
  const headers = { 'www-authenticate': `Bearer realm="${domain}"` };
  return { kind: 'refused', problem: new Problem(401, message, undefined, headers) };
}

/** Which one belongs to this browser cannot be known: another host or path has set one of them. */
function ambiguous(): Problem {
  const message =
    'The request has two different cookies of a console session. Delete the cookies of this site, then sign in again at /console/.';
  return new Problem(403, message, 'ambiguous_session');
}

/** A use is not covered by a read that recorded none. */
function keyOf(tenant: number, hash: Uint8Array, isUse: boolean): string {
  return `${tenant}/${isUse ? 'use' : 'read'}/${Buffer.from(hash).toString('base64')}`;
}
