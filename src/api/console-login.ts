import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { IncomingMessage } from 'node:http';
import { issuerOf } from '../auth/issuer.ts';
import type { Login, OpenIdProvider, SignInFailure } from '../auth/openid-provider.ts';
import type { Claims } from '../core/claim-path.ts';
import type { Clock, RandomBytes } from '../core/clock.ts';
import {
  claimsOf,
  type ConsoleMapping,
  mappingFor,
  type RoleOfMapping,
  soughtIn,
  userOf,
} from '../core/console-mapping.ts';
import type { Log } from '../core/log.ts';
import type { Tenant } from '../core/types.ts';
import {
  clearedLoginCookie,
  consolePath,
  consoleRoot,
  loginCookie,
  loginsOf,
  type StoredLogin,
} from './console-login-cookie.ts';
import { secretHash, secretsOf, secretText } from './console-cookie.ts';
import {
  beginConsoleSession,
  type ConsoleSessionDeps,
  noteRefusedSignIn,
} from './console-session.ts';
import { unavailable } from './http/problem.ts';
import { admitByRate } from './http/rate.ts';
import { send } from './http/respond.ts';
import type { ApiSettings } from './settings.ts';

/** The provider at which people sign in to the console, and who has which role then. */
export interface ConsoleProvider {
  readonly openId: OpenIdProvider;
  /** LEAT_CONSOLE_ROLES. */
  readonly mappings: readonly ConsoleMapping[];
  /** Returns the role that an entry of it gives now; `undefined` when it is gone. */
  readonly roleOf: RoleOfMapping;
  readonly limits: ConsoleLoginLimits;
}

export interface ConsoleLoginLimits {
  /** From the redirect to the provider until the browser is back. */
  readonly loginMs: number;
  /** Sign-ins of this node that wait for the provider. */
  readonly atOnce: number;
}

export interface ConsoleLoginDeps extends Pick<
  ConsoleSessionDeps,
  'store' | 'sessions' | 'audit' | 'tenants' | 'limiter' | 'clientAddressOf' | 'isSecure' | 'open'
> {
  readonly provider: ConsoleProvider;
  readonly settings: Pick<ApiSettings, 'plainHttp'>;
  readonly clock: Pick<Clock, 'now' | 'elapsedMs'>;
  readonly random: RandomBytes;
  readonly log: Pick<Log, 'warn'>;
}

/**
 * Why nobody is signed in, as the page is told in its fragment (docs/console.md#when-a-sign-in-fails).
 * The list is closed: no text of the provider or of the request gets into the page.
 */
type Failure = SignInFailure['failure'] | 'expired' | 'no_role';

const loginPath = '/console/login';
const callbackPath = '/console/callback';

/** Adds the way to the identity provider and back (docs/console.md#sign-in-with-your-identity-provider). */
export function registerConsoleLogin(app: FastifyInstance, all: ConsoleLoginDeps): void {
  const deps = { ...all, report: createReport(all) };
  const run = createLimit(deps.provider.limits.atOnce);
  serve(app, deps, loginPath, (...exchange) => run(() => beginLogin(deps, ...exchange)));
  serve(app, deps, callbackPath, (...exchange) => run(() => endLogin(deps, ...exchange)));
}

interface Deps extends ConsoleLoginDeps {
  readonly report: (failed: Failed, tenant: Tenant) => void;
}
type Handler = (
  request: FastifyRequest,
  reply: FastifyReply,
  tenant: Tenant,
) => Promise<FastifyReply>;

/** Adds a route for GET alone: HEAD, which some programs send ahead, would use the code up. */
function serve(app: FastifyInstance, deps: ConsoleLoginDeps, path: string, handler: Handler): void {
  app.get(path, {
    exposeHeadRoute: false,
    handler: async (request, reply) => {
      const { address, host } = deps.clientAddressOf(request.raw);
      admitByRate(reply, deps.limiter.takeOfAddress(address), deps.clock.now());
      if (!deps.open()) throw unavailable();
      const tenant = deps.tenants.ofBrowser(host);
      if (tenant === undefined) throw deps.tenants.refusal(host, deps.clock.now());
      return handler(request, reply, tenant);
    },
  });
}

/** Returns a function that runs at most so many at once. It throws 503 for others. */
function createLimit(atOnce: number): <T>(run: () => Promise<T>) => Promise<T> {
  let running = 0;
  return async (run) => {
    if (running >= atOnce) throw unavailable();
    running += 1;
    try {
      return await run();
    } finally {
      running -= 1;
    }
  };
}

const reportEveryMs = 1000;

/** Logs failures for the operator, one a second at most: anybody can cause them. */
function createReport({ log, clock }: Pick<ConsoleLoginDeps, 'log' | 'clock'>): Deps['report'] {
  let loggedAtMs = -Infinity;
  return ({ failure, reason }, { name }) => {
    const nowMs = clock.elapsedMs();
    if (nowMs - loggedAtMs < reportEveryMs) return;
    loggedAtMs = nowMs;
    log.warn({ tenant: name, failure, reason }, 'a sign-in to the console failed');
  };
}

async function beginLogin(
  deps: Deps,
  request: FastifyRequest,
  reply: FastifyReply,
  tenant: Tenant,
): Promise<FastifyReply> {
  const { clock, random } = deps;
  const query = queryOf(request.raw);
  const elsewhere = ownUrl(deps, request.raw, tenant, query);
  if (elsewhere !== undefined) return redirect(reply, elsewhere);
  const text = (): string => Buffer.from(random(32)).toString('base64url');
  const login: StoredLogin = {
    tenant: tenant.id,
    state: text(),
    nonce: text(),
    codeVerifier: text(),
    to: consolePath(query.get('to')),
    begunAt: clock.now(),
    ...formerOf(deps, request.raw),
  };
  const found = await deps.provider.openId.authorizationUrl(withUri(deps, tenant, login));
  if ('failure' in found) return fail(deps, request, reply, tenant, found);
  reply.header('set-cookie', loginCookie(login, cookieOptions(deps, request.raw)));
  return redirect(reply, found.url.href);
}

