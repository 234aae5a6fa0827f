import type { LookupFunction } from 'node:net';
import { availableParallelism } from 'node:os';
import { type Config, limits } from '../config.ts';
import type { Clock } from '../core/clock.ts';
import type { Log } from '../core/log.ts';
import { createAccessTokens } from '../delivery/http/access-tokens.ts';
import { createAuthorizedTransport } from '../delivery/authorized-transport.ts';
import { type BlockedFound, createEgressRule, type EgressRule } from '../delivery/http/egress.ts';
import { createFetch, type OwnFetch } from '../delivery/http/fetch.ts';
import { createInspector, type Inspector } from '../delivery/http/inspector.ts';
import { lookupFunction } from '../delivery/http/lookup-function.ts';
import { createNameLookups, type NameLookups } from '../delivery/http/name-lookups.ts';
import { createResolver } from '../delivery/http/resolver.ts';
import { RecentTexts } from '../delivery/http/recent-texts.ts';
import { createShortages, type Shortages } from '../delivery/http/shortages.ts';
import { createTokenEndpoints } from '../delivery/http/token-endpoint.ts';
import type { TransportDeps } from '../delivery/http/transport.ts';
import { createLaterTransport } from '../delivery/later-transport.ts';
import { createSigningTransport, type SigningTransport } from '../delivery/signing-transport.ts';
import { UnaskedOrigins } from '../delivery/http/unasked-origins.ts';
import { createSenderThreads } from '../delivery/threads/sender-threads.ts';
import { logReport } from './delivery-log.ts';

/** Outgoing connections of the service. They share the limits on name lookups. */
export interface Network {
  readonly egress: EgressRule;
  /** Sends webhooks. */
  readonly transport: SigningTransport;
  /** Receives webhooks whose endpoint is an inspector. */
  readonly inspector: Inspector;
  /** Sends requests of the service itself to addresses that the operator configured. */
  readonly fetch: OwnFetch['fetch'];
  /** Resolves names for the same, with the signature of `dns.lookup`. */
  readonly lookup: LookupFunction;
  readonly names: Pick<NameLookups, 'count'>;
  /** What this node is short of; holds back what needs it. */
  readonly shortages: Shortages;
  /** Resolves a name once, outside the queue; for commands of the operator. */
  addressesOf(this: void, name: string): Promise<readonly string[]>;
  /** Loads the client that sends webhooks, which otherwise the first of them does. */
  load(this: void): Promise<void>;
  /** Aborts requests and lookups in progress. */
  close(): Promise<void>;
}

/** Creates the parts; opens no connection and starts no thread. */
export function openNetwork({
  config,
  clock,
  log,
}: {
  readonly config: Config;
  readonly clock: Clock;
  /** Absent where nothing is delivered. */
  readonly log?: Log;
}): Network {
  const resolver = createResolver({ clock, servers: config.dnsServers, ...limits.resolver });
  const { resolve } = resolver;
  const shortages = createShortages({ clock });
  const names = createNameLookups({ clock, resolve, limits: limits.names, shortages });
  const networks = { allow: config.egressAllow, deny: config.egressDeny };
  const egress = createEgressRule(networks);
  const inspector = createInspector({ clock, settings: limits.inspector });
  const blockedFound = blockedLog(clock, log);
  const checked = { clock, egress, names, blockedFound, unasked: new UnaskedOrigins(clock) };
  const endpoints = createTokenEndpoints({ ...checked, limits: limits.tokens });
  const unexpected = (error: unknown): void => {
    if (log !== undefined) logReport(log, { kind: 'unexpected', error });
  };
  const count = config.senderThreads ?? Math.max(1, availableParallelism() - 1);
  const bounds = boundsOf(config);
  const idleConnectionsMax = config.concurrency;
  const here = createLaterTransport({
    open: async () => {
      const { createTransport } = await import('../delivery/http/transport.ts');
      const shortage = shortages.connections;
      const deps = { ...checked, inspector, shortage, idleConnectionsMax, ...bounds };
      return createSigningTransport(createTransport(deps), unexpected);
    },
    clock,
    unexpected,
  });
  const perThread = Math.ceil(config.concurrency / Math.max(1, count));
  const transport = createAuthorizedTransport({
    transport: createSenderThreads({
      count,
      data: { ...networks, ...bounds, idleConnectionsMax: perThread },
      here,
      ...checked,
      shortages,
      unexpected,
    }),
    tokens: createAccessTokens({ clock, endpoints, limits: limits.tokens }),
    clock,
    timeoutMs: bounds.timeoutMs,
  });
  const lookup = lookupFunction(names, 'system');
  const own = createFetch(lookup);
  return {
    egress,
    transport,
    inspector,
    fetch: own.fetch,
    lookup,
    names,
    shortages,
    addressesOf: (name) => resolve(name, limits.names.timeoutMs),
    load: here.load,
    close: async () => {
      await transport.close();
      inspector.close();
      resolver.close();
      shortages.close();
      await own.close();
    },
  };
}

/** Returns what logs a name without an allowed address: once in ten minutes, as each attempt has it. */
function blockedLog(clock: Clock, log: Log | undefined): BlockedFound {
  const logged = new RecentTexts(clock);
  return (name, address) => {
    const text = `${name} ${address}`;
    if (logged.has(text)) return;
    logged.note(text);
    log?.warn({ name, address }, 'an endpoint has no allowed address (LEAT_EGRESS_ALLOW)');
  };
}

/** Returns the bounds of attempts and their connections. */
function boundsOf({ attemptTimeoutMs, connectionSeconds }: Config): AttemptBounds {
  return {
    timeoutMs: attemptTimeoutMs,
    connectionMs: connectionSeconds * 1000,
    ...limits.response,
  };
}

type AttemptBounds = Pick<
  TransportDeps,
  'timeoutMs' | 'connectionMs' | 'bodyBytesMax' | 'textBytesMax'
>;
