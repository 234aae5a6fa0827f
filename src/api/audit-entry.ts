import { type AuditEntry, shownAddress, shownUserAgent } from '../core/audit-log.ts';
import { consoleClientId } from '../auth/console-roles.ts';
import { managementScopes } from '../auth/scopes.ts';
import type { ConsoleRole } from '../core/console-session.ts';
import type { TSchema } from '../schemas/schema.ts';
import type { Happened } from './audit-minute.ts';
import type { CallerSession, Operation } from './operation.ts';
import type { Schema } from './http/violation.ts';

/** What an entry says of the one who sent a request. */
export interface Sender {
  readonly tenant: number;
  /** Absent where no client is known to have sent it. */
  readonly clientId: string | undefined;
  /** The session of the console that sent it. */
  readonly session?: CallerSession | undefined;
  readonly address: string;
  /** The `User-Agent` header. */
  readonly userAgent: string | undefined;
}

/** Returns whether the audit log has an entry of each accepted and of each forbidden request. */
export function isAudited({ method, audited }: Pick<Operation, 'method' | 'audited'>): boolean {
  return audited ?? method !== 'GET';
}

/** Returns the entry of a request that was accepted, without its id. */
export function acceptedEntry(
  { method, path, summary, body: rule }: Operation,
  { params, body }: { readonly params: unknown; readonly body: unknown },
  sender: Sender,
  targets: Iterable<string>,
): Omit<AuditEntry, 'id'> {
  const shownPath = pathOf(path, params as Readonly<Record<string, string>>, () => true);
  const isRead = rule !== undefined && rule.unparsed !== true;
  const changed = isRead ? namesOf(rule.schema, body) : [];
  return {
    ...shownSender(sender),
    type: 'sapi',
    description: summary,
    details: {
      method,
      path: shownPath,
      targets: [...new Set(targets)],
      ...(changed.length > 0 ? { changed } : {}),
      ...shownSession(sender),
    },
  };
}

/**
 * Returns what is recorded of a request that lacked scopes. Its path and its body may be anything:
 * only ids that Leat makes are shown, and scopes that exist.
 */
export function forbidden(
  { method, path, summary }: Operation,
  params: unknown,
  sender: Sender,
  lacking: readonly string[],
): Happened {
  const sent = params as Readonly<Record<string, string>>;
  const shownPath = pathOf(path, sent, isOwnId);
  const targets = Object.values(sent).filter(isOwnId);
  const scopes = lacking.filter((scope) => managementScopes.includes(scope));
  return {
    ...shownSender(sender),
    type: 'fapi',
    description: summary,
    details: { method, path: shownPath, targets, scopes, ...shownSession(sender) },
    what: [method, shownPath, ...scopes, ...(sender.session ? [sender.session.id] : [])].join(' '),
    source: sender.session?.id,
    address: sender.address,
  };
}

/** Returns the entry of a sign-in to the console, without its id. */
export function signInEntry(sender: Sender, session: SignedIn): Omit<AuditEntry, 'id'> {
  const { id, user, role } = session;
  return {
    ...shownSender({ ...sender, clientId: consoleClientId }),
    type: 'ssa',
    description: 'Sign in to the console',
    details: { targets: [id], session: id, user, ...(role === undefined ? {} : { role }) },
  };
}

/** A session that begins; only the store knows the role of a one-time code. */
export type SignedIn = Pick<CallerSession, 'id' | 'user'> & { readonly role?: ConsoleRole };

/**
 * Returns what is recorded of a sign-in to the console that was refused. The error is a code, and nothing
 * of the request.
 */
export function refusedSignIn(sender: Sender, error: string): Happened {
  return {
    ...shownSender({ ...sender, clientId: consoleClientId }),
    type: 'fsa',
    description: refusedSignIns[error] ?? 'Refuse a sign-in to the console',
    details: { targets: [], error },
    what: error,
    address: sender.address,
  };
}

const refusedSignIns: Readonly<Record<string, string>> = {
  invalid_code: 'Refuse a sign-in to the console: the code is unknown, used or expired',
  access_denied: 'Refuse a sign-in to the console: the identity provider denied it',
  expired: 'Refuse a sign-in to the console: it took too long, or another browser began it',
  failed: 'Refuse a sign-in to the console: the response of the identity provider is not valid',
  no_role:
    'Refuse a sign-in to the console: no entry of LEAT_CONSOLE_ROLES gives the person a role',
  provider_unavailable: 'Refuse a sign-in to the console: the identity provider is not available',
};

/** Returns the entry of a sign-out from the console, without its id. */
export function signOutEntry(sender: Sender): Omit<AuditEntry, 'id'> {
  const targets = sender.session === undefined ? [] : [sender.session.id];
  return {
    ...shownSender(sender),
    type: 'ssa',
    description: 'Sign out of the console',
    details: { targets, ...shownSession(sender) },
  };
}

function shownSession({ session }: Sender): Record<string, string> {
  if (session === undefined) return {};
  const { id, user, role } = session;
  return { session: id, user, role };
}

/** Returns what is recorded of a token request that was handled. */
export function tokenRequest(
  sender: Sender,
  result: { readonly audience: string } | { readonly error: string },
): Happened {
  const isIssued = 'audience' in result;
  const description = isIssued
    ? 'Issue an access token'
    : (refusals[result.error] ?? 'Refuse an access token');
  return {
    ...shownSender(sender),
    type: isIssued ? 'seccft' : 'feccft',
    description,
    details: { targets: [], ...result },
    what: isIssued ? result.audience : result.error,
    address: sender.address,
  };
}

/** By error code: the text of the response may quote the request. */
const refusals: Readonly<Record<string, string>> = {
  invalid_client: 'Refuse an access token: the client is unknown or its secret is wrong',
  access_denied: 'Refuse an access token: the client may not have it',
  invalid_scope:
    'Refuse an access token: the client does not hold the scopes, or they are too many',
  invalid_target: 'Refuse an access token: two APIs are named',
  invalid_request: 'Refuse an access token: the request is malformed',
  unsupported_grant_type: 'Refuse an access token: the grant type is not supported',
};

function shownSender({
  tenant,
  clientId,
  address,
  userAgent,
}: Sender): Pick<AuditEntry, 'tenant' | 'clientId' | 'ip' | 'userAgent'> {
  return { tenant, clientId, ip: shownAddress(address), userAgent: shownUserAgent(userAgent) };
}

/** Returns the path of a request; a parameter that is not shown keeps its name. */
function pathOf(
  pattern: string,
  params: Readonly<Record<string, string>>,
  isShown: (value: string) => boolean,
): string {
  const path = pattern.replaceAll(/:([a-z_]+)/g, (name, key: string) => {
    const value = params[key];
    return value !== undefined && isShown(value) ? encodeURIComponent(value) : name;
  });
  return `/api/v2${path}`;
}

/** Returns whether a text is like the ids that Leat makes, and like no secret. */
function isOwnId(text: string): boolean {
  return /^(?:(?:api|cgr|dsm|est|evt|log|rpl)_[A-Za-z0-9]{22}|rol_[0-9a-f]{16})$/.test(text);
}

/** Returns the names of the fields of a body that its schema has. */
function namesOf(schema: TSchema, body: unknown): string[] {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) return [];
  const { properties = {} }: Schema = schema;
  return Object.keys(body).filter((name) => Object.hasOwn(properties, name));
}
