import type { Clock } from '../core/clock.ts';
import type { Tenant } from '../core/types.ts';
import type { Store } from '../store/port/store.ts';

/** Finds the tenant of a request by its host. */
export interface TenantDirectory {
  /** Returns the tenant of a `Host`, or the only tenant; `undefined` if several exist and none has it. */
  of(host: string): Tenant | undefined;
  /** Returns whether it is the tenant that LEAT_TENANT_NAME names. */
  isFirst(tenant: Tenant): boolean;
  /** Reads the tenants, and refreshes them every few seconds until it is closed. */
  open(): Promise<void>;
  close(): void;
}

export interface TenantDirectoryDeps {
  readonly tenants: Pick<Store['tenants'], 'list'>;
  readonly watch: Store['watch'];
  readonly clock: Pick<Clock, 'after'>;
}

/** Hints of other processes are best effort, so tenants are also polled. */
const refreshMs = 5_000;

/** Creates the directory; it is empty until it is opened. */
export function createTenantDirectory({
  tenants,
  watch,
  clock,
}: TenantDirectoryDeps): TenantDirectory {
  let byHost: ReadonlyMap<string, Tenant> = new Map();
  let only: Tenant | undefined;
  let known: readonly Tenant[] | undefined;
  let cancel = (): void => {};
  let unwatch = (): void => {};

  const read = async (): Promise<void> => {
    const list = await tenants.list();
    if (list === known) return;
    known = list;
    byHost = new Map(list.map((tenant) => [plainHost(tenant.domain), tenant]));
    only = list.length === 1 ? list[0] : undefined;
  };
  const refreshLater = (): void => {
    const timer = clock.after(refreshMs, () => {
      // While the store is unavailable the last known tenants stay; their requests get 503.
      void read()
        .catch(() => {})
        .finally(refreshLater);
    });
    cancel = () => timer.cancel();
  };

  return {
    of: (host) => only ?? byHost.get(plainHost(host)),
    isFirst: ({ id }) => known?.[0]?.id === id,
    open: async () => {
      await read();
      refreshLater();
      unwatch = watch(({ kind }) => {
        if (kind === 'tenants' || kind === 'missed') void read().catch(() => {});
      });
    },
    close: () => {
      cancel();
      unwatch();
    },
  };
}

/** Returns the host in lower case without a default port. */
function plainHost(host: string): string {
  return host.toLowerCase().replace(/:(?:80|443)$/, '');
}
