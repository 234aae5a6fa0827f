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

/** The message API in this process, with an issuer that is as good or as bad as a test wants it. */
export interface Place {
  readonly port: number;
  readonly url: string;
  /** What was reported of failures. */
  readonly reported: unknown[];
  /** How often the key set was asked for. */
  readonly fetches: () => number;
  /** Whether the issuer answers with its key set; otherwise 503. */
  available: boolean;
  /** A token that opens everything, with these changes. */
  token(claims?: JWTPayload, header?: { kid?: string }): Promise<string>;
  /** Gives the issuer another key, with another kid, instead of the one before. */
  rotate(): void;
  close(): Promise<void>;
}

export const origin = 'http://localhost:4040';
export const issuer = 'https://login.example.com/';
export const audience = 'https://messages.example.com';
/** As many connections as tests need, and no trusted proxy. */
export const connections: ConnectionRule = { maxConnectionsPerAddress: 1000, trustProxy: [] };
export const adminPermission = 'read:admin-messages';

const makeKey = (): KeyObject => generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey;
const keys = [makeKey(), makeKey()];

export async function openPlace(clock: Clock = systemClock, pageOrigin = origin): Promise<Place> {
  let current = 0;
  let fetched = 0;
  const answer = async (reply: ServerResponse): Promise<void> => {
    fetched += 1;
    if (!place.available) {
      reply.writeHead(503).end();
      return;
    }
    const { kty, n, e } = await exportJWK(keyNow());
    const kid = `key-${current}`;
    reply.end(JSON.stringify({ keys: [{ kty, n, e, kid, use: 'sig', alg: 'RS256' }] }));
  };
  const issuing = createServer((_request, reply) => void answer(reply)).listen(0, '127.0.0.1');
  await once(issuing, 'listening');
  const keyNow = (): KeyObject => keys[current % 2] ?? makeKey();
  const { port: issuerPort } = issuing.address() as AddressInfo;

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
    log: { warn: (facts) => reported.push(facts) },
  });
  const port = await server.listen({ host: '127.0.0.1', port: 0 });

  const place: Place = {
    port,
    url: `http://127.0.0.1:${port}`,
    reported,
    fetches: () => fetched,
    available: true,
    token: (claims = {}, header = {}) => {
      const now = Math.floor(clock.now() / 1000);
      const good = { iss: issuer, aud: audience, iat: now, exp: now + 3600 };
      return new SignJWT({ ...good, permissions: [adminPermission], ...claims })
        .setProtectedHeader({ alg: 'RS256', typ: 'JWT', kid: `key-${current}`, ...header })
        .sign(keyNow());
    },
    rotate: () => {
      current += 1;
    },
    close: async () => {
      await server.close();
      issuing.close();
      issuing.closeAllConnections();
    },
  };
  return place;
}
