import type { Bench, Figure } from './bench.ts';
import { factsOf, factTypes, fillFacts } from './facts-store.ts';
import { type Running, startLeat } from './leat.ts';
import { onBoth } from './postgres.ts';
import { cpuPercent } from './proc.ts';
import { get, readFigure, readTimes } from './reads.ts';
import { against, figure } from './report.ts';
import { quantile } from './rounds.ts';

const readMsMax = 50;
const groupsMsMax = 50;
const pageMsMax = 20;
const warmUps = { count: 200 };
const reads = { count: 2000 };
const pages = { count: 1000 };
/** The other client is alone and beside a search in turn, as the speed of a machine is not constant. */
const beside = { rounds: 4, count: 100 } as const;
/** Of a core, as an idle server with 1,000 streams uses. */
const quietPercent = 10;
/** Rounds of upkeep pause for less. */
const quietSeconds = 5;

/** The time of reading what became of an event, in a large store. */
export const facts: Bench = {
  name: 'facts',
  what:
    `${factsOf.events.toLocaleString('en')} events and ${factsOf.streams.toLocaleString('en')} streams, inserted directly: ` +
    'what became of random events, pages of the event log, another client while one searches the log by payload, and the failures of all streams, 100,000 over 200 streams',
  run: (progress, { events = factsOf.events }) =>
    onBoth(async (engine) => {
      const tempStore = await engine.createTempStore();
      await fillFacts(tempStore, events, progress);
      const leat = await startLeat(tempStore);
      progress(`${engine.name}: waiting for rest`);
      await atRest(leat);
      progress(`${engine.name}: reading`);
      const figures = await figuresOf(engine.name, leat, events);
      await leat.end();
      await tempStore.remove();
      return figures;
    }),
};

/**
 * Waits until the server has little to do. A store that is filled at once has a week of upkeep to do, and
 * 100,000 failures that no alert has reported.
 */
async function atRest({ pid }: Running): Promise<void> {
  for (let quiet = 0; quiet < quietSeconds;) {
    quiet = (await cpuPercent(pid, 1)) < quietPercent ? quiet + 1 : 0;
  }
}

async function figuresOf(engine: string, leat: Running, events: number): Promise<Figure[]> {
  const random = (): number => 1 + Math.floor(Math.random() * events);
  const event = (): string => `/event-log/evt_${String(random()).padStart(22, '0')}`;
  const ofType = (): string => `/event-log?event_types=${factTypes[random() % 100] ?? ''}`;
  await readTimes(leat, event, warmUps);
  const figures = [
    readFigure(`${engine}: event`, await readTimes(leat, event, reads), readMsMax),
    readFigure(`${engine}: page by type`, await readTimes(leat, ofType, pages)),
  ];
  for (const [name, path, most] of [
    ['groups', '/delivery-groups', groupsMsMax],
    ['failures', '/deliveries', pageMsMax],
    ['by cause', '/deliveries?error_codes=timeout', pageMsMax],
  ] as const) {
    figures.push(readFigure(`${engine}: ${name}`, await readTimes(leat, path, pages), most));
  }
  return [...figures, await besideFigure(engine, leat)];
}

async function besideFigure(engine: string, leat: Running): Promise<Figure> {
  const other = '/event-streams?take=10';
  await readTimes(leat, other, warmUps);
  const [alone, meanwhile]: [number[], number[]] = [[], []];
  let searches = 0;
  for (let round = 0; round < beside.rounds; round += 1) {
    alone.push(...(await readTimes(leat, other, beside)));
    const over = new AbortController();
    const searching = searchUntil(leat, over.signal);
    meanwhile.push(...(await readTimes(leat, other, beside)));
    over.abort();
    searches += await searching;
  }
  const at = (share: number) => ({
    ours: [quantile(meanwhile, share)],
    theirs: [quantile(alone, share)],
  });
  const ratio = quantile(meanwhile, 0.5) / quantile(alone, 0.5);
  return figure(`${engine}: beside`, '×', [ratio], {
    detail: `99 of 100 requests of another client during ${searches} searches ${against(at(0.99), 'ms')} alone; medians ${against(at(0.5), 'ms', 2)}`,
    most: 2,
  });
}

/** Searches the log again and again for a payload that no event has; returns how often. */
async function searchUntil(leat: Running, over: AbortSignal): Promise<number> {
  const filter = encodeURIComponent('{"data.object.plan":"none"}');
  let from = '';
  let searches = 0;
  for (; !over.aborted; searches += 1) {
    const { next } = await get(leat, `/event-log?filter=${filter}${from}`);
    from = typeof next === 'string' ? `&from=${next}` : '';
  }
  return searches;
}
