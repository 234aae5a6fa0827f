import type { AttemptResult } from '../../src/core/retry.ts';
import type { Clock } from '../../src/core/clock.ts';
import type { NameLookups } from '../../src/delivery/http/name-lookups.ts';
import type { Transport } from '../../src/delivery/http/transport.ts';
import { headerOf } from '../helpers/transport.ts';
import { processOf } from './oracle-core.ts';
import type { Prng } from './prng.ts';
import type { Joined } from './process.ts';
import { type Found, lookup } from './names.ts';
import { react } from './receivers.ts';
import type { Simulation } from './simulation.ts';

const unsent = {
  ended: new Promise<never>(() => undefined),
  waitedMs: 0,
  cancel: () => undefined,
};

/** Returns the transport of a process to simulated receivers; checks each request when it leaves. */
export function transportOf(
  simulation: Simulation,
  options: {
    readonly name: string;
    readonly joined: Joined;
    readonly prng: Prng;
    readonly names: NameLookups;
    readonly clock: Pick<Clock, 'elapsedMs'>;
    readonly isDead: () => boolean;
    /** Runs an action after a delay, even if the process has ended. */
    readonly schedule: (delayMs: number, action: () => void) => void;
    /** Runs an action in the process, or holds it while the process is frozen. */
    readonly deliver: (action: () => void) => void;
  },
): Transport {
  const { timeline, oracle, plan } = simulation;
  const { name, joined, prng, names, clock, isDead, schedule, deliver } = options;
  return {
    prepare: (tenant, origin) => names.prepare(tenant, new URL(origin).hostname),
    isReady: (origin) => names.isReady(new URL(origin).hostname),
    close: () => Promise.resolve(),
    post: (request) => {
      // After a crash within a command, code runs to the end of the turn: nothing of it leaves the process.
      if (isDead()) return unsent;
      const eventId = headerOf(request, 'webhook-id') ?? '';
      const streamId = /"svcstream":"([^"]+)"/.exec(request.body)?.[1] ?? '';
      const process = joined.node === undefined ? name : processOf(joined.node);
      const stream = oracle.attempts.begins(
        process,
        streamId,
        eventId,
        `${request.origin}${request.path}`,
      );
      const { promise, resolve } = Promise.withResolvers<AttemptResult>();
      let isOver = false;
      const end = (result: AttemptResult, how: string): void => {
        if (isOver) return;
        isOver = true;
        if (stream !== undefined) oracle.attempts.ends(process, stream, eventId, result);
        simulation.note(name, `${stream?.label ?? streamId} ${simulation.label(eventId)}: ${how}`);
        resolve(result);
      };
      if (stream === undefined) return unsent;
      simulation.note(name, `sends ${simulation.label(eventId)} to ${stream.label}`);
      const behaviour = simulation.behaviourOf(stream);
      if (behaviour !== 'healthy') simulation.noteUnhealthy(stream);
      const { afterMs, result, accepts } = react(behaviour, {
        prng,
        token: headerOf(request, 'authorization') ?? '',
        unstorable: simulation.faultRates().unstorable,
        attempt: stream.counts.rows.get(eventId)?.attempt ?? 1,
      });
      const postedMs = clock.elapsedMs();
      let waitedMs = 0;
      const found = (about: Found): void => {
        if (isOver) return;
        ({ waitedMs } = about);
        const { result: resolved } = about;
        if (resolved.kind === 'failed') {
          return end({ kind: 'error', cause: 'dns', detail: resolved.code }, resolved.code);
        }
        // Counted from the start of the lookup.
        const spentMs = clock.elapsedMs() - postedMs - waitedMs;
        const timeoutMs = Math.max(
          0,
          (request.timeoutMs ?? plan.settings.attemptTimeoutMs) - spentMs,
        );
        if (accepts) {
          schedule(Math.min(afterMs, timeoutMs), () => oracle.attempts.accepts(stream, eventId));
        }
        if (afterMs >= timeoutMs) {
          const late: AttemptResult = { kind: 'error', cause: 'timeout', detail: undefined };
          timeline.after(timeoutMs, () => deliver(() => end(late, 'times out')));
        } else {
          const how = result.kind === 'response' ? `responds ${result.status}` : result.cause;
          schedule(afterMs, () => deliver(() => end(result, how)));
        }
      };
      const { hostname } = new URL(request.origin);
      const owner = stream.log.tenant;
      const soon = (delayMs: number, action: () => void): void =>
        schedule(delayMs, () => deliver(action));
      lookup(names, { owner, name: hostname, nowMs: clock.elapsedMs, schedule: soon }, found);
      const cancelled: AttemptResult = { kind: 'error', cause: 'cancelled', detail: undefined };
      return {
        ended: promise,
        get waitedMs() {
          return waitedMs;
        },
        cancel: () => end(cancelled, 'is cancelled'),
      };
    },
  };
}
