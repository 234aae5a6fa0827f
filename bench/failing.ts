import type { LogEvent, Node } from '../src/core/types.ts';
import type { OwnedStream } from '../src/store/port/ownership.ts';
import type { Outcome } from '../src/store/port/settlement.ts';
import type { Store } from '../src/store/port/store.ts';
import type { Bench, Figure } from './bench.ts';
import { addStreams, type Engine, makeEvent, withStore } from './leat.ts';
import { onBoth } from './postgres.ts';
import { familyMicros } from './proc.ts';
import { figure } from './report.ts';
import { inTurn } from './rounds.ts';

const tenant = 1;
const streams = 8;
/** Outcomes of one settlement, as a busy node has them. */
const batch = 256;
const limits = { consecutive: 1_000_000, total: 1_000_000 };

/** Of so many deliveries one fails. Where few fail, each failure counts for less: more show the same difference. */
const kinds = [
  { name: 'every delivery fails', every: 1, batches: 80 },
  { name: 'every second delivery fails', every: 2, batches: 80 },
  { name: 'one delivery of a hundred fails', every: 100, batches: 1200 },
] as const;
type Kind = (typeof kinds)[number];

/** What a settlement costs where deliveries fail; to compare versions, use --against. */
export const failing: Bench = {
  name: 'failing',
  what: "processor time of settlements for each outcome, that of the database's server included; no comparison",
  run: (progress, { rounds }) =>
    onBoth((engine) =>
      inTurn(kinds, async (kind): Promise<Figure[]> => {
        const micros: number[] = [];
        for (let round = 1; round <= rounds; round += 1) {
          progress(`${engine.name}, ${kind.name}: round ${round} of ${rounds}`);
          micros.push(await settle(engine, kind));
        }
        const about = { detail: 'of processor time for each outcome', better: 'lower' } as const;
        return [figure(`${engine.name}, ${kind.name}`, 'µs', micros, about)];
      }),
    ),
};

/** Returns the microseconds for each outcome. */
async function settle(engine: Engine, kind: Kind): Promise<number> {
  const { batches } = kind;
  const spent = async (): Promise<number> => {
    const { user, system } = process.cpuUsage();
    const { serverPid } = engine;
    return user + system + (serverPid === undefined ? 0 : await familyMicros(serverPid));
  };
  const tempStore = await engine.createTempStore();
  const micros = await withStore(tempStore, async (store) => {
    await addStreams(
      store,
      1,
      Array.from({ length: streams }, () => ({})),
    );
    const node: Node = await store.ownership.join('bench', 600_000);
    const wanted = { claim: 1, take: streams, longestWaitMs: 86_400_000 };
    const owned = await store.ownership.claim(node, wanted);
    const pages = await publish(store, batches);
    const settleAll = async (from: number, to: number): Promise<void> => {
      for (const [index, page] of pages.slice(from, to).entries()) {
        const turn = from + index;
        const settlements = owned.map((stream, of) =>
          settlementOf(stream, page, (turn * streams + of) * page.length, kind),
        );
        const results = await store.deliveries.settle(node, turn + 1, settlements, limits);
        if (results.some(({ result }) => result !== 'recorded')) throw new Error('not recorded');
      }
    };
    // The first quarter is for the compiler.
    await settleAll(0, batches / 4);
    const before = await spent();
    await settleAll(batches / 4, batches);
    return ((await spent()) - before) / (((batches * 3) / 4) * batch);
  });
  await tempStore.remove();
  return micros;
}

/** Returns the events of each batch: all streams have the same. */
async function publish(store: Store, batches: number): Promise<LogEvent[][]> {
  const pages: LogEvent[][] = [];
  while (pages.length < batches) {
    const made = Array.from({ length: batch / streams }, () => makeEvent());
    const appended = await store.log.append(tenant, made);
    pages.push(
      made.map((event, index) => ({
        ...event,
        offset: appended[index]?.offset ?? 0,
        publishedAt: event.time,
      })),
    );
  }
  return pages;
}

function settlementOf(
  { stream, epoch, run }: OwnedStream,
  events: readonly LogEvent[],
  first: number,
  { every }: Kind,
) {
  const base = { kind: 'first', attempt: 1, hasRow: false, agoMs: 5, durationMs: 5 } as const;
  const outcomes = events.map((event, index): Outcome => {
    return (first + index) % every === 0
      ? { ...base, event, result: 'failed', status: 503, error: '503 - busy' }
      : { ...base, event, result: 'delivered', status: 204 };
  });
  const cursor = events.at(-1)?.offset ?? 0;
  const { tenant: of, id, version } = stream;
  return { tenant: of, stream: id, epoch, run, version, cursor, outcomes };
}
