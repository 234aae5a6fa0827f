import type { Millis } from '../../core/clock.ts';
import type { Node, Offset, Stream, StreamRef } from '../../core/types.ts';
import type { OwnedStream } from '../port/ownership.ts';
import { type WaitRule, waitRuleOf } from '../port/time.ts';
import type { StreamRow } from '../rows/streams.ts';
import { nextDueInMs } from '../rules/due.ts';
import { type DueKind, sendingOf, waitingOf } from '../rules/pause.ts';
import { type KeyRow, keyRowsOf } from '../rules/order.ts';
import { numbers, type Queries } from './database.ts';

/** Returns `undefined` for a stream whose secrets do not open. */
export type OpenStream = (row: StreamRow) => Stream | undefined;

export interface OwnedAsk {
  readonly node: Node;
  readonly refs: readonly StreamRef[];
  readonly rule: WaitRule;
}

interface OwnedRow extends StreamRow {
  readonly tenant_name: string;
  readonly epoch: number;
  readonly run: number;
  readonly cursor: Offset;
  readonly due: readonly DueKind[] | null;
  readonly consecutive_failures: number;
  readonly total_failures: number;
  readonly now: Millis;
  readonly above: string[] | null;
  /** JSON of offsets. */
  readonly settled_above: string | null;
  readonly keys: readonly KeyRow[] | null;
  readonly replay: string | null;
  readonly refused: boolean;
}

/** Returns the current state of those streams that the node owns, in the order of the request. */
export async function ownedStreams(
  tx: Queries,
  open: OpenStream,
  { node, refs, rule }: OwnedAsk,
): Promise<OwnedStream[]> {
  if (refs.length === 0) return [];
  const rows = await tx.all<OwnedRow>`
    select s.tenant, s.id, s.name, s.status, s.subscriptions, s.destination, s.delivery,
      s.signing_secrets, s.paused_at, s.pause_reason, s.version, s.created_at, s.updated_at, t.name as tenant_name, r.epoch, r.run, r.cursor,
      r.consecutive_failures, r.total_failures, d.due, leat_now() as now, a.above,
      r.settled_above, r.refused_at is not null as refused, k.keys, (
        select id from replays p
        where p.tenant = r.tenant and p.stream = r.stream and p.status = 'running') as replay
    from unnest(${numbers(refs.map(({ tenant }) => tenant))}::int[],
      ${refs.map(({ stream }) => stream)}::text[]) with ordinality as requested(tenant, stream, n)
    join runs r on r.tenant = requested.tenant and r.stream = requested.stream
    join streams s on s.tenant = r.tenant and s.id = r.stream
    join tenants t on t.id = r.tenant
    cross join lateral (
      select json_agg(kinds) as due
      from (
        select kind, count(*) as count, min(due_at) as first_due_at, max(due_at) as last_due_at
        from deliveries
        where tenant = r.tenant and stream = r.stream and due_at is not null
        group by kind
      ) as kinds
    ) as d
    cross join lateral (
      select array_agg("offset" order by "offset") as above
      from deliveries where tenant = r.tenant and stream = r.stream and "offset" > r.cursor
    ) as a
    cross join lateral (
      select json_agg(ordered) as keys
      from (
        select order_key as key, count(*) filter (where state = 'blocked') as blocked,
          count(*) filter (where kind = 'first' and due_at is not null) as held,
          count(*) filter (where failed_at is not null) as failed
        from deliveries
        where tenant = r.tenant and stream = r.stream and order_key is not null
        group by order_key
      ) as ordered
    ) as k
    where r.owner = ${node.id}
    order by requested.n`;
  return rows.flatMap((row) => {
    const stream = open(row);
    if (stream === undefined) return [];
    const sending = sendingOf({ status: row.status, pausedAt: row.paused_at });
    const { waiting, replays, dueAts } = waitingOf(row.due ?? [], sending);
    return {
      stream,
      tenantName: row.tenant_name,
      epoch: row.epoch,
      run: row.run,
      cursor: row.cursor,
      waiting,
      waitingReplays: replays,
      health: { consecutive: row.consecutive_failures, total: row.total_failures },
      nextDueInMs: nextDueInMs(dueAts, row.now, waitRuleOf(stream, rule)),
      replay: row.replay ?? undefined,
      takenAbove: takenAbove(row),
      keys: keyRowsOf(stream, row.keys ?? []),
      isRefused: row.refused,
    };
  });
}

function takenAbove({ above, settled_above: settled, cursor }: OwnedRow): Offset[] {
  const withRow = (above ?? []).map(Number);
  if (settled === null) return withRow;
  const offsets = (JSON.parse(settled) as Offset[]).filter((offset) => offset > cursor);
  return [...new Set([...withRow, ...offsets])].toSorted((one, other) => one - other);
}
