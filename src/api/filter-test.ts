import { Fields } from '../core/filter-fields.ts';
import { type Filter, matching, type Position } from '../core/filter-program.ts';
import type { Json } from '../core/filter-values.ts';
import { yieldToEventLoop } from '../core/slices.ts';
import { selectionNow } from '../core/subscription.ts';
import type { Offset } from '../core/types.ts';
import { filterTest, filterTested } from '../schemas/filters.ts';
import { streamParams } from '../schemas/schema.ts';
import type { LogPage } from '../store/port/log.ts';
import type { Store } from '../store/port/store.ts';
import { filterOf } from './filter.ts';
import { JsonText } from './http/sliced-json.ts';
import { createTurnQueue } from './http/turn-queue.ts';
import { streamOf } from './not-found.ts';
import { type Call, type Operation, operation } from './operation.ts';

/** Events of the log that one request filters, about… */
const eventsMax = 1000;
/** …and the newest events of the log that it reads to find them. */
const readMax = 10_000;
/** Events in the result. */
const sampleMax = 10;
/** Events of the log, of any type, that are read before older ones. */
const stretchMin = 50;
const page = { take: 100, bytesMax: 512 * 1024 } as const;

/** Work of one slice, some milliseconds, and of one request, some seconds. */
const workOfSlice = 200_000;
const workOfRequest = 200_000_000;

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
      body: { schema: filterTest, required: true },
      success: 200,
      response: filterTested,
      errors: [404],
      handle: async ({ tenant, params, body, isGone }) => {
        const { filter } = filterOf(body.filter, 'filter');
        const stream = await streamOf(store, tenant.id, params.id);
        const { types } = selectionNow(stream.subscriptions);
        const trial = new Trial(filter, isGone);
        const sent = body.events as readonly Json[] | undefined;
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

async function filterSent(trial: Trial, events: readonly Json[]): Promise<void> {
  for (const event of events) {
    if (trial.isOver) return;
    if (await trial.matches(event)) trial.add([JSON.stringify(event)]);
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
    const after = Math.max(oldest, upTo - Math.max(eventsMax - trial.read, stretchMin));
    await filterStretch(trial, { after, upTo }, (from) =>
      log.page(tenant, { after: from, upTo, types, ...page }),
    );
    upTo = after;
  }
}

async function filterStretch(
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
      trial.parsed(body);
      if (await trial.matches(JSON.parse(body) as Json)) newest.push(body);
      if (newest.length > sampleMax) newest.shift();
    }
    at = scannedTo;
    await yieldToEventLoop();
  }
  trial.add(newest.toReversed());
}

/** The state of one test. */
class Trial {
  read = 0;
  matched = 0;
  readonly sample: string[] = [];
  readonly #filter: Filter;
  readonly #isGone: Call['isGone'];
  readonly #slice = { left: workOfSlice };
  #left = workOfRequest;

  constructor(filter: Filter, isGone: Call['isGone']) {
    this.#filter = filter;
    this.#isGone = isGone;
  }

  /** Whether nothing more is to be filtered: enough work was done, or the client has gone. */
  get isOver(): boolean {
    return this.#left <= 0 || this.#isGone();
  }

  /** Counts the work of parsing. */
  parsed(body: string): void {
    this.#slice.left -= body.length / 2;
  }

  async matches(envelope: Json): Promise<boolean> {
    const fields = new Fields(envelope);
    let at: Position = this.#filter.start;
    for (;;) {
      at = this.#filter.evaluate(fields, at, this.#slice);
      if (this.#slice.left <= 0) await this.#nextSlice();
      if (at < 0) break;
    }
    this.read += 1;
    if (at === matching) this.matched += 1;
    return at === matching;
  }

  add(matched: readonly string[]): void {
    this.sample.push(...matched.slice(0, sampleMax - this.sample.length));
  }

  async #nextSlice(): Promise<void> {
    this.#left -= workOfSlice - this.#slice.left;
    this.#slice.left = workOfSlice;
    await yieldToEventLoop();
  }
}
