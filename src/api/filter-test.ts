import { yieldToEventLoop } from '../core/slices.ts';
import { selectionNow } from '../core/subscription.ts';
import type { Offset } from '../core/types.ts';
import { filterTest, filterTested } from '../schemas/filters.ts';
import { streamParams } from '../schemas/schema.ts';
import type { LogPage } from '../store/port/log.ts';
import type { Store } from '../store/port/store.ts';
import { filterOf } from './filter.ts';
import { FilterRun } from './filter-run.ts';
import { JsonText } from './http/sliced-json.ts';
import { createTurnQueue } from './http/turn-queue.ts';
import { streamOf } from './not-found.ts';
import { type Operation, operation } from './operation.ts';

/** Events of the log that one request filters, about… */
const eventsMax = 1000;
/** …and the newest events of the log that it reads to find them. */
const readMax = 10_000;
/** Events in the result. */
const sampleMax = 10;
/** Events of the log, of any type, that are read before older ones. */
const rangeMin = 50;
const page = { take: 100, bytesMax: 512 * 1024 } as const;

/** Tests that run at the same time: each takes as long as all others together. */
const atOnce = { atOnce: 4, ofOwner: 1 } as const;

type LogReads = Pick<Store['log'], 'head' | 'firstSince' | 'page'>;

/** Creates the operation that tries a filter (docs/http-api.md#try-a-filter). */
export function filterTestOperations({
  store,
}: {
  readonly store: Pick<Store, 'streams'> & { readonly log: LogReads };
}): Operation[] {
  const queue = createTurnQueue(atOnce);
  return [
    operation({
      operationId: 'testFilter',
      method: 'POST',
      path: '/event-streams/:id/filter/test',
      summary: 'Try a filter',
      description:
        "Filters the newest retained events of the stream's types, about 1,000 of them, or the events sent. Nothing is changed.",
      tag: 'Event streams',
      scopes: ['read:events'],
      lifecycle: 'Early Access',
      extension: true,
      audited: false,
      params: streamParams,
      body: { schema: filterTest, required: true, numbersKept: ['events'] },
      success: 200,
      response: filterTested,
      errors: [404],
      handle: async ({ tenant, params, body, isGone }) => {
        const { filter } = filterOf(body.filter, 'filter');
        const stream = await streamOf(store, tenant.id, params.id);
        const { types } = selectionNow(stream.subscriptions);
        const trial = new Trial(new FilterRun(filter, isGone));
        const sent = body.events;
        await queue.run(tenant.id, () =>
          sent === undefined
            ? filterLog(trial, store.log, tenant.id, types)
            : filterSent(trial, sent),
        );
        const { read, matched, sample } = trial;
        return { body: { read, matched, sample: sample.map((text) => new JsonText(text)) } };
      },
    }),
  ];
}

async function filterSent(trial: Trial, events: readonly object[]): Promise<void> {
  for (const event of events) {
    if (trial.isOver) return;
    const text = JSON.stringify(event);
    if (await trial.matchesBody(text)) trial.add([text]);
  }
}

/** Filters the newest events of the types, stretch by stretch from the head of the log. */
async function filterLog(
  trial: Trial,
  log: LogReads,
  tenant: number,
  types: readonly string[],
): Promise<void> {
  if (types.length === 0) return;
  const head = await log.head(tenant);
  const oldest = Math.max((await log.firstSince(tenant, 0)) - 1, head - readMax);
  for (let upTo = head; upTo > oldest && trial.read < eventsMax && !trial.isOver;) {
    const after = Math.max(oldest, upTo - Math.max(eventsMax - trial.read, rangeMin));
    await filterRange(trial, { after, upTo }, (from) =>
      log.page(tenant, { after: from, upTo, types, ...page }),
    );
    upTo = after;
  }
}

async function filterRange(
  trial: Trial,
  { after, upTo }: { readonly after: Offset; readonly upTo: Offset },
  pageAfter: (offset: Offset) => Promise<LogPage>,
): Promise<void> {
  /** The newest matching ones, oldest first. */
  const newest: string[] = [];
  for (let at = after; at < upTo && !trial.isOver;) {
    const { events, scannedTo } = await pageAfter(at);
    for (const { body } of events) {
      if (trial.isOver) break;
      if (await trial.matchesBody(body)) newest.push(body);
      if (newest.length > sampleMax) newest.shift();
    }
    at = scannedTo;
    await yieldToEventLoop();
  }
  trial.add(newest.toReversed());
}

/** The results of one test. */
class Trial {
  read = 0;
  matched = 0;
  readonly sample: string[] = [];
  readonly #filterRun: FilterRun;

  constructor(filterRun: FilterRun) {
    this.#filterRun = filterRun;
  }

  get isOver(): boolean {
    return this.#filterRun.isOver;
  }

  async matchesBody(body: string): Promise<boolean> {
    const isMatch = await this.#filterRun.matchesBody(body);
    this.read += 1;
    if (isMatch) this.matched += 1;
    return isMatch;
  }

  add(matched: readonly string[]): void {
    this.sample.push(...matched.slice(0, sampleMax - this.sample.length));
  }
}
