import type { AttemptResult } from '../../src/core/retry.ts';
import { respondedWith, ok, timedOut } from '../helpers/transport.ts';
import type { Prng } from './prng.ts';
import type { ReceiverBehaviour } from './plan.ts';

/** The reaction of a receiver to one request. */
export interface Reaction {
  /** When the sender receives the result; never when that is after its timeout. */
  readonly afterMs: number;
  readonly result: AttemptResult;
  /** Whether the receiver accepted the event, whatever the sender receives. */
  readonly accepts: boolean;
}

/** In an error text it represents bytes that the store refuses. */
export const unstorableMark = 'unstorable';

const broken = (cause: 'reset' | 'protocol'): AttemptResult => ({
  kind: 'error',
  cause,
  detail: undefined,
});

/**
 * Returns an error page with bytes that the store refuses, or with the secret of the request, which no
 * history may contain: one with both would not be stored for its secret.
 */
const echo = (prng: Prng, token: string, unstorable: number): string =>
  prng.chance(unstorable) ? unstorableMark : `bad ${token}`;

const never = Infinity;

/** A request, as a receiver sees it. */
export interface Received {
  readonly prng: Prng;
  /** The secret of the request, which an error page may repeat. */
  readonly token: string;
  /** Share of error pages with bytes that the store refuses. */
  readonly unstorable: number;
  /** 1-indexed within its cycle. */
  readonly attempt: number;
}

type React = (received: Received) => Reaction;

const healthy: React = ({ prng }) => ({
  afterMs: prng.pick([0, 0, prng.between(1, 30)]),
  result: ok,
  accepts: true,
});

const refuses =
  (...statuses: readonly [number, ...number[]]): React =>
  ({ prng, token, unstorable }) => ({
    afterMs: prng.pick([prng.between(0, 30), prng.between(0, 30), prng.between(0, 900)]),
    result: respondedWith(
      prng.pick(statuses),
      echo(prng, token, unstorable),
      prng.chance(0.1) ? '1' : undefined,
    ),
    accepts: false,
  });

const slow: React = ({ prng }) => ({ afterMs: prng.between(20, 1200), result: ok, accepts: true });

const hangs: React = ({ prng }) => ({
  afterMs: never,
  result: timedOut,
  accepts: prng.chance(0.3),
});

const refusesLate: React = (received) => ({
  ...refuses(503, 400)(received),
  afterMs: received.prng.between(200, 990),
});

const refusesFirst: React = (received) =>
  received.attempt === 1
    ? { afterMs: 0, result: respondedWith(503, 'not yet'), accepts: false }
    : healthy(received);

const refusesAll: React = () => ({
  afterMs: 0,
  result: respondedWith(400, 'never'),
  accepts: false,
});

/** The response breaks off: the sender cannot know whether the event was accepted. */
const breaks: React = ({ prng }) => ({
  afterMs: prng.between(0, 100),
  result: broken(prng.pick(['reset', 'protocol'])),
  accepts: prng.chance(0.5),
});

const behaviours: Record<ReceiverBehaviour, readonly [React, ...React[]]> = {
  healthy: [healthy],
  flaky: [healthy, healthy, healthy, refuses(503, 500), slow, breaks, refuses(429)],
  down: [refuses(503)],
  failsLate: [refusesLate, refusesLate, slow, healthy],
  // The same statuses many times: one that says that it is gone disables its stream.
  refusing: [refuses(400, 404, 400, 404, 400, 404, 400, 404, 400, 404, 400, 410), healthy],
  slow: [slow],
  hanging: [hangs],
  broken: [breaks, healthy],
  failsFirst: [refusesFirst],
  refusesAll: [refusesAll],
};

export function react(behaviour: ReceiverBehaviour, received: Received): Reaction {
  return received.prng.pick(behaviours[behaviour])(received);
}
