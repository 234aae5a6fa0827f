import type { Millis } from '../../core/clock.ts';
import type { Offset, Subscription } from '../../core/types.ts';
import type { DisabledReason, StreamFacts, StreamStore } from '../port/streams.ts';
import { type Command, sql, together } from './command.ts';
import { passedOverBy } from './passed-over.ts';
import { countWaiting, type SkippedDeps } from './skipped.ts';

/** Creates the query of what the store knows of a stream beyond its configuration. */
export function createStreamFacts(deps: SkippedDeps): StreamStore['facts'] {
  return async (tenant, id) => {
    const read = await deps.commands.read(readFacts(deps, tenant, id));
    if (read === undefined) return undefined;
    const { passedOver, ...facts } = read;
    return { ...facts, waiting: await countWaiting(deps, passedOver) };
  };
}

interface FactsRow {
  readonly subscriptions: string;
  readonly disabled_reason: DisabledReason | null;
  readonly disabled_since: Millis | null;
  readonly disabled_code: string | null;
  readonly cursor: Offset;
  readonly consecutive: number;
  readonly total: number;
  readonly last_delivered_at: Millis | null;
  readonly last_failed_at: Millis | null;
  readonly head: Offset;
  readonly now: Millis;
  readonly replay: string | null;
}

interface RowCounts {
  readonly retrying: number;
  readonly parked: number;
  readonly next_due_at: Millis | null;
}

type Read = Omit<StreamFacts, 'waiting'> & {
  readonly passedOver: Parameters<typeof countWaiting>[1];
};

function* readFacts({ runs }: SkippedDeps, tenant: number, id: string): Command<Read | undefined> {
  const [row, counts] = yield* together(
    sql.get<FactsRow>`
      select s.subscriptions, s.disabled_reason, s.disabled_since, s.disabled_code, r.cursor,
        r.consecutive_failures as consecutive, r.total_failures as total, r.last_delivered_at,
        r.last_failed_at, t.head, leat_now() as now, (
          select p.id from replays p
          where p.tenant = s.tenant and p.stream = s.id and p.status = 'running') as replay
      from streams s
      join runs r on r.tenant = s.tenant and r.stream = s.id
      join tenants t on t.id = s.tenant
      where s.tenant = ${tenant} and s.id = ${id}`,
    sql.get<RowCounts>`
      select count(*) filter (where d.state = 'retrying') as retrying,
        count(*) filter (where d.state = 'parked') as parked,
        min(d.due_at) filter (where d.state = 'retrying' and (d.kind = 'redelivery'
          or s.status = 'enabled' and (s.paused_at is null or d.kind = 'test'))) as next_due_at
      from deliveries d join streams s on s.tenant = d.tenant and s.id = d.stream
      where d.tenant = ${tenant} and d.stream = ${id} and d.due_at is not null`,
  );
  if (row === undefined) return undefined;
  const { cursor, head } = row;
  const subscriptions = JSON.parse(row.subscriptions) as Subscription[];
  const passedOver = yield* passedOverBy(runs, { tenant, stream: id, cursor }, subscriptions, head);
  return {
    passedOver,
    now: row.now,
    health: { consecutive: row.consecutive, total: row.total },
    disabled: {
      reason: row.disabled_reason ?? undefined,
      since: row.disabled_since ?? undefined,
      code: row.disabled_code ?? undefined,
    },
    retrying: counts?.retrying ?? 0,
    parked: counts?.parked ?? 0,
    nextDueAt: counts?.next_due_at ?? undefined,
    lastDeliveredAt: row.last_delivered_at ?? undefined,
    lastFailedAt: row.last_failed_at ?? undefined,
    replay: row.replay ?? undefined,
  };
}
