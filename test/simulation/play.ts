import { calm, labelOf, type Entry, type World } from './world.ts';
import { Ledger, type Line } from './ledger.ts';
import { createOperator, type Operator } from './operator.ts';
import type { Plan, Step, StepOf } from './plan.ts';
import { startProcess, type Process } from './process.ts';
import type { Broken } from './promises.ts';
import { createSite, type Site } from './site.ts';
import { createTimeline } from './timeline.ts';
import type { ModelRow } from '../store/contract/model.ts';

/** What became of one history. */
export interface Outcome {
  readonly broken: Broken | undefined;
  /** Empty unless asked for. */
  readonly history: readonly Entry[];
  readonly events: number;
  readonly attempts: number;
  readonly virtualMs: number;
}

/** A history that has not come to rest so long after its faults stopped never will. */
const restMaxMs = 40_000;
const restStepMs = 500;

/** Plays one history from its plan; the same plan gives the same history. */
export async function play(
  plan: Plan,
  given: { readonly record?: boolean } = {},
): Promise<Outcome> {
  const history: Entry[] = [];
  const timeline = createTimeline();
  const site = await createSite({ elapsedMs: () => timeline.nowMs });
  let isCalm = false;
  const { db, tenant } = site;
  const ledger = new Ledger({
    db,
    tenant,
    settings: plan.settings,
    isPunctual: isPunctual(plan),
    nowMs: () => timeline.nowMs,
  });
  site.store.watch((hint) => {
    if (hint.kind === 'appended') ledger.appended(hint.events);
  });
  const processes: Process[] = [];
  const world: World = {
    plan,
    timeline,
    site,
    ledger,
    weather: () => (isCalm ? calm : plan.weather),
    isStoreAway: () => !isCalm && timeline.nowMs < operator.storeAwayUntilMs,
    moodOf: (line) => (isCalm ? 'well' : (operator.moods.get(line) ?? 'well')),
    note: (who, what) => {
      if (given.record === true && ledger.broken === undefined) {
        history.push({ atMs: timeline.nowMs, who, what });
      }
    },
    label: labelOf,
  };
  const operator = createOperator(world, () => processes);
  const starts = createStarts(world, processes, () => isCalm);

  for (let node = 0; node < plan.nodes; node += 1) starts.start(node, `n${node + 1}`);
  for (const types of plan.streams) operator.create(types);
  for (const step of plan.steps) {
    await timeline.runTo(step.at);
    if (ledger.broken !== undefined) break;
    starts.note(step);
    operator.act(step);
  }
  isCalm = true;
  world.note('world', 'faults stop');
  for (const process of processes) process.mend();
  await checkEnd(world, operator, processes);
  // Nothing happens any more: nobody lets the time go on.
  site.close();
  return {
    broken: ledger.broken,
    history,
    events: ledger.head,
    attempts: ledger.attempts,
    virtualMs: timeline.nowMs,
  };
}

/** How another process takes the place of one that ended. */
type Return = Pick<StepOf<'crash'>, 'awayMs' | 'renamed' | 'stumble'>;

const unplanned: Return = { awayMs: 0, renamed: false, stumble: undefined };

/** Starts a process wherever one has ended. */
function createStarts(world: World, processes: Process[], isCalm: () => boolean) {
  const next = new Map<number, Return>();
  const start = (node: number, name: string): void => {
    processes[node] = startProcess(world, name, () => {
      const { awayMs, renamed, stumble } = next.get(node) ?? unplanned;
      world.timeline.after(isCalm() ? 0 : awayMs, () => {
        start(node, renamed ? `${name}'` : name);
        if (stumble !== undefined && !isCalm()) {
          processes[node]?.freeze(stumble.command, stumble.ms);
        }
      });
    });
  };
  return {
    start,
    /** How the process that a step ends is followed by another. */
    note: (step: Step): void => {
      if (step.do === 'crash') next.set(step.node % processes.length, step);
      if (step.do === 'leave') {
        next.set(step.node % processes.length, { ...unplanned, awayMs: step.awayMs });
      }
    },
  };
}

/** Nothing holds a process or the store up for longer than the lease of a row lasts. */
function isPunctual({ steps, weather }: Plan): boolean {
  const delays: readonly Step['do'][] = ['jump', 'freeze', 'storeAway'];
  return weather.slowMs <= 30 && !steps.some((step) => delays.includes(step.do));
}

/** With every fault gone: all comes to rest, and what failed arrives when it is sent again. */
async function checkEnd(
  world: World,
  operator: Operator,
  processes: readonly Process[],
): Promise<void> {
  const { ledger } = world;
  if (!(await comesToRest(world, processes))) return;
  checkRows(world);
  for (const line of ledger.living()) operator.redeliverAll(line);
  if (!(await comesToRest(world, processes))) return;
  for (const line of ledger.living()) checkArrived(world, line);
}

async function comesToRest(world: World, processes: readonly Process[]): Promise<boolean> {
  const { timeline, ledger } = world;
  const endMs = timeline.nowMs + restMaxMs;
  for (;;) {
    await timeline.runTo(timeline.nowMs + restStepMs);
    if (ledger.broken !== undefined) return false;
    const unrest = [...restlessLines(world), ...restlessProcesses(processes)];
    if (unrest.length === 0) return true;
    if (timeline.nowMs < endMs) continue;
    ledger.break('rest', unrest.join('; '));
    return false;
  }
}

function restlessLines({ ledger, site, timeline }: World): string[] {
  return ledger.living().flatMap((line) => {
    const row = runOf(site, timeline.nowMs, line);
    if (row === undefined) return [`${line.label} is gone`];
    if (row.unseen > 0) return [`${line.label} was changed and its owner has not seen it`];
    if (row.due > 0) return [`${line.label} has ${row.due} rows to send`];
    if (row.status === 'enabled' && row.replays > 0) return [`${line.label} is replaying`];
    const isBehind = row.status === 'enabled' && row.cursor < ledger.head;
    return isBehind ? [`${line.label} is at ${row.cursor} of ${ledger.head}`] : [];
  });
}

interface RunNow {
  readonly cursor: number;
  readonly status: string;
  readonly due: number;
  readonly unseen: number;
  readonly replays: number;
}

function runOf({ db, tenant }: Site, nowMs: number, { id }: Line): RunNow | undefined {
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
    const { streams, tailBytes, ...busy } = dispatcher.state();
    const isIdle = state === 'up' && Object.values(busy).every((value) => Number(value) === 0);
    return isIdle
      ? []
      : [`${name} is ${state}: ${JSON.stringify({ streams, tailBytes, ...busy })}`];
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
        (select 1 from events e where e.tenant = d.tenant and e.offset = d.offset)`;
    if (bodiless?.count !== 0) ledger.break('lost', `rows of ${line.label} have no body any more`);
  }
}

function checkArrived({ ledger, label }: World, line: Line): void {
  const upTo = line.counts.enabled ? ledger.head : line.counts.cursor;
  for (let offset = 1; offset <= upTo; offset += 1) {
    const event = ledger.event(offset);
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
