import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import type { Clock } from '../../core/clock.ts';
import { Counts } from '../../core/counts.ts';
import { addressKey } from '../../core/rate.ts';
import { createProxyCheck } from './client-address.ts';
import { guardRequests, pipelinedMax } from './request-guard.ts';

/** Open connections of one process; further ones are closed. */
const connectionsMax = 20_000;

/** Time between two warnings about rejected connections. */
const warnEveryMs = 60_000;

/** How many connections a server accepts. */
export interface ConnectionRule {
  /** LEAT_MAX_CONNECTIONS_PER_ADDRESS: per IPv4 address or IPv6 /64. */
  readonly maxConnectionsPerAddress: number;
  /** LEAT_TRUST_PROXY: connections of these addresses and ranges are not counted per address. */
  readonly trustProxy: readonly string[];
}

export interface ConnectionGuardDeps {
  readonly rule: ConnectionRule;
  readonly clock: Pick<Clock, 'elapsedMs' | 'after'>;
  /** Receives at most one line per minute. */
  readonly log: { warn(facts: object, message: string): void };
  /** Called for every rejected connection. */
  readonly count?: (() => void) | undefined;
}

/**
 * Closes new connections of an address that has its maximum already, before a TLS handshake or a
 * read, so that one client cannot use up all connections. Also closes connections that send too many
 * requests at once, or none for too long. Call it after the server has its listeners of connections
 * and requests.
 */
export function guardConnections(server: Server, deps: ConnectionGuardDeps): void {
  const { rule, count } = deps;
  const isTrusted = createProxyCheck(rule.trustProxy);
  const warn = createWarning(deps);
  const reject = (
    facts: { address?: string | undefined; limit: number },
    message: string,
  ): void => {
    count?.();
    warn(facts, message);
  };
  const addressMax = rule.maxConnectionsPerAddress;
  const counts = new Counts<string>();
  const isAdmitted = (socket: Socket): boolean => {
    const { remoteAddress } = socket;
    // The peer has disconnected already.
    if (remoteAddress === undefined) return false;
    if (isTrusted(remoteAddress)) return true;
    const address = addressKey(remoteAddress);
    if (counts.of(address) >= addressMax) {
      reject({ address, limit: addressMax }, tooManyConnections);
      return false;
    }
    counts.add(address, 1);
    socket.once('close', () => counts.add(address, -1));
    return true;
  };
  const listeners = server.listeners('connection');
  server.removeAllListeners('connection').on('connection', (socket: Socket) => {
    if (!isAdmitted(socket)) socket.destroy();
    else for (const listener of listeners) listener.call(server, socket);
  });
  server.maxConnections = connectionsMax;
  server.on('drop', () => reject({ limit: connectionsMax }, tooManyConnections));
  guardRequests(server, {
    clock: deps.clock,
    reject: ({ remoteAddress: address }) =>
      reject({ address, limit: pipelinedMax }, tooManyRequests),
  });
}

/** Logs the first rejection at once, and later ones at most once a minute with their number. */
function createWarning({
  clock,
  log,
}: Pick<ConnectionGuardDeps, 'clock' | 'log'>): (facts: object, message: string) => void {
  let nextMs = -Infinity;
  let rejected = 0;
  return (facts, message) => {
    rejected += 1;
    const nowMs = clock.elapsedMs();
    if (nowMs < nextMs) return;
    log.warn({ ...facts, refused: rejected }, message);
    nextMs = nowMs + warnEveryMs;
    rejected = 0;
  };
}

const tooManyConnections =
  'connections above the limit were closed; see LEAT_MAX_CONNECTIONS_PER_ADDRESS, and LEAT_TRUST_PROXY for a proxy';

const tooManyRequests =
  'connections that sent too many requests before the responses were closed: HTTP pipelining is bounded';
