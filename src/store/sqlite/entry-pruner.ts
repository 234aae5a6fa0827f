import { entryHorizon, removeOldest } from '../directory/audit-log.ts';
import type { AuditLogStore } from '../port/audit-log.ts';
import { run } from './commands.ts';
import { doInStep, type UpkeepDeps } from './upkeep-step.ts';

/** Removes old entries of the audit log, a few between two checks of the time. */
export function createEntryPruner({ db, clock }: UpkeepDeps): AuditLogStore['prune'] {
  return async ({ olderThanMs, take }) =>
    db.transact('relaxed', () => {
      const before = run(db, entryHorizon(olderThanMs));
      return doInStep(clock, take, (rest) =>
        run(db, removeOldest(before, Math.min(rest, partEntries))),
      );
    });
}

/** An entry has up to some 50 targets, at random places of their indexes: less than 10 ms. */
const partEntries = 10;
