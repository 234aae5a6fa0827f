/** Shares of self time in a profile of V8 (`.cpuprofile`). */

/** The fields that are read here; times are microseconds of the machine's monotonic clock. */
export interface CpuProfile {
  readonly nodes: readonly {
    readonly id: number;
    readonly callFrame: {
      readonly functionName: string;
      readonly url: string;
      /** From 0; -1 where there is none. */
      readonly lineNumber: number;
    };
  }[];
  readonly startTime: number;
  readonly endTime: number;
  /** The node of each sample. */
  readonly samples: readonly number[];
  /** The time between each sample and the one before it; the first since `startTime`. */
  readonly timeDeltas: readonly number[];
}

/** The part of a profile that counts. */
export interface Window {
  readonly fromMicros: number;
  readonly toMicros: number;
}

export interface Shares {
  /** The whole time within the window. */
  readonly seconds: number;
  /** Shares (0..1) of that time: nothing to do, and native code that belongs to no function. */
  readonly idle: number;
  readonly program: number;
  readonly rest: number;
  /** The functions with the most self time, as shares of the rest. */
  readonly shares: readonly Share[];
}

export interface Share {
  readonly share: number;
  readonly name: string;
  /** File and line, empty for the garbage collector. */
  readonly place: string;
}

/** Returns the `count` largest shares of self time. Each sample counts until the next one. */
export function sharesOf(profile: CpuProfile, window: Window, count: number): Shares {
  const functions = new Map(profile.nodes.map(({ id, callFrame }) => [id, keyOf(callFrame)]));
  const micros = new Map<string, number>();
  let at = profile.startTime;
  for (const [index, id] of profile.samples.entries()) {
    at += profile.timeDeltas[index] ?? 0;
    const next = profile.timeDeltas[index + 1];
    const until = next === undefined ? profile.endTime : at + next;
    const counted = Math.min(until, window.toMicros) - Math.max(at, window.fromMicros);
    const key = functions.get(id) ?? '';
    if (counted > 0) micros.set(key, (micros.get(key) ?? 0) + counted);
  }
  const total = [...micros.values()].reduce((sum, value) => sum + value, 0);
  const take = (name: string): number => {
    const value = micros.get(`${name}\n`) ?? 0;
    micros.delete(`${name}\n`);
    return value;
  };
  const idle = take('(idle)');
  const program = take('(program)') + take('(root)');
  const rest = total - idle - program;
  const of = (part: number, whole: number): number => (whole === 0 ? 0 : part / whole);
  return {
    seconds: total / 1e6,
    idle: of(idle, total),
    program: of(program, total),
    rest: of(rest, total),
    shares: [...micros]
      .toSorted(([, a], [, b]) => b - a)
      .slice(0, count)
      .map(([key, value]) => {
        const [name = '', place = ''] = key.split('\n');
        return { share: of(value, rest), name, place };
      }),
  };
}

function keyOf({
  functionName,
  url,
  lineNumber,
}: CpuProfile['nodes'][number]['callFrame']): string {
  const place = url === '' ? '' : `${url}:${lineNumber + 1}`;
  return `${functionName === '' ? '(anonymous)' : functionName}\n${place}`;
}
