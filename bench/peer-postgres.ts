import type { ChildProcess } from 'node:child_process';
import { Logger, makeWorkerUtils } from 'graphile-worker';
import { systemRandom } from '../src/clock.ts';
import { makeSecret } from '../src/core/sign.ts';
import type { Bench, Figure, RunOptions } from './bench.ts';
import { endChild, message, startChild, startReceiver, type Receiver } from './child.ts';
import { type Drained, drainOnce, openAndCount } from './drain-postgres.ts';
import { deliveredBytes, signedHeaders } from './drain.ts';
import type { GraphileOrder } from './graphile.ts';
import { type Database, type PostgresTempStore, withClient, withPostgres } from './postgres.ts';
import { connections as callers, publishOneRate, seconds } from './publish.ts';
import { rateFigure } from './report.ts';
import { alternate } from './rounds.ts';
import { type Written, writtenFigures } from './written.ts';

const peerEvents = 50_000;

/** The usual alternative: a queue of jobs in PostgreSQL, each of which posts one event. */
export const peerPostgres: Bench = {
  name: 'peer-postgres',
  what: `${peerEvents} waiting events, signed, to one webhook, and publishing over ${callers} connections; against graphile-worker with a job for each event on the same server`,
  run: (progress, options) =>
    withPostgres(async (database) => {
      const receiver = await startReceiver();
      try {
        const recorded = await drainFigures(database, receiver, options, progress, true);
        const bare = await drainFigures(database, receiver, options, progress, false);
        const published = await publishFigure(database, options, progress);
        return [...recorded, ...bare, published];
      } finally {
        await receiver.end();
      }
    }),
};

async function drainFigures(
  database: Database,
  receiver: Receiver,
  options: RunOptions,
  progress: (text: string) => void,
  history: boolean,
): Promise<Figure[]> {
  const events = options.events ?? peerEvents;
  const written = { ours: [] as Written[], theirs: [] as Written[] };
  const rounds = await alternate(
    options.rounds,
    async () => {
      const one = { events, nodes: 1, streams: 1 };
      const ended = await drainOnce(database, receiver, one, progress);
      written.ours.push(ended.written);
      return ended.rate;
    },
    async () => {
      const ended = await workOnce(database, receiver, events, history);
      written.theirs.push(ended.written);
      return ended.rate;
    },
    progress,
  );
  if (!history) return [rateFigure('peer drain, its deliveries unrecorded', rounds, undefined)];
  return [
    rateFigure('peer drain', rounds, { least: 2, goal: 5 }),
    ...writtenFigures('leat', written.ours),
    ...writtenFigures('graphile', written.theirs),
  ];
}

/** Drains a queue of jobs once: one worker starts when all wait, and none ends before they count. */
async function workOnce(
  database: Database,
  receiver: Receiver,
  events: number,
  history: boolean,
): Promise<Drained> {
  const tempStore = await database.createTempStore();
  await withClient(tempStore.url, (client) => client.query(historyTable));
  await addJobs(tempStore, events);
  await receiver.hold();
  const worker = startGraphile({
    kind: 'work',
    url: tempStore.url,
    port: receiver.port,
    headers: signedHeaders,
    secret: makeSecret(systemRandom),
    history,
  });
  await message(worker);
  const drained = await openAndCount(tempStore.url, receiver, events, {
    done: 'not exists (select 1 from graphile_worker._private_jobs)',
    end: () => endChild(worker),
  });
  await tempStore.remove();
  return drained;
}

/** The record of a delivery that such a program stores for later queries. */
const historyTable = `
  create table delivery_attempts (
    id bigint primary key generated always as identity,
    event_id text not null,
    at timestamptz not null,
    duration_ms double precision not null,
    status integer
  );
  create index on delivery_attempts (event_id)`;

async function addJobs({ url }: PostgresTempStore, count: number): Promise<void> {
  const silent = new Logger(() => () => undefined);
  const utils = await makeWorkerUtils({ connectionString: url, logger: silent });
  try {
    for (let done = 0; done < count; done += 1000) {
      await utils.addJobs(
        Array.from({ length: Math.min(1000, count - done) }, () => ({
          identifier: 'deliver',
          payload: JSON.parse(deliveredBytes()),
        })),
      );
    }
  } finally {
    await utils.release();
  }
}

/** Adding a job for each event from within the program, against publishing over HTTP. */
async function publishFigure(
  database: Database,
  options: RunOptions,
  progress: (text: string) => void,
): Promise<Figure> {
  const rounds = await alternate(
    options.rounds,
    () => publishOneRate({ createTempStore: database.createTempStore, nodes: 1 }),
    () => addRate(database),
    (text) => progress(`publishing, ${text}`),
  );
  return rateFigure('peer publish', rounds, undefined);
}

async function addRate(database: Database): Promise<number> {
  const tempStore = await database.createTempStore();
  const child = startGraphile({
    kind: 'add',
    url: tempStore.url,
    payload: deliveredBytes(),
    callers,
    seconds,
  });
  const { perSecond } = await message<{ perSecond: number }>(child);
  await endChild(child);
  await tempStore.remove();
  return perSecond;
}

function startGraphile(order: GraphileOrder): ChildProcess {
  const child = startChild('./graphile.ts');
  child.send(order);
  return child;
}
