/** Processor time of a process for each unit of the work that it does meanwhile. Linux only. */
import { mainThreadMicros, processMicros, wait } from './proc.ts';

/** Microseconds of processor time. */
export interface Spent {
  readonly mainThread: number;
  readonly whole: number;
}

/** Work that has arrived nowhere for so long does not come any more. */
const stallMs = 60_000;

/**
 * Polls the count of finished work until it has reached `total`, and returns what the process spent for
 * each unit since there were `from`. Throws when the count stays the same for long.
 */
export async function spentPerUnit(
  pid: number,
  count: () => Promise<number>,
  { from = 1, total }: { readonly from?: number; readonly total: number },
): Promise<Spent> {
  let first: { readonly spent: Spent; readonly count: number } | undefined;
  let last = 0;
  let movedAt = Date.now();
  for (;;) {
    const spent = await spentBy(pid);
    const now = await count();
    if (first === undefined && now >= from) first = { spent, count: now };
    if (first !== undefined && now >= total) return perUnit(first.spent, spent, now - first.count);
    if (now > last) movedAt = Date.now();
    if (Date.now() - movedAt > stallMs) {
      throw new Error(`${now} of ${total} have arrived, and none for ${stallMs / 1000} s`);
    }
    last = now;
    await wait(0.025);
  }
}

export async function spentBy(pid: number): Promise<Spent> {
  return { mainThread: await mainThreadMicros(pid), whole: await processMicros(pid) };
}

export function perUnit(before: Spent, after: Spent, units: number): Spent {
  return {
    mainThread: (after.mainThread - before.mainThread) / units,
    whole: (after.whole - before.whole) / units,
  };
}
