import type { NodeKeys, RotationStart, SealState } from '../port/secrets.ts';

/** The state that a rotation begins with, or why it must not begin. */
export type RotationDecision =
  | { readonly next: SealState }
  | Exclude<RotationStart, { begun: unknown }>;

/** Decides what a rotation to the key `target` does to a store with these live nodes. */
export function decideRotation(
  state: SealState,
  target: string,
  nodes: readonly NodeKeys[],
): RotationDecision {
  const { key, isBound, former, hasUnbound } = state;
  if (target === key) {
    if (isBound && former === undefined && !hasUnbound) return { done: state };
    const lacking = isBound ? [] : nodes.filter(({ keys }) => keys === undefined);
    if (lacking.length > 0) return { lacking, key: target };
    return { next: { ...state, isBound: true } };
  }
  if (former !== undefined && former !== target) return { unfinished: state };
  const lacking = nodes.filter(({ keys }) => keys?.includes(target) !== true);
  if (lacking.length > 0) return { lacking, key: target };
  return { next: { key: target, isBound: true, former: key, hasUnbound } };
}

/** Returns whether two states say the same. */
export function isSameState(one: SealState, other: SealState): boolean {
  return (
    one.key === other.key &&
    one.isBound === other.isBound &&
    one.former === other.former &&
    one.hasUnbound === other.hasUnbound
  );
}
