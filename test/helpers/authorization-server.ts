import { generateKeyPairSync, type KeyObject } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type Server } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { Provider } from 'oidc-provider';
import { authority, trusted } from './certificates.ts';

/** A foreign authorization server over TLS on loopback: npm `oidc-provider`. */
export interface AuthorizationServer {
  /** `iss` of its tokens, with a slash at its end. */
  readonly issuer: string;
  /** `host:port`. */
  readonly domain: string;
  /** How often its key set was fetched. */
  readonly keySetFetches: number;
  /** Returns an access token in JWT format, signed with RS256, valid for an hour. */
  token(options: TokenOptions): Promise<string>;
  /** Signs with another key and `kid` from now on; the former key is no longer published. */
  rotate(): void;
  /** Presents another certificate from now on; ends every connection, so that none uses the old one. */
  present(identity: typeof trusted): void;
  /** Ends every connection, and every new one before the first byte. It keeps its port. */
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
  /** The issuer that it claims to be; `https://host:port/` by default. */
  readonly issuer?: string;
  /** The signing key until it rotates; a new key by default. The first `kid` is `key-1`. */
  readonly privateKey?: KeyObject;
  /** Sends `100 Continue` before its key set. */
  readonly sendsContinue?: boolean;
}

const permissionsOf = { reader: [], admin: ['read:admin-messages'] };
const clientSecret = 'secret-of-every-client-of-the-authorization-server';
const keySetPath = '/.well-known/jwks.json';

/** Starts a server with two clients that may get tokens for any audience. */
export async function startAuthorizationServer(
  options: AuthorizationServerOptions = {},
): Promise<AuthorizationServer> {
  const server = createServer(trusted).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const domain = `127.0.0.1:${port}`;
  const { issuer = `https://${domain}/`, privateKey = makeSigningKey() } = options;
  const connections = connectionSwitch(server);

  let generation = 1;
  let handle = providerFor(issuer, privateKey, `key-${generation}`).callback();
  let keySetFetches = 0;
  server.on('request', (request, response) => {
    if (request.url === keySetPath) {
      keySetFetches += 1;
      if (options.sendsContinue === true) response.writeContinue();
    }
    void handle(request, response);
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
      handle = providerFor(issuer, makeSigningKey(), `key-${generation}`).callback();
    },
    present: (identity) => {
      server.setSecureContext(identity);
      connections.clear();
    },
    goDown: connections.shut,
    comeBack: connections.open,
    close: async () => {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}

/** Makes this process trust the certificates of tests, as `NODE_EXTRA_CA_CERTS` does for a program. */
export function trustAuthority(): void {
  setDefaultCACertificates([...getCACertificates(), authority]);
}

export function makeSigningKey(): KeyObject {
  return generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey;
}

/** Creates the provider of a key: a provider cannot change its keys. */
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
  const response = await fetch(url, {
    method: 'POST',
    headers: { authorization: `Basic ${btoa(`${client}:${clientSecret}`)}` },
    body: new URLSearchParams({ grant_type: 'client_credentials', resource: audience }),
  });
  const body = (await response.json()) as { access_token?: string };
  if (body.access_token === undefined) {
    throw new Error(`no token: ${response.status} ${JSON.stringify(body)}`);
  }
  return body.access_token;
}

/**
 * Lets a server refuse connections while it keeps its port, which another process could take
 * otherwise. Connections are not reset: after `resetAndDestroy` on a TLS connection, Node 26 spins at
 * its exit.
 */
function connectionSwitch(server: Server): Record<'clear' | 'shut' | 'open', () => void> {
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
