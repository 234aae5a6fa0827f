/** What a benchmark is and what it answers. */
export interface Bench {
  readonly name: string;
  /** One sentence: what is measured against what. */
  readonly what: string;
  run(progress: (text: string) => void, options: RunOptions): Promise<Figure[]>;
}

/** What the command line may change; bars are set for the defaults. */
export interface RunOptions {
  /** Alternating rounds of both sides. */
  readonly rounds: number;
  /** Waiting events of a drain; absent for each benchmark's own number. */
  readonly events: number | undefined;
  /** Part of the names of the cases to measure, where a benchmark has some; absent for all. */
  readonly cases: string | undefined;
  /** Numbers of nodes to measure, where a store can be shared. */
  readonly nodes: readonly number[];
}

/** One measured ratio (or plain figure) and the bar it is held against. */
export interface Figure {
  readonly name: string;
  /** Our side and the side it is compared with, for people: `12,345/s against 15,000/s`. */
  readonly detail: string;
  /** One value per round. */
  readonly values: readonly number[];
  readonly unit: string;
  /** `least`: the median must not be below; `most`: not above. Absent where there is no bar. */
  readonly must: { readonly kind: 'least' | 'most'; readonly value: number } | undefined;
  readonly goal: number | undefined;
  /** Settings of a server that the value depends on. */
  readonly under?: string;
}
