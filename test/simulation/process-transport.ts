import type { AttemptResult } from '../../src/core/retry.ts';
import type { Clock } from '../../src/core/clock.ts';
import type { NameLookups } from '../../src/delivery/http/name-lookups.ts';
import type { Transport } from '../../src/delivery/http/transport.ts';
import { headerOf } from '../helpers/transport.ts';
import { processOf } from './account.ts';
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

/** The receivers as a process reaches them: each request is checked when it leaves. */
export function transportOf(
  simulation: Simulation,
  options: {
    readonly name: string;
    readonly joined: Joined;
    readonly prng: Prng;
    readonly names: NameLookups;
    readonly clock: Pick<Clock, 'elapsedMs'>;
    readonly isDead: () => boolean;
    /** Runs an action after some time, whatever has become of the process. */
    readonly later: (delayMs: number, action: () => void) => void;
    /** Hands over what arrived for the process, once it runs. */
    readonly mail: (action: () => void) => void;
  },
): Pick<Transport, 'prepare' | 'isReady' | 'post'> {
  const { timeline, oracle, plan } = simulation;
  const { name, joined, prng, names, clock, isDead, later, mail } = options;
  return {
    prepare: (tenant, origin) => names.prepare(tenant, new URL(origin).hostname),
    isReady: (origin) => names.isReady(new URL(origin).hostname),
    post: (request) => {
      // It died within a command, and its code runs on to the end of the turn: that reaches nobody.
      if (isDead()) return unsent;
      const eventId = headerOf(request, 'webhook-id') ?? '';
      const streamId = /"svcstream":"([^"]+)"/.exec(request.body)?.[1] ?? '';
      const process = joined.node === undefined ? name : processOf(joined.node);
      const line = oracle.attempts.begins(
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
        if (line !== undefined) oracle.attempts.ends(process, line, eventId, result);
        simulation.note(name, `${line?.label ?? streamId} ${simulation.label(eventId)}: ${how}`);
        resolve(result);
      };
      if (line === undefined) return unsent;
      simulation.note(name, `sends ${simulation.label(eventId)} to ${line.label}`);
      const mood = simulation.moodOf(line);
      if (mood !== 'well') simulation.unwell(line);
      const { afterMs, result, accepts } = react(mood, {
        prng,
        token: headerOf(request, 'authorization') ?? '',
        unstorable: simulation.weather().unstorable,
        attempt: line.counts.rows.get(eventId)?.attempt ?? 1,
      });
      const postedMs = clock.elapsedMs();
      let waitedMs = 0;
      const found = (about: Found): void => {
        if (isOver) return;
        ({ waitedMs } = about);
        const { answer } = about;
        if (answer.kind === 'failed') {
          return end({ kind: 'error', cause: 'dns', detail: answer.code }, answer.code);
        }
        // From the start of the lookup on.
        const spentMs = clock.elapsedMs() - postedMs - waitedMs;
        const timeoutMs = Math.max(0, plan.settings.attemptTimeoutMs - spentMs);
        if (accepts) {
          later(Math.min(afterMs, timeoutMs), () => oracle.attempts.accepts(line, eventId));
        }
        if (afterMs >= timeoutMs) {
          const late: AttemptResult = { kind: 'error', cause: 'timeout', detail: undefined };
          timeline.after(timeoutMs, () => mail(() => end(late, 'times out')));
        } else {
          const how = result.kind === 'response' ? `answers ${result.status}` : result.cause;
          later(afterMs, () => mail(() => end(result, how)));
        }
      };
      const { hostname } = new URL(request.origin);
      const owner = line.log.tenant;
      const soon = (delayMs: number, action: () => void): void =>
        later(delayMs, () => mail(action));
      lookup(names, { owner, name: hostname, nowMs: clock.elapsedMs, later: soon }, found);
      const cancelled: AttemptResult = { kind: 'error', cause: 'cancelled', detail: undefined };
      return {
        ended: promise,
        get waitedMs() {
          return waitedMs;
        },
        cancel: () => end(cancelled, 'is cut off'),
      };
    },
  };
}
