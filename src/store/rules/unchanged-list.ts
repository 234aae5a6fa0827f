/**
 * Keeps a list that is read again and again: returns the array of the call before while `mark`, which
 * costs less than the list, returns what it returned then.
 */
export function keepUnchanged<T>(deps: {
  readonly mark: () => Promise<string>;
  readonly read: () => Promise<readonly T[]>;
}): () => Promise<readonly T[]> {
  let kept: { readonly mark: string; readonly list: readonly T[] } | undefined;
  return async () => {
    // Before the list: what changes between the two is in the list, and the next mark is another one.
    const mark = await deps.mark();
    if (kept?.mark !== mark) kept = { mark, list: await deps.read() };
    return kept.list;
  };
}
