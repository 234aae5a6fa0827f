import type { AttemptResult } from '../../src/core/retry.ts';
import { respondedWith, ok, timedOut } from '../helpers/transport.ts';
import type { Prng } from './prng.ts';
import type { Mood } from './plan.ts';

/** What a receiver does with one request. */
export interface Reaction {
  /** When the sender learns of it; never when that is later than its time-out. */
  readonly afterMs: number;
  readonly result: AttemptResult;
  /** Whether the receiver took the event, whatever the sender learns. */
  readonly accepts: boolean;
}

/** In an error text it stands for bytes that the store refuses. */
export const unstorableMark = 'unstorable';

const broken = (cause: 'reset' | 'protocol'): AttemptResult => ({
  kind: 'error',
  cause,
  detail: undefined,
});

/** Error pages that tell what they were sent: no history may keep it. */
const echo = (prng: Prng, token: string, unstorable: number): string =>
  `${prng.chance(unstorable) ? unstorableMark : 'bad'} ${token}`;

const never = Infinity;

/** A request, as a receiver sees it. */
export interface Received {
  readonly prng: Prng;
  /** What the sender showed, which an error page may repeat. */
  readonly token: string;
  /** Share of error pages with bytes that the store refuses. */
  readonly unstorable: number;
  /** 1-indexed within its cycle. */
  readonly attempt: number;
}

type React = (received: Received) => Reaction;

const well: React = ({ prng }) => ({
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

const failsLate: React = (received) => ({
  ...refuses(503, 400)(received),
  afterMs: received.prng.between(200, 990),
});

const refusesFirst: React = (received) =>
  received.attempt === 1
    ? { afterMs: 0, result: respondedWith(503, 'not yet'), accepts: false }
    : well(received);

/** The answer breaks off: nobody can say whether the event was taken. */
const breaks: React = ({ prng }) => ({
  afterMs: prng.between(0, 100),
  result: broken(prng.pick(['reset', 'protocol'])),
  accepts: prng.chance(0.5),
});

const moods: Record<Mood, readonly [React, ...React[]]> = {
  well: [well],
  flaky: [well, well, well, refuses(503, 500), slow, breaks, refuses(429)],
  down: [refuses(503)],
  sluggish: [failsLate, failsLate, slow, well],
  refusing: [refuses(400, 410, 404), well],
  slow: [slow],
  hanging: [hangs],
  broken: [breaks, well],
  hesitant: [refusesFirst],
};

export function react(mood: Mood, received: Received): Reaction {
  return received.prng.pick(moods[mood])(received);
}
