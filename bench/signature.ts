import { availableParallelism } from 'node:os';
import type { Bench } from './bench.ts';
import { startReceiver } from './child.ts';
import { drainEvents, drainOnce } from './drain.ts';
import { rateFigure } from './report.ts';
import { alternate } from './rounds.ts';

/** Waiting events to one webhook, signed with an Ed25519 key, against an HMAC. */
export const signature: Bench = {
  name: 'signature',
  what: `${drainEvents} waiting events to one webhook, signed with the key of the tenant (v1a); against the signing secret (v1)`,
  run: async (progress, options) => {
    const receiver = await startReceiver();
    const events = options.events ?? drainEvents;
    const drain = (scheme: 'v1' | 'v1a') => (): Promise<number> =>
      drainOnce(receiver, { events, progress, delivery: { signature: scheme } });
    try {
      const rounds = await alternate(options.rounds, drain('v1a'), drain('v1'), progress);
      // A signature takes 45 µs of another core. Two cores are busy with Leat and the receiver.
      const limit = availableParallelism() < 4 ? undefined : { least: 0.9, goal: 1 };
      return [rateFigure('signature', rounds, limit)];
    } finally {
      await receiver.end();
    }
  },
};
