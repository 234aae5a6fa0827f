import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { IncomingMessage } from 'node:http';
import { roleAccess } from '../auth/console-roles.ts';
import type { Clock, RandomBytes } from '../core/clock.ts';
import type { ConsoleRole, ConsoleSession } from '../core/console-session.ts';
import { formatTime } from '../core/date.ts';
import { makeId } from '../core/ids.ts';
import { runSync } from '../core/slices.ts';
import type { Tenant } from '../core/types.ts';
import {
  type CodeSent,
  codeSent,
  type CodeShown,
  type SessionShown,
} from '../schemas/console-session.ts';
import type { Store } from '../store/port/store.ts';
import {
  refusedSignIn,
  type Sender,
  type SignedIn,
  signInEntry,
  signOutEntry,
} from './audit-entry.ts';
import type { AuditRecorder } from './audit-recorder.ts';
import type { Authenticator, AuthContext } from './authenticate.ts';
import { clearedCookie, hashOf, secretHash, secretText, sessionCookie } from './console-cookie.ts';
import { foreignOriginProblem } from './origin-check.ts';
import { parseInSteps, readBody } from './http/body.ts';
import type { ClientAddress } from './http/client-address.ts';
import {
  badBody,
  missingAuthentication,
  tenantGone,
  Problem,
  problemBody,
  unauthorized,
  unavailable,
} from './http/problem.ts';
import { admitByRate, type RateLimiter } from './http/rate.ts';
import { send } from './http/respond.ts';
import { bodyCheck, bodyText } from './http/validation.ts';
import type { SessionReader, VerifiedSession } from './session-reader.ts';
import type { TenantLookup } from './tenants.ts';

export interface ConsoleSessionDeps {
  readonly store: Pick<Store, 'recording'> & {
    readonly consoleSessions: Pick<Store['consoleSessions'], 'roleOfCode'>;
  };
  readonly sessions: Pick<SessionReader, 'read' | 'ofHash' | 'drop'>;
  readonly authenticator: Pick<Authenticator, 'authenticate'>;
  readonly audit: Pick<AuditRecorder, 'note'>;
  readonly tenants: Pick<TenantLookup, 'ofBrowser' | 'refusal' | 'isFirst'>;
  readonly limiter: Pick<RateLimiter, 'takeOfAddress'>;
  readonly clientAddressOf: (request: IncomingMessage) => ClientAddress;
  /** Whether a request came over TLS, to Leat or to a trusted proxy. */
  readonly isSecure: (request: IncomingMessage) => boolean;
  readonly clock: Pick<Clock, 'now'>;
  readonly random: RandomBytes;
  /** Whether new requests are accepted. */
  readonly open: () => boolean;
  /** Version of the program. */
  readonly version: string;
  /** Whether people can sign in at a provider of OpenID Connect. */
  readonly hasProvider: boolean;
}

const path = '/console/session';
const loginPath = '/console/login';

/** Adds sign-in with a one-time code, the facts of a session and sign-out (docs/http-api.md#console-sessions). */
export function registerConsoleSession(app: FastifyInstance, deps: ConsoleSessionDeps): void {
  app.post(path, {
    onRequest: async (request, reply) => admitSignIn(deps, request, reply),
    handler: async (request, reply) => signIn(deps, request, reply),
  });
  app.get(path, async (request, reply) => {
    const context = await deps.authenticator.authenticate(request, reply);
    const found = sessionOrProblem(context);
    if (!(found instanceof Problem)) {
      return send(reply, 200, { body: show(deps, context.tenant, found.session) });
    }
    if (found.status !== 401 || !deps.hasProvider) throw found;
    const body = { ...problemBody(found), login: loginPath };
    return send(reply, found.status, { headers: found.headers, body });
  });
  app.delete(path, async (request, reply) => {
    const context = await deps.authenticator.authenticate(request, reply);
    const found = sessionOrProblem(context);
    if (found instanceof Problem && found.status !== 401) throw found;
    reply.header('set-cookie', clearedCookie(deps.isSecure(request.raw)));
    if (found instanceof Problem) throw found;
    await signOut(deps, request, context.tenant, found);
    return send(reply, 204, {});
  });
}

