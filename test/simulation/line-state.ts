import type { ModelStream } from '../store/contract/model.ts';
import type { Line } from './line.ts';

/** What the store knows of a stream at one moment. What receivers have seen is no part of it. */
export type LineState = Pick<Line, (typeof replaced)[number]> & {
  readonly counts: ModelStream;
  readonly collections: Record<(typeof refilled)[number], readonly unknown[]>;
};

/** Values that go back with the store. */
const replaced = ['endpoint', 'owner', 'knownVersion', 'isDeleted'] as const;
/** The same for collections, which are filled again. */
const refilled = [
  'spans',
  'recorded',
  'deliveredAt',
  'leftOut',
  'cycles',
  'tests',
  'handedOut',
] as const;

export function stateOf(line: Line): LineState {
  const { endpoint, owner, knownVersion, isDeleted } = line;
  const { spans, recorded, deliveredAt, leftOut, cycles, tests, handedOut } = line;
  const counts = structuredClone(line.counts);
  const collections = {
    spans: [...spans],
    recorded: [...recorded],
    deliveredAt: [...deliveredAt],
    leftOut: [...leftOut],
    cycles: [...cycles],
    tests: [...tests],
    handedOut: [...handedOut],
  };
  return { endpoint, owner, knownVersion, isDeleted, counts, collections };
}

/**
 * Puts a stream back. Attempts that were made since are forgotten, as they are made again; so is the
 * acceptance of events that are gone, whose ids may be used anew: `isThere` knows the others.
 */
export function putBack(line: Line, state: LineState, isThere: (eventId: string) => boolean): void {
  for (const name of replaced) Object.assign(line, { [name]: state[name] });
  Object.assign(line.counts, structuredClone(state.counts));
  for (const name of refilled) refill(line[name], state.collections[name]);
  line.begun.clear();
  for (const eventId of line.accepted) {
    if (!isThere(eventId) && !line.tests.has(eventId)) line.accepted.delete(eventId);
  }
}

/** Puts these items in the place of those that are there. */
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
