/** Limits the pulls of one tenant on this node (LEAT_SSE_MAX_CONNECTIONS). */
export interface ConnectionLimit {
  /** Connections that are taken. */
  readonly taken: number;
  /** Returns whether the client may open another one: one client has at most half of them, rounded up. */
  isFree(client: string): boolean;
  /** Takes a connection. Returns a function that releases it; later calls of it do nothing. */
  take(client: string): () => void;
}

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
