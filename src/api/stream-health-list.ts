import { formatTime } from '../core/date.ts';
import { formatStandingKey, parseStandingKey } from '../core/page.ts';
import { inTurns } from '../core/slices.ts';
import { type StreamState, streamStates } from '../core/stream-state.ts';
import {
  streamHealthQuery,
  streamHealths,
  type StreamHealthsShown,
  streamHealthText,
  type StreamSort,
} from '../schemas/stream-health.ts';
import type { LagsOf, StreamStanding } from '../store/port/streams.ts';
import type { HealthCaches } from './health-caches.ts';
import { badQuery } from './http/problem.ts';
import { enumViolation } from './http/violation.ts';
import { type Operation, operation } from './operation.ts';
import { nextOf, pageOf } from './page.ts';
import type { Load } from './recent.ts';
import type { ApiSettings } from './settings.ts';
import { type HealthDeps, healthsOf } from './stream-health.ts';
import { firstAfter, keyOf } from './standing-order.ts';

export interface HealthListDeps extends HealthDeps, Omit<HealthCaches, 'overviews'> {
  readonly settings: HealthDeps['settings'] & Pick<ApiSettings, 'limits'>;
}

/** Creates the operation that lists the health of streams (docs/http-api.md#health-of-all-event-streams). */
export function healthListOperations(deps: HealthListDeps): Operation[] {
  const { store, settings, healthPages } = deps;
  return [
    operation({
      operationId: 'listStreamHealth',
      method: 'GET',
      path: '/stream-health',
      summary: 'List the health of event streams',
      description:
        'Up to 5 s old, see as_of; changes of event streams, such as a new one, are in it at once. An event stream whose state has changed since then is left out with statuses, so that a page may have fewer items than requested.',
      tag: 'Health',
      scopes: ['read:event_streams'],
      lifecycle: 'Early Access',
      extension: true,
      query: streamHealthQuery,
      isList: true,
      success: 200,
      response: streamHealths,
      handle: async ({ tenant, query }) => {
        const { sort = 'name' } = query;
        const isKey = (key: string): boolean => parseStandingKey(key)?.sort === sort;
        const { after, take } = pageOf(query, settings.limits, isKey);
        const statuses = statusesOf(query.statuses);
        const wanted = { tenant: tenant.id, sort, q: query.q, statuses, after, take };
        const key = JSON.stringify(wanted);
        // A change of the caller is in the next list, also when another node has made it.
        const mark = await store.streams.mark(tenant.id);
        const load: Load<StreamHealthsShown> = (isAhead) =>
          readPage(deps, wanted, isAhead, isAhead ? undefined : mark);
        return { body: await healthPages.get(key, load, false, mark) };
      },
    }),
  ];
}

/** Returns the lags that a list depends on; those of its page are read with it. */
function lagsFor(sort: StreamSort, statuses: readonly StreamState[] | undefined): LagsOf {
  if (sort === '-lag') return 'all';
  return statuses === undefined ? 'none' : 'lagging';
}

interface WantedPage {
  readonly tenant: number;
  readonly sort: StreamSort;
  readonly q: string | undefined;
  readonly statuses: readonly StreamState[] | undefined;
  readonly after: string | undefined;
  readonly take: number;
}

async function readPage(
  deps: HealthListDeps,
  { tenant, sort, q, statuses, after, take }: WantedPage,
  isAhead: boolean,
  mark: string | undefined,
): Promise<StreamHealthsShown> {
  const read = await deps.states.of(tenant, lagsFor(sort, statuses), isAhead, mark);
  const streams = await read.sorted(sort);
  const wanted = await matching(deps, tenant, { streams, statuses, q });
  const key = after === undefined ? undefined : parseStandingKey(after);
  const begin = key === undefined ? 0 : firstAfter(wanted, key);
  const page = wanted.slice(begin, begin + take);
  const ids = page.map(({ id }) => id);
  const opened = deps.store.streams.opened(tenant, ids);
  const healths = await healthsOf(deps, { tenant, ids, opened }, read.now);
  const last = begin + take < wanted.length ? page.at(-1) : undefined;
  return {
    streams: healths.filter(({ state }) => statuses?.includes(state) ?? true),
    total: wanted.length,
    ...nextOf(last && formatStandingKey(keyOf(last, sort))),
    as_of: formatTime(read.now),
  };
}

function statusesOf(text: string | undefined): StreamState[] | undefined {
  return text?.split(',').map((status) => {
    const known = streamStates.find((state) => state === status);
    if (known !== undefined) return known;
    const reason = enumViolation(status, streamStates);
    throw badQuery(reason, 'statuses', streamHealthText.statuses);
  });
}

/** Returns those of the streams that have one of the states, and the text in the name or the host. */
async function matching(
  { endpointHosts }: HealthListDeps,
  tenant: number,
  query: {
    readonly streams: readonly StreamStanding[];
    readonly statuses: readonly StreamState[] | undefined;
    readonly q: string | undefined;
  },
): Promise<readonly StreamStanding[]> {
  const { streams, statuses } = query;
  const chosen =
    statuses === undefined ? streams : streams.filter(({ state }) => statuses.includes(state));
  const q = query.q === undefined ? undefined : lower(query.q);
  if (q === undefined) return chosen;
  const hosts = await endpointHosts.of(tenant, chosen);
  const found: StreamStanding[] = [];
  for await (const some of inTurns([...chosen.entries()])) {
    for (const [index, stream] of some) {
      const isFound = lower(stream.name).includes(q) || hosts[index]?.includes(q) === true;
      if (isFound) found.push(stream);
    }
  }
  return found;
}

/** A sigma is another letter at the end of a word, so that a part of a name would not be in it. */
function lower(text: string): string {
  return text.toLowerCase().replaceAll('ς', 'σ');
}
