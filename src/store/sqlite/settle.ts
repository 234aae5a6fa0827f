import type { Millis } from '../../core/clock.ts';
import type { DeliveryStore } from '../port/deliveries.ts';
import type { Hint } from '../port/hints.ts';
import type { SettleResult, SettleBatch, SettledStream, Settlement } from '../port/settlement.ts';
import type { StoreTime } from '../port/time.ts';
import { lost, newCounters, recorded, runAfter, emitDisabled } from '../rules/settlement.ts';
import type { Run } from '../rows/runs.ts';
import type { Database } from './database.ts';
import { recordOutcome, type BatchState } from './outcome.ts';
import { addProgress } from './replays.ts';
import { cursorMax, noteChange, readRun, writeRun } from './runs.ts';
import { addStats } from './stats.ts';

/**
 * The command that records a batch of attempts. What it writes can be derived again by sending
 * again, so its commit does not wait for the disk; `settled` receives the number of attempts, for the
 * sync of wal-sync.ts.
 */
export function createSettle(deps: {
  readonly db: Database;
  readonly hint: (hint: Hint) => void;
  readonly settled?: ((attempts: number) => void) | undefined;
  readonly time: StoreTime;
}): DeliveryStore['settle'] {
  const { db, time } = deps;
  return async (batch) => {
    const answer = db.transact('relaxed', () => settle(db, batch, time.now()));
    deps.settled?.(batch.settlements.reduce((sum, { outcomes }) => sum + outcomes.length, 0));
    emitDisabled(batch, answer, deps.hint);
    return answer;
  };
}

function settle(db: Database, batch: SettleBatch, now: Millis): SettleResult {
  const node = db.get<{ incarnation: number; last_batch: number }>`
    select incarnation, last_batch from nodes where id = ${batch.node.id}`;
  if (node?.incarnation !== batch.node.incarnation) {
    return { streams: batch.settlements.map(() => lost) };
  }
  if (batch.batch <= node.last_batch) return repeated(db, batch);
  db.run`update nodes set last_batch = ${batch.batch} where id = ${batch.node.id}`;
  const rules = { limits: batch.limits, now };
  return {
    streams: batch.settlements.map((settlement) =>
      settleOne(db, ownedRun(db, batch, settlement), settlement, rules),
    ),
  };
}

/** The batch was recorded before and its answer got lost: says how the streams stand now. */
function repeated(db: Database, batch: SettleBatch): SettleResult {
  const streams = batch.settlements.map((settlement): SettledStream => {
    const run = ownedRun(db, batch, settlement);
    return run ? recorded(run, undefined) : lost;
  });
  return { streams };
}

function ownedRun(db: Database, batch: SettleBatch, settlement: Settlement): Run | undefined {
  const run = readRun(db, settlement.tenant, settlement.stream);
  const owned = run?.owner === batch.node.id && run.epoch === settlement.epoch;
  return owned ? run : undefined;
}

function settleOne(
  db: Database,
  run: Run | undefined,
  settlement: Settlement,
  { limits, now }: Pick<BatchState, 'limits' | 'now'>,
): SettledStream {
  if (run === undefined) return lost;
  const counters = newCounters(run.health);
  const batchState: BatchState = { db, run, limits, now, counters };
  for (const outcome of settlement.outcomes) recordOutcome(batchState, outcome);
  const after = runAfter(run, settlement, counters, cursorMax(db, run, settlement.version));
  if (after !== run) writeRun(db, after);
  addStats(db, run, counters, now);
  addProgress(db, run, counters.replayed);
  if (counters.disabledBy !== undefined) {
    db.run`
      update streams set status = 'disabled', version = version + 1, updated_at = ${now},
        disabled_at = ${now}
      where tenant = ${run.tenant} and id = ${run.stream}`;
    noteChange(db, run);
  }
  return recorded(after, counters.disabledBy);
}
