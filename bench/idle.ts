import type { Bench, Figure } from './bench.ts';
import { addStreams, type Running, withLeat } from './leat.ts';
import { cpuPercent, megabytesOf, wait } from './proc.ts';
import { figure } from './report.ts';

const streams = 10_000;
const watchSeconds = 20;

/** The cost of 10,000 idle streams. Linux only: it reads /proc. */
export const idle: Bench = {
  name: 'idle',
  what: `CPU and resident memory of a server with ${streams} idle streams, over ${watchSeconds} s`,
  run: (progress) => {
    const all = Array.from({ length: streams }, (_, i) => ({
      types: [`kind_${i % 100}.happened`],
    }));
    return withLeat({ fill: (store) => addStreams(store, 9, all, progress) }, async (leat) => {
      await wait(5);
      progress(`watching for ${watchSeconds} s`);
      const names = ['idle CPU', 'idle memory'] as const;
      return watch(leat, names, { seconds: watchSeconds, percent: 1, megabytes: 200 });
    });
  },
};

/** Watches a server that has nothing to do. */
export async function watch(
  { pid }: Pick<Running, 'pid'>,
  [cpu, memory]: readonly [cpu: string, memory: string],
  most: { readonly seconds: number; readonly percent: number; readonly megabytes: number },
): Promise<Figure[]> {
  const percent = await cpuPercent(pid, most.seconds);
  const megabytes = await megabytesOf(pid, 'VmRSS');
  const peak = (await megabytesOf(pid, 'VmHWM')).toFixed(0);
  return [
    figure(cpu, '% of a core', [percent], { detail: 'of the process', most: most.percent }),
    figure(memory, 'MB resident', [megabytes], {
      detail: `${peak} MB at most since the start`,
      most: most.megabytes,
    }),
  ];
}
