/**
 * Caches a list that is read often: returns the array of the last call while `mark`, which costs
 * less than the list, is the same.
 */
export function keepUnchanged<T>(deps: {
  readonly mark: () => Promise<string>;
  readonly read: () => Promise<readonly T[]>;
}): () => Promise<readonly T[]> {
  let kept: { readonly mark: string; readonly list: readonly T[] } | undefined;
  return async () => {
    // Before the list: a change between the two is in the list, and changes the next mark.
    const mark = await deps.mark();
    if (kept?.mark !== mark) kept = { mark, list: await deps.read() };
    return kept.list;
  };
}
