/** What a stream has to do, and what it is doing. */
export interface Load {
  readonly freshWaits: boolean;
  readonly dueWaits: boolean;
  readonly freshInFlight: number;
  readonly dueInFlight: number;
  /** What the stream began last; decides where one slot is all there is. */
  readonly last: Work | undefined;
}

/** `fresh`: the next event of the log. `due`: a row whose time has come. */
export type Work = 'fresh' | 'due';

/**
 * What a stream begins next, `undefined` when it has nothing to do or no slot. While both wait,
 * each gets at least a quarter of the slots: neither can a flood of retries stop the log, nor the
 * log the retries. Within that, what is due goes first, as it is older.
 */
export function nextWork(load: Load, slots: number): Work | undefined {
  const { freshWaits, dueWaits, freshInFlight, dueInFlight } = load;
  if (freshInFlight + dueInFlight >= slots) return undefined;
  if (!dueWaits) return freshWaits ? 'fresh' : undefined;
  if (!freshWaits) return 'due';
  if (slots === 1) return load.last === 'due' ? 'fresh' : 'due';
  return dueInFlight < slots - Math.ceil(slots / 4) ? 'due' : 'fresh';
}
