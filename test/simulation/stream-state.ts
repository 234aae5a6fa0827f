import type { ModelStream } from '../store/contract/model.ts';
import type { SimulatedStream } from './simulated-stream.ts';

/** The stored state of a stream at one moment, without what receivers have received. */
export type StreamSnapshot = Pick<SimulatedStream, (typeof replaced)[number]> & {
  readonly counts: ModelStream;
  readonly collections: Record<(typeof refilled)[number], readonly unknown[]>;
};

/** Values that are restored with the store. */
const replaced = [
  'endpoint',
  'selection',
  'owner',
  'knownVersion',
  'knownAt',
  'isDeleted',
  'disabledAtLimit',
] as const;
/** Collections that are restored with the store. */
const refilled = [
  'spans',
  'recorded',
  'deliveredAt',
  'dismissedAt',
  'skipped',
  'cycles',
  'tests',
  'handedOut',
] as const;

export function stateOf(stream: SimulatedStream): StreamSnapshot {
  const { endpoint, selection, owner, knownVersion, knownAt, isDeleted, disabledAtLimit } = stream;
  const { spans, recorded, deliveredAt, dismissedAt, skipped, cycles, tests, handedOut } = stream;
  const counts = structuredClone(stream.counts);
  const collections = {
    spans: [...spans],
    recorded: [...recorded],
    deliveredAt: [...deliveredAt],
    dismissedAt: [...dismissedAt],
    skipped: [...skipped],
    cycles: [...cycles],
    tests: [...tests],
    handedOut: [...handedOut],
  };
  const values = { endpoint, selection, owner, knownVersion, knownAt, isDeleted, disabledAtLimit };
  return { ...values, counts, collections };
}

/**
 * Restores a stream. Later attempts are forgotten, as they are made again; so is the acceptance of
 * lost events, whose ids may be used again: `isThere` tells which events remain.
 */
export function putBack(
  stream: SimulatedStream,
  state: StreamSnapshot,
  isThere: (eventId: string) => boolean,
): void {
  for (const name of replaced) Object.assign(stream, { [name]: state[name] });
  Object.assign(stream.counts, structuredClone(state.counts));
  for (const name of refilled) refill(stream[name], state.collections[name]);
  stream.begun.clear();
  stream.trials.clear();
  for (const eventId of stream.accepted) {
    if (!isThere(eventId) && !stream.tests.has(eventId)) stream.accepted.delete(eventId);
  }
}

/** Replaces the items of a collection. */
export function refill(collection: unknown, items: readonly unknown[]): void {
  if (Array.isArray(collection)) collection.splice(0, Infinity, ...items);
  else if (collection instanceof Set) {
    collection.clear();
    for (const item of items) collection.add(item);
  } else if (collection instanceof Map) {
    collection.clear();
    for (const [key, value] of items as (readonly [unknown, unknown])[]) collection.set(key, value);
  }
}
