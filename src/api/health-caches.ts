import type { OverviewShown } from '../schemas/overview.ts';
import type { StreamHealthsShown } from '../schemas/stream-health.ts';
import type { Store } from '../store/port/store.ts';
import { createEndpointHosts, type EndpointHosts } from './endpoint-hosts.ts';
import { createPages, type Recent } from './recent.ts';
import { createRecentStates, type RecentStates, type RecentStatesDeps } from './tenant-states.ts';

/** What a node keeps in memory of the health of streams. */
export interface HealthCaches {
  readonly states: RecentStates;
  readonly endpointHosts: EndpointHosts;
  readonly healthPages: Recent<StreamHealthsShown>;
  readonly overviews: Recent<OverviewShown>;
}

/** Creates the caches, which are empty. */
export function createHealthCaches(
  deps: RecentStatesDeps & { readonly store: Pick<Store, 'watch'> },
): HealthCaches {
  return {
    states: createRecentStates(deps),
    endpointHosts: createEndpointHosts(deps.store, deps.settings.limits.endpointHostsMax),
    healthPages: createPages(deps),
    overviews: createPages(deps),
  };
}
