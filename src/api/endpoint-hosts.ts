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

/** @param max hosts that are kept; beyond it all are read again */
export function createEndpointHosts(store: Pick<Store, 'streams'>, max: number): EndpointHosts {
  const known = new Map<string, Known>();
  const keyOf = (tenant: number, id: string): string => `${tenant}/${id}`;
  return {
    of: async (tenant, streams) => {
      const versions = await store.streams.versions(tenant);
      const unknown = streams.filter(
        ({ id }) => known.get(keyOf(tenant, id))?.version !== versions.get(id),
      );
      const ids = unknown.map(({ id }) => id);
      const read = await store.streams.endpointHosts(tenant, ids);
      if (known.size + unknown.length > max) known.clear();
      for (const id of ids) {
        const version = versions.get(id) ?? 0;
        known.set(keyOf(tenant, id), { version, host: read.get(id) ?? '' });
      }
      return streams.map(({ id }) => known.get(keyOf(tenant, id))?.host ?? '');
    },
  };
}
