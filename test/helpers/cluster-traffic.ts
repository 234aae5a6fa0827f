import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { type Cluster, settled, startCluster } from './cluster.ts';
import type { Running } from './leat.ts';
import { createQuota } from './quota.ts';
import {
  type CountingReceiver,
  createStream,
  publishOn,
  slotSettings,
  startCountingReceiver,
  twiceMax,
} from './traffic.ts';
import { waitFor } from './wait.ts';

export const streams = ['one', 'two', 'three', 'four'];

/** Nodes that share four streams, and publishers at each. */
export interface ClusterTraffic {
  readonly cluster: Cluster;
  readonly receiver: CountingReceiver;
  readonly nodes: Running[];
  readonly acknowledged: Set<string>;
  /** Publishes the permitted events at a node, until it or the traffic ends. */
  publishAt(node: Running): void;
  /** Permits the publishers this many more events. */
  permit(events: number): void;
  /** Waits until this many more events are acknowledged. */
  acknowledgedMore(events: number): Promise<void>;
  /** Ends the traffic and checks that everything has arrived, with few duplicates. */
  end(): Promise<void>;
}

export async function startClusterTraffic(
  t: TestContext,
  nodeCount: number,
): Promise<ClusterTraffic> {
  const ending = new AbortController();
  t.after(() => ending.abort());
  const receiver = await startCountingReceiver(t);
  const cluster = await startCluster(t);
  const nodes = await Promise.all(
    Array.from({ length: nodeCount }, () => cluster.start(slotSettings)),
  );
  const [first] = nodes;
  assert.ok(first);
  for (const name of streams) await createStream(first, receiver.url, name);
  await settled(
    first,
    Array.from({ length: nodeCount }, () => streams.length / nodeCount),
  );
  const acknowledged = new Set<string>();
  const quota = createQuota();
  const publishing: Promise<void>[] = [];
  receiver.startRound();
  return {
    cluster,
    receiver,
    nodes,
    acknowledged,
    publishAt: (node) => {
      const gone = new AbortController();
      node.child.once('exit', () => gone.abort());
      const until = AbortSignal.any([ending.signal, gone.signal]);
      publishing.push(publishOn(node, acknowledged, { quota, until, patient: true }));
    },
    permit: quota.add,
    acknowledgedMore: async (events) => {
      const wanted = acknowledged.size + events;
      const progress = (): number => acknowledged.size;
      await waitFor(`${events} more events`, () => progress() >= wanted, {
        progress,
        intervalMsMax: 5,
      });
    },
    end: async () => {
      ending.abort();
      await Promise.all(publishing);
      assert.ok(acknowledged.size > 100, `only ${acknowledged.size} events were published`);
      await receiver.waitForAll('every acknowledged event', streams, acknowledged);
      const twice = receiver.mostTwiceInOneRound();
      assert.ok(twice <= twiceMax * streams.length, `${twice} events came twice`);
      t.diagnostic(`${acknowledged.size} acknowledged; at most ${twice} requests again in a round`);
    },
  };
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms);
  });
}
