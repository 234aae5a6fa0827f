import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { waitFor } from '../test/helpers/wait.ts';
import type { Figure } from './bench.ts';
import type { Running } from './leat.ts';
import { figure } from './report.ts';
import { median } from './rounds.ts';

/** Durations for which an event loop was held, in milliseconds. */
export interface Holds {
  readonly longestMs: number;
  /** The longest computation within one hold; the rest is waiting for the disk or a core. */
  readonly computedMs: number;
}

export const holdMsMax = 50;

/** Watches the event loop of a server. */
export interface HoldProbe {
  /** Of the server. */
  readonly settings: Readonly<Record<string, string>>;
  /** Returns the longest holds since the last call. */
  longest(leat: Pick<Running, 'pid'>): Promise<Holds>;
}

export function createProbe(folder: string): HoldProbe {
  const file = join(folder, 'loop.json');
  return {
    settings: {
      NODE_OPTIONS: `--import=${new URL('./loop-probe.ts', import.meta.url).pathname}`,
      BENCH_LOOP_FILE: file,
    },
    longest: async ({ pid }) => {
      await rm(file, { force: true });
      process.kill(pid, 'SIGUSR2');
      const written = (): Promise<string | undefined> =>
        readFile(file, 'utf8').catch(() => undefined);
      return JSON.parse(await waitFor('the holds', written)) as Holds;
    },
  };
}

/** Returns the longest holds of the rounds; `aloneMs` are those without what is measured. */
export function holdFigure(
  name: string,
  holds: readonly Holds[],
  aloneMs: readonly number[],
  more = '',
): Figure {
  const alone = median(aloneMs);
  const computed = median(holds.map(({ computedMs }) => computedMs));
  return figure(
    name,
    'ms',
    holds.map(({ longestMs }) => longestMs),
    {
      detail: `at most ${computed.toFixed(1)} ms of computation, against ${alone.toFixed(1)} ms alone${more}`,
      // A disk or a machine that stalls for longer does so by itself too.
      most: Math.ceil(Math.max(holdMsMax, alone)),
    },
  );
}
