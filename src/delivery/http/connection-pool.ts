/** A connection that is being made, in use, or idle. */
export interface Connection {
  readonly origin: string;
  /** Closes it at once, in any state; resolves when its socket is closed. */
  end(): Promise<void>;
}

/** The connections of all origins, each used by one request at a time. */
export interface ConnectionPool<L extends Connection> {
  /** Returns the idle connection of the origin that was used last, or a new one. */
  take(origin: string): L;
  /** Returns whether {@link take} would return an idle one. */
  hasIdle(origin: string): boolean;
  /** Returns a connection for the next request, unless it was dropped. */
  release(connection: L): void;
  /** Ends a connection. */
  drop(connection: L): void;
  /** Returns how many there are. */
  count(): { readonly origins: number; readonly connections: number; readonly idle: number };
  /** Ends all of them. */
  close(): Promise<void>;
}

export interface ConnectionPoolDeps<L extends Connection> {
  readonly open: (origin: string) => L;
  /**
   * Idle connections over all origins; more are ended, those of the origins known longest first.
   */
  readonly idleMax: number;
}

/**
 * Creates the pool. An origin has as many connections as requests at once, which the slots of the
 * dispatcher bound. An origin without connections is removed.
 */
export function createConnectionPool<L extends Connection>({
  open,
  idleMax,
}: ConnectionPoolDeps<L>): ConnectionPool<L> {
  const origins = new Map<string, Origin<L>>();
  let idleCount = 0;

  const originOf = (name: string): Origin<L> => {
    const known = origins.get(name);
    if (known !== undefined) return known;
    const origin: Origin<L> = { connections: new Set(), idle: [] };
    origins.set(name, origin);
    return origin;
  };
  const drop = (connection: L): Promise<void> => {
    const origin = origins.get(connection.origin);
    if (origin?.connections.delete(connection) === true) {
      const at = origin.idle.indexOf(connection);
      if (at >= 0) {
        origin.idle.splice(at, 1);
        idleCount--;
      }
      if (origin.connections.size === 0) origins.delete(connection.origin);
    }
    return connection.end();
  };
  const dropOneIdle = (): void => {
    for (const { idle } of origins.values()) {
      const [longestIdle] = idle;
      if (longestIdle === undefined) continue;
      void drop(longestIdle);
      return;
    }
  };
  return {
    take: (name) => {
      const idle = origins.get(name)?.idle.pop();
      if (idle !== undefined) {
        idleCount--;
        return idle;
      }
      const connection = open(name);
      originOf(name).connections.add(connection);
      return connection;
    },
    hasIdle: (name) => (origins.get(name)?.idle.length ?? 0) > 0,
    release: (connection) => {
      const origin = origins.get(connection.origin);
      if (origin?.connections.has(connection) !== true) return;
      origin.idle.push(connection);
      idleCount++;
      if (idleCount > idleMax) dropOneIdle();
    },
    drop: (connection) => void drop(connection),
    count: () => {
      const all = [...origins.values()];
      const connections = all.reduce((sum, origin) => sum + origin.connections.size, 0);
      return { origins: origins.size, connections, idle: idleCount };
    },
    close: async () => {
      const connections = [...origins.values()].flatMap((origin) => [...origin.connections]);
      await Promise.all(connections.map(drop));
    },
  };
}

interface Origin<L> {
  readonly connections: Set<L>;
  /** Used from the end, so that surplus connections stay idle and are closed. */
  readonly idle: L[];
}
