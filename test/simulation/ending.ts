import type { ModelRow } from '../store/contract/model.ts';
import { runningOf } from '../store/contract/model-replays.ts';
import { boundsOf } from './deadlines.ts';
import type { Line } from './line.ts';
import { checkNeighbours } from './neighbours.ts';
import type { Operator } from './operator.ts';
import type { Process } from './process.ts';
import { checkPrompt } from './prompt.ts';
import type { Site } from './shared-store.ts';
import type { World } from './simulation.ts';

/** How often it is checked whether all has come to rest. */
const restStepMs = 100;

/** With every fault gone: all comes to rest, and what failed arrives when it is sent again. */
export async function checkEnd(
  world: World,
  operator: Operator,
  processes: readonly Process[],
): Promise<void> {
  const { ledger } = world;
  if (!(await comesToRest(world, processes))) return;
  checkRows(world);
  await checkPrompt(world, operator, processes);
  if (!(await comesToRest(world, processes))) return;
  await checkNeighbours(world, operator);
  if (!(await comesToRest(world, processes))) return;
  for (const line of ledger.living()) operator.redeliverAll(line);
  if (!(await comesToRest(world, processes))) return;
  for (const line of ledger.living()) checkArrived(world, line);
}

async function comesToRest(world: World, processes: readonly Process[]): Promise<boolean> {
  const { timeline, ledger } = world;
  const beganMs = timeline.nowMs;
  let maxMs = 0;
  for (;;) {
    // Anew, as a store that goes back in this very moment opens with a clock that was set back.
    maxMs = Math.max(maxMs, restMaxMs(world));
    await timeline.runTo(timeline.nowMs + restStepMs);
    if (ledger.broken !== undefined) return false;
    const unrest = [...restlessLines(world), ...restlessProcesses(processes)];
    if (unrest.length === 0) return true;
    if (timeline.nowMs < beganMs + maxMs) continue;
    ledger.break('rest', unrest.join('; '));
    return false;
  }
}

/** In calm surroundings all has come to rest after so long, or never will. */
function restMaxMs({ ledger, plan, clockDelayMs }: World): number {
  const { recoverMs, perEventMs } = boundsOf(plan.settings);
  const events = ledger.living().reduce((sum, { counts, log }) => {
    const replay = runningOf(counts);
    const replayed = replay === undefined ? 0 : replay.to - replay.position;
    return sum + counts.rows.size + (log.head - counts.cursor) + replayed;
  }, 0);
  return recoverMs + clockDelayMs(recoverMs) + events * perEventMs;
}

function restlessLines({ ledger, site, timeline }: World): string[] {
  return ledger.living().flatMap((line) => {
    const row = runOf(site, timeline.nowMs, line);
    if (row === undefined) return [`${line.label} is gone`];
    if (row.unseen > 0) return [`${line.label} was changed and its owner has not seen it`];
    if (row.due > 0) return [`${line.label} has ${row.due} rows to send`];
    if (row.status === 'enabled' && row.replays > 0) return [`${line.label} is replaying`];
    if (row.status === 'enabled' && !ledger.leases.isOwned(line))
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

function runOf({ db }: Site, nowMs: number, { id, log: { tenant } }: Line): RunNow | undefined {
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
function checkRows({ ledger, site }: World): void {
  for (const line of ledger.living()) {
    for (const { eventId } of line.counts.rows.values().filter((row) => !isPaused(line, row))) {
      const last = line.counts.history.get(eventId)?.at(-1);
      if (last !== 'failed') ledger.break('explained', `${eventId} of ${line.label}: ${last}`);
    }
    const bodiless = site.db.get<{ count: number }>`
      select count(*) as count from deliveries d
      where d.stream = ${line.id} and d.body is null and not exists
        (select 1 from events e where e.tenant = d.tenant and e.offset = d.offset) and not exists
        (select 1 from kept_events k where k.tenant = d.tenant and k.offset = d.offset)`;
    if (bodiless?.count !== 0) ledger.break('lost', `rows of ${line.label} have no body any more`);
  }
}

function checkArrived({ ledger, label }: World, line: Line): void {
  const upTo = line.counts.enabled ? line.log.head : line.counts.cursor;
  for (let offset = 1; offset <= upTo; offset += 1) {
    const event = line.log.event(offset);
    const isDue = ledger.wants(line, offset) && !line.leftOut.has(offset);
    if (event !== undefined && isDue && !line.accepted.has(event.id)) {
      ledger.break('lost', `${label(event.id)} at ${offset} never reached ${line.label}`);
    }
  }
  for (const test of line.tests) {
    if (!line.accepted.has(test)) ledger.break('lost', `the test ${test} of ${line.label}`);
  }
  const left = [...line.counts.rows.values()].filter((row) => !isPaused(line, row));
  if (left.length > 0) ledger.break('explained', `${left.length} rows of ${line.label} are left`);
}

/** A replay of a disabled stream waits until that is enabled. */
function isPaused({ counts }: Line, { kind, dueAt }: ModelRow): boolean {
  return !counts.enabled && kind === 'replay' && dueAt !== undefined;
}
