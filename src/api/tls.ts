import { createServer, type Server } from 'node:https';
import type { TlsOptions } from 'node:tls';
import type { FastifyServerFactory } from 'fastify';
import { serverLimits } from './server.ts';

/** A certificate, with its chain, and its private key in PEM. */
export interface ServerIdentity {
  readonly cert: string;
  readonly key: string;
}

/** The servers of one app that end TLS themselves; on `localhost` it has one per address. */
export interface TlsServers {
  readonly factory: FastifyServerFactory;
  /** Another certificate for connections from now on; open ones keep theirs. */
  renew(identity: ServerIdentity): void;
}

/** A connection that has not come to terms by then ends: a stranger cannot hold it open. */
const HANDSHAKE_MS = 5_000;

export function createTlsServers(identity: ServerIdentity): TlsServers {
  const servers: Server[] = [];
  let context = contextOf(identity);
  return {
    factory: (handler) => {
      const options = { ...serverLimits.http, ...context, handshakeTimeout: HANDSHAKE_MS };
      const server = createServer(options, handler);
      // Fastify leaves these to whoever makes the server.
      server.requestTimeout = serverLimits.requestTimeout;
      server.keepAliveTimeout = serverLimits.keepAliveTimeout;
      server.setTimeout(serverLimits.connectionTimeout);
      servers.push(server);
      return server;
    },
    renew: (renewed) => {
      context = contextOf(renewed);
      for (const server of servers) server.setSecureContext(context);
    },
  };
}

function contextOf({ cert, key }: ServerIdentity): TlsOptions {
  return { cert, key, minVersion: 'TLSv1.2' };
}
