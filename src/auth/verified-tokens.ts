/**
 * A map that holds at most `entriesMax` entries and drops those not used for longest. It is made
 * of two generations, so that a hit costs one look-up and no bookkeeping: when the young one is
 * full it becomes the old one, and what the old one still held is gone.
 */
export interface VerifiedTokens<V> {
  get(key: string): V | undefined;
  set(key: string, value: V): void;
  delete(key: string): void;
  /** Entries held now. */
  readonly size: number;
}

/** Creates an empty memory. */
export function createVerifiedTokens<V>(entriesMax: number): VerifiedTokens<V> {
  const generationMax = Math.max(1, Math.floor(entriesMax / 2));
  let young = new Map<string, V>();
  let old = new Map<string, V>();

  const set = (key: string, value: V): void => {
    if (young.size >= generationMax && !young.has(key)) {
      old = young;
      young = new Map();
    }
    young.set(key, value);
    old.delete(key);
  };

  return {
    get: (key) => {
      const value = young.get(key);
      if (value !== undefined) return value;
      const aged = old.get(key);
      if (aged !== undefined) set(key, aged);
      return aged;
    },
    set,
    delete: (key) => {
      young.delete(key);
      old.delete(key);
    },
    get size() {
      return young.size + old.size;
    },
  };
}
