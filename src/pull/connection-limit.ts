import { Counts } from '../core/counts.ts';

/** Limits the open pulls of a tenant on this node (LEAT_SSE_MAX_CONNECTIONS). */
export interface ConnectionLimit {
  /** Connections that are taken. */
  readonly taken: number;
  /** Returns whether the client may open another one: one client has at most half of them, rounded up. */
  isFree(client: string): boolean;
  /** Takes a connection. Returns a function that releases it; later calls of it do nothing. */
  take(client: string): () => void;
}

export function createConnectionLimit(max: number): ConnectionLimit {
  const taken = new Counts<string>();
  const perClient = Math.ceil(max / 2);
  return {
    get taken() {
      return taken.total;
    },
    isFree: (client) => taken.total < max && taken.of(client) < perClient,
    take: (client) => {
      let isTaken = true;
      taken.add(client, 1);
      return () => {
        if (isTaken) taken.add(client, -1);
        isTaken = false;
      };
    },
  };
}
