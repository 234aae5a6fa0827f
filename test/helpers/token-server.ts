import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { Provider } from 'oidc-provider';
import { trusted } from './certificates.ts';

/** A token endpoint of somebody else, over TLS on loopback: npm `oidc-provider` with one client. */
export interface TokenServer {
  /** Its token endpoint. */
  readonly url: string;
  readonly client: { readonly id: string; readonly secret: string };
  /** Requests for tokens so far. */
  readonly fetches: number;
  /** Returns the scope of a token that is valid and was not revoked. */
  scopeOf(token: string): Promise<string | undefined>;
  /** Makes all tokens so far invalid. */
  revokeAll(): void;
  /** Sets the response to later requests; `undefined` for that of the provider. */
  respond: ((response: ServerResponse) => void) | undefined;
  close(): Promise<void>;
}

/** Characters that form-encoding changes, and what looks like an escape. */
const client = { id: 'leat:client/1', secret: 'planted+secret of:the client%2F&=' };

export async function startTokenServer(): Promise<TokenServer> {
  const server = createServer(trusted).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const origin = `https://127.0.0.1:${port}`;
  const provider = providerOf(origin);
  const handle = provider.callback();
  const valid = new Set<string>();
  let fetches = 0;
  provider.on('client_credentials.saved', (token) => void valid.add(token.jti));
  const result: TokenServer = {
    url: `${origin}/token`,
    client,
    get fetches() {
      return fetches;
    },
    scopeOf: async (text) => {
      const token = await provider.ClientCredentials.find(text);
      return token?.isValid === true && valid.has(token.jti) ? token.scope : undefined;
    },
    revokeAll: () => valid.clear(),
    respond: undefined,
    close: async () => {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
  server.on('request', (request, response) => {
    fetches += 1;
    if (result.respond === undefined) void handle(request, response);
    else result.respond(response);
  });
  return result;
}

function providerOf(issuer: string): Provider {
  return new Provider(issuer, {
    clients: [
      {
        client_id: client.id,
        client_secret: client.secret,
        token_endpoint_auth_method: 'client_secret_basic',
        grant_types: ['client_credentials'],
        redirect_uris: [],
        response_types: [],
        scope: 'hooks:write',
      },
    ],
    scopes: ['hooks:write'],
    cookies: { keys: ['no cookie is ever set'] },
    features: { clientCredentials: { enabled: true }, devInteractions: { enabled: false } },
    ttl: { ClientCredentials: 3600 },
  });
}
