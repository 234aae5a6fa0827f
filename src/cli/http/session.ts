import type { RandomBytes } from '../../core/clock.ts';
import { printable } from '../../core/setting.ts';
import { isLoopback } from '../../core/value.ts';
import {
  credentialsFile,
  type KeptToken,
  type Profile,
  type Profiles,
  readProfiles,
  writeProfiles,
} from './credentials.ts';
import { CommandFailed, exitCodes, failureOf, notLoggedIn, usageError } from './errors.ts';
import { createHttp, type Http, type HttpDeps } from './http.ts';
import { type RetryDeps, sendWithRetry } from '../retry.ts';

/** What the environment says to the commands that work over HTTP. */
export interface CliEnv {
  /** LEAT_URL, LEAT_CLIENT_ID and LEAT_CLIENT_SECRET: together a session without a login. */
  readonly url?: string;
  readonly clientId?: string;
  readonly clientSecret?: string;
  /** LEAT_CA: what `--ca` names. */
  readonly caFile?: string;
  /** LEAT_ALERT_WEBHOOK_URL, LEAT_ALERT_EMAIL and LEAT_SMTP_URL: places of `leat monitor`. */
  readonly alertWebhookUrl?: string;
  readonly alertEmail?: string;
  readonly smtpUrl?: string;
  /** XDG_CONFIG_HOME */
  readonly configHome?: string;
  /** NO_COLOR */
  readonly noColor: boolean;
}

/** Which session a command asks for. */
export interface SessionOptions {
  /** Name of the login; `default` when absent. */
  readonly profile?: string;
  readonly ca?: string;
}

/** A server, and a client that is logged in there. */
export interface Session {
  readonly http: Http;
  readonly clientId: string;
  /** An access token of the management API: the kept one while it lasts, else a new one. */
  token(): Promise<string>;
  /** A new one in the place of one that was refused. */
  renewToken(): Promise<string>;
}

export interface SessionDeps extends HttpDeps, RetryDeps {
  readonly env: CliEnv;
  readonly random: RandomBytes;
}

export const defaultProfile = 'default';
/** A token is not used in its last minute: a long command would outlive it. */
const reserveMs = 60_000;

/**
 * The session of the environment, else that of the last login with this profile name. Throws
 * {@link CommandFailed} when there is none, or when the environment names half of one.
 */
export async function openSession(deps: SessionDeps, options: SessionOptions): Promise<Session> {
  const { env } = deps;
  const file = credentialsFile(env.configHome);
  const fromEnv = profileOf(env);
  // Whoever logged in was told then.
  if (fromEnv !== undefined) warnOfPlainHttp(fromEnv.url, deps.note);
  const name = options.profile ?? defaultProfile;
  const profile = fromEnv ?? chosen(await readProfiles(file), name, env.url);
  const caFile = options.ca ?? env.caFile ?? profile.caFile;
  const http = createHttp(profile.url, deps, caFile);
  let kept = profile.token;
  const renewToken = async (): Promise<string> => {
    kept = await requestToken(http, profile, deps);
    if (fromEnv === undefined) {
      await keepToken(file, name, { profile, token: kept }, deps.random).catch((error: unknown) => {
        // A folder that cannot be written, as a container may have, costs a request each time.
        if (!(error instanceof CommandFailed)) throw error;
        deps.note(`The token is not kept: ${error.message}`);
      });
    }
    return kept.value;
  };
  return {
    http,
    clientId: profile.clientId,
    renewToken,
    token: async () =>
      kept !== undefined && kept.endsAt > deps.clock.now() ? kept.value : renewToken(),
  };
}

/**
 * Asks for an access token (RFC 6749 section 4.4). Throws {@link CommandFailed} with the server's
 * words when it is refused.
 */
