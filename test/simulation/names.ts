import type { Clock } from '../../src/core/clock.ts';
import {
  createNameLookups,
  type NameResult,
  type NameLookups,
} from '../../src/delivery/http/name-lookups.ts';
import type { Prng } from './prng.ts';
import type { Line } from './line.ts';
import type { Simulation } from './simulation.ts';

/** What the server of a receiver's name does. */
export type NameMood = 'well' | 'slow' | 'silent' | 'unknown' | 'flapping';

/** A server that is well responds within this. */
export const nameWellMaxMs = 10;

const limits = {
  classes: [
    { belowMs: 20, atOnce: 8, atOncePerOwner: 6 },
    { belowMs: 100, atOnce: 6, atOncePerOwner: 5 },
    { belowMs: 250, atOnce: 4, atOncePerOwner: 3 },
    { belowMs: Infinity, atOnce: 3, atOncePerOwner: 2 },
  ],
  unknownClass: 1,
  timeoutMs: 500,
  keptMs: 2000,
  failureKeptMs: 200,
  usableMs: 4000,
  namesMax: 50,
};

/** So long after its last lookup a name has to be looked up before it is used. */
export const nameUsableMs = limits.usableMs;

/** The longest that a name may keep an attempt waiting once its server is well again. */
export const nameWaitMaxMs = limits.failureKeptMs + 2 * limits.timeoutMs;

/** The name of a stream's receiver. */
export const receiverOf = (label: string, tenant: number): string =>
  `${label}.tenant-${tenant}.example.net`;

/** The stream whose receiver has this name. */
export function lineOfName({ oracle }: Pick<Simulation, 'oracle'>, name: string): Line | undefined {
  const label = name.slice(0, name.indexOf('.'));
  return oracle.lines.values().find((line) => line.label === label);
}

/** The queue of name lookups of a process, over servers that are played. */
export function namesOf(
  simulation: Simulation,
  options: {
    readonly prng: Prng;
    readonly clock: Pick<Clock, 'elapsedMs'>;
    readonly later: (delayMs: number, action: () => void) => void;
    readonly mail: (action: () => void) => void;
  },
): NameLookups {
  const { prng, clock, later, mail } = options;
  const moodOfName = (name: string): NameMood => {
    const line = lineOfName(simulation, name);
    const mood = line === undefined ? 'well' : simulation.nameMoodOf(line);
    if (line !== undefined && mood !== 'well') simulation.unwell(line);
    return mood;
  };
  const resolve = (name: string, timeoutMs: number): Promise<readonly string[]> => {
    const { afterMs, code } = respond(moodOfName(name), prng);
    const { promise, resolve: found, reject } = Promise.withResolvers<readonly string[]>();
    const isLate = afterMs >= timeoutMs;
    const failure = isLate ? 'ETIMEOUT' : code;
    later(Math.min(afterMs, timeoutMs), () =>
      mail(() => {
        if (failure === undefined) found(['192.0.2.1']);
        else reject(Object.assign(new Error(failure), { code: failure }));
      }),
    );
    return promise;
  };
  return createNameLookups({ clock, resolve, limits });
}

function respond(mood: NameMood, prng: Prng): { afterMs: number; code: string | undefined } {
  const soonMs = prng.between(0, nameWellMaxMs);
  if (mood === 'flapping') return respond(prng.pick(['well', 'slow', 'silent', 'unknown']), prng);
  if (mood === 'silent') return { afterMs: Infinity, code: undefined };
  if (mood === 'slow') return { afterMs: prng.between(80, 450), code: undefined };
  return { afterMs: soonMs, code: mood === 'unknown' ? 'ENOTFOUND' : undefined };
}

/** What an attempt found out about its receiver's name. */
export interface Found {
  readonly answer: NameResult;
  /** How long the lookup had no place. */
  readonly waitedMs: number;
}

/** An attempt waits this long for the start of a lookup. */
const connectionWaitMaxMs = 200;

/** Calls `ended` with what a name resolved to, at once when that is known; as the transport does. */
export function lookup(
  names: NameLookups,
  options: {
    readonly owner: number;
    readonly name: string;
    readonly nowMs: () => number;
    readonly later: (delayMs: number, action: () => void) => void;
  },
  ended: (found: Found) => void,
): void {
  const { owner, name, nowMs, later } = options;
  const known = names.last(name);
  if (known !== undefined) return ended({ answer: known, waitedMs: 0 });
  const sinceMs = nowMs();
  let waitedMs: number | undefined;
  const begun = (): void => {
    waitedMs ??= nowMs() - sinceMs;
  };
  later(connectionWaitMaxMs, () => {
    if (waitedMs !== undefined) return;
    begun();
    ended({ answer: { kind: 'failed', code: 'ETIMEOUT' }, waitedMs: connectionWaitMaxMs });
  });
  names.find(owner, name, {
    first: true,
    begun,
    ended: (answer) => ended({ answer, waitedMs: waitedMs ?? 0 }),
  });
}
