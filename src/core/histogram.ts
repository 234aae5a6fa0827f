/**
 * A histogram of durations in milliseconds, in logarithmic buckets that are the same everywhere: so
 * histograms of parts merge into the histogram of the whole.
 *
 * The bounds of a bucket differ by the factor {@link growth}. A percentile is the harmonic mean of the
 * bounds of its bucket, so it differs from the exact one by at most (growth - 1) / (growth + 1), which
 * is 9.1 %; with the rounding to three digits by at most 10 %. Forty buckets would not reach that over
 * the range from 1 ms to 72 h.
 */
export class Histogram {
  /** By bucket; shorter than {@link bucketCount} where the last ones are empty. */
  readonly #counts: number[] = [];
  #total = 0;

  /** How many values it has. */
  get total(): number {
    return this.#total;
  }

  /** Counts a value. Less than 1 ms counts as 1 ms, more than {@link longestMs} as that. */
  add(ms: number): void {
    this.#addTo(bucketOf(ms), 1);
  }

  /** Adds the values of a text of {@link Histogram.encode}. */
  merge(encoded: string): void {
    let bucket = 0;
    let number = 0;
    // By character: a window of minutes has thousands of texts.
    for (let index = 0; index < encoded.length; index += 1) {
      const code = encoded.charCodeAt(index);
      if (code >= digitZero && code < colon) number = number * 10 + code - digitZero;
      else if (code === colon) [bucket, number] = [number, 0];
      else {
        this.#addTo(bucket, number);
        number = 0;
      }
    }
    if (encoded !== '') this.#addTo(bucket, number);
  }

  /**
   * Returns the value that is not below `part` of the values, and not above the others (nearest rank);
   * `undefined` without values. `part` is above 0, and 1 at most.
   */
  percentile(part: number): number | undefined {
    const rank = Math.ceil(part * this.#total);
    let seen = 0;
    for (let bucket = 0; bucket < this.#counts.length; bucket += 1) {
      const count = this.#counts[bucket] ?? 0;
      seen += count;
      if (count > 0 && seen >= rank) return valueOf(bucket);
    }
    return undefined;
  }

  /** Returns its buckets as text, `<bucket>:<count>` separated by spaces; empty without values. */
  encode(): string {
    const pairs: string[] = [];
    for (const [bucket, count] of this.#counts.entries()) {
      if (count > 0) pairs.push(`${bucket}:${count}`);
    }
    return pairs.join(' ');
  }

  #addTo(bucket: number, count: number): void {
    const counts = this.#counts;
    while (counts.length <= bucket) counts.push(0);
    counts[bucket] = (counts[bucket] ?? 0) + count;
    this.#total += count;
  }
}

const digitZero = '0'.charCodeAt(0);
const colon = ':'.charCodeAt(0);

/** The ratio of the bounds of a bucket. */
const growth = 1.2;
const logGrowth = Math.log(growth);

/** Bucket 0 has what is shorter than 1 ms; bucket n has from growth^(n - 1) up to growth^n. */
const bucketCount = 121;

/** The longest duration that is told apart: about 36 days. */
export const longestMs = growth ** (bucketCount - 1);

function bucketOf(ms: number): number {
  if (!(ms >= 1)) return 0;
  return Math.min(1 + Math.floor(Math.log(ms) / logGrowth), bucketCount - 1);
}

function valueOf(bucket: number): number {
  if (bucket === 0) return 1;
  const lower = growth ** (bucket - 1);
  return Number(((2 * lower * growth) / (1 + growth)).toPrecision(3));
}
