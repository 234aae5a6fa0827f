import { DatabaseSync } from 'node:sqlite';
import { systemClock } from '../src/clock.ts';
import type { Node, LogEvent } from '../src/core/types.ts';
import type { OwnedStream } from '../src/store/port/ownership.ts';
import type { Outcome } from '../src/store/port/settlement.ts';
import type { Store } from '../src/store/port/store.ts';
import type { Bench, Figure, RunOptions } from './bench.ts';
import { addStream, createTempStore, makeEvent, type TempStore, withStore } from './leat.ts';
import { withClient, withPostgres } from './postgres.ts';
import { alternate, median, ratios } from './rounds.ts';

const tenant = 1;
const streams = 8;
/** Outcomes of one settlement, as a busy node has them. */
const batch = 256;
const batches = 40;
const limits = { consecutive: 1_000_000, total: 1_000_000 };
const triggers = {
  sqlite: [
    'failure_added',
    'failure_removed',
    'failure_opened',
    'failure_closed',
    'redelivery_delivered',
    'redelivery_failed',
  ],
  postgres: ['failures_added', 'failures_removed', 'failures_changed'],
};

/**
 * What the triggers that count failures cost the settlement. Without a limit: that one compares with the
 * version before the numbers for failures, which had fewer indexes as well (ADR 44).
 */
export const failing: Bench = {
  name: 'failing',
  what: 'settlement with the triggers that count failures, against the same store without them',
  run: async (progress, options) => [
    ...(await figuresOf('sqlite', progress, options, createTempStore, dropOnSqlite)),
    ...(await withPostgres(({ createTempStore: create }) =>
      figuresOf('postgres', progress, options, create, ({ url }) =>
        withClient(url, async (client) => {
          for (const name of triggers.postgres) {
            await client.query(`drop trigger ${name} on deliveries`);
          }
        }),
      ),
    )),
  ],
};

function dropOnSqlite({ file }: TempStore): Promise<void> {
  const db = new DatabaseSync(file);
  for (const name of triggers.sqlite) db.exec(`drop trigger ${name}`);
  db.close();
  return Promise.resolve();
}

async function figuresOf<Made extends TempStore>(
  engine: string,
  progress: (text: string) => void,
  { rounds }: RunOptions,
  create: () => Promise<Made>,
  drop: (tempStore: Made) => Promise<void>,
): Promise<Figure[]> {
  const figures: Figure[] = [];
  for (const [what, share] of [
    ['every delivery fails', 1],
    ['one delivery of a hundred fails', 0.01],
  ] as const) {
    const side = async (isCounted: boolean): Promise<number> => {
      const tempStore = await create();
      try {
        await withStore(tempStore, () => Promise.resolve());
        if (!isCounted) await drop(tempStore);
        return await withStore(tempStore, (store) => settle(store, share));
      } finally {
        await tempStore.remove();
      }
    };
    const measured = await alternate(
      rounds,
      () => side(true),
      () => side(false),
      (round) => progress(`${engine}, ${what}: ${round}`),
    );
    const [ours, theirs] = [median(measured.ours), median(measured.theirs)].map(Math.round);
    figures.push({
      name: `${engine}, ${what}`,
      detail: `${ours}/s with the counters against ${theirs}/s`,
      values: ratios(measured),
      unit: 'ratio',
      must: undefined,
      goal: 0.95,
    });
  }
  return figures;
}

/** Settles first deliveries of several streams, and returns how many a second. */
async function settle(store: Store, failingShare: number): Promise<number> {
  for (let number = 0; number < streams; number += 1) {
    await addStream(store, 1, { name: `stream ${number}` });
  }
  const node: Node = await store.ownership.join('bench', 600_000);
  const owned = await store.ownership.claim(node, {
    claim: 1,
    take: streams,
    longestWaitMs: 86_400_000,
  });
  const events: LogEvent[] = [];
  for (let number = 0; number < batches; number += 1) {
    const made = Array.from({ length: batch / streams }, () => makeEvent());
    const appended = await store.log.append(tenant, made);
    events.push(
      ...made.map((event, index) => ({
        ...event,
        offset: appended[index]?.offset ?? 0,
        publishedAt: event.time,
      })),
    );
  }
  const startedMs = systemClock.elapsedMs();
  const perStream = batch / streams;
  for (let number = 0; number < batches; number += 1) {
    const part = events.slice(number * perStream, (number + 1) * perStream);
    const settlements = owned.map((stream, index) =>
      settlementOf(stream, part, number * streams + index, failingShare),
    );
    await store.deliveries.settle(node, number + 1, settlements, limits);
  }
  return (batches * batch) / ((systemClock.elapsedMs() - startedMs) / 1000);
}

function settlementOf(
  { stream, epoch, run }: OwnedStream,
  events: readonly LogEvent[],
  turn: number,
  failingShare: number,
) {
  const every = Math.round(1 / failingShare);
  const base = { kind: 'first', attempt: 1, hasRow: false, agoMs: 5, durationMs: 5 } as const;
  const outcomes = events.map((event, index): Outcome => {
    const fails = (turn * events.length + index) % every === 0;
    return fails
      ? { ...base, event, result: 'failed', status: 503, error: '503 - busy' }
      : { ...base, event, result: 'delivered', status: 204 };
  });
  const cursor = events.at(-1)?.offset ?? 0;
  const { tenant: of, id, version } = stream;
  return { tenant: of, stream: id, epoch, run, version, cursor, outcomes };
}
