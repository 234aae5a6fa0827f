import { constants } from 'node:crypto';
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
  server.setTimeout(serverLimits.connectionTimeout);
  return {
    factory: (handler) => server.on('request', handler),
    renew: (renewed) => server.setSecureContext(contextOf(renewed)),
  };
}

/** RFC 9325 section 4.2: with TLS 1.2 forward secrecy and authenticated encryption only. */
const ciphers = [
  'TLS_AES_256_GCM_SHA384',
  'TLS_CHACHA20_POLY1305_SHA256',
  'TLS_AES_128_GCM_SHA256',
  'ECDHE+AESGCM',
  'ECDHE+CHACHA20',
].join(':');

function contextOf({ cert, key }: ServerIdentity): TlsOptions {
  return {
    cert,
    key,
    ciphers,
    minVersion: 'TLSv1.2',
    // Each renegotiation costs the server a handshake that no limit of requests counts.
    secureOptions: constants.SSL_OP_NO_RENEGOTIATION,
  };
}
