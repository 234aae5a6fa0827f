/** The waiting work of a stream, and its attempts under way. */
export interface Load {
  readonly freshWaits: boolean;
  readonly dueWaits: boolean;
  readonly freshInFlight: number;
  readonly dueInFlight: number;
  /** Of those in flight: slots whose rows are not being claimed yet. */
  readonly reserved: number;
  /** The kind of its last attempt; decides where the stream has one slot. */
  readonly last: Work | undefined;
}

/** `fresh`: the next event of the log. `due`: a row whose time has come. */
export type Work = 'fresh' | 'due';

/**
 * Returns the kind of work that a stream begins next; `undefined` without work or without a slot.
 * While both kinds wait, each gets at least a quarter of the slots, so that neither can block the
 * other. Within that, due rows go first, as they are older. Fresh work need not wait for a claim: it may
 * take slots that are only reserved for rows, up to its quarter.
 */
export function nextWork(load: Load, slots: number): Work | undefined {
  const { freshWaits, dueWaits, freshInFlight, dueInFlight, reserved } = load;
  const inFlight = freshInFlight + dueInFlight;
  if (inFlight >= slots) {
    const mayTake = slots > 1 && inFlight - reserved < slots && freshInFlight < quarterOf(slots);
    return freshWaits && mayTake ? 'fresh' : undefined;
  }
  if (!dueWaits) return freshWaits ? 'fresh' : undefined;
  if (!freshWaits) return 'due';
  if (slots === 1) return load.last === 'due' ? 'fresh' : 'due';
  return dueInFlight < slots - quarterOf(slots) ? 'due' : 'fresh';
}

/** Returns the slots that are left to each kind of work while both wait. */
export function quarterOf(slots: number): number {
  return Math.ceil(slots / 4);
}
