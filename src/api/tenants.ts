import type { Clock, Millis } from '../core/clock.ts';
import type { Tenant } from '../core/types.ts';
import { shownHost, type UnknownHosts } from '../core/unknown-hosts.ts';
import type { Store } from '../store/port/store.ts';
import { notFound, type Problem } from './http/problem.ts';
import type { ApiSettings } from './settings.ts';

/** Finds the tenant of a request by its host. */
export interface TenantLookup {
  /**
   * Returns the tenant of a `Host`. Of one that is the domain of none: the first tenant, with
   * LEAT_UNKNOWN_HOST=refuse only while there is no other one. For requests that say by a token, or by
   * client credentials, whose they are.
   */
  of(host: string): Tenant | undefined;
  /**
   * Returns the tenant of a `Host`, or the only tenant; `undefined` if several exist and none has it. For
   * requests of browsers, whose cookies must count under the domain of their tenant alone.
   */
  ofBrowser(host: string): Tenant | undefined;
  /** Notes that the caller of a request with this `Host` was accepted. */
  accepted(host: string, now: Millis): void;
  /** Returns the 404 of a request with a `Host` that selects no tenant. */
  refusal(host: string, now: Millis): Problem;
  /** Returns whether it is the tenant that LEAT_TENANT_NAME names. */
  isFirst(tenant: Tenant): boolean;
  /** Reads the tenants, and refreshes them every few seconds until it is closed. */
  open(): Promise<void>;
  close(): void;
}

export interface TenantLookupDeps {
  readonly tenants: Pick<Store['tenants'], 'list'>;
  readonly watch: Store['watch'];
  readonly clock: Pick<Clock, 'after'>;
  readonly settings: Pick<ApiSettings, 'unknownHost'>;
  readonly unknownHosts: UnknownHosts;
}

/** Hints of other processes are best effort, so tenants are also polled. */
const refreshMs = 5_000;

/** Creates the lookup; it is empty until it is opened. */
export function createTenantLookup({
  tenants,
  watch,
  clock,
  settings,
  unknownHosts,
}: TenantLookupDeps): TenantLookup {
  let byHost: ReadonlyMap<string, Tenant> = new Map();
  let only: Tenant | undefined;
  /** Whose requests for unknown hosts are. */
  let fallback: Tenant | undefined;
  let known: readonly Tenant[] | undefined;
  let cancel = (): void => {};
  let unwatch = (): void => {};

  // Most clients send the domain as it is.
  const named = (host: string): Tenant | undefined =>
    byHost.get(host) ?? byHost.get(plainHost(host));
  const read = async (): Promise<void> => {
    const list = await tenants.list();
    if (list === known) return;
    known = list;
    byHost = new Map(list.map((tenant) => [plainHost(tenant.domain), tenant]));
    only = list.length === 1 ? list[0] : undefined;
    fallback = settings.unknownHost === 'first' ? list[0] : only;
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
    of: (host) => named(host) ?? fallback,
    ofBrowser: (host) => named(host) ?? only,
    accepted: (host, now) => {
      if (named(host) === undefined) unknownHosts.noteServed(host, now);
    },
    refusal: (host, now) => {
      unknownHosts.noteRefused(host, now);
      return notFound(`Not Found: no tenant has the host ${shownHost(host)}`, 'unknown_host');
    },
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

/** Returns the host in lower case without a default port and the dot of an absolute name. */
function plainHost(host: string): string {
  return host
    .toLowerCase()
    .replace(/:(?:80|443)$/, '')
    .replace(/\.(?=$|:)/, '');
}