export async function requestToken(
  http: Http,
  profile: Pick<Profile, 'clientId' | 'clientSecret' | 'audience'>,
  deps: RetryDeps,
): Promise<KeptToken> {
  const asked = deps.clock.now();
  const { clientId } = profile;
  const body = JSON.stringify({
    grant_type: 'client_credentials',
    audience: profile.audience,
    client_id: clientId,
    client_secret: profile.clientSecret,
  });
  const headers = { 'content-type': 'application/json' };
  const send = () => http.send({ method: 'POST', path: '/oauth/token', headers, body });
  const answer = await sendWithRetry(send, deps);
  if (answer.status === 401) {
    const who = `client ${printable(clientId)}`;
    const message = `${http.url} refuses ${who}: check its id and secret, then run \`leat login ${http.url}\`.`;
    throw new CommandFailed(exitCodes.authentication, message);
  }
  if (answer.status !== 200) throw failureOf(answer, { url: http.url, clientId });
  const token = tokenIn(answer.text);
  if (token === undefined) {
    const message = `${http.url} answered without a token: is it the address of a Leat server?`;
    throw new CommandFailed(exitCodes.failed, message);
  }
  return { value: token.value, endsAt: asked + token.lifetimeMs - reserveMs };
}

function tokenIn(text: string): { value: string; lifetimeMs: number } | undefined {
  try {
    const answer = Object(JSON.parse(text)) as { access_token?: unknown; expires_in?: unknown };
    const { access_token: value, expires_in: seconds } = answer;
    // A header must be able to carry it.
    if (typeof value !== 'string' || !/^[\u0021-\u007E]+$/.test(value)) return undefined;
    return { value, lifetimeMs: typeof seconds === 'number' ? seconds * 1000 : 0 };
  } catch {
    return undefined;
  }
}

/** Reads again first: another command may have logged in meanwhile. */
async function keepToken(
  file: string,
  name: string,
  { profile, token }: { profile: Profile; token: KeptToken },
  random: RandomBytes,
): Promise<void> {
  const profiles = await readProfiles(file);
  const now = profiles[name];
  if (now?.clientSecret !== profile.clientSecret || now.url !== profile.url) return;
  await writeProfiles(file, { ...profiles, [name]: { ...now, token } }, random);
}

function profileOf({ url, clientId, clientSecret }: CliEnv): Profile | undefined {
  if (clientId === undefined && clientSecret === undefined) return undefined;
  if (url === undefined || clientId === undefined || clientSecret === undefined) {
    throw usageError('Set LEAT_URL, LEAT_CLIENT_ID and LEAT_CLIENT_SECRET together, or none.');
  }
  const origin = serverOrigin(url);
  return { url: origin, clientId, clientSecret, audience: audienceOf(origin) };
}

/** A secret is never sent to another server than the one it was entered for. */
function chosen(profiles: Profiles, name: string, url: string | undefined): Profile {
  const profile = Object.hasOwn(profiles, name) ? profiles[name] : undefined;
  const wanted = url === undefined ? undefined : serverOrigin(url);
  if (profile !== undefined && (wanted === undefined || wanted === profile.url)) return profile;
  const others = Object.keys(profiles).map(printable);
  if (wanted !== undefined) throw notLoggedIn(wanted, `Not logged in to ${wanted} (LEAT_URL)`);
  if (others.length === 0) throw notLoggedIn();
  throw notLoggedIn(
    `<url> --profile ${printable(name)}`,
    `No login is called "${printable(name)}" (there is ${others.join(', ')})`,
  );
}

/** Says so when a secret would go over a network in the clear. */
export function warnOfPlainHttp(url: string, note: (text: string) => void): void {
  if (!url.startsWith('http:') || isLoopback(new URL(url).hostname)) return;
  note(`Warning: ${url} is not encrypted; the secret can be read on the way.`);
}

/** The audience of the management API of a server (docs/http-api.md#audiences). */
export function audienceOf(origin: string): string {
  return `https://${new URL(origin).host}/api/v2/`;
}

/**
 * The origin of a server's address; a path of the API at its end is dropped. Throws
 * {@link CommandFailed} when it is no such address.
 */
export function serverOrigin(text: string): string {
  const url = URL.parse(text);
  const bare = url !== null && url.username === '' && url.password === '' && url.search === '';
  const known = bare && /^\/(?:api\/v2\/?)?$/.test(url.pathname) && url.hash === '';
  if (known && (url.protocol === 'https:' || url.protocol === 'http:')) return url.origin;
  throw usageError(
    `"${printable(text.replace(/\/\/[^/]*@/, '//***@'))}" is not the address of a server, for example http://localhost:8080`,
  );
}
