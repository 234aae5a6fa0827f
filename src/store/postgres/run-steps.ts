import { Call } from '../directory/command.ts';
import type { Runs } from '../directory/runs.ts';
import type { Queries } from './database.ts';
import { failWaiting } from './disabling.ts';
import { tipOf } from './log.ts';
import { lockRun, noteChanges, writeRuns } from './runs.ts';
import { storeNow } from './time.ts';

/** The steps of commands on streams. */
export const runSteps: Runs = {
  now: () => new Call(storeNow),
  lock: (tenant, stream) => new Call((tx: Queries) => lockRun(tx, tenant, stream)),
  write: (run) => new Call((tx: Queries) => writeRuns(tx, [run])),
  noteChange: (run) => new Call((tx: Queries) => noteChanges(tx, [run])),
  failWaiting: (run, now) => new Call((tx: Queries) => failWaiting(tx, run, 'retrying', now)),
  tip: (tenant) => new Call((tx: Queries) => tipOf(tx, tenant)),
};
