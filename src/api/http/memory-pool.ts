/** Memory of a node that tenants share: for bodies of requests, or for answers. */
export interface MemoryPool {
  /** Opens the share of one body or answer. */
  open(tenant: number): MemoryShare;
}

/** What one body or answer takes of the room. */
export interface MemoryShare {
  /** Counts more bytes; false, and nothing is counted, when the tenant would have too many. */
  take(bytes: number): boolean;
  /** Gives all of them back. */
  close(): void;
}

/**
 * Creates the room. A tenant has at most as many bytes as are free for all others: one alone half of
 * the room, and any number of greedy ones leave as much as each of them has.
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
