/** The numbers of sender threads that a benchmark runs with. */
import type { RunOptions } from './bench.ts';

export interface ThreadSetting {
  /** Follows the name of a figure. */
  readonly suffix: string;
  readonly settings: Readonly<Record<string, string>>;
}

/** Returns what to run with: the default of the program, or each number of `--threads`. */
export function threadSettings({ threads }: RunOptions): ThreadSetting[] {
  if (threads === undefined) return [{ suffix: '', settings: {} }];
  return threads.map((count) => ({
    suffix: `, ${count} sender thread${count === 1 ? '' : 's'}`,
    settings: { LEAT_SENDER_THREADS: String(count) },
  }));
}
