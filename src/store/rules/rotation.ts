import type { NodeKeys, RotationStart, SealState, UnfinishedState } from '../port/secrets.ts';

/** The state that a rotation begins with, or why it must not begin. */
export type RotationDecision =
  | { readonly next: UnfinishedState }
  | Exclude<RotationStart, { begun: unknown }>;

/** Decides what a rotation to the key `target` does to a store with these live nodes. */
export function decideRotation(
  { key, former }: SealState,
  target: string,
  nodes: readonly NodeKeys[],
): RotationDecision {
  if (target === key) {
    return former === undefined ? { done: { key, former } } : { next: { key, former } };
  }
  if (former !== undefined && former !== target) return { unfinished: { key, former } };
  const lacking = nodes.filter(({ keys }) => !keys.includes(target));
  if (lacking.length > 0) return { lacking, key: target };
  return { next: { key: target, former: key } };
}

/** Returns whether two states say the same. */
export function isSameState(one: SealState, other: SealState): boolean {
  return one.key === other.key && one.former === other.former;
}
