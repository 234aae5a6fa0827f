import type { Millis } from '../../core/clock.ts';
import type { DeliveryStore } from '../port/deliveries.ts';
import type { Hint } from '../port/hints.ts';
import type { Node } from '../../core/types.ts';
import type { SettleResult, SettleBatch, SettledStream, Settlement } from '../port/settlement.ts';
import { lost, recorded, runAfter, emitDisabled } from '../rules/settlement.ts';
import { addAttempts } from './attempts.ts';
import { type Database, numbers, type Queries } from './database.ts';
import type { StoreIdentity } from './identity.ts';
import { isPresent } from './nodes.ts';
import { addProgress } from './replays.ts';
import { readRows, removeRows, type Row, writeRows } from './rows.ts';
import { cursorMax, keyOf, lockRuns, noteChanges, type Run, writeRuns } from './runs.ts';
import { addStats } from './stats.ts';
import { storeNow } from './time.ts';
import { recordOutcomes, type BatchState } from './batch-state.ts';

/**
 * The command that records a batch of attempts: two round trips and a commit, however many there
 * are. What it writes could be derived again by sending again, but it is durable: the promise about
 * what may be sent twice holds when the server crashes, too.
 */
export function createSettle(deps: {
  readonly db: Database;
  readonly identity: StoreIdentity;
  readonly hint: (hint: Hint) => void;
}): DeliveryStore['settle'] {
  return async (batch) => {
    const answer = await deps.identity.transact(deps.db, 'durable', (tx) => settle(tx, batch));
    emitDisabled(batch, answer, deps.hint);
    return answer;
  };
}

async function settle(tx: Queries, batch: SettleBatch): Promise<SettleResult> {
  const { node, settlements } = batch;
  const [begun, runs, rows, now] = await Promise.all([
    beginBatch(tx, node, batch.batch),
    lockRuns(tx, settlements),
    readRows(tx, settlements),
    storeNow(tx),
  ]);
  const rules = { limits: batch.limits, now };
  const owned = settlements.map((settlement) => ownedRun(runs, node, settlement));
  if (!begun) return repeated(owned, await isPresent(tx, node));
  const ends = new Map<Settlement, End>();
  for (const [index, settlement] of settlements.entries()) {
    const run = owned[index];
    if (run === undefined) continue;
    const batchState = await recordOutcomes(tx, run, settlement, rows.get(keyOf(run)), rules);
    const after = runAfter(
      run,
      settlement,
      batchState.counters,
      cursorMax(run, settlement.version),
    );
    ends.set(settlement, { batchState, after });
  }
  await write(tx, [...ends.values()], now);
  return { streams: settlements.map((settlement) => answerOf(ends.get(settlement))) };
}

/** True when the batch is a new one of a node that lives in this incarnation. */
async function beginBatch(tx: Queries, node: Node, batch: number): Promise<boolean> {
  const begun = await tx.run`
    update nodes set last_batch = ${batch}
    where id = ${node.id} and incarnation = ${node.incarnation} and last_batch < ${batch}`;
  return begun === 1;
}

function ownedRun(
  runs: ReadonlyMap<string, Run>,
  node: Node,
  settlement: Settlement,
): Run | undefined {
  const run = runs.get(keyOf(settlement));
  return run?.owner === node.id && run.epoch === settlement.epoch ? run : undefined;
}

/** The batch was recorded before and its answer got lost: says how the streams stand now. */
function repeated(owned: readonly (Run | undefined)[], isNodePresent: boolean): SettleResult {
  return { streams: owned.map((run) => (run && isNodePresent ? recorded(run, undefined) : lost)) };
}

/** One stream after its outcomes. */
interface End {
  readonly batchState: BatchState;
  readonly after: Run;
}

function answerOf(end: End | undefined): SettledStream {
  return end === undefined ? lost : recorded(end.after, end.batchState.counters.disabledBy);
}

/** All of it travels together. */
async function write(tx: Queries, ends: readonly End[], now: Millis): Promise<void> {
  const tallies = ends.map(({ batchState }) => batchState);
  const rows = tallies.flatMap(({ changed }) => [...changed.values()]);
  const changed = ends.filter(({ batchState, after }) => after !== batchState.run);
  const disabled = tallies.filter(({ counters }) => counters.disabledBy !== undefined);
  const stats = tallies.map(({ run: { tenant, stream }, counters: { delivered, failed } }) => ({
    tenant,
    stream,
    delivered,
    failed,
  }));
  await Promise.all([
    addAttempts(
      tx,
      tallies.flatMap(({ entries }) => entries),
    ),
    removeRows(tx, rows.filter(isGone)),
    writeRows(
      tx,
      rows.filter((row) => !isGone(row)),
    ),
    writeRuns(
      tx,
      changed.map(({ after }) => after),
    ),
    disable(
      tx,
      disabled.map(({ run }) => run),
      now,
    ),
    addStats(tx, stats, now),
    addProgress(tx, tallies),
  ]);
}

const isGone = (row: Row): boolean => row.after === 'gone';

async function disable(tx: Queries, runs: readonly Run[], now: Millis): Promise<void> {
  if (runs.length === 0) return;
  await tx.run`
    update streams set status = 'disabled', version = version + 1, updated_at = ${now},
      disabled_at = ${now}
    where (tenant, id) in (select * from unnest(
      ${numbers(runs.map(({ tenant }) => tenant))}::int[],
      ${runs.map(({ stream }) => stream)}::text[]))`;
  await noteChanges(tx, runs);
}
