import { formatTime } from '../core/date.ts';
import { unitSums, unitWindow } from '../core/delivery-stats.ts';
import { runInSlices } from '../core/slices.ts';
import type { StreamState } from '../core/stream-state.ts';
import { overview, type OverviewShown } from '../schemas/overview.ts';
import type { Store } from '../store/port/store.ts';
import type { StreamStanding } from '../store/port/streams.ts';
import { showGroups } from './failures.ts';
import type { HealthCaches } from './health-caches.ts';
import { type Operation, operation } from './operation.ts';
import type { Load } from './recent.ts';
import type { SortedStates } from './tenant-states.ts';

export interface OverviewDeps extends Pick<HealthCaches, 'states' | 'overviews'> {
  readonly store: Pick<Store, 'streams' | 'failures' | 'deliveryStats'>;
}

/** Creates the operation that sums up a tenant (docs/http-api.md#overview). */
export function overviewOperations({ store, states, overviews }: OverviewDeps): Operation[] {
  return [
    operation({
      operationId: 'readOverview',
      method: 'GET',
      path: '/overview',
      summary: 'Read how all event streams are doing',
      description:
        'Up to 5 s old, see as_of; changes of event streams, such as a new one, are in it at once.',
      tag: 'Health',
      scopes: ['read:event_streams'],
      lifecycle: 'Early Access',
      extension: true,
      success: 200,
      response: overview,
      handle: async ({ tenant: { id } }) => {
        const mark = await store.streams.mark(id);
        const load: Load<OverviewShown> = async (isAhead) =>
          overviewOf(store, id, await states.of(id, 'active', isAhead, isAhead ? undefined : mark));
        return { body: await overviews.get(`${id}`, load, false, mark) };
      },
    }),
  ];
}

/** Groups of failures, the largest ones. */
const groupsMax = 5;

async function overviewOf(
  store: OverviewDeps['store'],
  tenant: number,
  { now, streams }: SortedStates,
): Promise<OverviewShown> {
  const window = unitWindow('minute', {}, now);
  const [retrying, minutes, groups] = await Promise.all([
    store.streams.retrying(tenant),
    store.deliveryStats.read({ tenant, stream: undefined }, window),
    store.failures.groups(tenant, {
      after: undefined,
      take: groupsMax,
      streams: undefined,
      codes: undefined,
    }),
  ]);
  const oldest = oldestWaiting(streams);
  const sums = await runInSlices(unitSums(window, minutes));
  return {
    as_of: formatTime(now),
    streams: { total: streams.length, ...countsOf(streams) },
    failures: {
      open: streams.reduce((sum, { openFailures }) => sum + openFailures, 0),
      retrying,
    },
    oldest_undelivered_at: oldest === undefined ? null : formatTime(oldest),
    last_hour: [...sums].map(([at, { published, delivered, failed }]) => ({
      at: formatTime(at),
      published,
      delivered,
      failed,
    })),
    groups: await showGroups(store, tenant, groups.items),
  };
}

function countsOf(streams: readonly StreamStanding[]): Record<StreamState, number> {
  const counts = { disabled: 0, paused: 0, failing: 0, lagging: 0, ok: 0 };
  for (const { state } of streams) counts[state] += 1;
  return counts;
}

/** Returns since when the oldest event waits that an enabled stream is to send without being resumed. */
function oldestWaiting(streams: readonly StreamStanding[]): number | undefined {
  let oldest: number | undefined;
  for (const { state, waitingSince } of streams) {
    if (state === 'disabled' || state === 'paused' || waitingSince === undefined) continue;
    if (oldest === undefined || waitingSince < oldest) oldest = waitingSince;
  }
  return oldest;
}
