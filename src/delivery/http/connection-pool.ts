/** A connection that is being made, in use, or idle. */
export interface Line {
  readonly origin: string;
  /** Cuts it off whatever it is doing; resolves when its socket is closed. */
  end(): Promise<void>;
}

/** The connections of all origins, each used by one request at a time. */
export interface Lines<L extends Line> {
  /** An idle line of the origin, the one used last; or a new one. */
  take(origin: string): L;
  /** Whether {@link take} would answer an idle one. */
  hasIdle(origin: string): boolean;
  /** Puts a line back for the next request; one that was dropped stays dropped. */
  release(line: L): void;
  /** Ends a line. */
  drop(line: L): void;
  /** How many there are. */
  count(): { readonly origins: number; readonly lines: number; readonly idle: number };
  /** Ends all of them. */
  close(): Promise<void>;
}

export interface LinesDeps<L extends Line> {
  readonly open: (origin: string) => L;
  /** Over all origins; more are ended, those of the origins known longest first. */
  readonly idleMax: number;
}

/**
 * As many lines for an origin as it has requests at once; how many that may be is decided by the
 * slots of the dispatcher. An origin without lines is forgotten.
 */
export function createLines<L extends Line>({ open, idleMax }: LinesDeps<L>): Lines<L> {
  const origins = new Map<string, Origin<L>>();
  let idleCount = 0;

  const originOf = (name: string): Origin<L> => {
    const known = origins.get(name);
    if (known !== undefined) return known;
    const origin: Origin<L> = { lines: new Set(), idle: [] };
    origins.set(name, origin);
    return origin;
  };
  const drop = (line: L): Promise<void> => {
    const origin = origins.get(line.origin);
    if (origin?.lines.delete(line) === true) {
      const at = origin.idle.indexOf(line);
      if (at >= 0) {
        origin.idle.splice(at, 1);
        idleCount--;
      }
      if (origin.lines.size === 0) origins.delete(line.origin);
    }
    return line.end();
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
      const line = open(name);
      originOf(name).lines.add(line);
      return line;
    },
    hasIdle: (name) => (origins.get(name)?.idle.length ?? 0) > 0,
    release: (line) => {
      const origin = origins.get(line.origin);
      if (origin?.lines.has(line) !== true) return;
      origin.idle.push(line);
      idleCount++;
      if (idleCount > idleMax) dropOneIdle();
    },
    drop: (line) => void drop(line),
    count: () => {
      const all = [...origins.values()];
      const lines = all.reduce((sum, origin) => sum + origin.lines.size, 0);
      return { origins: origins.size, lines, idle: idleCount };
    },
    close: async () => {
      const lines = [...origins.values()].flatMap((origin) => [...origin.lines]);
      await Promise.all(lines.map(drop));
    },
  };
}

interface Origin<L> {
  readonly lines: Set<L>;
  /** Taken from the end, so that those not needed stay unused and are closed. */
  readonly idle: L[];
}
