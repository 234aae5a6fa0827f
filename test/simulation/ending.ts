import { maySend, type ModelRow, openRows, sends } from '../store/contract/model.ts';
import { runningOf } from '../store/contract/model-replays.ts';
import { boundsOf } from './deadlines.ts';
import { failureOf, keyOf } from './order.ts';
import type { SimulatedStream } from './simulated-stream.ts';
import { checkNeighbours } from './neighbours.ts';
import type { Operator } from './operator.ts';
import type { Oracle } from './oracle.ts';
import type { Process } from './process.ts';
import { checkPrompt } from './prompt.ts';
import type { SharedStore } from './shared-store.ts';
import { labelOf, type Simulation } from './simulation.ts';

/** Interval of the checks whether everything is idle. */
const restStepMs = 100;

/** Checks without faults that everything becomes idle, and that redelivered failures arrive. */
export async function checkEnd(
  simulation: Simulation,
  operator: Operator,
  processes: readonly Process[],
): Promise<void> {
  const { oracle } = simulation;
  if (!(await comesToRest(simulation, processes, operator))) return;
  checkRows(simulation);
  await checkPrompt(simulation, operator, processes);
  if (!(await comesToRest(simulation, processes, operator))) return;
  await checkNeighbours(simulation, operator);
  if (!(await comesToRest(simulation, processes, operator))) return;
  // A paused stream may be disabled for its lag meanwhile: what waits for a retry becomes a failure.
  for (let paused = oracle.existing().length; paused >= 0 && hasFailures(oracle); paused -= 1) {
    for (const stream of oracle.existing()) operator.redeliverAll(stream);
    if (!(await comesToRest(simulation, processes, operator))) return;
  }
  for (const stream of oracle.existing()) checkArrived(simulation, stream);
  for (const log of oracle.logs) oracle.removals.checkGone(log);
}

const hasFailures = (oracle: Oracle): boolean =>
  oracle.existing().some(({ counts }) => openRows(counts).length > 0);

async function comesToRest(
  simulation: Simulation,
  processes: readonly Process[],
  operator: Pick<Operator, 'continueWork' | 'continueRemovals'>,
): Promise<boolean> {
  const { timeline, oracle, plan } = simulation;
  const beganMs = timeline.nowMs;
  let maxMs = 0;
  for (;;) {
    // Computed each time: a store that is restored just now opens with a clock that was set back.
    maxMs = Math.max(maxMs, restMaxMs(simulation));
    await timeline.runTo(timeline.nowMs + restStepMs);
    if (oracle.violation !== undefined) return false;
    const works = oracle.works.running();
    if (works.length > 0 && plan.upkeep === undefined) operator.continueWork();
    operator.continueRemovals();
    const unrest = [
      ...oracle.logs
        .filter(({ removal }) => removal === 'leaving')
        .map(({ tenant }) => `tenant ${tenant} is being removed`),
      ...restlessStreams(simulation),
      ...restlessProcesses(simulation, processes),
      ...works,
    ];
    if (unrest.length === 0) return true;
    if (timeline.nowMs < beganMs + maxMs) continue;
    oracle.violate('idle', unrest.join('; '));
    return false;
  }
}

/** Returns the longest time until everything is idle without faults. */
function restMaxMs({ oracle, plan, clockDelayMs }: Simulation): number {
  const { recoverMs, perEventMs } = boundsOf(plan);
  const events = oracle.existing().reduce((sum, { counts, log }) => {
    const replay = runningOf(counts);
    const replayed = replay === undefined ? 0 : replay.to - replay.position;
    return sum + counts.rows.size + (log.head - counts.cursor) + replayed;
  }, 0);
  return recoverMs + clockDelayMs(recoverMs) + events * perEventMs;
}

function restlessStreams({ oracle, sharedStore, timeline }: Simulation): string[] {
  return oracle.existing().flatMap((stream) => {
    const row = runOf(sharedStore, timeline.nowMs, stream);
    if (row === undefined) return [`${stream.label} is gone`];
    if (row.unseen > 0) return [`${stream.label} was changed and its owner has not seen it`];
    if (row.due > 0) return [`${stream.label} has ${row.due} rows to send`];
    const isSending = sends(stream.counts);
    const free = isSending ? freeRows(stream) : [];
    if (free.length > 0) return [`${free.join(', ')} of ${stream.label} are blocked by nothing`];
    if (isSending && row.replays > 0) return [`${stream.label} is replaying`];
    if (row.status === 'enabled' && !oracle.leases.isOwned(stream))
      return [`${stream.label} has no owner`];
    const isBehind = isSending && row.cursor < stream.log.head;
    return isBehind ? [`${stream.label} is at ${row.cursor} of ${stream.log.head}`] : [];
  });
}

interface RunNow {
  readonly cursor: number;
  readonly status: string;
  readonly due: number;
  readonly unseen: number;
  readonly replays: number;
}

