import type { Rounds } from './rounds.ts';

export type Progress = (text: string) => void;

/** A benchmark and its result. */
export interface Bench {
  readonly name: string;
  /** One sentence: what is measured against what. */
  readonly what: string;
  run(progress: Progress, options: RunOptions): Promise<Figure[]>;
}

/** Options of the command line; limits are set for the defaults. */
export interface RunOptions {
  /** Alternating rounds of both sides. */
  readonly rounds: number;
  /** Waiting events of a drain; absent for each benchmark's own number. */
  readonly events: number | undefined;
  /** Part of the names of the cases to measure, where a benchmark has some; empty for all. */
  readonly cases: string;
  /** Numbers of nodes to measure, where a store can be shared. */
  readonly nodes: readonly number[];
  /** Numbers of threads that sign and send, to measure each; absent for the default of the program. */
  readonly threads: readonly number[] | undefined;
}

/** Which values of a figure are better. */
export type Better = 'higher' | 'lower';

/** One measured ratio (or plain figure) and its limit. */
export interface Figure {
  readonly name: string;
  /** Our side and the side it is compared with, for people: `12,345/s against 15,000/s`. */
  readonly detail: string;
  /** One value per round. */
  readonly values: readonly number[];
  readonly unit: string;
  /** `least`: the median must not be below; `most`: not above. */
  readonly must?: { readonly kind: 'least' | 'most'; readonly value: number } | undefined;
  readonly goal?: number | undefined;
  /** Absent where no direction is. */
  readonly better?: Better | undefined;
  /** What both sides had in each round, where the values are their ratios. */
  readonly rounds?: Rounds;
  /** Settings of a server that affect the value. */
  readonly under?: string;
}
