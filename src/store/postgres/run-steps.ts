import { streamKeyOf } from '../../core/stream-key.ts';
import { Call } from '../directory/command.ts';
import type { AppendStep, Runs } from '../directory/runs.ts';
import { addAttempts } from './attempts.ts';
import type { Queries } from './database.ts';
import { stretchOf } from './log-days.ts';
import { appendWithin, oldestAfter, tipOf } from './log.ts';
import { lockRun, lockRuns, noteChanges, raiseCursors, writeRuns } from './runs.ts';
import { addStats } from './stats.ts';
import { storeNow } from './time.ts';

/** See {@link AppendStep}: the last statement before the commit, as it locks the tenant. */
export const append: AppendStep = (tenant, events) =>
  new Call(async (tx: Queries) => (await appendWithin(tx, tenant, events)).written);

/** The steps of commands on streams. */
export const runSteps: Runs = {
  now: () => new Call(storeNow),
  lock: (tenant, stream) => new Call((tx: Queries) => lockRun(tx, tenant, stream)),
  lockRaised: (raise) =>
    new Call(async (tx: Queries) => {
      const runs = await lockRuns(tx, [raise]);
      const [cursor = 0] = await raiseCursors(tx, runs, [raise]);
      return { run: runs.get(streamKeyOf(raise)), cursor };
    }),
  write: (run) => new Call((tx: Queries) => writeRuns(tx, [run])),
  noteChange: (run) => new Call((tx: Queries) => noteChanges(tx, [run])),
  // Its owner finds them at its next heartbeat at the latest.
  noteDue: (run) => new Call((tx: Queries) => noteChanges(tx, [run])),
  addEntries: (run, events, attempt) =>
    new Call((tx: Queries) =>
      addAttempts(
        tx,
        events.map((event) => ({ run, event, attempt })),
      ),
    ),
  countFailed: ({ tenant, stream }, failed, now) =>
    new Call((tx: Queries) => addStats(tx, [{ tenant, stream, delivered: 0, failed }], now)),
  head: (tenant) => new Call(async (tx: Queries) => (await tipOf(tx, tenant)).head),
  oldestAfter: (tenant, after) => new Call((tx: Queries) => oldestAfter(tx, tenant, after)),
  stretch: (tenant, range) => new Call((tx: Queries) => stretchOf(tx, tenant, range)),
};
