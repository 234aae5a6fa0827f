import { generateKeyPairSync, type KeyObject } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type Server } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { Provider } from 'oidc-provider';
import { authority, trusted } from './certificates.ts';

/** An authorization server that is not ours, over TLS on loopback: npm `oidc-provider`. */
export interface AuthorizationServer {
  /** `iss` of its tokens, with a slash at its end. */
  readonly issuer: string;
  /** `host:port`. */
  readonly domain: string;
  /** How often its key set was asked for. */
  readonly keySetFetches: number;
  /** An access token in JWT format, signed RS256; it lives an hour. */
  token(options: TokenOptions): Promise<string>;
  /** Another key with another `kid` from now on; the key before is published no more. */
  rotate(): void;
  /** Another certificate from now on; ends every connection, so that nobody keeps the old one. */
  present(identity: typeof trusted): void;
  /** Ends every connection, and every new one before a byte is said. The port stays its own. */
  goDown(): void;
  comeBack(): void;
  close(): Promise<void>;
}

export interface TokenOptions {
  /** `aud`: the API that the token is for, a URL. */
  readonly audience: string;
  /** `reader` has no permission, `admin` has `read:admin-messages`. */
  readonly client: keyof typeof permissionsOf;
}

export interface AuthorizationServerOptions {
  /** What it claims to be; otherwise what it is, `https://host:port/`. */
  readonly issuer?: string;
  /** What it signs with until it rotates; otherwise a key of its own. The first `kid` is `key-1`. */
  readonly privateKey?: KeyObject;
}

const permissionsOf = { reader: [], admin: ['read:admin-messages'] };
const clientSecret = 'secret-of-every-client-of-the-authorization-server';
const keySetPath = '/.well-known/jwks.json';

/** Starts one, with two clients that may have tokens for any audience. */
export async function startAuthorizationServer(
  options: AuthorizationServerOptions = {},
): Promise<AuthorizationServer> {
  const server = createServer(trusted).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const domain = `127.0.0.1:${port}`;
  const { issuer = `https://${domain}/`, privateKey = makeSigningKey() } = options;
  const door = doorOf(server);

  let generation = 1;
  let answer = providerFor(issuer, privateKey, `key-${generation}`).callback();
  let keySetFetches = 0;
  server.on('request', (request, response) => {
    if (request.url === keySetPath) keySetFetches += 1;
    void answer(request, response);
  });

  return {
    issuer,
    domain,
    get keySetFetches() {
      return keySetFetches;
    },
    token: (request) => fetchToken(`https://${domain}/token`, request),
    rotate: () => {
      generation += 1;
      answer = providerFor(issuer, makeSigningKey(), `key-${generation}`).callback();
    },
    present: (identity) => {
      server.setSecureContext(identity);
      door.clear();
    },
    goDown: door.shut,
    comeBack: door.open,
    close: async () => {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}

/** Lets this process trust the certificates of tests, as `NODE_EXTRA_CA_CERTS` lets a program. */
export function trustAuthority(): void {
  setDefaultCACertificates([...getCACertificates(), authority]);
}

export function makeSigningKey(): KeyObject {
  return generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey;
}

/** The provider cannot change its keys, so that every key has a provider. */
function providerFor(issuer: string, privateKey: KeyObject, kid: string): Provider {
  const key = {
    ...privateKey.export({ format: 'jwk' }),
    kty: 'RSA',
    kid,
    use: 'sig',
    alg: 'RS256',
  };
  return new Provider(issuer, {
    clients: Object.keys(permissionsOf).map((id) => ({
      client_id: id,
      client_secret: clientSecret,
      grant_types: ['client_credentials'],
      redirect_uris: [],
      response_types: [],
    })),
    cookies: { keys: ['no cookie is ever set'] },
    features: {
      clientCredentials: { enabled: true },
      devInteractions: { enabled: false },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: (_context, audience) => ({
          audience,
          scope: '',
          accessTokenFormat: 'jwt',
          accessTokenTTL: 3600,
          jwt: { sign: { alg: 'RS256' } },
        }),
      },
    },
    extraTokenClaims: ({ oidc }) => ({
      permissions: permissionsOf[oidc.client?.clientId as TokenOptions['client']],
    }),
    jwks: { keys: [key] },
    routes: { jwks: keySetPath },
    ttl: { ClientCredentials: 3600 },
  });
}

async function fetchToken(url: string, { audience, client }: TokenOptions): Promise<string> {
  const answer = await fetch(url, {
    method: 'POST',
    headers: { authorization: `Basic ${btoa(`${client}:${clientSecret}`)}` },
    body: new URLSearchParams({ grant_type: 'client_credentials', resource: audience }),
  });
  const body = (await answer.json()) as { access_token?: string };
  if (body.access_token === undefined) {
    throw new Error(`no token: ${answer.status} ${JSON.stringify(body)}`);
  }
  return body.access_token;
}

/**
 * A server that gave its port up could find another one there when it comes back. The connections
 * are not reset: after `resetAndDestroy` on one that carries TLS, Node 26 spins at its exit.
 */
function doorOf(server: Server): Record<'clear' | 'shut' | 'open', () => void> {
  const sockets = new Set<Socket>();
  let shut = false;
  server.on('connection', (socket: Socket) => {
    if (shut) {
      socket.destroy();
      return;
    }
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
  });
  const clear = (): void => {
    for (const socket of sockets) socket.destroy();
  };
  return {
    clear,
    shut: () => {
      shut = true;
      clear();
    },
    open: () => {
      shut = false;
    },
  };
}
