import type { Offset, Subscription } from './types.ts';

/** The event types that apply to a range of the log. */
export interface SubscriptionSpan {
  readonly types: readonly string[];
  /** Last offset of the range; `undefined` when it has no end. */
  readonly upTo: Offset | undefined;
}

/**
 * Returns the subscriptions of a new stream. They start at -1, so that they differ from a change that
 * was made while the log was empty, which starts at 0.
 */
export function firstSubscription(types: readonly string[]): Subscription[] {
  return [{ after: -1, types }];
}

/** Returns the event types that apply at `offset`, and the last offset for which they apply. */
export function spanAt(subscriptions: readonly Subscription[], offset: Offset): SubscriptionSpan {
  const index = subscriptions.findLastIndex((subscription) => subscription.after < offset);
  return {
    types: subscriptions[index]?.types ?? [],
    upTo: subscriptions[index + 1]?.after,
  };
}

/**
 * Returns the offset of the first change of types that the cursor has not passed; `undefined` when
 * there is none. A node that does not know the last change may move the cursor no further: it
 * filtered the events after that offset by the former types.
 */
export function firstChangeFrom(
  subscriptions: readonly Subscription[],
  cursor: Offset,
): Offset | undefined {
  return subscriptions.find(({ after }) => after >= cursor)?.after;
}

/** Returns whether the two differ for any event after `after` and up to `upTo`. */
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

/** Returns whether two lists of types are equal, including order and repeats. */
export function sameTypes(one: readonly string[], other: readonly string[]): boolean {
  return one.length === other.length && one.every((type, index) => type === other[index]);
}

/** Returns the types of the next event. */
export function typesNow(subscriptions: readonly Subscription[]): readonly string[] {
  return subscriptions.at(-1)?.types ?? [];
}

/** Returns the subscriptions with new types for the events after `head`. */
export function withTypes(
  subscriptions: readonly Subscription[],
  types: readonly string[],
  head: Offset,
): Subscription[] {
  // A former change at the same offset never applied to any event.
  const effective = subscriptions.filter((subscription) => subscription.after < head);
  return [...effective, { after: head, types }];
}

/** Drops the subscriptions that apply to no event after `cursor`. */
export function withoutPassed(
  subscriptions: readonly Subscription[],
  cursor: Offset,
): Subscription[] {
  return subscriptions.filter((_, index) => {
    const next = subscriptions[index + 1];
    return next === undefined || next.after > cursor;
  });
}
