import { createHmac } from 'node:crypto';

/** The keys of LEAT_SECRET_KEY that this process has, by their ids. */
export interface KeyRing {
  /** In the order of the setting. */
  ids(): readonly string[];
  get(id: string): Uint8Array | undefined;
  /** Adds a key as the first one, unless it is there already; returns its id. */
  add(key: Uint8Array): string;
  remove(id: string): void;
}

/** Bytes of an id. Two keys of one store with the same id are not to be expected in 2^48. */
export const keyIdBytes = 6;

/** Creates a ring; each key has 32 bytes, and there is at least one. */
export function createKeyRing(keys: readonly Uint8Array[]): KeyRing {
  const byId = new Map<string, Uint8Array>();
  let order: readonly string[] = [];
  const put = (key: Uint8Array, place: (id: string) => readonly string[]): string => {
    if (key.length !== 32) throw new RangeError('The key of a seal has 32 bytes.');
    const id = keyIdOf(key);
    if (!byId.has(id)) order = place(id);
    byId.set(id, key);
    return id;
  };
  for (const key of keys) put(key, (id) => [...order, id]);
  if (order.length === 0) throw new RangeError('A seal requires a key.');
  return {
    ids: () => order,
    get: (id) => byId.get(id),
    add: (key) => put(key, (id) => [id, ...order]),
    remove: (id) => {
      byId.delete(id);
      order = order.filter((one) => one !== id);
    },
  };
}

/**
 * Returns the id of a key, in hexadecimal. It may be shown and stored: the key cannot be computed
 * from it.
 */
export function keyIdOf(key: Uint8Array): string {
  const digest = createHmac('sha256', key).update('id of a secret key of Leat').digest();
  return digest.subarray(0, keyIdBytes).toString('hex');
}
