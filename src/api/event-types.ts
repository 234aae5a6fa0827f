import { issuerOf } from '../auth/issuer.ts';
import { catalogue } from '../core/catalogue.ts';
import { formatTime } from '../core/date.ts';
import { sampleData } from '../core/samples.ts';
import { dayMs } from '../core/units.ts';
import { parseKept } from '../core/verbatim.ts';
import { eventTypes, eventTypesQuery, type EventTypesShown } from '../schemas/event-types.ts';
import { compile, eventType } from '../schemas/schema.ts';
import type { Store } from '../store/port/store.ts';
import { type Operation, operation } from './operation.ts';
import { nextOf, pageOf } from './page.ts';
import type { ApiSettings } from './settings.ts';

export interface EventTypesDeps {
  readonly store: Pick<Store, 'eventTypes'>;
  readonly settings: Pick<ApiSettings, 'limits' | 'plainHttp' | 'serviceName'>;
}

const isEventType = compile(eventType);
const predefined = new Set(catalogue);

/** Creates the operation that lists the types of events (docs/http-api.md#event-types). */
export function eventTypeOperations({ store, settings }: EventTypesDeps): Operation[] {
  return [
    operation({
      operationId: 'listEventTypes',
      method: 'GET',
      path: '/event-types',
      summary: 'List event types',
      description:
        'The predefined ones, and those of the events in the log. A type appears within 10 s of its first event.',
      tag: 'Events',
      scopes: ['read:events'],
      lifecycle: 'Early Access',
      extension: true,
      query: eventTypesQuery,
      isList: true,
      success: 200,
      response: eventTypes,
      handle: async ({ tenant, query, now }) => {
        const { after, take } = pageOf(query, settings.limits, isEventType);
        const isSampled = (type: string): boolean => !predefined.has(type);
        const listed = await store.eventTypes.list(tenant.id, { after, take: take + 1, isSampled });
        const seen = new Map(listed.map((row) => [row.type, row]));
        const further = catalogue.filter((type) => after === undefined || type > after);
        const names = [...new Set([...seen.keys(), ...further])].toSorted(byCode);
        const issuer = issuerOf(tenant.domain, settings.plainHttp(tenant.domain));
        // The same all day, as the ETag of the response is.
        const facts = { now: now - (now % dayMs), service: settings.serviceName, issuer };
        const types = names.slice(0, take).map((type): EventTypesShown['types'][number] => {
          const { at, body } = seen.get(type) ?? {};
          return {
            type,
            catalogue: predefined.has(type),
            last_seen_at: at === undefined ? null : formatTime(at),
            sample: predefined.has(type) ? sampleData(type, facts) : dataOf(body),
          };
        });
        const last = names.length > take ? types.at(-1)?.type : undefined;
        return { body: { types, ...nextOf(last) } };
      },
    }),
  ];
}

/** Returns the data of an envelope, with its numbers as they were sent. */
function dataOf(body: string | undefined): EventTypesShown['types'][number]['sample'] {
  return body === undefined ? null : (parseKept(body) as { data: object }).data;
}

/** The order of the store. */
function byCode(one: string, other: string): number {
  if (one === other) return 0;
  return one < other ? -1 : 1;
}
