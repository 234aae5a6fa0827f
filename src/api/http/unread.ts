import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { Counts } from '../../core/counts.ts';
import type { MemoryPool } from './memory-pool.ts';

/** Counts the bytes of responses that clients have not read. */
export interface UnreadResponses {
  /**
   * Counts a response until its client has read it or its connection has ended. Returns false and
   * closes the connection when the client or its tenant would have too many unread bytes.
   *
   * @param client unique within its tenant
   */
  admit(tenant: number, client: string, bytes: number, response: ServerResponse): boolean;
}

export interface UnreadDeps {
  readonly bytesMax: number;
  readonly pool: MemoryPool;
}

/** Shorter responses are not counted: the rate limits bound them. */
const countedBytesMin = 4096;

/**
 * Creates the counter. `bytesMax` is for all connections of one client, the pool for all clients of a
 * tenant: it can create as many as it wants.
 */
export function createUnreadResponses({ bytesMax, pool }: UnreadDeps): UnreadResponses {
  const waiting = new Counts<string>();
  const onSocketEnd = createSocketEnds();
  return {
    admit: (tenant, name, bytes, response) => {
      if (bytes < countedBytesMin) return true;
      const { socket } = response.req;
      if (socket.destroyed) return true;
      const client = `${tenant}/${name}`;
      const sum = waiting.of(client);
      const share = pool.open(tenant);
      if ((sum > 0 && sum + bytes > bytesMax) || !share.take(bytes)) {
        socket.destroy();
        return false;
      }
      waiting.add(client, bytes);
      const release = once(() => {
        waiting.add(client, -bytes);
        share.close();
        forget();
      });
      // A pipelined response gets no event when its connection ends.
      const forget = onSocketEnd(socket, release);
      response.once('close', release);
      return true;
    },
  };
}

/** Creates a function that registers actions for the end of a socket, with one listener per socket. */
function createSocketEnds(): (socket: Socket, action: () => void) => () => void {
  const actions = new WeakMap<Socket, Set<() => void>>();
  return (socket, action) => {
    let all = actions.get(socket);
    if (all === undefined) {
      const made = new Set<() => void>();
      socket.once('close', () => {
        for (const each of made) each();
      });
      actions.set(socket, made);
      all = made;
    }
    const known = all.add(action);
    return () => void known.delete(action);
  };
}

function once(action: () => void): () => void {
  let done = false;
  return () => {
    if (done) return;
    done = true;
    action();
  };
}
