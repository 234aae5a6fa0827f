import type { Counts } from './search.ts';

export interface Progress {
  show(done: number, total: number): void;
  end(): void;
}

const barWidth = 30;

/** Shows a bar on a terminal, and a line for each tenth elsewhere. */
export function createProgress(out: NodeJS.WriteStream, nowMs: () => number): Progress {
  const startedMs = nowMs();
  let tenths = 0;
  return {
    show: (done, total) => {
      const share = done / total;
      const leftS = ((nowMs() - startedMs) / 1000 / share) * (1 - share);
      const text = `${count(done)} of ${count(total)} histories, ${Math.ceil(leftS)} s left`;
      if (out.isTTY) {
        const bar = '#'.repeat(Math.round(share * barWidth)).padEnd(barWidth, '.');
        out.write(`\r${bar} ${text}\u001b[K`);
      } else if (Math.floor(share * 10) > tenths) {
        tenths = Math.floor(share * 10);
        out.write(`${text}\n`);
      }
    },
    end: () => {
      if (out.isTTY) out.write('\r\u001b[K');
    },
  };
}

export const count = (number: number): string => number.toLocaleString('en-US');

/** Returns the numbers of the played histories in one line. */
export function summary(
  { histories, events, attempts, virtualMs }: Counts,
  tookMs: number,
): string {
  const minutes = virtualMs / 60_000;
  const time =
    minutes < 90 ? `${minutes.toFixed(1)} minutes` : `${(minutes / 60).toFixed(1)} hours`;
  return (
    `${count(histories)} histories in ${(tookMs / 1000).toFixed(1)} s: ${count(events)} events, ` +
    `${count(attempts)} attempts, ${time} of simulated time.`
  );
}
