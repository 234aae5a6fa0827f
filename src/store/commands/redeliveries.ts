import type { Millis } from '../../core/clock.ts';
import type { Page } from '../port/page.ts';
import type { Redelivery, RedeliveryStore } from '../port/redeliveries.ts';
import type { HistoryEvent } from '../rows/attempts.ts';
import type { Run } from '../rows/runs.ts';
import { type Command, sql } from './command.ts';
import { byStream } from './delivery-indexes.ts';
import { forUpdate, oneOf, verbatim } from './dialect.ts';
import type { OpenFailure } from './failure-counts.ts';
import { createFailureWork, leaveWork, type WorkDeps, type WorkKind } from './failure-work.ts';
import { storeNow } from './runs.ts';
import { beginsCycle } from '../rules/cycle.ts';
import { noteCycles } from './redelivery.ts';

/** Creates the store of redeliveries. Triggers of the engines count the ends of their cycles. */
export function createRedeliveryStore(deps: WorkDeps): RedeliveryStore {
  const { on } = deps;
  const { read, transact } = on.commands;
  return {
    ...createFailureWork(deps, kind),
    get: async (tenant, id) => (await read(shown(tenant, { id, take: 1 })))[0],
    list: (tenant, page) => on.lists.read(list(tenant, page)),
    cancel: (tenant, id) => transact('durable', () => cancel(tenant, id)),
  };
}

const tables = {
  requests: verbatim('redeliveries'),
  streams: verbatim('redelivery_streams'),
  ended: verbatim('delivered + failed'),
} as const;

const kind: WorkKind = {
  ...tables,
  *act(run, failures, { id, work, now }) {
    if (work === 'cancelling') {
      yield* giveBack(run, failures, id);
      return { begun: 0, skipped: 0, waitsFor: -1 };
    }
    const failed = failures.filter(({ state }) => state === 'failed');
    if (failed.length > 0) yield* beginCycles(run, failed, { id, now });
    return { begun: failed.length, skipped: failures.length - failed.length, waitsFor: -1 };
  },
};

function* beginCycles(
  run: Run,
  failures: readonly OpenFailure[],
  { id, now }: { readonly id: string; readonly now: Millis },
): Command<void> {
  const { tenant, stream } = run;
  const started = yield* sql.all<HistoryEvent>`
    update deliveries set ${beginsCycle(now, id)}
    where tenant = ${tenant} and stream = ${stream} and event_id ${oneOf(failures.map((one) => one.id))}
    returning event_id as id, "offset"`;
  yield* noteCycles(run, started, now);
}

/** Returns deliveries whose cycle has not begun to the failures; a trigger counts them as skipped. */
function* giveBack(
  { tenant, stream }: Run,
  failures: readonly OpenFailure[],
  id: string,
): Command<void> {
  const waiting = failures.filter(
    ({ state, attempt, redelivery }) => redelivery === id && state === 'retrying' && attempt === 1,
  );
  if (waiting.length === 0) return;
  yield* sql.run`
    update deliveries set state = 'failed', due_at = null, redelivery = null
    where tenant = ${tenant} and stream = ${stream} and event_id ${oneOf(waiting.map((one) => one.id))}`;
}

interface ShownRow extends Pick<Redelivery, 'id' | 'total' | 'delivered' | 'failed' | 'skipped'> {
  readonly work: 'taking' | 'cancelling' | 'none';
  readonly at_least: number;
  readonly created_at: Millis;
  readonly created_by: string;
  readonly cancelled_at: Millis | null;
}

/** Reads requests with their progress, newest first: one by its id, or those before an id. */
function* shown(
  tenant: number,
  query: { readonly id?: string; readonly before?: string | undefined; readonly take: number },
): Command<Redelivery[]> {
  const { id, before = '\u007f', take } = query;
  const rows = yield* sql.all<ShownRow>`
    select r.id, r.work, r.at_least, r.created_at, r.created_by, r.cancelled_at,
      cast(coalesce(sum(s.total), 0) as bigint) as total,
      cast(coalesce(sum(s.delivered), 0) as bigint) as delivered,
      cast(coalesce(sum(s.failed), 0) as bigint) as failed,
      cast(coalesce(sum(s.skipped), 0) as bigint) as skipped
    from (
      select * from redeliveries
      where tenant = ${tenant} and id < ${before} and (${id === undefined} or id = ${id ?? ''})
      order by id desc limit ${take}) as r
    left join redelivery_streams s on s.tenant = r.tenant and s.id = r.id
    group by r.id, r.work, r.at_least, r.created_at, r.created_by, r.cancelled_at
    order by r.id desc`;
  return rows.map(redeliveryOf);
}

function redeliveryOf(row: ShownRow): Redelivery {
  const { id, work, total, delivered, failed, skipped, created_at: createdAt } = row;
  const isOver = work === 'none' && delivered + failed + skipped >= total;
  const running = isOver ? 'done' : 'running';
  const status = row.cancelled_at === null ? running : 'cancelled';
  const isAtLeast = row.at_least === 1 && work === 'taking';
  const created = { createdAt, createdBy: row.created_by };
  return { id, status, total, delivered, failed, skipped, isAtLeast, ...created };
}

function* list(
  tenant: number,
  { after, take }: Parameters<RedeliveryStore['list']>[1],
): Command<Page<Redelivery>> {
  const rows = yield* shown(tenant, { before: after, take: take + 1 });
  const items = rows.slice(0, take);
  return { items, next: rows.length > take ? items.at(-1)?.id : undefined };
}

function* cancel(
  tenant: number,
  id: string,
): Command<Awaited<ReturnType<RedeliveryStore['cancel']>>> {
  const row = yield* sql.get<Pick<ShownRow, 'work'>>`
    select work from redeliveries where tenant = ${tenant} and id = ${id} ${forUpdate}`;
  if (row === undefined) return 'unknown';
  if (row.work === 'cancelling') return 'cancelling';
  const [now, [found]] = [yield* storeNow(), yield* shown(tenant, { id, take: 1 })];
  if (found?.status !== 'running') return 'over';
  // What a cancellation reads has no filter: the failures that it took may match it no more.
  yield* sql.run`
    update redeliveries
    set work = 'cancelling', selection = '{}', position = '', after_at = 0, after_event = '',
      cancelled_at = ${now}
    where tenant = ${tenant} and id = ${id}`;
  return 'cancelled';
}

/** Counts what a stream has left of redeliveries as skipped, before its deliveries are removed. */
export function* leaveRedeliveries(tenant: number, stream: string): Command<void> {
  yield* sql.run`
    update deliveries ${byStream} set redelivery = null
    where tenant = ${tenant} and stream = ${stream} and redelivery is not null`;
  yield* leaveWork(tables, { tenant, stream });
}
