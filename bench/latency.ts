import type { Bench, Figure, Progress, RunOptions } from './bench.ts';
import { type Receiver, withReceiver } from './child.ts';
import { signedHeaders } from './drain.ts';
import { addStream, type Engine, sqlite, withNodes } from './leat.ts';
import { withPostgres } from './postgres.ts';
import { against, nodesText, ratioFigure } from './report.ts';
import { alternate, inTurn, pick, quantile } from './rounds.ts';
import { arrivalDelays, postSteadily } from './steady.ts';

const perSecond = 1000;
const seconds = 5;
const warmUpSeconds = 1;
const load = { perSecond, seconds: warmUpSeconds + seconds };

/**
 * Measures the time from the response to the publisher until the arrival at the receiver, at a steady rate,
 * against a bare POST of the same event from this process to the receiver.
 */
export const latency: Bench = {
  name: 'latency',
  what: `${perSecond} events a second, from the publish response to the receiver in its own process; against a bare POST to that receiver`,
  run: (progress, options) =>
    withReceiver(['--seq'], (receiver) =>
      figuresOf('latency', { engine: sqlite, nodes: 1, receiver }, options, progress),
    ),
};

/** With several nodes most events are published to one that is not the owner of the stream. */
export const latencyPostgres: Bench = {
  name: 'latency-postgres',
  what: 'the latency with a PostgreSQL store, published to the nodes in turn; against a bare POST to that receiver',
  run: (progress, options) =>
    withPostgres((engine) =>
      withReceiver(['--seq'], (receiver) =>
        inTurn(options.nodes, (nodes) =>
          figuresOf(`latency ${nodesText(nodes)}`, { engine, nodes, receiver }, options, progress),
        ),
      ),
    ),
};

interface Where {
  readonly engine: Engine;
  readonly nodes: number;
  readonly receiver: Receiver;
}

async function figuresOf(
  name: string,
  where: Where,
  { rounds }: RunOptions,
  progress: Progress,
): Promise<Figure[]> {
  const bare = (): Promise<number[]> => bareDelays(where.receiver);
  const seen = await alternate(rounds, () => leatDelays(where), bare, progress);
  const ratio = (kind: string, share: number, limit: { most: number; goal?: number }): Figure => {
    const delays = pick(seen, (each) => quantile(each, share));
    // Several nodes are shown, but the limit is for one.
    const kept = where.nodes === 1 ? limit : {};
    return ratioFigure(`${name} ${kind}`, delays, { detail: against(delays, 'ms', 2), ...kept });
  };
  return [ratio('p50', 0.5, { most: 5, goal: 2 }), ratio('p99', 0.99, { most: 10 })];
}

async function bareDelays(receiver: Receiver): Promise<number[]> {
  await receiver.reset();
  const target = { url: `http://127.0.0.1:${receiver.port}`, headers: signedHeaders };
  const posted = await postSteadily([target], { ...load, path: '/' });
  const delays = await arrivalDelays(receiver, posted, 'sentMs');
  return delays.slice(perSecond * warmUpSeconds);
}

/** Publishes events to the nodes in turn. */
function leatDelays({ engine, nodes: count, receiver }: Where): Promise<number[]> {
  const wanted = {
    engine,
    nodes: count,
    fill: (store: Parameters<typeof addStream>[0]) =>
      addStream(store, receiver.port, { name: 'latency' }),
  };
  return withNodes(wanted, async (nodes) => {
    await receiver.reset();
    const delays = await arrivalDelays(receiver, await postSteadily(nodes, load), 'answeredMs');
    return delays.slice(perSecond * warmUpSeconds);
  });
}
