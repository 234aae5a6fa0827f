import type { Millis } from '../../core/clock.ts';
import type { DeliveryOptions, DeliveryState } from '../../core/types.ts';
import type { DeliveryStore, FailureFilter } from '../port/deliveries.ts';
import type { HistoryEvent } from '../rows/attempts.ts';
import type { Run } from '../rows/runs.ts';
import { type Command, engine, sql, together } from './command.ts';
import { oneOf } from './dialect.ts';
import { beginsCycle } from '../rules/cycle.ts';
import { endOf } from './history.ts';
import { lockRun, noteDue, storeNow } from './runs.ts';

/** Starts a new cycle for one failure; see {@link DeliveryStore.redeliver}. */
export function* redeliver(
  tenant: number,
  stream: string,
  eventId: string,
  allHaveSchedule: boolean,
): Command<Awaited<ReturnType<DeliveryStore['redeliver']>>> {
  const [run, now, row] = yield* together(
    lockRun(tenant, stream),
    storeNow(),
    sql.get<{ state: DeliveryState; delivery: string | null }>`
      select d.state, s.delivery
      from deliveries d join streams s on s.tenant = d.tenant and s.id = d.stream
      where d.tenant = ${tenant} and d.stream = ${stream} and d.event_id = ${eventId}`,
  );
  if (run === undefined) return 'unknown';
  if (row === undefined) return (yield* endOf(run, eventId)) ?? 'unknown';
  if (row.state === 'retrying' && (allHaveSchedule || hasSchedule(row))) {
    yield* makeDue(run, eventId, now);
    return 'accepted';
  }
  if (row.state !== 'failed') return 'retrying';
  const started = yield* sql.all<HistoryEvent>`
    update deliveries set ${beginsCycle(now)}
    where tenant = ${tenant} and stream = ${stream} and event_id = ${eventId}
    returning event_id as id, "offset"`;
  yield* noteCycles(run, started, now);
  return 'accepted';
}

/** Returns whether waits of the stream can be long: the schedule is its own. */
function hasSchedule({ delivery }: { readonly delivery: string | null }): boolean {
  const options = delivery === null ? {} : (JSON.parse(delivery) as DeliveryOptions);
  return options.retry !== undefined;
}

/** Lets the next attempt of a delivery that waits begin now; its cycle goes on. */
function* makeDue(run: Run, eventId: string, now: Millis): Command<unknown> {
  const { tenant, stream } = run;
  return yield* together(
    sql.run`
      update deliveries set due_at = ${now}
      where tenant = ${tenant} and stream = ${stream} and event_id = ${eventId}`,
    noteDue(run),
  );
}

/**
 * Starts a new cycle for every failure that matches, and returns how many. In one statement: there
 * may be thousands of failures of a stream that was down.
 */
export function* redeliverMany(
  tenant: number,
  stream: string,
  filter: FailureFilter,
): Command<number> {
  const [run, now] = yield* together(lockRun(tenant, stream), storeNow());
  if (run === undefined) return 0;
  const { types, from = Number.MIN_SAFE_INTEGER, to = Number.MAX_SAFE_INTEGER } = filter;
  const started = yield* sql.all<HistoryEvent>`
    update deliveries set ${beginsCycle(now)}
    -- The bound is there for SQLite, which does not use the index of failures without it.
    where tenant = ${tenant} and stream = ${stream} and failed_at is not null and failed_at >= 0
      and state = 'failed'
      and (${types === undefined} or type ${oneOf(types ?? [])})
      and time >= ${from} and time < ${to}
    returning event_id as id, "offset"`;
  if (started.length > 0) yield* noteCycles(run, started, now);
  return started.length;
}

/** Records that cycles of deliveries have begun. */
export function* noteCycles(
  run: Run,
  started: readonly HistoryEvent[],
  now: Millis,
): Command<unknown> {
  const entry = { at: now, durationMs: 0, outcome: 'redelivered' } as const;
  return yield* together(
    noteDue(run),
    engine.addEntries(run, started, { ...entry, status: undefined, error: undefined }),
  );
}
