/**
 * Tenants whose ids are neighbours: many logs are compared block by block, and only those of a block in
 * which something changed one by one.
 */
export const tenantsPerBlock = 64;

/** Returns the number of the block that a tenant belongs to. */
export function blockOf(tenant: number): number {
  return Math.floor(tenant / tenantsPerBlock);
}

/** Yields the ids of a block, whether there are such tenants or not. */
export function* tenantsOf(block: number): Iterable<number> {
  const first = block * tenantsPerBlock;
  for (let id = first; id < first + tenantsPerBlock; id += 1) yield id;
}