/** Who signed in, and with which role; `mapping` is the entry of LEAT_CONSOLE_ROLES that gave it. */
export interface SignIn {
  readonly tenant: Tenant;
  readonly role: ConsoleRole;
  readonly user: string;
  readonly mapping: string | undefined;
  /** Hash of the secret of the session that the browser had. */
  readonly replaced: Uint8Array | undefined;
}

/**
 * Begins a session of somebody whom a provider has identified, and sets its cookie. The session that it
 * replaces ends.
 */
export async function beginConsoleSession(
  deps: NewSessionDeps,
  request: FastifyRequest,
  reply: FastifyReply,
  { tenant, role, user, mapping, replaced }: SignIn,
): Promise<ConsoleSession> {
  const { id, secret, hash } = newSession(deps);
  const recording = recordingSignIn(deps, request, tenant, { id, user, role });
  const session = { tenant: tenant.id, id, secretHash: hash, role, user, mapping };
  const begun = await recording.consoleSessions.begin(session);
  // The tenant is being removed.
  if (begun === undefined) throw tenantGone();
  const former = replaced && (await deps.sessions.ofHash(tenant, replaced));
  if (former?.kind === 'session') await signOut(deps, request, tenant, former);
  reply.header('set-cookie', sessionCookie(secret, deps.isSecure(request.raw)));
  return begun;
}

interface NewSessionDeps extends Pick<
  ConsoleSessionDeps,
  'sessions' | 'clientAddressOf' | 'isSecure' | 'clock' | 'random'
> {
  readonly store: Pick<Store, 'recording'>;
}

/** Records a sign-in that was refused; the error is a code, and nothing of the request. */
export function noteRefusedSignIn(
  { audit, clientAddressOf }: Pick<ConsoleSessionDeps, 'audit' | 'clientAddressOf'>,
  request: FastifyRequest,
  tenant: Tenant,
  error: string,
): void {
  audit.note(refusedSignIn(senderOf({ clientAddressOf }, request, tenant), error));
}

/** Takes one from the bucket of the remote address: a code must not be guessed. */
function admitSignIn(deps: ConsoleSessionDeps, request: FastifyRequest, reply: FastifyReply): void {
  const { address, host } = deps.clientAddressOf(request.raw);
  admitByRate(reply, deps.limiter.takeOfAddress(address), deps.clock.now());
  if (!deps.open()) throw unavailable();
  // Otherwise another site could sign a browser in to a session of its own.
  const problem = foreignOriginProblem(request.raw, { isSecure: deps.isSecure(request.raw), host });
  if (problem !== undefined) throw problem;
}

/**
 * Redeems a code. The session is a new one; that of the cookie, which it replaces, ends. With `ask` it says
 * what would change, for the person to decide.
 */
async function signIn(
  deps: ConsoleSessionDeps,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const client = deps.clientAddressOf(request.raw);
  const tenant = deps.tenants.ofBrowser(client.host);
  if (tenant === undefined) throw deps.tenants.refusal(client.host, deps.clock.now());
  const { code, ask = false } = await readCode(request, reply);
  const former = await deps.sessions.read(request.raw, { tenant, client }, false);
  // With two different cookies the new session would not count either.
  if (former?.kind === 'refused' && former.problem.status !== 401) throw former.problem;
  const present = former?.kind === 'session' ? former : undefined;
  const codeHash = secretHash(code);
  const done =
    codeHash &&
    (await (ask ? askAbout : redeem)(deps, request, reply, { tenant, codeHash, present }));
  if (done !== undefined) return done;
  noteRefusedSignIn(deps, request, tenant, 'invalid_code');
  throw new Problem(401, invalidCode, 'invalid_code', {
    'www-authenticate': `Bearer realm="${tenant.domain}"`,
  });
}

interface Redemption {
  readonly tenant: Tenant;
  readonly codeHash: Uint8Array;
  /** The session that the browser has. */
  readonly present: VerifiedSession | undefined;
}

async function askAbout(
  deps: ConsoleSessionDeps,
  _request: FastifyRequest,
  reply: FastifyReply,
  { tenant, codeHash, present }: Redemption,
): Promise<FastifyReply | undefined> {
  const role = await deps.store.consoleSessions.roleOfCode(tenant.id, codeHash);
  if (role === undefined) return undefined;
  const session = present && show(deps, tenant, present.session);
  const body: CodeShown = { role, ...(session === undefined ? {} : { session }) };
  return send(reply, 200, { body });
}

