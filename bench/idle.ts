import type { Bench } from './bench.ts';
import { addStream, createTempStore, startLeat, withStore } from './leat.ts';
import { cpuPercent, residentMegabytes, wait } from './proc.ts';

const streams = 10_000;
const watchSeconds = 20;

/** The cost of 10,000 idle streams. Linux only: it reads /proc. */
export const idle: Bench = {
  name: 'idle',
  what: `CPU and resident memory of a server with ${streams} idle streams, over ${watchSeconds} s`,
  run: async (progress) => {
    const tempStore = await createTempStore();
    await withStore(tempStore, async (store) => {
      for (let i = 0; i < streams; i++) {
        if (i % 2000 === 0) progress(`making streams: ${i} of ${streams}`);
        await addStream(store, 9, { name: `idle-${i}`, types: [`kind_${i % 100}.happened`] });
      }
    });
    const leat = await startLeat(tempStore);
    await wait(5);
    progress(`watching for ${watchSeconds} s`);
    const percent = await cpuPercent(leat.pid, watchSeconds);
    const megabytes = await residentMegabytes(leat.pid);
    await leat.end();
    await tempStore.remove();
    return [
      {
        name: 'idle CPU',
        detail: `${streams} streams`,
        values: [percent],
        unit: '% of a core',
        must: { kind: 'most', value: 1 },
        goal: undefined,
      },
      {
        name: 'idle memory',
        detail: `${streams} streams`,
        values: [megabytes],
        unit: 'MB resident',
        must: { kind: 'most', value: 200 },
        goal: undefined,
      },
    ];
  },
};
