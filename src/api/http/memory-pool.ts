import { Counts } from '../../core/counts.ts';

/** Memory of a node that tenants share: for bodies of requests, or for responses. */
export interface MemoryPool {
  /** Opens the share of one body or response. */
  open(tenant: number): MemoryShare;
}

/** The part of the pool that one body or response takes. */
export interface MemoryShare {
  /** Takes more bytes; returns false and takes none when the tenant would have too many. */
  take(bytes: number): boolean;
  /** Returns all of them to the pool. */
  close(): void;
}

/**
 * Creates the pool. A tenant may hold at most as many bytes as remain free for all others: one tenant
 * alone gets half of the pool.
 */
export function createMemoryPool({ bytesMax }: { readonly bytesMax: number }): MemoryPool {
  const byTenant = new Counts<number>();
  return {
    open: (tenant) => {
      let taken = 0;
      return {
        take: (bytes) => {
          const sum = byTenant.of(tenant) + bytes;
          if (sum > bytesMax - byTenant.total - bytes) return false;
          byTenant.add(tenant, bytes);
          taken += bytes;
          return true;
        },
        close: () => {
          byTenant.add(tenant, -taken);
          taken = 0;
        },
      };
    },
  };
}
