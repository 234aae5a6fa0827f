import type { Millis } from '../../../core/clock.ts';
import { streamKeyOf } from '../../../core/stream-key.ts';
import type { HealthLimits, Node, StreamRef } from '../../../core/types.ts';
import { dayMs, hourMs } from '../../../core/units.ts';
import { record } from '../../commands/audit-log.ts';
import { isPresent } from '../../commands/nodes.ts';
import { noteChanges } from '../../commands/runs.ts';
import type { DeliveryStore } from '../../port/deliveries.ts';
import type { Hint } from '../../port/hints.ts';
import type { SettledStream, Settlement } from '../../port/settlement.ts';
import { disabledEntry, disabledReasons } from '../../rules/audit-log.ts';
import {
  type BatchState,
  emitDisabled,
  lost,
  recorded,
  recordedBefore,
  runAfter,
  settledAboveAfter,
} from '../../rules/settlement.ts';
import { addAttempts } from './attempts.ts';
import { run as runCommand } from './commands.ts';
import { type Database, numbers, type Queries, withCommit } from './database.ts';
import type { KnownStore, StoreIdentity } from './identity.ts';
import { type PendingWrites, recordOutcomes } from './pending-writes.ts';
import { changeRows, readRows, removeRows, type RowsByStream, writeRows } from './rows.ts';
import { cursorMax, type LockedRow, type Run, runsByKey, writeRuns } from './runs.ts';

/**
 * Creates the command that records a batch of attempts: two round trips, the second one with the
 * commit, however many there are. Sending again would lead to the same records, but the commit is durable: the promise
 * about what may be sent twice holds when the server crashes, too. Written apart from SQLite, where
 * a statement for each outcome costs no round trip.
 */
export function createSettle(deps: {
  readonly db: Database;
  readonly identity: StoreIdentity;
  readonly hint: (hint: Hint) => void;
}): DeliveryStore['settle'] {
  const { db, identity, hint } = deps;
  return async (node, batch, settlements, limits) => {
    const settled = await identity.compared((known) =>
      db.transact('durable', async (tx) => {
        const [{ begun, runs, now }, rows] = await Promise.all([
          beginBatch(tx, known, { node, batch, settlements }),
          readRows(tx, settlements),
        ]);
        const owned = settlements.map((settlement) => ownedRun(runs, node, settlement));
        if (!begun) {
          const isOwner = await runCommand(tx, isPresent(node));
          return settlements.map((each, index) =>
            recordedBefore(isOwner ? owned[index] : undefined, each),
          );
        }
        return settle(tx, settlements, { owned, rows, limits, now });
      }),
    );
    emitDisabled(settlements, settled, hint);
    return settled;
  };
}

async function settle(
  tx: Queries,
  settlements: readonly Settlement[],
  batch: {
    /** Of each settlement; `undefined` where the stream is not the node's. */
    readonly owned: readonly (Run | undefined)[];
    readonly rows: RowsByStream;
    readonly limits: HealthLimits;
    readonly now: Millis;
  },
): Promise<SettledStream[]> {
  const all: PendingWrites[] = [];
  const changed: Run[] = [];
  const settled: SettledStream[] = [];
  const above: SettledAbove[] = [];
  for (const [index, settlement] of settlements.entries()) {
    const run = batch.owned[index];
    if (run === undefined) {
      settled.push(lost);
      continue;
    }
    const writes = await recordOutcomes(
      tx,
      run,
      settlement,
      batch.rows.get(streamKeyOf(run)),
      batch,
    );
    const after = runAfter(writes, settlement, cursorMax(run, settlement.version));
    if (after !== run) changed.push(after);
    const offsets = settledAboveAfter(settlement, after);
    if (offsets !== undefined) above.push({ run, offsets });
    all.push(writes);
    settled.push(recorded(after, writes));
  }
  const written = Promise.all([write(tx, all, changed, batch.now), writeSettledAbove(tx, above)]);
  // What else a batch writes then, it writes step by step.
  if (all.some(({ disabledBy }) => disabledBy !== undefined)) await written;
  else withCommit(written);
  return settled;
}

interface Begun {
  /** The batch is a new one of the present incarnation of the node. */
  readonly begun: boolean;
  /** The time after the runs were locked. */
  readonly now: Millis;
  /** By {@link streamKeyOf}. */
  readonly runs: ReadonlyMap<string, Run>;
}

/** Begins a batch, and locks the runs of its streams as `lockRuns` does. */
async function beginBatch(
  tx: Queries,
  known: KnownStore,
  request: {
    readonly node: Node;
    readonly batch: number;
    readonly settlements: readonly Settlement[];
  },
): Promise<Begun> {
  const { node, batch, settlements } = request;
  const [first, ...runs] = await tx.all<BatchRow & LockedRow>`
    select * from leat_begin_settlement(${known.generation}, ${known.identity}, ${known.flushed},
      ${node.id}, ${node.incarnation}, ${batch},
      ${numbers(settlements.map(({ tenant }) => tenant))}::int[],
      ${settlements.map(({ stream }) => stream)}::text[])`;
  if (first === undefined) throw new Error('A function that returns a row returned none.');
  known.seen(first.flushed);
  return { begun: first.begun, now: first.now, runs: runsByKey(runs) };
}

interface BatchRow {
  readonly flushed: number | null;
  readonly begun: boolean;
  readonly now: Millis;
}

function ownedRun(
  runs: ReadonlyMap<string, Run>,
  node: Node,
  settlement: Settlement,
): Run | undefined {
  const run = runs.get(streamKeyOf(settlement));
  return run?.owner === node.id && run.epoch === settlement.epoch ? run : undefined;
}

interface SettledAbove {
  readonly run: Run;
  /** JSON. */
  readonly offsets: string;
}

