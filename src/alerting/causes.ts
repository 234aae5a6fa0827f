import type { ErrorCode } from '../core/error-code.ts';

/** Failures of a stream by error code, the most frequent first. A stored format, as JSON. */
export interface Causes {
  readonly codes: readonly CodeCount[];
  /** Failures with a code that is not listed. */
  readonly others: number;
}

export interface CodeCount {
  readonly code: ErrorCode;
  readonly count: number;
  /** The error of one of them, as `causeOf` returns it. */
  readonly sample?: string | undefined;
}

/** Codes that an alert lists. */
export const codesMax = 5;

export const noCauses: Causes = { codes: [], others: 0 };

/** Sums up failures by code; the sample of a code is its first one. */
export interface CauseCounter {
  /** Adds failures with a code; `undefined` when it is not known. */
  add(code: ErrorCode | undefined, count: number, sample: string | undefined): void;
  causes(): Causes;
}

export function createCauseCounter(): CauseCounter {
  const byCode = new Map<ErrorCode, CodeCount>();
  let unknown = 0;
  return {
    add: (code, count, sample) => {
      if (code === undefined) {
        unknown += count;
        return;
      }
      const known = byCode.get(code);
      const sum = count + (known?.count ?? 0);
      const shown = known?.sample ?? sample;
      byCode.set(code, { code, count: sum, ...(shown === undefined ? {} : { sample: shown }) });
    },
    causes: () => {
      const sorted = [...byCode.values()].toSorted((one, other) => other.count - one.count);
      const cut = sorted.slice(codesMax).reduce((sum, { count }) => sum + count, 0);
      return { codes: sorted.slice(0, codesMax), others: unknown + cut };
    },
  };
}

/** Sums up the causes of two alerts about different failures of a stream. */
export function joinCauses(newer: Causes, older: Causes): Causes {
  const counter = createCauseCounter();
  for (const { code, count, sample } of [...newer.codes, ...older.codes]) {
    counter.add(code, count, sample);
  }
  counter.add(undefined, newer.others + older.others, undefined);
  return counter.causes();
}
