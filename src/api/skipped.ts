import { formatTime } from '../core/date.ts';
import { formatPosition } from '../core/offset.ts';
import type { Offset } from '../core/types.ts';
import { positionAt } from '../pull/start-position.ts';
import { streamParams } from '../schemas/schema.ts';
import { skippedQuery, type SkippedRangeShown, skippedRanges } from '../schemas/skipped.ts';
import type { Store } from '../store/port/store.ts';
import { streamOf } from './not-found.ts';
import { type Operation, operation } from './operation.ts';
import { nextOf, pageOf } from './page.ts';
import type { ApiSettings } from './settings.ts';

export interface SkippedDeps {
  readonly store: Pick<Store, 'streams' | 'log'>;
  readonly settings: Pick<ApiSettings, 'limits'>;
}

/** Creates the operation that lists skipped ranges (docs/http-api.md#skipped-ranges). */
export function skippedOperations({ store, settings }: SkippedDeps): Operation[] {
  return [
    operation({
      operationId: 'listSkippedRanges',
      method: 'GET',
      path: '/event-streams/:id/skipped',
      summary: 'List the ranges that an event stream skipped, newest first',
      description: 'What enabling it with resume latest passed over, while the event log has it.',
      tag: 'Event streams',
      scopes: ['read:event_streams'],
      lifecycle: 'Early Access',
      extension: true,
      params: streamParams,
      query: skippedQuery,
      isList: true,
      success: 200,
      response: skippedRanges,
      errors: [404],
      handle: async ({ tenant, params, query }) => {
        const page = pageOf(query, settings.limits, isRangeKey);
        await streamOf(store, tenant.id, params.id);
        const { items, next } = await store.streams.skipped(tenant.id, params.id, page);
        const shownAt = async (offset: Offset): Promise<string> =>
          formatPosition(await positionAt(store.log, tenant.id, offset));
        const ranges: SkippedRangeShown[] = [];
        for (const { from, to, events, atLeast, at } of items) {
          ranges.push({
            from: await shownAt(from),
            to: await shownAt(to),
            events,
            at_least: atLeast,
            reason: 'resumed_latest',
            date: formatTime(at),
          });
        }
        return { body: { ranges, ...nextOf(next) } };
      },
    }),
  ];
}

function isRangeKey(key: string): boolean {
  return /^\d{1,15}$/.test(key);
}
