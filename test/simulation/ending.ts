import type { ModelRow } from '../store/contract/model.ts';
import { runningOf } from '../store/contract/model-replays.ts';
import { boundsOf } from './deadlines.ts';
import type { Line } from './line.ts';
import { checkNeighbours } from './neighbours.ts';
import type { Operator } from './operator.ts';
import type { Process } from './process.ts';
import { checkPrompt } from './prompt.ts';
import type { SharedStore } from './shared-store.ts';
import type { Simulation } from './simulation.ts';

/** How often it is checked whether all has come to rest. */
const restStepMs = 100;

/** With every fault gone: all comes to rest, and what failed arrives when it is sent again. */
export async function checkEnd(
  simulation: Simulation,
  operator: Operator,
  processes: readonly Process[],
): Promise<void> {
  const { oracle } = simulation;
  if (!(await comesToRest(simulation, processes))) return;
  checkRows(simulation);
  await checkPrompt(simulation, operator, processes);
  if (!(await comesToRest(simulation, processes))) return;
  await checkNeighbours(simulation, operator);
  if (!(await comesToRest(simulation, processes))) return;
  for (const line of oracle.living()) operator.redeliverAll(line);
  if (!(await comesToRest(simulation, processes))) return;
  for (const line of oracle.living()) checkArrived(simulation, line);
}

async function comesToRest(
  simulation: Simulation,
  processes: readonly Process[],
): Promise<boolean> {
  const { timeline, oracle } = simulation;
  const beganMs = timeline.nowMs;
  let maxMs = 0;
  for (;;) {
    // Anew, as a store that goes back in this very moment opens with a clock that was set back.
    maxMs = Math.max(maxMs, restMaxMs(simulation));
    await timeline.runTo(timeline.nowMs + restStepMs);
    if (oracle.broken !== undefined) return false;
    const unrest = [...restlessLines(simulation), ...restlessProcesses(processes)];
    if (unrest.length === 0) return true;
    if (timeline.nowMs < beganMs + maxMs) continue;
    oracle.break('rest', unrest.join('; '));
    return false;
  }
}

/** In calm surroundings all has come to rest after so long, or never will. */
function restMaxMs({ oracle, plan, clockDelayMs }: Simulation): number {
  const { recoverMs, perEventMs } = boundsOf(plan.settings);
  const events = oracle.living().reduce((sum, { counts, log }) => {
    const replay = runningOf(counts);
    const replayed = replay === undefined ? 0 : replay.to - replay.position;
    return sum + counts.rows.size + (log.head - counts.cursor) + replayed;
  }, 0);
  return recoverMs + clockDelayMs(recoverMs) + events * perEventMs;
}

function restlessLines({ oracle, sharedStore, timeline }: Simulation): string[] {
  return oracle.living().flatMap((line) => {
    const row = runOf(sharedStore, timeline.nowMs, line);
    if (row === undefined) return [`${line.label} is gone`];
    if (row.unseen > 0) return [`${line.label} was changed and its owner has not seen it`];
    if (row.due > 0) return [`${line.label} has ${row.due} rows to send`];
    if (row.status === 'enabled' && row.replays > 0) return [`${line.label} is replaying`];
    if (row.status === 'enabled' && !oracle.leases.isOwned(line))
      return [`nobody works for ${line.label}`];
    const isBehind = row.status === 'enabled' && row.cursor < line.log.head;
    return isBehind ? [`${line.label} is at ${row.cursor} of ${line.log.head}`] : [];
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
  { id, log: { tenant } }: Line,
): RunNow | undefined {
  return db.get`
    select r.cursor, s.status, r.unseen and exists (
        select 1 from nodes where id = r.owner and lease_until > ${nowMs}) as unseen, (select count(*) from deliveries d
      where d.tenant = r.tenant and d.stream = r.stream and d.due_at is not null
        and (d.kind <> 'replay' or s.status = 'enabled')) as due,
      (select count(*) from replays p
        where p.tenant = r.tenant and p.stream = r.stream and p.status = 'running') as replays
    from runs r join streams s on s.tenant = r.tenant and s.id = r.stream
    where r.tenant = ${tenant} and r.stream = ${id}`;
}

function restlessProcesses(processes: readonly Process[]): string[] {
  return processes.flatMap(({ name, state, dispatcher }) => {
    const { streams, tailBytes, holdsLease, ...busy } = dispatcher.state();
    const isIdle = state === 'up' && Object.values(busy).every((value) => Number(value) === 0);
    return isIdle
      ? []
      : [`${name} is ${state}: ${JSON.stringify({ streams, tailBytes, holdsLease, ...busy })}`];
  });
}

/** A failure has a history that ends with why. */
function checkRows({ oracle, sharedStore }: Simulation): void {
  for (const line of oracle.living()) {
    for (const { eventId } of line.counts.rows.values().filter((row) => !isPaused(line, row))) {
      const last = line.counts.history.get(eventId)?.at(-1);
      if (last !== 'failed') oracle.break('explained', `${eventId} of ${line.label}: ${last}`);
    }
    const bodiless = sharedStore.db.get<{ count: number }>`
      select count(*) as count from deliveries d
      where d.stream = ${line.id} and d.body is null and not exists
        (select 1 from events e where e.tenant = d.tenant and e.offset = d.offset) and not exists
        (select 1 from kept_events k where k.tenant = d.tenant and k.offset = d.offset)`;
    if (bodiless?.count !== 0) oracle.break('lost', `rows of ${line.label} have no body any more`);
  }
}

function checkArrived({ oracle, label }: Simulation, line: Line): void {
  const upTo = line.counts.enabled ? line.log.head : line.counts.cursor;
  for (let offset = 1; offset <= upTo; offset += 1) {
    const event = line.log.event(offset);
    const isDue = oracle.wants(line, offset) && !line.leftOut.has(offset);
    if (event !== undefined && isDue && !line.accepted.has(event.id)) {
      oracle.break('lost', `${label(event.id)} at ${offset} never reached ${line.label}`);
    }
  }
  for (const test of line.tests) {
    if (!line.accepted.has(test)) oracle.break('lost', `the test ${test} of ${line.label}`);
  }
  const left = [...line.counts.rows.values()].filter((row) => !isPaused(line, row));
  if (left.length > 0) oracle.break('explained', `${left.length} rows of ${line.label} are left`);
}

/** A replay of a disabled stream waits until that is enabled. */
function isPaused({ counts }: Line, { kind, dueAt }: ModelRow): boolean {
  return !counts.enabled && kind === 'replay' && dueAt !== undefined;
}
