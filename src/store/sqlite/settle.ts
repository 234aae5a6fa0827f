import type { Offset } from '../../core/types.ts';
import type {
  DeliveryStore,
  Hint,
  SettleAnswer,
  SettleBatch,
  SettledStream,
  Settlement,
} from '../port.ts';
import { newScore } from '../settling.ts';
import type { Database } from './database.ts';
import { recordOutcome, type Tally } from './outcome.ts';
import { cursorMax, noteChange, readRun, writeRun, type Run } from './runs.ts';
import { addStats } from './stats.ts';

const lost: SettledStream = { result: 'lost', version: 0, cursor: 0, disabled: undefined };

/**
 * The command that records a batch of attempts. What it writes can be derived again by sending
 * again, so its commit need not survive a power cut.
 */
export function createSettle(deps: {
  readonly db: Database;
  readonly hint: (hint: Hint) => void;
}): DeliveryStore['settle'] {
  return async (batch) => {
    const answer = deps.db.transact('relaxed', () => settle(deps.db, batch));
    batch.settlements.forEach(({ tenant, stream }, index) => {
      if (answer.streams[index]?.disabled) deps.hint({ kind: 'stream', tenant, stream });
    });
    return answer;
  };
}

function settle(db: Database, batch: SettleBatch): SettleAnswer {
  const node = db.get<{ incarnation: number; last_batch: number }>`
    select incarnation, last_batch from nodes where id = ${batch.node.id}`;
  if (node?.incarnation !== batch.node.incarnation) {
    return { streams: batch.settlements.map(() => lost) };
  }
  if (batch.batch <= node.last_batch) return repeated(db, batch);
  db.run`update nodes set last_batch = ${batch.batch} where id = ${batch.node.id}`;
  return { streams: batch.settlements.map((settlement) => settleOne(db, batch, settlement)) };
}

/** The batch was recorded before and its answer got lost: says how the streams stand now. */
function repeated(db: Database, batch: SettleBatch): SettleAnswer {
  const streams = batch.settlements.map((settlement): SettledStream => {
    const run = ownedRun(db, batch, settlement);
    return run ? recorded(run, run.cursor) : lost;
  });
  return { streams };
}

function ownedRun(db: Database, batch: SettleBatch, settlement: Settlement): Run | undefined {
  const run = readRun(db, settlement.tenant, settlement.stream);
  const owned = run?.owner === batch.node.id && run.epoch === settlement.epoch;
  return owned ? run : undefined;
}

function settleOne(db: Database, batch: SettleBatch, settlement: Settlement): SettledStream {
  const run = ownedRun(db, batch, settlement);
  if (run === undefined) return lost;
  const { limits, now } = batch;
  const score = newScore(run.health);
  const tally: Tally = { db, run, limits, now, score };
  for (const outcome of settlement.outcomes) recordOutcome(tally, outcome);
  const cursor = raise(tally, settlement);
  addStats(db, run, score, now);
  if (score.disabledBy === undefined) return recorded(run, cursor);
  db.run`
    update streams set status = 'disabled', version = version + 1, updated_at = ${now}
    where tenant = ${run.tenant} and id = ${run.stream}`;
  noteChange(db, run);
  const disabled = { ...score.health, reason: score.disabledBy };
  return { result: 'recorded', version: run.version + 1, cursor, disabled };
}

const recorded = ({ version }: Run, cursor: Offset): SettledStream => ({
  result: 'recorded',
  version,
  cursor,
  disabled: undefined,
});

/**
 * Results of an older run count, but they say nothing about the present run's cursor. Answers where
 * the cursor is then.
 */
function raise({ db, run, score: { health } }: Tally, settlement: Settlement): Offset {
  const sameRun = settlement.run === run.run;
  const wanted = Math.min(settlement.cursor, cursorMax(db, run, settlement.version));
  const cursor = sameRun ? Math.max(run.cursor, wanted) : run.cursor;
  if (cursor !== run.cursor || health !== run.health) writeRun(db, { ...run, cursor, health });
  return cursor;
}
