import { once } from 'node:events';
import { createServer } from 'node:https';
import { type AddressInfo, createServer as createPlainServer, type Server } from 'node:net';
import type { TlsOptions } from 'node:tls';
import type { FastifyServerFactory } from 'fastify';
import { serverLimits } from './server.ts';

/** A certificate, with its chain, and its private key in PEM. */
export interface ServerIdentity {
  readonly cert: string;
  readonly key: string;
}

/** The server of one app that ends TLS itself. */
export interface TlsServer {
  readonly factory: FastifyServerFactory;
  /** Another certificate for connections from now on; open ones keep theirs. */
  renew(identity: ServerIdentity): void;
}

/** A connection that has not come to terms by then ends: a stranger cannot hold it open. */
const HANDSHAKE_MS = 5_000;

export function createTlsServer(identity: ServerIdentity): TlsServer {
  const options = { ...serverLimits.http, ...contextOf(identity), handshakeTimeout: HANDSHAKE_MS };
  const server = createServer(options);
  // Fastify leaves these to whoever makes the server.
  server.requestTimeout = serverLimits.requestTimeout;
  server.keepAliveTimeout = serverLimits.keepAliveTimeout;
  server.setTimeout(serverLimits.connectionTimeout);
  return {
    factory: (handler) => server.on('request', handler),
    renew: (renewed) => server.setSecureContext(contextOf(renewed)),
  };
}

/** Takes no new connection and ends when the open ones have ended. */
export type CloseAddresses = () => Promise<unknown>;

/**
 * Lets a server that listens take connections at these addresses too, on its port: Fastify binds
 * the further addresses of `localhost` only for servers that it makes itself. As with Fastify, one
 * that cannot be had is left out: many a machine has a name for ::1 and no IPv6.
 */
export async function openOtherAddresses(
  server: Server,
  addresses: readonly string[],
): Promise<CloseAddresses> {
  const { address: first, port } = server.address() as AddressInfo;
  const doors: Server[] = [];
  for (const address of addresses) {
    if (address === first) continue;
    // Without delay, as an HTTP server has its connections.
    const door = createPlainServer({ noDelay: true }, (socket) =>
      server.emit('connection', socket),
    );
    door.maxConnections = server.maxConnections;
    door.listen(port, address);
    const isOpen = await once(door, 'listening').then(
      () => true,
      () => false,
    );
    if (isOpen) doors.push(door);
  }
  return () => Promise.all(doors.map(closeDoor));
}

async function closeDoor(door: Server): Promise<void> {
  const closed = once(door, 'close');
  door.close();
  await closed;
}

function contextOf({ cert, key }: ServerIdentity): TlsOptions {
  return { cert, key, minVersion: 'TLSv1.2' };
}
