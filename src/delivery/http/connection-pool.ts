/** A connection that is being made, in use, or idle. */
export interface Connection {
  /** Names what it may be used for: its origin, and the identity that it has shown there. */
  readonly route: string;
  /** Closes it at once, in any state; resolves when its socket is closed. */
  end(): Promise<void>;
}

/** The connections of all routes, each used by one request at a time. */
export interface ConnectionPool<L extends Connection, R = void> {
  /** Returns the idle connection of the route that was used last, or a new one for the request. */
  take(route: string, request: R): L;
  /** Returns how many idle connections a route has. */
  idle(route: string): number;
  /** Returns a connection for the next request, unless it was dropped. */
  release(connection: L): void;
  /** Ends a connection. */
  drop(connection: L): void;
  /** Returns how many there are. */
  count(): { readonly routes: number; readonly connections: number; readonly idle: number };
  /** Ends all of them. */
  close(): Promise<void>;
}

export interface ConnectionPoolDeps<L extends Connection, R = void> {
  readonly open: (route: string, request: R) => L;
  /**
   * Idle connections over all routes; more are ended, those of the routes known longest first.
   */
  readonly idleMax: number;
  /** Called when the number of idle connections of a route has changed. */
  readonly idleChanged?: ((route: string) => void) | undefined;
}

/**
 * Creates the pool. A route has as many connections as requests at once, which the slots of the
 * dispatcher bound. A route without connections is removed.
 */
export function createConnectionPool<L extends Connection, R = void>({
  open,
  idleMax,
  idleChanged,
}: ConnectionPoolDeps<L, R>): ConnectionPool<L, R> {
  const routes = new Map<string, Route<L>>();
  let idleCount = 0;

  const routeOf = (name: string): Route<L> => {
    const known = routes.get(name);
    if (known !== undefined) return known;
    const route: Route<L> = { connections: new Set(), idle: [] };
    routes.set(name, route);
    return route;
  };
  const drop = (connection: L): Promise<void> => {
    const route = routes.get(connection.route);
    if (route?.connections.delete(connection) === true) {
      const at = route.idle.indexOf(connection);
      if (at >= 0) {
        route.idle.splice(at, 1);
        idleCount--;
        idleChanged?.(connection.route);
      }
      if (route.connections.size === 0) routes.delete(connection.route);
    }
    return connection.end();
  };
  const dropOneIdle = (): void => {
    for (const { idle } of routes.values()) {
      const [longestIdle] = idle;
      if (longestIdle === undefined) continue;
      void drop(longestIdle);
      return;
    }
  };
  return {
    take: (name, request) => {
      const idle = routes.get(name)?.idle.pop();
      if (idle !== undefined) {
        idleCount--;
        idleChanged?.(name);
        return idle;
      }
      const connection = open(name, request);
      routeOf(name).connections.add(connection);
      return connection;
    },
    idle: (name) => routes.get(name)?.idle.length ?? 0,
    release: (connection) => {
      const route = routes.get(connection.route);
      if (route?.connections.has(connection) !== true) return;
      route.idle.push(connection);
      idleCount++;
      idleChanged?.(connection.route);
      if (idleCount > idleMax) dropOneIdle();
    },
    drop: (connection) => void drop(connection),
    count: () => {
      const all = [...routes.values()];
      const connections = all.reduce((sum, route) => sum + route.connections.size, 0);
      return { routes: routes.size, connections, idle: idleCount };
    },
    close: async () => {
      const connections = [...routes.values()].flatMap((route) => [...route.connections]);
      await Promise.all(connections.map(drop));
    },
  };
}

interface Route<L> {
  readonly connections: Set<L>;
  /** Used from the end, so that surplus connections stay idle and are closed. */
  readonly idle: L[];
}
