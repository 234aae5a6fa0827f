import { Call } from '../directory/command.ts';
import { verbatim } from '../directory/dialect.ts';
import type { AppendStep, Runs } from '../directory/runs.ts';
import type { StoreTime } from '../port/time.ts';
import { appendWithin, headOf } from './append.ts';
import { addEntries } from './attempts.ts';
import type { Database } from './database.ts';
import { oldestAfter } from './log.ts';
import { noteChange, raiseCursor, readRun, writeRun } from './runs.ts';
import { addStats } from './stats.ts';

/** Those of them that settling needs as well. */
export const historySteps: Pick<Runs, 'addEntries' | 'countFailed'> = {
  addEntries: (run, events, entry) =>
    new Call((db: Database) => addEntries(db, run.key, events, entry)),
  countFailed: (run, failed, now) =>
    new Call((db: Database) => addStats(db, run, { delivered: 0, failed }, now)),
};

/** Creates {@link AppendStep}. */
export function createAppendStep(time: StoreTime): AppendStep {
  return (tenant, events) =>
    new Call((db: Database) => appendWithin(db, tenant, events, time.now()).written);
}

/** Creates the steps of commands on streams. A transaction is the only writer: it locks nothing. */
export function createRunSteps(time: StoreTime): Runs {
  return {
    now: () => new Call(() => time.now()),
    lock: (tenant, stream) => new Call((db: Database) => readRun(db, tenant, stream)),
    lockRaised: (raise) =>
      new Call((db: Database) => {
        const run = readRun(db, raise.tenant, raise.stream);
        return { run, cursor: raiseCursor(db, raise, run) };
      }),
    write: (run) => new Call((db: Database) => writeRun(db, run)),
    noteChange: (run) => new Call((db: Database) => noteChange(db, run)),
    // The owner is in this process.
    noteDue: () => new Call(() => undefined),
    ...historySteps,
    head: (tenant) => new Call((db: Database) => headOf(db, tenant)),
    oldestAfter: (tenant, after) => new Call((db: Database) => oldestAfter(db, tenant, after)),
    stretch: (_, { upTo }) => new Call(() => ({ upTo, inDays: verbatim('') })),
  };
}
