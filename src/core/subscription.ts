import type { Offset, Selection, Subscription } from './types.ts';

/** Selections of one stream that are kept: of the events that the log has, and of the next ones. */
export const selectionsMax = 100;

/** The selection that applies to a range of the log. */
export interface SubscriptionSpan extends Selection {
  /** Last offset of the range; `undefined` when it has no end. */
  readonly upTo: Offset | undefined;
}

/**
 * Returns the subscriptions of a new stream. They start at -1, so that they differ from a change that
 * was made while the log was empty, which starts at 0.
 */
export function firstSubscription(selection: Selection): Subscription[] {
  return [{ after: -1, ...parts(selection) }];
}

/** Returns the selection that applies at `offset`, and the last offset for which it applies. */
export function spanAt(subscriptions: readonly Subscription[], offset: Offset): SubscriptionSpan {
  const index = subscriptions.findLastIndex((subscription) => subscription.after < offset);
  return { ...parts(subscriptions[index] ?? nothing), upTo: subscriptions[index + 1]?.after };
}

const nothing: Selection = { types: [] };

/** Returns a selection without further fields, and without an absent filter. */
function parts({ types, filter }: Selection): Selection {
  return filter === undefined ? { types } : { types, filter };
}

/**
 * Returns the offset of the first change that the cursor has not passed; `undefined` when
 * there is none. A node that does not know the last change may move the cursor no further: it
 * filtered the events after that offset by the former selection.
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
    if (!sameSelection(span, otherSpan)) return true;
    offset = Math.min(span.upTo ?? upTo, otherSpan.upTo ?? upTo) + 1;
  }
  return false;
}

/** Returns whether two selections are equal, including order and repeats of their types. */
export function sameSelection(one: Selection, other: Selection): boolean {
  return (
    one.types.length === other.types.length &&
    one.types.every((type, index) => type === other.types[index]) &&
    one.filter === other.filter
  );
}

/** Returns the selection of the next event. */
export function selectionNow(subscriptions: readonly Subscription[]): Selection {
  return parts(subscriptions.at(-1) ?? nothing);
}

/** Returns the subscriptions with a new selection for the events after `head`. */
export function withSelection(
  subscriptions: readonly Subscription[],
  selection: Selection,
  head: Offset,
): Subscription[] {
  // A former change at the same offset never applied to any event.
  const effective = subscriptions.filter((subscription) => subscription.after < head);
  return [...effective, { after: head, ...parts(selection) }];
}

/**
 * Returns the present subscriptions as they apply when those that `known` lacks apply only after an
 * offset: `known` ones apply up to there.
 */
export function changedAfter(
  present: readonly Subscription[],
  { subscriptions: known, upTo }: { readonly subscriptions: readonly Subscription[]; upTo: Offset },
): Subscription[] {
  const first = present.find(
    (one) => !known.some((other) => other.after === one.after && sameSelection(other, one)),
  );
  if (first === undefined || first.after >= upTo) return [...present];
  const before = present.filter(({ after }) => after < first.after);
  // The present ones may lack it: it had been passed when they were changed.
  const former = { after: first.after, ...parts(spanAt(known, first.after + 1)) };
  return [
    ...before,
    ...(sameSelection(selectionNow(before), former) ? [] : [former]),
    ...known.filter(({ after }) => after > first.after && after < upTo),
    { after: upTo, ...parts(spanAt(present, upTo + 1)) },
    ...present.filter(({ after }) => after > upTo),
  ];
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
