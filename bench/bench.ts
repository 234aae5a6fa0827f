/** What a benchmark is and what it answers. */
export interface Bench {
  readonly name: string;
  /** One sentence: what is measured against what. */
  readonly what: string;
  run(progress: (text: string) => void): Promise<Figure[]>;
}

/** One measured ratio (or plain figure) and the bar it is held against. */
export interface Figure {
  readonly name: string;
  /** Our side and the side it is compared with, for people: `12,345/s against 15,000/s`. */
  readonly detail: string;
  /** One value per round. */
  readonly values: readonly number[];
  readonly unit: string;
  /** `least`: the median must not be below; `most`: not above. */
  readonly must: { readonly kind: 'least' | 'most'; readonly value: number };
  readonly goal: number | undefined;
}
