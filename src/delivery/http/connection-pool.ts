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
  /** Returns how many idle connections a route has; 0 when none may be used. */
  idle(route: string): number;
  /** Returns a connection for the next request, unless it was dropped. */
  release(connection: L): void;
  /** Ends a connection. */
  drop(connection: L): void;
  /** Returns how many there are. */
  count(): { readonly routes: number; readonly connections: number; readonly idle: number };
  /** Returns all of them. */
  all(): readonly L[];
  /** Ends all of them. */
  close(): Promise<void>;
}

export interface ConnectionPoolDeps<L extends Connection, R = void> {
  readonly open: (route: string, request: R) => L;
  /** Returns whether a connection may carry another request; else it is ended. */
  readonly isReusable: (connection: L) => boolean;
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
  isReusable,
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
  /** Ends idle connections of the route until the next one is reusable; returns how many are left. */
  const reusable = (name: string): number => {
    const idle = routes.get(name)?.idle ?? [];
    for (let next = idle.at(-1); next !== undefined && !isReusable(next); next = idle.at(-1)) {
      void drop(next);
    }
    return idle.length;
  };
  return {
    take: (name, request) => {
      const idle = reusable(name) > 0 ? routes.get(name)?.idle.pop() : undefined;
      if (idle !== undefined) {
        idleCount--;
        idleChanged?.(name);
        return idle;
      }
      const connection = open(name, request);
      routeOf(name).connections.add(connection);
      return connection;
    },
    idle: reusable,
    release: (connection) => {
      const route = routes.get(connection.route);
      if (route?.connections.has(connection) !== true) return;
      if (!isReusable(connection)) {
        void drop(connection);
        return;
      }
      route.idle.push(connection);
      idleCount++;
      idleChanged?.(connection.route);
      const surplus = idleCount > idleMax ? longestIdleOf(routes.values()) : undefined;
      if (surplus !== undefined) void drop(surplus);
    },
    drop: (connection) => void drop(connection),
    count: () => ({ routes: routes.size, connections: allOf(routes).length, idle: idleCount }),
    all: () => allOf(routes),
    close: async () => void (await Promise.all(allOf(routes).map(drop))),
  };
}

function allOf<L>(routes: ReadonlyMap<string, Route<L>>): readonly L[] {
  return [...routes.values()].flatMap(({ connections }) => [...connections]);
}

/** Returns the connection that is idle longest of the first route with one. */
function longestIdleOf<L>(routes: Iterable<Route<L>>): L | undefined {
  for (const { idle } of routes) if (idle[0] !== undefined) return idle[0];
  return undefined;
}

interface Route<L> {
  readonly connections: Set<L>;
  /** Used from the end, so that surplus connections stay idle and are closed. */
  readonly idle: L[];
}
