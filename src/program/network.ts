import type { LookupFunction } from 'node:net';
import { type Config, limits } from '../config.ts';
import type { Clock } from '../core/clock.ts';
import { createEgressRule, type EgressRule } from '../delivery/http/egress.ts';
import { createFetch, type OwnFetch } from '../delivery/http/fetch.ts';
import { lookupFunction } from '../delivery/http/lookup-function.ts';
import { createNameLookups, type NameLookups } from '../delivery/http/name-lookups.ts';
import { createResolver } from '../delivery/http/resolver.ts';
import { createTransport, type Transport } from '../delivery/http/transport.ts';

/** How the service reaches others. All of it shares the bounds on name lookups. */
export interface Network {
  readonly egress: EgressRule;
  /** For webhooks. */
  readonly transport: Transport;
  /** For what the service itself asks others for, at addresses that its operator set. */
  readonly fetch: OwnFetch['fetch'];
  /** As `dns.lookup`, for the same. */
  readonly lookup: LookupFunction;
  readonly names: Pick<NameLookups, 'count'>;
  /** Resolves a name once, outside the queue; for commands of the operator. */
  addressesOf(this: void, name: string): Promise<readonly string[]>;
  /** Cuts off what is under way. */
  close(): Promise<void>;
}

/** Sets up what needs no connection yet. */
export function openNetwork({
  config,
  clock,
}: {
  readonly config: Config;
  readonly clock: Clock;
}): Network {
  const resolver = createResolver({ clock, servers: config.dnsServers, ...limits.resolver });
  const { resolve } = resolver;
  const names = createNameLookups({ clock, resolve, limits: limits.names });
  const egress = createEgressRule({ allow: config.egressAllow });
  const transport = createTransport({
    clock,
    egress,
    names,
    timeoutMs: config.attemptTimeoutMs,
    ...limits.response,
  });
  const lookup = lookupFunction(names, 'system');
  const own = createFetch(lookup);
  return {
    egress,
    transport,
    fetch: own.fetch,
    lookup,
    names,
    addressesOf: (name) => resolve(name, limits.names.timeoutMs),
    close: async () => {
      await transport.close();
      resolver.close();
      await own.close();
    },
  };
}