async function writeSettledAbove(tx: Queries, above: readonly SettledAbove[]): Promise<void> {
  if (above.length === 0) return;
  await tx.run`
    update runs r set settled_above = u.settled_above
    from unnest(${numbers(above.map(({ run }) => run.tenant))}::int[],
      ${above.map(({ run }) => run.stream)}::text[], ${above.map(({ offsets }) => offsets)}::text[])
      as u(tenant, stream, settled_above)
    where r.tenant = u.tenant and r.stream = u.stream`;
}

/** Sends all statements together. */
async function write(
  tx: Queries,
  all: readonly PendingWrites[],
  runs: readonly Run[],
  now: Millis,
): Promise<void> {
  const entries = all.flatMap((writes) => writes.entries);
  const rows = all.flatMap(({ changed }) => [...changed.values()]);
  const failedFirst = all.flatMap((writes) => [...writes.failedFirst.values()]);
  const removed = rows.filter(({ after }) => after === 'removed');
  const written = rows.filter(({ after }) => after !== 'removed');
  const disabled = all.filter(({ disabledBy }) => disabledBy !== undefined);
  const stats = all.map(({ run: { tenant, stream }, delivered, failed }) => ({
    tenant,
    stream,
    delivered,
    failed,
  }));
  // After the rows: their triggers add the groups.
  await Promise.all([
    addAttempts(tx, entries),
    changeRows(tx, failedFirst),
    removeRows(tx, removed),
    writeRows(tx, written),
    writeRuns(tx, runs),
    disable(tx, disabled, now),
    recordDisabled(tx, disabled),
    addStats(tx, stats, now),
    addProgress(tx, all),
    noteLastEvents(tx, all, now),
  ]);
}

/** Notes the last attempts of open failures at their groups. */
async function noteLastEvents(
  tx: Queries,
  all: readonly PendingWrites[],
  now: Millis,
): Promise<void> {
  const last = all.flatMap(({ run: { tenant, stream }, lastEvents }) =>
    [...lastEvents].map(([code, event]) => ({ tenant, stream, code, event })),
  );
  if (last.length === 0) return;
  await tx.run`
    update failure_groups g set last_attempt_at = ${now}, last_event = u.event
    from unnest(${numbers(last.map(({ tenant }) => tenant))}::int[],
      ${last.map(({ stream }) => stream)}::text[], ${last.map(({ code }) => code)}::text[],
      ${last.map(({ event }) => event)}::text[]) as u(tenant, stream, code, event)
    where g.tenant = u.tenant and g.stream = u.stream and g.error_code = u.code`;
}

async function disable(
  tx: Queries,
  disabled: readonly BatchState<Run>[],
  now: Millis,
): Promise<void> {
  if (disabled.length === 0) return;
  const runs = disabled.map(({ run }) => run);
  const reasons = disabled.map(({ disabledBy }) => disabledBy && disabledReasons[disabledBy]);
  await tx.run`
    update streams s set status = 'disabled', version = s.version + 1,
      updated_at = greatest(${now}, s.updated_at + 1),
      disabled_at = ${now}, disabled_since = ${now}, disabled_reason = u.reason,
      disabled_code = r.last_error_code
    from unnest(${numbers(runs.map(({ tenant }) => tenant))}::int[],
      ${runs.map(({ stream }) => stream)}::text[], ${reasons}::text[]) as u(tenant, stream, reason)
    join runs r on r.tenant = u.tenant and r.stream = u.stream
    where s.tenant = u.tenant and s.id = u.stream`;
  await runCommand(tx, noteChanges(runs)[Symbol.iterator]());
}

/** Records in the audit log which streams a batch disabled. */
async function recordDisabled(tx: Queries, disabled: readonly BatchState[]): Promise<void> {
  for (const { run, disabledBy } of disabled) {
    if (disabledBy !== undefined) await runCommand(tx, record(disabledEntry(run, disabledBy)));
  }
}

/** Adds the counts of a batch of outcomes to the progress of replays. */
async function addProgress(tx: Queries, streams: readonly BatchState[]): Promise<void> {
  const ended = streams.filter(({ replayed }) => replayed.sent + replayed.failed > 0);
  if (ended.length === 0) return;
  await tx.run`
    update replays p set sent = p.sent + u.sent, failed = p.failed + u.failed
    from unnest(${numbers(ended.map(({ run }) => run.tenant))}::int[],
      ${ended.map(({ run }) => run.stream)}::text[],
      ${numbers(ended.map(({ replayed }) => replayed.sent))}::bigint[],
      ${numbers(ended.map(({ replayed }) => replayed.failed))}::bigint[])
      as u(tenant, stream, sent, failed)
    where p.tenant = u.tenant and p.stream = u.stream and p.status = 'running'`;
}

/** How long hours are kept. */
const keptMs = 90 * dayMs;

/** Deliveries of a stream that ended: successes, and cycles that were exhausted. */
export interface EndedCounts extends StreamRef {
  readonly delivered: number;
  readonly failed: number;
}

/**
 * Adds to the hour of `now`; the first addition of an hour removes the stream's hours that are too
 * old. Written apart from SQLite, where a statement for each stream costs no round trip.
 */
async function addStats(tx: Queries, ended: readonly EndedCounts[], now: Millis): Promise<void> {
  const added = ended.filter(({ delivered, failed }) => delivered + failed > 0);
  if (added.length === 0) return;
  const hour = now - (now % hourMs);
  await tx.get`
    select leat_add_stats(${hour}, ${hour - keptMs},
      ${numbers(added.map(({ tenant }) => tenant))}::int[],
      ${added.map(({ stream }) => stream)}::text[],
      ${numbers(added.map(({ delivered }) => delivered))}::int[],
      ${numbers(added.map(({ failed }) => failed))}::int[])`;
}
