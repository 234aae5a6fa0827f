import type { Millis } from '../../core/clock.ts';
import type { StepsOn } from '../directory/command.ts';
import { appendWithin } from './append.ts';
import { addEntries } from './attempts.ts';
import type { Database } from './database.ts';
import { writeRun } from './runs.ts';

/** The steps of commands of this engine. A transaction is the only writer: it locks nothing. */
export const steps: StepsOn<Database> = {
  writeRuns: (db, runs) => runs.forEach((run) => writeRun(db, run)),
  addEntries: (db, run, events, entry) => addEntries(db, run.key, events, entry),
  append: (db, tenant, events) => appendWithin(db, tenant, events, nowOf(db)).written,
  beginStep: (db, { id, incarnation }, _kind, number) =>
    db.run`
      update nodes set last_claim = ${number}
      where id = ${id} and incarnation = ${incarnation} and last_claim < ${number}` > 0,
};

function nowOf(db: Database): Millis {
  return db.get<{ now: Millis }>`select leat_now() as now`?.now ?? 0;
}
