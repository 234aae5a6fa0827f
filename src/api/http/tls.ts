import { createServer } from 'node:https';
import type { TlsOptions } from 'node:tls';
import type { FastifyServerFactory } from 'fastify';
import { serverLimits } from './server.ts';

/** A certificate, with its chain, and its private key in PEM. */
export interface ServerIdentity {
  readonly cert: string;
  readonly key: string;
}

/** An HTTPS server for one app. */
export interface TlsServer {
  readonly factory: FastifyServerFactory;
  /** Sets the certificate of new connections; open ones keep theirs. */
  renew(identity: ServerIdentity): void;
}

/** TLS handshake timeout; an unauthenticated peer cannot hold a connection open. */
const HANDSHAKE_MS = 5_000;

/** Creates the server; `factory` is an option of Fastify. */
export function createTlsServer(identity: ServerIdentity): TlsServer {
  const options = { ...serverLimits.http, ...contextOf(identity), handshakeTimeout: HANDSHAKE_MS };
  const server = createServer(options);
  // Fastify does not set these on a custom server.
  server.requestTimeout = serverLimits.requestTimeout;
  server.keepAliveTimeout = serverLimits.keepAliveTimeout;
  server.setTimeout(serverLimits.connectionTimeout);
  return {
    factory: (handler) => server.on('request', handler),
    renew: (renewed) => server.setSecureContext(contextOf(renewed)),
  };
}

function contextOf({ cert, key }: ServerIdentity): TlsOptions {
  return { cert, key, minVersion: 'TLSv1.2' };
}