function runOf(
  { db }: SharedStore,
  nowMs: number,
  { id, log: { tenant } }: SimulatedStream,
): RunNow | undefined {
  return db.get`
    select r.cursor, s.status, r.unseen and exists (
        select 1 from nodes where id = r.owner and lease_until > ${nowMs}) as unseen, (select count(*) from deliveries d
      where d.tenant = r.tenant and d.stream = r.stream and d.due_at is not null
        and (d.kind <> 'replay' or s.status = 'enabled')
        and (s.paused_at is null or d.kind = 'redelivery' or d.kind = 'test')) as due,
      (select count(*) from replays p
        where p.tenant = r.tenant and p.stream = r.stream and p.status = 'running') as replays
    from runs r join streams s on s.tenant = r.tenant and s.id = r.stream
    where r.tenant = ${tenant} and r.stream = ${id}`;
}

function restlessProcesses({ oracle }: Simulation, processes: readonly Process[]): string[] {
  const hasPaused = oracle.existing().some(({ counts }) => counts.enabled && counts.paused);
  return processes.flatMap(({ name, state, dispatcher }) => {
    const { streams, tailBytes, holdsLease, ...busy } = dispatcher.state();
    // A paused stream keeps what it has in memory.
    const values = Object.values({ ...busy, ...(hasPaused && { queuedBytes: 0 }) });
    // A stream of a tenant that is gone has no owner.
    const owned = oracle
      .existing()
      .filter(({ owner }) => owner?.process.startsWith(`${name}#`) === true);
    const isIdle =
      state === 'up' && streams <= owned.length && values.every((value) => Number(value) === 0);
    return isIdle
      ? []
      : [`${name} is ${state}: ${JSON.stringify({ streams, tailBytes, holdsLease, ...busy })}`];
  });
}

/**
 * Checks that the history of each failure ends with its error, with a redelivery that was cancelled, or with
 * a dismissal after which it was opened again.
 */
function checkRows({ oracle, sharedStore }: Simulation): void {
  for (const stream of oracle.existing()) {
    const rows = stream.counts.rows.values();
    for (const { eventId } of rows.filter((row) => !isPaused(stream, row) && !isBlocked(row))) {
      const last = stream.counts.history.get(eventId)?.at(-1);
      const isReturned = last === 'redelivered' && oracle.works.isReturned(stream, eventId);
      const isReopened = last === 'dismissed' && oracle.works.isReopened(stream, eventId);
      if (last !== 'failed' && !isReturned && !isReopened)
        oracle.violate('explained', `${eventId} of ${stream.label}: ${last}`);
    }
    const bodiless = sharedStore.db.get<{ count: number }>`
      select count(*) as count from deliveries d
      where d.stream = ${stream.id} and d.body is null and not exists
        (select 1 from events e where e.tenant = d.tenant and e.offset = d.offset) and not exists
        (select 1 from kept_events k where k.tenant = d.tenant and k.offset = d.offset)`;
    if (bodiless?.count !== 0)
      oracle.violate('lost', `rows of ${stream.label} have no body any more`);
  }
}

function checkArrived({ oracle, label }: Simulation, stream: SimulatedStream): void {
  const upTo = sends(stream.counts) ? stream.log.head : stream.counts.cursor;
  for (let offset = 1; offset <= upTo; offset += 1) {
    const event = stream.log.event(offset);
    const row = stream.counts.rows.get(event?.id ?? '');
    const waits = row !== undefined && isPaused(stream, row);
    const isDue = oracle.wants(stream, offset) && !stream.skipped.has(offset) && !waits;
    const isOver = event === undefined || stream.dismissedAt.has(offset);
    if (!isOver && isDue && !stream.accepted.has(event.id)) {
      oracle.violate('lost', `${label(event.id)} at ${offset} never reached ${stream.label}`);
    }
  }
  for (const test of stream.tests) {
    if (!stream.accepted.has(test) && !stream.dismissedAt.has(test))
      oracle.violate('lost', `the test ${test} of ${stream.label}`);
  }
  const left = [...stream.counts.rows.values()].filter((row) => !isPaused(stream, row));
  if (left.length > 0)
    oracle.violate('explained', `${left.length} rows of ${stream.label} are left`);
}

/**
 * Replays of a disabled stream, and what waits behind its key, wait until that is enabled; all but
 * redeliveries and tests of a paused one until it is resumed.
 */
function isPaused({ counts }: SimulatedStream, row: ModelRow): boolean {
  const isWaiting = row.dueAt !== undefined && !maySend(counts, row.kind);
  const isHeld = counts.enabled ? counts.paused : row.kind === 'replay';
  return (isWaiting && isHeld) || (isBlocked(row) && !sends(counts));
}

const isBlocked = ({ state }: ModelRow): boolean => state === 'blocked';

/** Returns the events that wait behind a key that no failure blocks. */
function freeRows(stream: SimulatedStream): string[] {
  const blocked = [...stream.counts.rows.values()].filter(isBlocked);
  return blocked
    .filter(({ offset = 0 }) => failureOf(stream, keyOf(stream, offset)) === undefined)
    .map(({ eventId }) => labelOf(eventId));
}
