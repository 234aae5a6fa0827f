import type { Hint } from '../store/port/hints.ts';
import type { Store } from '../store/port/store.ts';

/** Names of tenants by number. */
export type TenantNames = ReadonlyMap<number, string>;

/**
 * Keeps the names of the tenants for the log. Those that are being removed stay. Returns a function
 * that ends it.
 */
export async function followTenantNames(
  store: Pick<Store, 'tenants' | 'watch'>,
  names: Map<number, string>,
): Promise<() => void> {
  const refresh = async (): Promise<void> => {
    for (const { id, name } of await store.tenants.list()) names.set(id, name);
  };
  const unwatch = store.watch(({ kind }: Hint) => {
    // While the store is unavailable the log has numbers; a later hint repeats this.
    if (kind === 'tenants' || kind === 'missed') refresh().catch(() => undefined);
  });
  await refresh();
  return unwatch;
}
