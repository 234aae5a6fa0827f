import { yieldToEventLoop } from '../core/slices.ts';
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

/** @param max hosts that are kept; beyond it those that were read first are dropped */
export function createEndpointHosts(store: Pick<Store, 'streams'>, max: number): EndpointHosts {
  const known = new Map<string, Known>();
  const keyOf = (tenant: number, id: string): string => `${tenant}/${id}`;

  const keep = (key: string, read: Known): void => {
    known.delete(key);
    known.set(key, read);
    for (const first of known.keys()) {
      if (known.size <= max) return;
      known.delete(first);
    }
  };

  return {
    of: async (tenant, streams) => {
      const versions = await store.streams.versions(tenant);
      await yieldToEventLoop();
      // What is known may be dropped while the others are read.
      const hosts = new Map<string, string>();
      for (const { id } of streams) {
        const found = known.get(keyOf(tenant, id));
        if (found !== undefined && found.version === versions.get(id)) hosts.set(id, found.host);
      }
      const unknown = streams.map(({ id }) => id).filter((id) => !hosts.has(id));
      const read = await store.streams.endpointHosts(tenant, unknown);
      for (const id of unknown) {
        const host = read.get(id) ?? '';
        hosts.set(id, host);
        const version = versions.get(id);
        if (version !== undefined) keep(keyOf(tenant, id), { version, host });
      }
      return streams.map(({ id }) => hosts.get(id) ?? '');
    },
  };
}