async function endLogin(
  deps: Deps,
  request: FastifyRequest,
  reply: FastifyReply,
  tenant: Tenant,
): Promise<FastifyReply> {
  const { mappings, openId } = deps.provider;
  // Whatever comes of it: a second response for the same sign-in is none of the provider.
  reply.header('set-cookie', clearedLoginCookie(deps.isSecure(request.raw)));
  const login = loginOf(deps, request.raw, tenant);
  if ('failure' in login) return fail(deps, request, reply, tenant, login);
  const found = await openId.claims(
    withUri(deps, tenant, login),
    searchOf(request.raw),
    claimsOf(mappings, tenant.name),
  );
  if ('failure' in found) return fail(deps, request, reply, tenant, found);
  return enter(deps, request, reply, { tenant, claims: found.claims, login });
}

/** Begins a session for a person that the provider has identified, if a mapping gives a role. */
async function enter(
  deps: Deps,
  request: FastifyRequest,
  reply: FastifyReply,
  { tenant, claims, login }: { tenant: Tenant; claims: Claims; login: StoredLogin },
): Promise<FastifyReply> {
  const mapping = mappingFor(deps.provider.mappings, tenant.name, claims);
  const user = userOf(claims);
  if (mapping === undefined) {
    const sought = soughtIn(deps.provider.mappings, tenant.name, claims);
    const nothing = sought === '' ? '' : `; claims looked for: ${sought}`;
    const reason = `no entry of LEAT_CONSOLE_ROLES for ${tenant.name} gives ${user} a role${nothing}`;
    return fail(deps, request, reply, tenant, { failure: 'no_role', reason });
  }
  const { role, id } = mapping;
  const { former } = { ...login, ...formerOf(deps, request.raw) };
  const replaced = former === undefined ? undefined : Buffer.from(former, 'base64url');
  await beginConsoleSession(deps, request, reply, { tenant, role, user, mapping: id, replaced });
  return redirect(reply, login.to);
}

/** Returns the session whose cookie a request has, if it has one. */
function formerOf(
  { isSecure }: Pick<Deps, 'isSecure'>,
  request: IncomingMessage,
): Pick<StoredLogin, 'former'> {
  const [secret = ''] = secretsOf(request.headers.cookie, isSecure(request));
  const hash = secretHash(secret);
  return hash === undefined ? {} : { former: secretText(hash) };
}

/** Returns the sign-in that this browser began and that the response of the provider belongs to. */
function loginOf(
  { clock, provider, isSecure }: Deps,
  request: IncomingMessage,
  tenant: Tenant,
): StoredLogin | Failed {
  const logins = loginsOf(request.headers.cookie, isSecure(request));
  const ofTenant = logins.filter((login) => login.tenant === tenant.id);
  if (ofTenant.length === 0) return { failure: 'expired' };
  const state = queryOf(request).get('state');
  const login = ofTenant.find((each) => each.state === state);
  if (login === undefined) return { failure: 'failed' };
  const isOver = clock.now() - login.begunAt > provider.limits.loginMs;
  return isOver ? { failure: 'expired' } : login;
}

interface Failed {
  readonly failure: Failure;
  /** For the log of the operator; absent where the provider had no part in it. */
  readonly reason?: string;
}

function fail(
  deps: Deps,
  request: FastifyRequest,
  reply: FastifyReply,
  tenant: Tenant,
  { failure, reason }: Failed,
): FastifyReply {
  if (reason !== undefined) deps.report({ failure, reason }, tenant);
  noteRefusedSignIn(deps, request, tenant, failure);
  return redirectWith(reply, failure);
}

function redirectWith(reply: FastifyReply, failure: Failure): FastifyReply {
  return redirect(reply, `${consoleRoot}#error=${failure}`);
}

function redirect(reply: FastifyReply, location: string): FastifyReply {
  // The address of the callback has the code; no page that is opened from it may learn that.
  return send(reply, 302, { headers: { location, 'referrer-policy': 'no-referrer' } });
}

/**
 * Returns the address of this page under the domain of the tenant, where the provider sends the browser
 * back to, if the browser is somewhere else: it would not show the cookie there. Once only, as a proxy may
 * send another `Host` than the browser.
 */
function ownUrl(
  { clientAddressOf, settings }: Deps,
  request: IncomingMessage,
  { domain }: Tenant,
  query: URLSearchParams,
): string | undefined {
  const isHere = clientAddressOf(request).host.toLowerCase() === domain;
  if (isHere || query.has('moved')) return undefined;
  const url = new URL(loginPath, issuerOf(domain, settings.plainHttp(domain)));
  url.search = new URLSearchParams({ to: consolePath(query.get('to')), moved: '1' }).toString();
  return url.href;
}

function withUri({ settings }: Deps, { domain }: Tenant, login: StoredLogin): Login {
  const redirectUri = new URL(callbackPath, issuerOf(domain, settings.plainHttp(domain))).href;
  return { ...login, redirectUri };
}

function cookieOptions(
  { isSecure, provider }: Deps,
  request: IncomingMessage,
): { isSecure: boolean; maxAgeMs: number } {
  return { isSecure: isSecure(request), maxAgeMs: provider.limits.loginMs };
}

function queryOf(request: IncomingMessage): URLSearchParams {
  return new URLSearchParams(searchOf(request));
}

function searchOf({ url = '' }: IncomingMessage): string {
  const start = url.indexOf('?');
  return start < 0 ? '' : url.slice(start);
}
