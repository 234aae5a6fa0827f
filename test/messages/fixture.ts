import { generateKeyPairSync, type KeyObject } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { exportJWK, type JWTPayload, SignJWT } from 'jose';
import { createRemoteKeys, keySetAt } from '../../src/auth/remote-keys.ts';
import { systemClock } from '../../src/clock.ts';
import type { Clock } from '../../src/core/clock.ts';
import type { ConnectionRule } from '../../src/api/http/connection-guard.ts';
import { createMessageServer } from '../../src/messages/server.ts';

/** The message API in this process, with an issuer that a test can break. */
export interface MessageApi {
  readonly port: number;
  readonly url: string;
  /** Reported failures. */
  readonly reported: unknown[];
  /** Returns how often the key set was requested. */
  readonly fetches: () => number;
  /** Whether the issuer serves its key set; otherwise it responds 503. */
  available: boolean;
  /** Signs a token that is valid for everything, with these changes. */
  token(claims?: JWTPayload, header?: { kid?: string }): Promise<string>;
  /** Replaces the key of the issuer, with another kid. */
  rotate(): void;
  close(): Promise<void>;
}

export const origin = 'http://localhost:4040';
export const issuer = 'https://login.example.com/';
export const audience = 'https://messages.example.com';
/** Enough connections for all tests, and no trusted proxy. */
export const connections: ConnectionRule = { maxConnectionsPerAddress: 1000, trustProxy: [] };
export const adminPermission = 'read:admin-messages';

const generateKey = (): KeyObject => generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey;
const keys = [generateKey(), generateKey()];

export async function openMessageApi(
  clock: Clock = systemClock,
  { pageOrigin = origin, keepAliveSeconds = 650 } = {},
): Promise<MessageApi> {
  let current = 0;
  let fetched = 0;
  const sendKeySet = async (response: ServerResponse): Promise<void> => {
    fetched += 1;
    if (!api.available) {
      response.writeHead(503).end();
      return;
    }
    const { kty, n, e } = await exportJWK(currentKey());
    const kid = `key-${current}`;
    response.end(JSON.stringify({ keys: [{ kty, n, e, kid, use: 'sig', alg: 'RS256' }] }));
  };
  const issuerServer = createServer((_request, response) => void sendKeySet(response)).listen(
    0,
    '127.0.0.1',
  );
  await once(issuerServer, 'listening');
  const currentKey = (): KeyObject => keys[current % 2] ?? generateKey();
  const { port: issuerPort } = issuerServer.address() as AddressInfo;

  const reported: unknown[] = [];
  const remote = createRemoteKeys(
    { fetch, clock, report: () => undefined },
    keySetAt(`http://127.0.0.1:${issuerPort}/.well-known/jwks.json`),
  );
  const server = createMessageServer({
    origin: pageOrigin,
    trust: { issuer, audience, keys: remote },
    clock,
    report: (error) => reported.push(error),
    connections,
    keepAliveSeconds,
    log: { warn: (fields) => reported.push(fields) },
  });
  const port = await server.listen({ host: '127.0.0.1', port: 0 });

  const api: MessageApi = {
    port,
    url: `http://127.0.0.1:${port}`,
    reported,
    fetches: () => fetched,
    available: true,
    token: (claims = {}, header = {}) => {
      const now = Math.floor(clock.now() / 1000);
      const claimsByDefault = { iss: issuer, aud: audience, iat: now, exp: now + 3600 };
      return new SignJWT({ ...claimsByDefault, permissions: [adminPermission], ...claims })
        .setProtectedHeader({ alg: 'RS256', typ: 'JWT', kid: `key-${current}`, ...header })
        .sign(currentKey());
    },
    rotate: () => {
      current += 1;
    },
    close: async () => {
      await server.close();
      issuerServer.close();
      issuerServer.closeAllConnections();
    },
  };
  return api;
}
