import { matchesEveryEvent } from './constant-condition.ts';
import type { Json } from './filter-values.ts';

/** Options of delivery by their names; none is an object whose fields could be changed alone. */
export type DeliveryFields = Readonly<Record<string, unknown>>;

/**
 * Returns the options after a change: those that it names replace the stored ones, `null` removes
 * one, and all others stay. A change of `null` removes all.
 */
export function changedDelivery(
  stored: DeliveryFields,
  change: DeliveryFields | null,
): DeliveryFields {
  if (change === null) return {};
  const after = Object.entries({ ...stored, ...change });
  return Object.fromEntries(after.filter(([, value]) => value !== null));
}

/** Returns the change that {@link changedDelivery} turns `stored` into `after` with. */
export function deliveryChange(
  stored: DeliveryFields,
  after: DeliveryFields | null,
): DeliveryFields | null {
  if (after === null || Object.keys(after).length === 0) return null;
  const removed = Object.keys(stored).filter((name) => !(name in after));
  const set = Object.entries(after).filter(
    ([name, value]) => JSON.stringify(value) !== JSON.stringify(stored[name]),
  );
  return Object.fromEntries([...removed.map((name) => [name, null]), ...set]);
}

/**
 * Returns which of filter and order a change takes away: a receiver would get events that it did not get, or get them
 * in another order. A filter that every event matches is none.
 */
export function droppedRules(stored: DeliveryFields, after: DeliveryFields): readonly string[] {
  const [before, now] = [rulesOf(stored), rulesOf(after)];
  return before.filter((name) => !now.includes(name));
}

function rulesOf({ filter, order_by: orderBy }: DeliveryFields): readonly string[] {
  const isFiltered = filter !== undefined && !matchesEveryEvent(filter as Json);
  return [...(isFiltered ? ['filter'] : []), ...(orderBy === undefined ? [] : ['order_by'])];
}
