import { Call } from '../directory/command.ts';
import type { Runs } from '../directory/runs.ts';
import type { StoreTime } from '../port/time.ts';
import { headOf } from './append.ts';
import type { Database } from './database.ts';
import { failWaiting } from './disabling.ts';
import { oldestAfter } from './log.ts';
import { noteChange, readRun, writeRun } from './runs.ts';

/** Creates the steps of commands on streams. A transaction is the only writer: it locks nothing. */
export function createRunSteps(time: StoreTime): Runs {
  return {
    now: () => new Call(() => time.now()),
    lock: (tenant, stream) => new Call((db: Database) => readRun(db, tenant, stream)),
    write: (run) => new Call((db: Database) => writeRun(db, run)),
    noteChange: (run) => new Call((db: Database) => noteChange(db, run)),
    failWaiting: (run, now) => new Call((db: Database) => failWaiting(db, run, 'retrying', now)),
    tip: (tenant, after) =>
      new Call((db: Database) => ({
        head: headOf(db, tenant),
        prunedTo: oldestAfter(db, tenant, after) - 1,
      })),
  };
}
