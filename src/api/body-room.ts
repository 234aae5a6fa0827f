/** Memory of a node for the bodies of requests: from their first byte until they are dealt with. */
export interface BodyRoom {
  /** Opens the share of one body. */
  open(owner: number): BodyShare;
}

/** What one body takes of the room. */
export interface BodyShare {
  /** Counts bytes that have come; false, and nothing is counted, when its owner has too many. */
  take(bytes: number): boolean;
  /** Gives all of them back. */
  close(): void;
}

/**
 * Creates the room. An owner has at most as many bytes as are free for all others: one alone half of
 * the room, and any number of greedy ones leave as much as each of them has.
 */
export function createBodyRoom({ bytesMax }: { readonly bytesMax: number }): BodyRoom {
  const byOwner = new Map<number, number>();
  let total = 0;

  const add = (owner: number, bytes: number): void => {
    total += bytes;
    const sum = (byOwner.get(owner) ?? 0) + bytes;
    if (sum === 0) byOwner.delete(owner);
    else byOwner.set(owner, sum);
  };
  return {
    open: (owner) => {
      let taken = 0;
      return {
        take: (bytes) => {
          const sum = (byOwner.get(owner) ?? 0) + bytes;
          if (sum > bytesMax - total - bytes) return false;
          add(owner, bytes);
          taken += bytes;
          return true;
        },
        close: () => {
          if (taken > 0) add(owner, -taken);
          taken = 0;
        },
      };
    },
  };
}
