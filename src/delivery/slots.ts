/** The waiting work of a stream, and its attempts under way. */
export interface Load {
  readonly freshWaits: boolean;
  readonly dueWaits: boolean;
  readonly freshInFlight: number;
  readonly dueInFlight: number;
  /** The kind of its last attempt; decides where the stream has one slot. */
  readonly last: Work | undefined;
}

/** `fresh`: the next event of the log. `due`: a row whose time has come. */
export type Work = 'fresh' | 'due';

/**
 * Returns the kind of work that a stream begins next; `undefined` without work or without a slot.
 * While both kinds wait, each gets at least a quarter of the slots, so that neither can block the
 * other. Within that, due rows go first, as they are older.
 */
export function nextWork(load: Load, slots: number): Work | undefined {
  const { freshWaits, dueWaits, freshInFlight, dueInFlight } = load;
  if (freshInFlight + dueInFlight >= slots) return undefined;
  if (!dueWaits) return freshWaits ? 'fresh' : undefined;
  if (!freshWaits) return 'due';
  if (slots === 1) return load.last === 'due' ? 'fresh' : 'due';
  return dueInFlight < slots - Math.ceil(slots / 4) ? 'due' : 'fresh';
}
