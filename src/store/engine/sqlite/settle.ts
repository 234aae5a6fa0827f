import type { Millis } from '../../../core/clock.ts';
import type { HealthLimits, Node, Offset, Replay } from '../../../core/types.ts';
import { dayMs, hourMs } from '../../../core/units.ts';
import { record } from '../../commands/audit-log.ts';
import type { DeliveryStore } from '../../port/deliveries.ts';
import type { Hint } from '../../port/hints.ts';
import type { SettledStream, Settlement } from '../../port/settlement.ts';
import type { StoreTime } from '../../port/time.ts';
import type { Run } from '../../rows/runs.ts';
import { disabledEntry, disabledReasons } from '../../rules/audit-log.ts';
import {
  emitDisabled,
  lost,
  newBatchState,
  recorded,
  recordedBefore,
  runAfter,
  settledAboveAfter,
} from '../../rules/settlement.ts';
import { run as runCommand } from './commands.ts';
import type { Database } from './database.ts';
import { oldestAfter } from './log.ts';
import { type OutcomeRules, recordOutcome } from './outcome.ts';
import { cursorMax, noteChange, readRun, writeRun } from './runs.ts';

/**
 * Creates the command that records a batch of attempts. Its commit does not wait for the disk, as
 * what is lost is made again by sending again; `settled` receives the number of attempts, for the
 * sync of wal-sync.ts. Written apart from PostgreSQL: here one outcome is recorded after the other.
 */
export function createSettle(deps: {
  readonly db: Database;
  readonly hint: (hint: Hint) => void;
  readonly settled?: ((attempts: number) => void) | undefined;
  readonly time: StoreTime;
}): DeliveryStore['settle'] {
  const { db, time } = deps;
  return async (node, batch, settlements, limits) => {
    const settled = db.transact('relaxed', () => {
      const owned = (settlement: Settlement): Run | undefined => ownedRun(db, node, settlement);
      const begun = beginBatch(db, node, batch);
      if (begun === 'lost') return settlements.map(() => lost);
      if (begun === 'repeated') return settlements.map((each) => recordedBefore(owned(each), each));
      const now = time.now();
      return settlements.map((each) => settleOne(db, owned(each), each, { limits, now }));
    });
    deps.settled?.(settlements.reduce((sum, { outcomes }) => sum + outcomes.length, 0));
    emitDisabled(settlements, settled, deps.hint);
    return settled;
  };
}

/** `repeated`: the batch was recorded before. `lost`: the node has joined again since. */
function beginBatch(db: Database, node: Node, batch: number): 'begun' | 'repeated' | 'lost' {
  const stored = db.get<{ incarnation: number; last_batch: number }>`
    select incarnation, last_batch from nodes where id = ${node.id}`;
  if (stored?.incarnation !== node.incarnation) return 'lost';
  if (batch <= stored.last_batch) return 'repeated';
  db.run`update nodes set last_batch = ${batch} where id = ${node.id}`;
  return 'begun';
}

function ownedRun(db: Database, node: Node, settlement: Settlement): Run | undefined {
  const run = readRun(db, settlement.tenant, settlement.stream);
  return run?.owner === node.id && run.epoch === settlement.epoch ? run : undefined;
}

function settleOne(
  db: Database,
  run: Run | undefined,
  settlement: Settlement,
  rules: { readonly limits: HealthLimits; readonly now: Millis },
): SettledStream {
  if (run === undefined) return lost;
  const state = newBatchState(run);
  const outcomeRules = { ...rules, isLogged: logCheck(db, run.tenant) };
  for (const outcome of settlement.outcomes) recordOutcome(db, state, outcome, outcomeRules);
  const after = runAfter(state, settlement, cursorMax(db, run, settlement.version));
  if (after !== run) writeRun(db, after);
  const settledAbove = settledAboveAfter(settlement, after);
  if (settledAbove !== undefined) {
    db.run`update runs set settled_above = ${settledAbove} where key = ${run.key}`;
  }
  addStats(db, run, state, rules.now);
  addProgress(db, run, state.replayed);
  for (const [code, event] of state.lastEvents) {
    db.run`
      update failure_groups set last_attempt_at = ${rules.now}, last_event = ${event}
      where tenant = ${run.tenant} and stream = ${run.stream} and error_code = ${code}`;
  }
  if (state.disabledBy !== undefined) {
    db.run`
      update streams set status = 'disabled', version = version + 1,
        updated_at = max(${rules.now}, updated_at + 1),
        disabled_at = ${rules.now}, disabled_since = ${rules.now},
        disabled_reason = ${disabledReasons[state.disabledBy]},
        disabled_code = (select last_error_code from runs where key = ${run.key})
      where tenant = ${run.tenant} and id = ${run.stream}`;
    noteChange(db, run);
    runCommand(db, record(disabledEntry(run, state.disabledBy)));
  }
  return recorded(after, state);
}

/**
 * Creates the check whether the log has an event. The log is pruned from its beginning, so its oldest event
 * decides; it is read at the first check, as most settlements have none.
 */
function logCheck(db: Database, tenant: number): OutcomeRules['isLogged'] {
  let oldest: Offset | undefined;
  return ({ offset }) => offset !== undefined && offset >= (oldest ??= oldestAfter(db, tenant, 0));
}

/** Adds the counts of a batch of outcomes to the progress of the stream's replay. */
function addProgress(
  db: Database,
  { tenant, stream }: Pick<Run, 'tenant' | 'stream'>,
  { sent, failed }: Pick<Replay, 'sent' | 'failed'>,
): void {
  if (sent + failed === 0) return;
  db.run`
    update replays set sent = sent + ${sent}, failed = failed + ${failed}
    where tenant = ${tenant} and stream = ${stream} and status = 'running'`;
}

/** How long hours are kept. */
const keptMs = 90 * dayMs;

/** Deliveries that ended: successes, and cycles that were exhausted. */
export interface EndedCounts {
  readonly delivered: number;
  readonly failed: number;
}

/**
 * Adds to the hour of `now`; the first addition of an hour removes the stream's hours that are too
 * old. Written apart from PostgreSQL, which counts all streams of a batch with one statement.
 */
function addStats(
  db: Database,
  { tenant, stream }: { readonly tenant: number; readonly stream: string },
  { delivered, failed }: EndedCounts,
  now: Millis,
): void {
  const added = delivered + failed;
  if (added === 0) return;
  const hour = now - (now % hourMs);
  const row = db.get<{ ended: number }>`
    insert into stream_stats (tenant, stream, hour, delivered, failed)
    values (${tenant}, ${stream}, ${hour}, ${delivered}, ${failed})
    on conflict do update set
      delivered = delivered + excluded.delivered, failed = failed + excluded.failed
    returning delivered + failed as ended`;
  if (row?.ended !== added) return;
  db.run`
    delete from stream_stats
    where tenant = ${tenant} and stream = ${stream} and hour < ${hour - keptMs}`;
}
