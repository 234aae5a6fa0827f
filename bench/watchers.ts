import type { Bench } from './bench.ts';
import { endChild } from './child.ts';
import { createTempStore, startLeat } from './leat.ts';
import { familyCpuPercent, wait } from './proc.ts';
import { startReaders } from './pull.ts';

const idleWatchers = 100;
const watchSeconds = 60;

/** The cost of pages that wait for changes. Linux only: it reads /proc. */
export const watchers: Bench = {
  name: 'watchers',
  what: `CPU of a server with ${idleWatchers} idle connections to GET /changes, against none, over ${watchSeconds} s each`,
  run: async (progress) => {
    const tempStore = await createTempStore();
    // One client may hold half of the connections.
    const leat = await startLeat(tempStore, {
      LEAT_SSE_MAX_CONNECTIONS: String(2 * idleWatchers),
      LEAT_MAX_CONNECTIONS_PER_ADDRESS: String(2 * idleWatchers),
    });
    await wait(5);
    progress(`without watchers, for ${watchSeconds} s`);
    const without = await familyCpuPercent(leat.pid, watchSeconds);
    const clients = await startReaders(leat.port, idleWatchers, '/api/v2/changes', leat.token);
    await wait(5);
    progress(`with ${idleWatchers} watchers, for ${watchSeconds} s`);
    const watched = await familyCpuPercent(leat.pid, watchSeconds);
    await endChild(clients);
    await leat.end();
    await tempStore.remove();
    return [
      {
        name: 'idle watchers, CPU',
        detail: `${watched.toFixed(2)} % with ${idleWatchers} watchers against ${without.toFixed(2)} % without`,
        values: [watched - without],
        unit: '% of a core',
        must: { kind: 'most', value: 1 },
        goal: undefined,
      },
    ];
  },
};
