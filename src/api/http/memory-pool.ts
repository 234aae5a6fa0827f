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
  const byTenant = new Map<number, number>();
  let total = 0;

  const add = (tenant: number, bytes: number): void => {
    total += bytes;
    const sum = (byTenant.get(tenant) ?? 0) + bytes;
    if (sum === 0) byTenant.delete(tenant);
    else byTenant.set(tenant, sum);
  };
  return {
    open: (tenant) => {
      let taken = 0;
      return {
        take: (bytes) => {
          const sum = (byTenant.get(tenant) ?? 0) + bytes;
          if (sum > bytesMax - total - bytes) return false;
          add(tenant, bytes);
          taken += bytes;
          return true;
        },
        close: () => {
          if (taken > 0) add(tenant, -taken);
          taken = 0;
        },
      };
    },
  };
}
