/**
 * The usual way to call webhooks from a Node program with PostgreSQL: a job for each event, and a
 * worker of graphile-worker that signs and posts it. Controlled over IPC.
 */
import { Logger, makeWorkerUtils, run, type Task, type WorkerUtils } from 'graphile-worker';
import { Pool } from 'undici';
import { decodeSecret, sign } from '../src/core/sign.ts';

export type GraphileOrder =
  | {
      /** Works until it is killed. */
      readonly kind: 'work';
      readonly url: string;
      readonly port: number;
      readonly headers: Record<string, string>;
      readonly secret: string;
      /** Whether each delivery is recorded, as Leat does. */
      readonly history: boolean;
    }
  | {
      /** Adds jobs with `callers` concurrent callers; reports `{ perSecond }`. */
      readonly kind: 'add';
      readonly url: string;
      readonly payload: string;
      readonly callers: number;
      readonly seconds: number;
    };

/** The concurrency of a stream in Leat. */
const connections = 64;

/** Logging each job would be most of the work. */
const silent = new Logger(() => () => undefined);

process.once('message', (order: GraphileOrder) => {
  void (order.kind === 'work' ? work(order) : add(order));
});
process.on('disconnect', () => process.exit(0));

async function work(order: GraphileOrder & { kind: 'work' }): Promise<void> {
  await run({
    taskList: { deliver: deliverWith(order) },
    parsedCronItems: [],
    noHandleSignals: true,
    // The fastest settings that were tried; by default each job needs its own round trips.
    preset: {
      worker: {
        connectionString: order.url,
        logger: silent,
        concurrentJobs: connections,
        maxPoolSize: connections + 2,
        localQueue: { size: 2000, refetchDelay: { durationMs: 10 } },
        completeJobBatchDelay: 10,
        failJobBatchDelay: 10,
      },
    },
  });
  process.send?.('works');
}

function deliverWith({ port, headers, secret, history }: GraphileOrder & { kind: 'work' }): Task {
  const pool = new Pool(`http://127.0.0.1:${port}`, { connections, pipelining: 1 });
  const key = decodeSecret(secret);
  return async (payload, helpers) => {
    const { id } = payload as { id: string };
    const body = JSON.stringify(payload);
    const seconds = Math.floor(Date.now() / 1000);
    const signed = {
      ...headers,
      'webhook-id': id,
      'webhook-timestamp': String(seconds),
      'webhook-signature': sign([key], id, seconds, body),
    };
    const startedMs = performance.now();
    const response = await pool.request({ path: '/', method: 'POST', headers: signed, body });
    await response.body.dump();
    if (history) {
      await helpers.query(
        'insert into delivery_attempts (event_id, at, duration_ms, status) values ($1, now(), $2, $3)',
        [id, performance.now() - startedMs, response.statusCode],
      );
    }
    if (response.statusCode >= 300) throw new Error(`status ${response.statusCode}`);
  };
}

async function add(order: GraphileOrder & { kind: 'add' }): Promise<void> {
  const utils = await makeWorkerUtils({
    connectionString: order.url,
    maxPoolSize: 32,
    logger: silent,
  });
  const callers = async (seconds: number): Promise<number> => {
    const untilMs = performance.now() + seconds * 1000;
    const counts = Array.from({ length: order.callers }, () => addUntil(utils, order, untilMs));
    return (await Promise.all(counts)).reduce((sum, count) => sum + count, 0) / seconds;
  };
  await callers(1);
  const perSecond = await callers(order.seconds);
  await utils.release();
  process.send?.({ perSecond });
}

async function addUntil(
  utils: WorkerUtils,
  { payload }: GraphileOrder & { kind: 'add' },
  untilMs: number,
): Promise<number> {
  let count = 0;
  for (; performance.now() < untilMs; count++) {
    await utils.addJob('deliver', JSON.parse(payload));
  }
  return count;
}
