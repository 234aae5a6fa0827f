import type { ChildProcess } from 'node:child_process';
import { Logger, makeWorkerUtils } from 'graphile-worker';
import { systemRandom } from '../src/clock.ts';
import { makeSecret } from '../src/core/sign.ts';
import type { Bench, Figure, Progress, RunOptions } from './bench.ts';
import { endChild, message, type Receiver, startChild, withReceiver } from './child.ts';
import { type Drained, drainOnce, openAndCount } from './drain-postgres.ts';
import { deliveredBytes, signedHeaders } from './drain.ts';
import type { GraphileOrder } from './graphile.ts';
import type { Engine } from './leat.ts';
import { urlOf, withClient, withPostgres } from './postgres.ts';
import { connections as callers, publishRate, seconds } from './publish.ts';
import { rateFigure } from './report.ts';
import { alternate, pick } from './rounds.ts';
import { writtenFigures } from './written.ts';

const peerEvents = 50_000;

/** The usual alternative: a queue of jobs in PostgreSQL, each of which posts one event. */
export const peerPostgres: Bench = {
  name: 'peer-postgres',
  what: `${peerEvents} waiting events, signed, to one webhook, and publishing over ${callers} connections; against graphile-worker with a job for each event on the same server`,
  run: (progress, options) =>
    withPostgres((engine) =>
      withReceiver([], async (receiver) => [
        ...(await drainFigures({ engine, receiver, history: true }, options, progress)),
        ...(await drainFigures({ engine, receiver, history: false }, options, progress)),
        // Adding a job for each event from within the program, against publishing over HTTP.
        rateFigure(
          'peer publish',
          await alternate(
            options.rounds,
            () => publishRate(engine, {}),
            () => addRate(engine),
            (text) => progress(`publishing, ${text}`),
          ),
        ),
      ]),
    ),
};

interface Where {
  readonly engine: Engine;
  readonly receiver: Receiver;
  /** Whether the peer records each delivery. */
  readonly history: boolean;
}

async function drainFigures(
  where: Where,
  { rounds, events = peerEvents }: RunOptions,
  progress: Progress,
): Promise<Figure[]> {
  const seen = await alternate(
    rounds,
    () => drainOnce({ ...where, nodes: 1 }, { events, streams: 1 }, progress),
    () => workOnce(where, events),
    progress,
  );
  const rates = pick(seen, ({ rate }) => rate);
  if (!where.history) return [rateFigure('peer drain, its deliveries unrecorded', rates)];
  const written = (side: readonly Drained[]) => side.map((drained) => drained.written);
  return [
    rateFigure('peer drain', rates, { least: 2, goal: 5 }),
    ...writtenFigures('leat', written(seen.ours)),
    ...writtenFigures('graphile', written(seen.theirs)),
  ];
}

/** Drains a queue of jobs once: one worker starts when all wait, and none ends before they count. */
async function workOnce({ engine, receiver, history }: Where, events: number): Promise<Drained> {
  const tempStore = await engine.createTempStore();
  const url = urlOf(tempStore);
  await withClient(url, (client) => client.query(historyTable));
  await addJobs(url, events);
  await receiver.hold();
  const worker = startGraphile({
    kind: 'work',
    url,
    port: receiver.port,
    headers: signedHeaders,
    secret: makeSecret(systemRandom),
    history,
  });
  await message(worker);
  const drained = await openAndCount(url, receiver, events, {
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

async function addJobs(url: string, count: number): Promise<void> {
  const silent = new Logger(() => () => undefined);
  const utils = await makeWorkerUtils({ connectionString: url, logger: silent });
  const jobs = Array.from({ length: count }, () => ({
    identifier: 'deliver',
    payload: JSON.parse(deliveredBytes()) as unknown,
  }));
  for (let done = 0; done < count; done += 1000) await utils.addJobs(jobs.slice(done, done + 1000));
  await utils.release();
}

async function addRate(engine: Engine): Promise<number> {
  const tempStore = await engine.createTempStore();
  const url = urlOf(tempStore);
  const child = startGraphile({ kind: 'add', url, payload: deliveredBytes(), callers, seconds });
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
