/**
 * Number of consecutive tenant ids in a block. Nodes compare many logs block by block, and the single
 * logs only of blocks that changed.
 */
export const tenantsPerBlock = 64;

/** Returns the number of the block that a tenant belongs to. */
export function blockOf(tenant: number): number {
  return Math.floor(tenant / tenantsPerBlock);
}

/** Yields the ids of a block, including those of tenants that do not exist. */
export function* tenantsOf(block: number): Iterable<number> {
  const first = block * tenantsPerBlock;
  for (let id = first; id < first + tenantsPerBlock; id += 1) yield id;
}
