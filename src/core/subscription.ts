import type { Offset, Subscription } from './types.ts';

/** The event types in force for a stretch of the log. */
export interface SubscriptionSpan {
  readonly types: readonly string[];
  /** Last offset of the stretch; `undefined` when it has no end. */
  readonly upTo: Offset | undefined;
}

/** What a stream wants of the event at `offset`, and up to where the same holds. */
export function spanAt(subscriptions: readonly Subscription[], offset: Offset): SubscriptionSpan {
  const index = subscriptions.findLastIndex((subscription) => subscription.after < offset);
  return {
    types: subscriptions[index]?.types ?? [],
    upTo: subscriptions[index + 1]?.after,
  };
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
