import type { LookupFunction, Socket } from 'node:net';
import { Client } from 'undici';
import type { Clock } from '../../core/clock.ts';
import type { ClientIdentity, Connect, Connected, ConnectTarget } from './connect.ts';
import type { Connection } from './connection-pool.ts';
import { EarlyResponse } from './early-response.ts';
import type { Exchange, ExchangeConnection } from './exchange.ts';
import { acceptInterimResponses, type InterimResponses } from './interim-responses.ts';
import { giveAddresses } from './lookup-function.ts';
import { type NameResult, type NameLookups, timedOut } from './name-lookups.ts';
import { isUnasked } from './transport-error.ts';
import type { UnaskedOrigins } from './unasked-origins.ts';

/** A connection through undici. */
export interface HttpConnection extends Connection, ExchangeConnection {
  readonly origin: string;
  readonly client: Client;
  error: Error | undefined;
  /** From then on it carries no further request. */
  endsMs: number;
  /** The tenant of its present exchange. */
  tenant: number;
  /** It was used before. */
  isReused: boolean;
  /** A request was written, and its response has not ended. */
  isAsked: boolean;
}

export interface HttpConnectionDeps {
  readonly clock: Clock;
  readonly connect: Connect;
  readonly lookup: Lookup;
  /** Returns how long a connection carries further requests after it was opened. */
  readonly lifeMs: () => number;
  /** Of an attempt. */
  readonly timeoutMs: number;
  readonly unasked: UnaskedOrigins;
  /** Receives it after each request. */
  readonly connections: {
    release(connection: HttpConnection): void;
    drop(connection: HttpConnection): void;
  };
}

/** Opens a connection for a request, which connects when that is dispatched. */
export function openConnection(
  route: string,
  { origin, identity }: { readonly origin: string; readonly identity?: ClientIdentity | undefined },
  { clock, connect, lookup, lifeMs, timeoutMs, unasked, connections }: HttpConnectionDeps,
): HttpConnection {
  let socket: Socket | undefined;
  let interim: InterimResponses | undefined;
  const lookupFunction: LookupFunction = (name, options, callback) =>
    lookup(connection.tenant, name, connection.exchange, (result) =>
      giveAddresses(result, options, callback),
    );
  const wait = (ready: () => void): void => void clock.after(unaskedWaitMs, ready);
  const client = new Client(origin, {
    ...clientOptions,
    connect: (target: ConnectTarget, connected: Connected) => {
      connection.phase = 'connecting';
      connection.endsMs = clock.elapsedMs() + lifeMs();
      const own = { ...target, identity, timeoutMs, wait: unasked.has(origin) ? wait : undefined };
      socket = connect(own, lookupFunction, (...result) => {
        if (result[0] instanceof EarlyResponse) unasked.note(origin);
        connected(...result);
      });
      connection.error = undefined;
      // Such as the alert that refuses a client certificate: undici goes by the end that follows.
      socket.once('error', (error) => (connection.error = error));
      interim = acceptInterimResponses(socket);
      // First, because the next listener may send the request.
      socket.prependOnceListener('connect', () => (connection.phase = 'securing'));
      socket.on('readable', () => connection.exchange?.countWire(socket?.bytesRead ?? 0));
    },
  });
  const connection: HttpConnection = {
    route,
    origin,
    client,
    phase: 'connecting',
    exchange: undefined,
    error: undefined,
    endsMs: 0,
    tenant: 0,
    isReused: false,
    isAsked: false,
    begin: () => {
      connection.isAsked = true;
      connection.phase = 'sent';
      interim?.restart();
    },
    release: () => {
      connection.isAsked = false;
      connections.release(connection);
    },
    drop: () => connections.drop(connection),
    end: async () => {
      socket?.destroy();
      await client.destroy();
    },
  };
  client.on('disconnect', (_origin, _targets, error) => {
    if (!connection.isAsked && isUnasked(error)) unasked.note(origin);
    // With an exchange that was not sent yet, undici connects again.
    if (connection.exchange === undefined) connection.drop();
  });
  return connection;
}

/**
 * How long an idle connection stays open. A receiver can shorten it (`Keep-Alive`), not lengthen
 * it.
 */
const idleMs = 10_000;

/** How long a connection to an origin that sends without a request stays silent before one is written. */
const unaskedWaitMs = 200;

/** Of a response; more is a protocol error. */
const headerBytesMax = 16_384;

const clientOptions = {
  pipelining: 1,
  keepAliveTimeout: idleMs,
  keepAliveMaxTimeout: idleMs,
  maxHeaderSize: headerBytesMax,
  // The deadline covers the attempt.
  headersTimeout: 0,
  bodyTimeout: 0,
};

/**
 * Calls `ended` with the result of a lookup; the time of the exchange is paused until the lookup
 * starts. The attempt was prepared, so this is for changes since then: another attempt took the
 * idle connection, or the receiver closed it.
 */
type Lookup = (
  tenant: number,
  name: string,
  exchange: Exchange | undefined,
  ended: (result: NameResult) => void,
) => void;

/**
 * The longest wait of an attempt for the start of its lookup; it fails then. It occupies a slot,
 * and the lease of its row is little longer than the time limit of an attempt.
 */
const lookupWaitMaxMs = 2000;

/** Creates the lookups of connections. */
export function createLookup({
  clock,
  names,
}: {
  readonly clock: Clock;
  readonly names: Pick<NameLookups, 'last' | 'find'>;
}): Lookup {
  return (tenant, name, exchange, ended) => {
    const known = names.last(name);
    if (known !== undefined) return queueMicrotask(() => ended(known));
    const sinceMs = clock.elapsedMs();
    let isWaiting = true;
    const begun = (): void => {
      if (!isWaiting) return;
      isWaiting = false;
      timer.cancel();
      exchange?.resume(clock.elapsedMs() - sinceMs);
    };
    let isOver = false;
    const endOnce = (result: NameResult): void => {
      if (!isOver) ended(result);
      isOver = true;
    };
    const timer = clock.after(lookupWaitMaxMs, () => {
      begun();
      endOnce({ kind: 'failed', code: timedOut });
    });
    exchange?.pause();
    names.find(tenant, name, { first: true, begun, ended: endOnce });
  };
}
