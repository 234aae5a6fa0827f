import type { Clock, Millis } from '../../core/clock.ts';
import type { NodeEngine } from '../directory/nodes.ts';
import { run } from './commands.ts';
import type { StoreIdentity } from './identity.ts';
import type { ListenNotify } from './listen-notify.ts';
import type { Pools } from './pools.ts';
import type { ServerTime } from './time.ts';

export interface NodeEngineDeps {
  readonly identity: StoreIdentity;
  readonly listenNotify: Pick<ListenNotify, 'publish' | 'counted'>;
  readonly clock: Pick<Clock, 'elapsedMs'>;
  /** Learns the server's time from the results of joining and heartbeats. */
  readonly time: ServerTime;
}

/** Creates what this engine knows of the nodes, whose leases are measured by the clock of the server. */
export function createNodeEngine(
  { lease, guard }: Pick<Pools, 'lease' | 'guard'>,
  { identity, listenNotify, clock, time }: NodeEngineDeps,
): NodeEngine {
  const learning = async <T extends { readonly now: Millis } | undefined>(
    request: () => Promise<T>,
  ): Promise<T> => {
    const requestedMs = clock.elapsedMs();
    const result = await request();
    if (result !== undefined) time.learn(result.now, requestedMs, clock.elapsedMs());
    return result;
  };
  return {
    join: async (nodeId, command) => {
      const { adoption, ...joined } = await learning(() =>
        lease.transact('durable', async (tx) => {
          const adopted = await identity.adopt(tx, nodeId);
          return { ...(await run(tx, command())), adoption: adopted };
        }),
      );
      identity.adopted(adoption);
      const { replaced } = adoption;
      return { ...joined, ...(replaced && { replaced }) } as never;
    },
    renew: async (heartbeat) => {
      await guard.check();
      return learning(heartbeat);
    },
    skewMs: () => time.skewMs(),
    counted: listenNotify.counted,
    freed: () => listenNotify.publish({ kind: 'free' }),
  };
}
