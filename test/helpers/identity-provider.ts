import type { KeyObject } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { Provider } from 'oidc-provider';
import { makeSigningKey } from './authorization-server.ts';

/** An OpenID provider with a page to sign in, over HTTP on loopback: npm `oidc-provider`. */
export interface IdentityProvider {
  /** Without a slash at its end. */
  readonly issuer: string;
  readonly client: typeof consoleClient;
  /** Requested paths, oldest first. */
  readonly requests: readonly string[];
  close(): Promise<void>;
}

/** A person at the provider. */
export interface Person {
  readonly email: string;
  readonly email_verified?: boolean;
  readonly name?: string;
  readonly preferred_username?: string;
  readonly groups?: readonly string[];
}

export interface IdentityProviderOptions {
  /** By `sub`, which the page offers. */
  readonly people: Readonly<Record<string, Person>>;
  readonly redirectUris: readonly string[];
  /** Whether claims of scopes are in the ID token, too; by default at the userinfo endpoint alone. */
  readonly inIdToken?: boolean;
  /** Ids of further clients, with the same secret and redirect URIs. */
  readonly otherClients?: readonly string[];
}

export const consoleClient = { id: 'leat-console', secret: 'secret of the-console/client+' };

/** Starts a provider; every client must use PKCE. */
export async function startIdentityProvider(
  options: IdentityProviderOptions,
): Promise<IdentityProvider> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const provider = providerFor(issuer, options);
  const serve = provider.callback();
  const requests: string[] = [];
  server.on('request', (request, response) => {
    const { pathname } = new URL(request.url ?? '', issuer);
    requests.push(pathname);
    if (pathname.startsWith('/interaction/')) void interact(provider, options, request, response);
    else void serve(request, response);
  });
  return {
    issuer,
    client: consoleClient,
    requests,
    close: async () => {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}

/** Of all providers of a process, each of which has an issuer of its own: making a key takes a tenth of a second. */
let signingKey: KeyObject | undefined;

function providerFor(
  issuer: string,
  { people, redirectUris, inIdToken = false, otherClients = [] }: IdentityProviderOptions,
): Provider {
  signingKey ??= makeSigningKey();
  const key = { ...signingKey.export({ format: 'jwk' }), kty: 'RSA', kid: 'key-1' };
  return new Provider(issuer, {
    clients: [consoleClient.id, ...otherClients].map((id) => ({
      client_id: id,
      client_secret: consoleClient.secret,
      redirect_uris: [...redirectUris],
    })),
    claims: {
      openid: ['sub'],
      email: ['email', 'email_verified'],
      profile: ['name', 'preferred_username'],
      groups: ['groups'],
    },
    scopes: ['openid', 'email', 'profile', 'groups'],
    conformIdTokenClaims: !inIdToken,
    cookies: { keys: ['a key for the cookies of the provider'] },
    features: { devInteractions: { enabled: false } },
    findAccount: (_context, sub) => ({
      accountId: sub,
      claims: () => ({ sub, ...people[sub] }),
    }),
    interactions: { url: (_context, { uid }) => `/interaction/${uid}` },
    jwks: { keys: [{ ...key, use: 'sig', alg: 'RS256' }] },
    // Nobody is asked for consent.
    loadExistingGrant: async ({ oidc }) => {
      const grant = new oidc.provider.Grant({
        clientId: oidc.client?.clientId ?? '',
        accountId: oidc.session?.accountId ?? '',
      });
      grant.addOIDCScope('openid email profile groups');
      await grant.save();
      return grant;
    },
    pkce: { required: () => true },
    renderError: (context, out) => {
      context.body = JSON.stringify(out);
    },
    ttl: { AccessToken: 600, AuthorizationCode: 60, IdToken: 600, Interaction: 600, Session: 600 },
  });
}

/** Serves a page with a button for each person, and one that denies access. */
async function interact(
  provider: Provider,
  { people }: IdentityProviderOptions,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  if (request.method !== 'POST') {
    const buttons = [...Object.keys(people), denied].map(
      (name) => `<button name="choice" value="${name}">${name}</button>`,
    );
    response.writeHead(200, { 'content-type': 'text/html' });
    response.end(`<title>Provider</title><form method="post">${buttons.join('')}</form>`);
    return;
  }
  const choice = new URLSearchParams(await text(request)).get('choice') ?? '';
  const error = { error: 'access_denied', error_description: '<img src=x onerror=alert(1)>' };
  const result = choice === denied ? error : { login: { accountId: choice } };
  await provider.interactionFinished(request, response, result);
}

const denied = 'deny';

/**
 * Follows an authorization URL as a browser of a person, and returns the URL that the provider sends the
 * browser back to, which is not requested.
 *
 * @param choice the `sub` of a person, or `deny`
 */
export async function signInAt(authorizationUrl: string, choice: string): Promise<URL> {
  const { origin } = new URL(authorizationUrl);
  const cookies = new Map<string, string>();
  let url = new URL(authorizationUrl);
  let init: RequestInit = {};
  while (url.origin === origin) {
    const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join('; ');
    const response = await fetch(url, { ...init, redirect: 'manual', headers: { cookie } });
    const body = await response.text();
    for (const line of response.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
      cookies.set(name, value);
    }
    const location = response.headers.get('location');
    if (location !== null) {
      url = new URL(location, url);
      init = {};
    } else if (url.pathname.startsWith('/interaction/') && init.method === undefined) {
      init = { method: 'POST', body: new URLSearchParams({ choice }) };
    } else {
      throw new Error(`${url.pathname}: ${response.status} ${body}`);
    }
  }
  return url;
}
