/** The places of the pulls of one tenant on this node (LEAT_SSE_MAX_CONNECTIONS). */
export interface ConnectionLimit {
  /** Places taken. */
  readonly taken: number;
  /** Whether the client gets a place now: not above all places, nor above its half, rounded up. */
  isFree(client: string): boolean;
  /** Takes a place; the answer gives it back, once however often it is called. */
  take(client: string): () => void;
}

/** Creates the places; all are free. */
export function createConnectionLimit(max: number): ConnectionLimit {
  const byClient = new Map<string, number>();
  const perClient = Math.ceil(max / 2);
  let taken = 0;

  const add = (client: string, count: 1 | -1): void => {
    taken += count;
    const left = (byClient.get(client) ?? 0) + count;
    if (left === 0) byClient.delete(client);
    else byClient.set(client, left);
  };

  return {
    get taken() {
      return taken;
    },
    isFree: (client) => taken < max && (byClient.get(client) ?? 0) < perClient,
    take: (client) => {
      let isTaken = true;
      add(client, 1);
      return () => {
        if (isTaken) add(client, -1);
        isTaken = false;
      };
    },
  };
}
