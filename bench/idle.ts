import { readFile } from 'node:fs/promises';
import type { Bench } from './bench.ts';
import { addStream, makePlace, startLeat, withStore } from './leat.ts';

const streams = 10_000;
const watchSeconds = 20;
/** Clock ticks per second of /proc/<pid>/stat; fixed at 100 for user space on Linux. */
const ticksPerSecond = 100;

/** What 10,000 streams cost while nothing happens. Linux only: it reads /proc. */
export const idle: Bench = {
  name: 'idle',
  what: `CPU and resident memory of a server with ${streams} idle streams, over ${watchSeconds} s`,
  run: async (progress) => {
    const place = await makePlace();
    await withStore(place, async (store) => {
      for (let i = 0; i < streams; i++) {
        if (i % 2000 === 0) progress(`making streams: ${i} of ${streams}`);
        await addStream(store, 9, { name: `idle-${i}`, types: [`kind_${i % 100}.happened`] });
      }
    });
    const leat = await startLeat(place);
    await wait(5);
    const before = await cpuTicks(leat.pid);
    progress(`watching for ${watchSeconds} s`);
    await wait(watchSeconds);
    const share = (await cpuTicks(leat.pid)) - before;
    const percent = (share / ticksPerSecond / watchSeconds) * 100;
    const megabytes = await residentMegabytes(leat.pid);
    await leat.end();
    await place.remove();
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

const wait = (seconds: number): Promise<void> =>
  new Promise((resolve) => setTimeout(resolve, seconds * 1000));

/** User and system time so far; fields 14 and 15 of proc(5) stat. */
async function cpuTicks(pid: number): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return Number(fields[11]) + Number(fields[12]);
}

async function residentMegabytes(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  return Number(/VmRSS:\s+(\d+) kB/.exec(status)?.[1]) / 1024;
}
