import type { Millis } from '../../core/clock.ts';
import { streamKeyOf } from '../../core/stream-key.ts';
import type { Node, Offset, StreamRef } from '../../core/types.ts';
import type { OwnedStream } from '../port/ownership.ts';
import { type WaitRule, waitRuleOf } from '../port/time.ts';
import { openedStream, otherStreamColumns, type StreamRow } from '../rows/streams.ts';
import { nextDueInMs } from '../rules/due.ts';
import { keyRowsOf } from '../rules/order.ts';
import { sendingOf, waitingOf } from '../rules/pause.ts';
import type { Seal } from '../seal.ts';
import type { RowOf } from '../table.ts';
import { tables } from '../tables.ts';
import { columnsOf } from './columns.ts';
import { type Command, sql } from './command.ts';
import { byDue, byStream } from './delivery-indexes.ts';
import { jsonList, jsonRow, listedRows, listOf } from './dialect.ts';

export interface OwnedDeps {
  readonly seal: Seal;
  /** Receives the error of a stream whose secrets do not open. */
  readonly report: (error: unknown) => void;
}

/** A request for the state of streams. */
export interface OwnedAsk {
  readonly node: Node;
  readonly refs: readonly StreamRef[];
  readonly rule: WaitRule;
}

type RunRow = RowOf<typeof tables.runs>;

interface OwnedRow
  extends
    StreamRow,
    Pick<RunRow, 'epoch' | 'run' | 'cursor' | 'consecutive_failures' | 'total_failures'> {
  readonly tenant_name: string;
  readonly now: Millis;
  /** JSON: rows that wait, by kind. */
  readonly due: string | null;
  /** JSON of offsets. */
  readonly above: string | null;
  /** JSON of offsets. */
  readonly settled_above: string | null;
  /** JSON: rows of ordered events, by key. */
  readonly keys: string | null;
  readonly replay: string | null;
  /** A number on SQLite, which has no booleans. */
  readonly refused: boolean | number;
}

const columnsOfStream = columnsOf(tables.streams, { as: 's', without: otherStreamColumns });

/** Returns the current state of those streams that the node owns, in the order of the request. */
export function* ownedStreams(
  { seal, report }: OwnedDeps,
  { node, refs, rule }: OwnedAsk,
): Command<OwnedStream[]> {
  if (refs.length === 0) return [];
  const rows = yield* sql.all<OwnedRow>`
    select ${columnsOfStream}, t.name as tenant_name, r.epoch, r.run, r.cursor, r.consecutive_failures, r.total_failures,
      r.settled_above, r.refused_at is not null as refused, leat_now() as now, (
        select cast(${jsonList}(${jsonRow}(kind, count, first_due_at, last_due_at)) as text)
        from (
          select kind, count(*) as count, min(due_at) as first_due_at, max(due_at) as last_due_at
          from deliveries ${byDue}
          where tenant = r.tenant and stream = r.stream and due_at is not null
          group by kind
        ) as kinds) as due, (
        select cast(${jsonList}("offset") as text) from deliveries ${byStream}
        where tenant = r.tenant and stream = r.stream and "offset" > r.cursor) as above, (
        select cast(${jsonList}(${jsonRow}(key, blocked, held, failed)) as text)
        from (
          select order_key as key, count(*) filter (where state = 'blocked') as blocked,
            count(*) filter (where kind = 'first' and due_at is not null) as held,
            count(*) filter (where failed_at is not null) as failed
          from deliveries
          where tenant = r.tenant and stream = r.stream and order_key is not null
          group by order_key
        ) as ordered) as keys, (
        select id from replays p
        where p.tenant = r.tenant and p.stream = r.stream and p.status = 'running') as replay
    from ${listedRows(refs.map(({ tenant, stream }) => [tenant, stream]))}
    join runs r on r.tenant = cast(listed.value ->> 0 as integer) and r.stream = listed.value ->> 1
    join streams s on s.tenant = r.tenant and s.id = r.stream
    join tenants t on t.id = r.tenant
    where r.owner = ${node.id}`;
  const byKey = new Map(rows.map((row) => [streamKeyOf({ ...row, stream: row.id }), row]));
  return refs.flatMap((ref) => {
    const row = byKey.get(streamKeyOf(ref));
    const stream = row && openedStream(seal, row, report);
    return row === undefined || stream === undefined ? [] : [ownedStream(row, stream, rule)];
  });
}

type Kind = Parameters<typeof waitingOf>[0][number];
type Key = Parameters<typeof keyRowsOf>[1][number];

function ownedStream(row: OwnedRow, stream: OwnedStream['stream'], rule: WaitRule): OwnedStream {
  const kinds = listOf<[Kind['kind'], number, Millis, Millis]>(row.due).map(
    ([kind, count, first, last]) => ({ kind, count, first_due_at: first, last_due_at: last }),
  );
  const keys = listOf<[Key['key'], number, number, number]>(row.keys).map(
    ([key, blocked, held, failed]) => ({ key, blocked, held, failed }),
  );
  const sending = sendingOf({ status: row.status, pausedAt: row.paused_at });
  const { waiting, replays, dueAts } = waitingOf(kinds, sending);
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
    keys: keyRowsOf(stream, keys),
    isRefused: Boolean(row.refused),
  };
}

function takenAbove({ above, settled_above: settled, cursor }: OwnedRow): Offset[] {
  const known = listOf<Offset>(settled).filter((offset) => offset > cursor);
  const offsets = new Set([...listOf<Offset>(above), ...known]);
  return [...offsets].toSorted((one, other) => one - other);
}
