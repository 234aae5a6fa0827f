import type { RandomBytes } from '../../core/clock.ts';
import { printable } from '../../core/setting.ts';
import type { CliEnv } from '../env.ts';
import { CommandFailed, notLoggedIn, usageError } from '../errors.ts';
import { leatCommand, type LeatCommand } from '../leat-command.ts';
import { type AccessToken, requestFirstToken, requestToken } from './access-token.ts';
import {
  credentialsFile,
  type Profile,
  type Profiles,
  readProfiles,
  updateProfiles,
} from './credentials.ts';
import type { LockDeps } from './file-lock.ts';
import { createHttpClient, type HttpClient, type HttpClientDeps } from './http-client.ts';
import type { RetryDeps } from './retry.ts';
import { audienceOf, serverOrigin, warnOfPlainHttp } from './server-url.ts';

/** Options that choose a session. */
export interface SessionOptions {
  /** Name of the login; `default` when absent. */
  readonly profile?: string;
  readonly ca?: string;
}

/** A server, and a client that is logged in there. */
export interface Session {
  readonly http: HttpClient;
  readonly clientId: string;
  /** The command that logs in there again. */
  readonly login: string;
  /** Says where the address is from, and how to use another one. */
  readonly addressSource: string;
  /** Returns the stored access token until it expires, then a new one. */
  token(): Promise<string>;
  /** Requests a new token after the stored one was rejected. */
  renewToken(): Promise<string>;
}

export interface SessionDeps extends HttpClientDeps, RetryDeps {
  readonly env: CliEnv;
  readonly random: RandomBytes;
  readonly leat: LeatCommand;
}

export const defaultProfile = 'default';

/**
 * Opens the session of the environment, else that of the last login with this profile name. Throws
 * {@link CommandFailed} when there is none, or when the environment names half of one.
 */
export async function openSession(deps: SessionDeps, options: SessionOptions): Promise<Session> {
  const { env, clock, note, leat } = deps;
  const fromEnv = profileOf(env);
  // Only a stored login needs a place: a container may have none.
  const file = (): string => credentialsFile(env.configHome);
  // A login has printed the warning already.
  if (fromEnv !== undefined) warnOfPlainHttp(fromEnv.url, note);
  const name = options.profile ?? defaultProfile;
  const profile =
    fromEnv ?? selectProfile(await readProfiles(file()), { name, url: env.url, leat });
  const http = createHttpClient(profile.url, deps, options.ca ?? env.caFile ?? profile.caFile);
  // A login forgets the authority that the former one has stored.
  const stored = env.caFile === undefined ? profile.caFile : undefined;
  const login = leatCommand({ ...options, ca: options.ca ?? stored })`login ${profile.url}`;
  const tokenDeps = { ...deps, login };
  let token = profile.token;
  const renewToken = async (): Promise<string> => {
    if (fromEnv !== undefined) {
      token = (await requestFirstToken(http, fromEnv, tokenDeps)).token;
    } else {
      token = await requestToken(http, profile, tokenDeps);
      await storeToken(file(), name, { profile, token }, deps).catch((error: unknown) => {
        // Without a writable folder, as in a container, every command requests a token.
        if (!(error instanceof CommandFailed)) throw error;
        note(`The token is not stored: ${error.message}`);
      });
    }
    return token.value;
  };
  return {
    http,
    clientId: profile.clientId,
    login,
    addressSource:
      fromEnv === undefined
        ? `The address is that of the login "${printable(name)}": ${leat`login <url>`} stores another one.`
        : 'The address is that of LEAT_URL.',
    renewToken,
    token: async () =>
      token !== undefined && token.endsAt > clock.now() ? token.value : renewToken(),
  };
}

/** Stores the token, unless another command has logged in or out meanwhile. */
function storeToken(
  file: string,
  name: string,
  { profile, token }: { profile: Profile; token: AccessToken },
  deps: LockDeps,
): Promise<void> {
  const change = (profiles: Profiles): Profiles | undefined => {
    const present = profiles[name];
    const isSame = present?.clientSecret === profile.clientSecret && present.url === profile.url;
    return isSame ? { ...profiles, [name]: { ...present, token } } : undefined;
  };
  return updateProfiles(file, change, deps);
}

function profileOf({ url, clientId, clientSecret }: CliEnv): Profile | undefined {
  if (clientId === undefined && clientSecret === undefined) return undefined;
  if (url === undefined || clientId === undefined || clientSecret === undefined) {
    throw usageError('Set LEAT_URL, LEAT_CLIENT_ID and LEAT_CLIENT_SECRET together, or none.');
  }
  const origin = serverOrigin(url);
  return { url: origin, clientId, clientSecret, audience: audienceOf(origin) };
}

/** Returns the profile, unless LEAT_URL is another server: its secret is never sent there. */
function selectProfile(
  profiles: Profiles,
  { name, url, leat }: { name: string; url: string | undefined; leat: LeatCommand },
): Profile {
  const profile = Object.hasOwn(profiles, name) ? profiles[name] : undefined;
  const server = url === undefined ? undefined : serverOrigin(url);
  if (profile !== undefined && (server === undefined || server === profile.url)) return profile;
  if (server !== undefined) {
    throw notLoggedIn(leat`login ${server}`, `Not logged in to ${server} (LEAT_URL)`);
  }
  const others = Object.keys(profiles).map(printable);
  if (others.length === 0) throw notLoggedIn(leat`login http://localhost:8080`);
  throw notLoggedIn(
    leat`login <url>`,
    `No login is called "${printable(name)}" (there is ${others.join(', ')})`,
  );
}
