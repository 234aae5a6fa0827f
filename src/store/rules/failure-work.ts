/** The failures of one stream in a request about many failures. */
export interface StreamProgress {
  /** Failures of the request. */
  readonly total: number;
  /** Of these, counted at the acceptance and not found by a step yet. */
  readonly unread: number;
}

/** What a step found among the open failures of a stream. */
export interface StepCounts {
  /** Failures that it acted on. */
  readonly begun: number;
  /** Failures that match and stay as they are. */
  readonly skipped: number;
  /** Whether it was the last step of the stream. */
  readonly isEnd: boolean;
}

/**
 * Returns what a step adds to the counts of a stream. Failures that were counted at the acceptance and
 * that no step found have been closed in another way: they are skipped. Those that were not counted,
 * because they matched only later, add to the total.
 */
export function progressOfStep(
  { unread }: Pick<StreamProgress, 'unread'>,
  { begun, skipped, isEnd }: StepCounts,
): { readonly total: number; readonly unread: number; readonly skipped: number } {
  const read = begun + skipped;
  const left = Math.max(0, unread - read);
  return {
    total: Math.max(0, read - unread),
    unread: (isEnd ? 0 : left) - unread,
    skipped: skipped + (isEnd ? left : 0),
  };
}
