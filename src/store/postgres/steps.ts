import type { StepsOn } from '../directory/command.ts';
import { appendWithin } from './append.ts';
import { addAttempts } from './attempts.ts';
import type { Queries } from './database.ts';
import { writeRuns } from './runs.ts';

/** The steps of commands of this engine. */
export const steps: StepsOn<Queries> = {
  writeRuns,
  addEntries: (tx, run, events, attempt) =>
    addAttempts(
      tx,
      events.map((event) => ({ run, event, attempt })),
    ),
  append: async (tx, tenant, events) => (await appendWithin(tx, tenant, events)).written,
  beginStep: async (tx, { id, incarnation }, kind, number) => {
    const row = await tx.get<{ begun: boolean }>`
      select leat_begin_step(${id}, ${incarnation}, ${kind}, ${number}) as begun`;
    return row?.begun === true;
  },
};
