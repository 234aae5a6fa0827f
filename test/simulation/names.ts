import type { Clock } from '../../src/core/clock.ts';
import {
  createNameLookups,
  type NameResult,
  type NameLookups,
} from '../../src/delivery/http/name-lookups.ts';
import type { Prng } from './prng.ts';
import type { SimulatedStream } from './simulated-stream.ts';
import type { Simulation } from './simulation.ts';

/** How the name server of a receiver responds. */
export type NameServerBehaviour = 'healthy' | 'slow' | 'silent' | 'unknown' | 'flapping';

/** A healthy name server responds within this. */
export const nameHealthyMaxMs = 10;

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

/** A name that was last looked up longer ago must be looked up before it is used. */
export const nameUsableMs = limits.usableMs;

/** The longest wait of an attempt for a name whose server is healthy again. */
export const nameWaitMaxMs = limits.failureKeptMs + 2 * limits.timeoutMs;

/** Returns the host name of a stream's receiver. */
export const receiverOf = (label: string, tenant: number): string =>
  `${label}.tenant-${tenant}.example.net`;

/** Returns the stream whose receiver has this name. */
export function streamOfName(
  { oracle }: Pick<Simulation, 'oracle'>,
  name: string,
): SimulatedStream | undefined {
  const label = name.slice(0, name.indexOf('.'));
  return oracle.streams.values().find((stream) => stream.label === label);
}

/** Returns the lookup queue of a process, on simulated name servers. */
export function namesOf(
  simulation: Simulation,
  options: {
    readonly prng: Prng;
    readonly clock: Pick<Clock, 'elapsedMs'>;
    readonly schedule: (delayMs: number, action: () => void) => void;
    readonly deliver: (action: () => void) => void;
  },
): NameLookups {
  const { prng, clock, schedule, deliver } = options;
  const behaviourOfName = (name: string): NameServerBehaviour => {
    const stream = streamOfName(simulation, name);
    const behaviour = stream === undefined ? 'healthy' : simulation.nameServerBehaviourOf(stream);
    if (stream !== undefined && behaviour !== 'healthy') simulation.noteUnhealthy(stream);
    return behaviour;
  };
  const resolve = (name: string, timeoutMs: number): Promise<readonly string[]> => {
    const { afterMs, code } = respond(behaviourOfName(name), prng);
    const { promise, resolve: found, reject } = Promise.withResolvers<readonly string[]>();
    const isLate = afterMs >= timeoutMs;
    const failure = isLate ? 'ETIMEOUT' : code;
    schedule(Math.min(afterMs, timeoutMs), () =>
      deliver(() => {
        if (failure === undefined) found(['192.0.2.1']);
        else reject(Object.assign(new Error(failure), { code: failure }));
      }),
    );
    return promise;
  };
  return createNameLookups({ clock, resolve, limits });
}

function respond(
  behaviour: NameServerBehaviour,
  prng: Prng,
): { afterMs: number; code: string | undefined } {
  const soonMs = prng.between(0, nameHealthyMaxMs);
  if (behaviour === 'flapping')
    return respond(prng.pick(['healthy', 'slow', 'silent', 'unknown']), prng);
  if (behaviour === 'silent') return { afterMs: Infinity, code: undefined };
  if (behaviour === 'slow') return { afterMs: prng.between(80, 450), code: undefined };
  return { afterMs: soonMs, code: behaviour === 'unknown' ? 'ENOTFOUND' : undefined };
}

/** What an attempt found out about its receiver's name. */
export interface Found {
  readonly result: NameResult;
  /** How long the lookup waited for a free slot. */
  readonly waitedMs: number;
}

/** An attempt waits this long for the start of a lookup. */
const connectionWaitMaxMs = 200;

/** Calls `ended` with the result of a lookup, at once when it is cached; as the transport does. */
export function lookup(
  names: NameLookups,
  options: {
    readonly owner: number;
    readonly name: string;
    readonly nowMs: () => number;
    readonly schedule: (delayMs: number, action: () => void) => void;
  },
  ended: (found: Found) => void,
): void {
  const { owner, name, nowMs, schedule } = options;
  const known = names.last(name);
  if (known !== undefined) return ended({ result: known, waitedMs: 0 });
  const sinceMs = nowMs();
  let waitedMs: number | undefined;
  const begun = (): void => {
    waitedMs ??= nowMs() - sinceMs;
  };
  schedule(connectionWaitMaxMs, () => {
    if (waitedMs !== undefined) return;
    begun();
    ended({ result: { kind: 'failed', code: 'ETIMEOUT' }, waitedMs: connectionWaitMaxMs });
  });
  names.find(owner, name, {
    first: true,
    begun,
    ended: (result) => ended({ result, waitedMs: waitedMs ?? 0 }),
  });
}