async function redeem(
  deps: ConsoleSessionDeps,
  request: FastifyRequest,
  reply: FastifyReply,
  { tenant, codeHash, present }: Redemption,
): Promise<FastifyReply | undefined> {
  const { id, secret, hash } = newSession(deps);
  const { consoleSessions } = recordingSignIn(deps, request, tenant, { id, user: linkUser });
  const session = { id, secretHash: hash, user: linkUser };
  const redeemed = await consoleSessions.redeem(tenant.id, codeHash, session);
  if (redeemed === undefined) return undefined;
  if (present !== undefined) await signOut(deps, request, tenant, present);
  reply.header('set-cookie', sessionCookie(secret, deps.isSecure(request.raw)));
  return send(reply, 201, { body: show(deps, tenant, redeemed) });
}

/** The user of a session that began with a one-time link. */
const linkUser = 'one-time link';
const invalidCode =
  'The code is unknown, used or expired: it is valid once, for 10 minutes. Get another link from the operator, who runs leat console.';

const codeBytesMax = 1024;
const checkCode = bodyCheck(codeSent);

async function readCode(request: FastifyRequest, reply: FastifyReply): Promise<CodeSent> {
  const bounds = { bytesMax: codeBytesMax };
  const { bytes } = await readBody(request.raw, reply.raw, {}, bounds);
  if (bytes === undefined) throw badBody('Missing body', 'body', bodyText);
  const { value } = runSync(parseInSteps(bytes, { partsMax: codeBytesMax }));
  checkCode(value);
  return value as CodeSent;
}

async function signOut(
  { store, sessions, clock, random, clientAddressOf }: NewSessionDeps,
  request: FastifyRequest,
  tenant: Tenant,
  session: VerifiedSession,
): Promise<void> {
  const { clientId, session: caller } = session.caller;
  const sender = { ...senderOf({ clientAddressOf }, request, tenant), clientId, session: caller };
  const id = makeId('log_', clock.now(), random);
  const recording = store.recording({ ...signOutEntry(sender), id });
  await recording.consoleSessions.end(tenant.id, session.secretHash);
  sessions.drop(session);
}

function sessionOrProblem({ authentication, tenant }: AuthContext): VerifiedSession | Problem {
  if (authentication.kind === 'session') return authentication;
  if (authentication.kind === 'refused') return authentication.problem;
  return unauthorized(tenant.domain, missingAuthentication);
}

function show(
  { tenants, version }: ConsoleSessionDeps,
  tenant: Tenant,
  { user, role, endsAt }: ConsoleSession,
): SessionShown {
  const { scopes, operations, isWithheld } = roleAccess[role];
  return {
    tenant: tenant.name,
    domain: tenant.domain,
    user,
    role,
    scopes: [...scopes],
    operations: [...operations],
    ...(isWithheld ? { withheld: true } : {}),
    is_first_tenant: tenants.isFirst(tenant),
    ends_at: formatTime(endsAt),
    version,
  };
}

function newSession({ clock, random }: Pick<ConsoleSessionDeps, 'clock' | 'random'>): {
  readonly id: string;
  readonly secret: string;
  readonly hash: Uint8Array;
} {
  const bytes = random(32);
  const id = makeId('ses_', clock.now(), random);
  return { id, secret: secretText(bytes), hash: hashOf(bytes) };
}

function recordingSignIn(
  { store, clock, random, clientAddressOf }: NewSessionDeps,
  request: FastifyRequest,
  tenant: Tenant,
  session: SignedIn,
): ReturnType<Store['recording']> {
  const entry = signInEntry(senderOf({ clientAddressOf }, request, tenant), session);
  return store.recording({ ...entry, id: makeId('log_', clock.now(), random) });
}

function senderOf(
  { clientAddressOf }: Pick<ConsoleSessionDeps, 'clientAddressOf'>,
  { raw, headers }: FastifyRequest,
  tenant: Tenant,
): Sender {
  const { address } = clientAddressOf(raw);
  return { tenant: tenant.id, clientId: undefined, address, userAgent: headers['user-agent'] };
}
