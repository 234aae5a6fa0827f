import type { Offset, Subscription } from './types.ts';

/** The event types in force for a stretch of the log. */
export interface SubscriptionSpan {
  readonly types: readonly string[];
  /** Last offset of the stretch; `undefined` when it has no end. */
  readonly upTo: Offset | undefined;
}

/**
 * The subscriptions of a new stream. They hold from before any offset, 0 included: so they cannot be
 * taken for a change that was made while the log was empty.
 */
export function firstSubscription(types: readonly string[]): Subscription[] {
  return [{ after: -1, types }];
}

/** What a stream wants of the event at `offset`, and up to where the same holds. */
export function spanAt(subscriptions: readonly Subscription[], offset: Offset): SubscriptionSpan {
  const index = subscriptions.findLastIndex((subscription) => subscription.after < offset);
  return {
    types: subscriptions[index]?.types ?? [],
    upTo: subscriptions[index + 1]?.after,
  };
}

/**
 * How far a cursor may go for a node that does not know the last change: it judged what comes after
 * the first change that the cursor has not passed by what the stream wanted before. `undefined`
 * when there is no such change.
 */
export function firstChangeFrom(
  subscriptions: readonly Subscription[],
  cursor: Offset,
): Offset | undefined {
  return subscriptions.find(({ after }) => after >= cursor)?.after;
}

/** Whether the two want different types of some event after `after` and up to `upTo`. */
export function differWithin(
  one: readonly Subscription[],
  other: readonly Subscription[],
  { after, upTo }: { readonly after: Offset; readonly upTo: Offset },
): boolean {
  for (let offset = after + 1; offset <= upTo;) {
    const [span, otherSpan] = [spanAt(one, offset), spanAt(other, offset)];
    if (!sameTypes(span.types, otherSpan.types)) return true;
    offset = Math.min(span.upTo ?? upTo, otherSpan.upTo ?? upTo) + 1;
  }
  return false;
}

/** Whether two lists of types are the same, order and repeats too. */
export function sameTypes(one: readonly string[], other: readonly string[]): boolean {
  return one.length === other.length && one.every((type, index) => type === other[index]);
}

/** The types that a stream wants from now on. */
export function typesNow(subscriptions: readonly Subscription[]): readonly string[] {
  return subscriptions.at(-1)?.types ?? [];
}

/** The subscriptions after a change of types that takes effect for the events after `head`. */
export function withTypes(
  subscriptions: readonly Subscription[],
  types: readonly string[],
  head: Offset,
): Subscription[] {
  // A change at the same offset never took effect for any event.
  const inForce = subscriptions.filter((subscription) => subscription.after < head);
  return [...inForce, { after: head, types }];
}

/** Drops those that no event after `cursor` goes by any more. */
export function withoutPassed(
  subscriptions: readonly Subscription[],
  cursor: Offset,
): Subscription[] {
  return subscriptions.filter((_, index) => {
    const next = subscriptions[index + 1];
    return next === undefined || next.after > cursor;
  });
}
