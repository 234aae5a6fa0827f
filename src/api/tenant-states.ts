import type { Millis } from '../core/clock.ts';
import { runInSlices } from '../core/slices.ts';
import { sorted } from '../core/sorting.ts';
import type { StreamSort } from '../schemas/stream-health.ts';
import type { Store } from '../store/port/store.ts';
import type { LagsOf, StreamStanding } from '../store/port/streams.ts';
import { Recent, type RecentDeps } from './recent.ts';
import type { ApiSettings } from './settings.ts';
import { compare, valuesBy } from './standing-order.ts';

/** The states of the streams of tenants, a few seconds old at most. */
export interface RecentStates {
  /** Returns those of a tenant, with the lags that are needed; `isAhead` and `mark` as in `Recent`. */
  of(
    tenant: number,
    lagsOf: LagsOf,
    isAhead: boolean,
    mark: string | undefined,
  ): Promise<SortedStates>;
}

export interface SortedStates {
  /** When they were read, by the clock of the store. */
  readonly now: Millis;
  readonly streams: readonly StreamStanding[];
  /** Returns the streams in an order; sorts once. */
  sorted(sort: StreamSort): Promise<readonly StreamStanding[]>;
}

export interface RecentStatesDeps extends Pick<RecentDeps<unknown>, 'clock' | 'closing'> {
  readonly store: Pick<Store, 'streams'>;
  readonly settings: Pick<ApiSettings, 'limits'>;
}

/** Creates the cache of the states. */
export function createRecentStates({
  store,
  clock,
  closing,
  settings,
}: RecentStatesDeps): RecentStates {
  const { recentMs: keptMs, watchedMs, recentStreamsMax: weightMax } = settings.limits;
  const weightOf = ({ streams }: SortedStates): number => streams.length;
  const recent = new Recent<SortedStates>({
    clock,
    closing,
    keptMs,
    watchedMs,
    watchedMax: Infinity,
    weightMax,
    weightOf,
  });
  return {
    of: (tenant, lagsOf, isAhead, mark) => {
      const load = async (): Promise<SortedStates> => {
        const { now, streams } = await store.streams.states(tenant, { lagsOf });
        return sortable(now, streams);
      };
      return recent.get(`${lagsOf} ${tenant}`, load, isAhead, mark);
    },
  };
}

function sortable(now: Millis, streams: readonly StreamStanding[]): SortedStates {
  const orders = new Map<StreamSort, Promise<readonly StreamStanding[]>>();
  return {
    now,
    streams,
    sorted: (sort) => {
      const known = orders.get(sort) ?? inOrder(streams, sort);
      orders.set(sort, known);
      return known;
    },
  };
}

function inOrder(streams: readonly StreamStanding[], sort: StreamSort): Promise<StreamStanding[]> {
  const valueOf = valuesBy[sort];
  return runInSlices(
    sorted(
      streams,
      (one, other) => compare(valueOf(one), valueOf(other)) || compare(one.id, other.id),
    ),
  );
}
