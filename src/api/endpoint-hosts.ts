import { LRUCache } from 'lru-cache';
import { inTurns } from '../core/slices.ts';
import type { Store } from '../store/port/store.ts';
import type { StreamStanding } from '../store/port/streams.ts';

/**
 * Hosts of endpoints in memory, by stream and version: they are in the sealed destinations, and opening
 * those of all streams takes tenths of a second.
 */
export interface EndpointHosts {
  /** Returns the hosts of streams of one tenant, in order; empty for one that does not open. */
  of(tenant: number, streams: readonly StreamStanding[]): Promise<readonly string[]>;
}

interface Known {
  readonly version: number;
  readonly host: string;
}

type Hosts = LRUCache<number, Map<string, Known>>;

/** @param max hosts that are kept; beyond it those of tenants that were read first are dropped */
export function createEndpointHosts(
  store: Pick<Store, 'streams' | 'watch'>,
  max: number,
): EndpointHosts {
  let present = emptyHosts(max);
  store.watch(({ kind }) => {
    // The store may have lost changes of streams: the next ones get the same versions.
    if (kind === 'replaced' || kind === 'missed') present = emptyHosts(max);
  });

  return {
    of: async (tenant, streams) => {
      // What is read of a store that lost changes meanwhile is not kept.
      const known = present;
      const hosts = known.get(tenant) ?? new Map<string, Known>();
      const unknown: StreamStanding[] = [];
      for await (const some of inTurns(streams)) {
        unknown.push(...some.filter(({ id, version }) => hosts.get(id)?.version !== version));
      }
      if (unknown.length > 0) {
        const read = await store.streams.endpointHosts(
          tenant,
          unknown.map(({ id }) => id),
        );
        for await (const some of inTurns(unknown)) {
          for (const { id, version } of some) hosts.set(id, { version, host: read.get(id) ?? '' });
        }
        // Set again, a value would keep its former size.
        known.delete(tenant);
        known.set(tenant, hosts);
      }
      const found: string[] = [];
      for await (const some of inTurns(streams)) {
        found.push(...some.map(({ id }) => hosts.get(id)?.host ?? ''));
      }
      return found;
    },
  };
}

function emptyHosts(max: number): Hosts {
  return new LRUCache({ maxSize: max, sizeCalculation: (hosts) => Math.max(1, hosts.size) });
}
