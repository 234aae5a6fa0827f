import type { Millis } from '../../core/clock.ts';
import { streamKeyOf } from '../../core/stream-key.ts';
import type { Delivery, DeliveryKind, Offset, StreamRef } from '../../core/types.ts';
import type { DueRequest, DueRows } from '../port/deliveries.ts';
import { deliveredEventOf } from '../rows/delivered-event.ts';
import type { Run } from '../rows/runs.ts';
import { chooseDue } from '../rules/due.ts';
import { sendingOf, sentKinds } from '../rules/pause.ts';
import { type Command, engine, type LocatedRow, sql, type Statement, together } from './command.ts';
import { byDue, byOrder, byReplay } from './delivery-indexes.ts';
import {
  Fragment,
  jsonList,
  listedRows,
  listOf,
  perDialect,
  piece,
  positionIn,
} from './dialect.ts';
import { lockRuns, storeNow } from './runs.ts';

/** Claims due rows of many streams; see {@link DeliveryStore.claimDue}. */
export function* claimDue(requests: readonly DueRequest[]): Command<DueRows[]> {
  const [runs, now] = yield* together(lockRuns(requests), storeNow());
  const eligible = requests.flatMap((request) => {
    const run = runs.get(streamKeyOf(request));
    return isTheirs(run, request) ? [{ ...request, kinds: sentKinds(sendingOf(run)) }] : [];
  });
  const [rows, ofKeys] = yield* together(dueRows(eligible, now), nextOfKeys(eligible));
  const nextByStream = Map.groupBy(ofKeys, streamKeyOf);
  const claims = requests.map((request) => {
    const next = nextByStream.get(streamKeyOf(request)) ?? [];
    const own = rows.get(streamKeyOf(request)) ?? [];
    const { taken, nextDueInMs } = chooseDue(own, request.take - next.length, now, request);
    return { request, taken: [...next, ...taken], nextDueInMs };
  });
  const parked = yield* park(claims, now);
  return claims.map(({ request: { tenant, stream }, taken, nextDueInMs }) => ({
    tenant,
    stream,
    rows: taken.flatMap((row) => deliveryOf(row, parked.get(keyOf(row))) ?? []),
    nextDueInMs,
  }));
}

function isTheirs(run: Run | undefined, request: DueRequest): run is Run {
  return run?.epoch === request.epoch && run.owner !== null;
}

/** A request, with the kinds of rows that its stream sends. */
type EligibleRequest = DueRequest & { readonly kinds: readonly DeliveryKind[] };

interface DueRow extends StreamRef {
  readonly event_id: string;
  readonly offset: Offset | null;
  readonly type: string;
  readonly time: Millis;
  readonly kind: DeliveryKind;
  readonly attempt: number;
  readonly due_at: Millis;
  readonly order_key: string | null;
}

/** Returns the key of a row in a map: ids of streams have no blank. */
function keyOf({ tenant, stream, event_id: id }: Pick<DueRow, 'tenant' | 'stream' | 'event_id'>) {
  return `${tenant} ${stream} ${id}`;
}

/** Lists of rows as JSON, so that one statement reads those of all streams. */
interface RowLists extends StreamRef {
  readonly others: string | null;
  readonly replayed: string | null;
  readonly late: string | null;
}

/**
 * Reads per stream the oldest rows first, those of a replay apart from all others, and at least one more
 * than requested, which shows when the next is due. Of a disabled stream only redeliveries,
 * whatever other rows its last attempts left, and of a paused one also tests. Rows of a replay have an index of
 * their own, so they are found however many others wait. So are rows that wait longer than the rule of their
 * request allows.
 */
function* dueRows(
  requests: readonly EligibleRequest[],
  now: Millis,
): Command<ReadonlyMap<string, readonly DueRow[]>> {
  const groups = Map.groupBy(requests, ({ take }) => 2 ** Math.ceil(Math.log2(Math.max(1, take))));
  const lists = yield* together(
    ...[...groups].map(([take, some]) => rowLists(some, take + 1, now)),
  );
  return new Map(lists.flat().map((row) => [streamKeyOf(row), rowsOf(row)]));
}

/**
 * Reads up to as many rows of each list for requests that take about the same number: one that takes many
 * must not make all others read as many.
 */
function rowLists(
  requests: readonly EligibleRequest[],
  takeMax: number,
  now: Millis,
): Statement<RowLists[]> {
  const asked = requests.map(({ tenant, stream, longestWaitMs, kinds }) => [
    tenant,
    stream,
    now + longestWaitMs,
    kinds.join(','),
  ]);
  return sql.all`
    select r.tenant, r.stream, (
        select cast(${jsonList}(${rowAsJson}) as text) from (
          select * from deliveries ${byDue}
          where tenant = r.tenant and stream = r.stream and due_at is not null and due_at <= ${latest}
            and kind <> 'replay' and ${positionIn}(${kinds}, kind) > 0
          order by due_at, event_id limit ${takeMax}) as d) as others, (
        select cast(${jsonList}(${rowAsJson}) as text) from (
          select * from deliveries ${byReplay}
          where tenant = r.tenant and stream = r.stream and due_at is not null and due_at <= ${latest}
            and kind = 'replay' and ${positionIn}(${kinds}, kind) > 0
          order by due_at, event_id limit ${takeMax}) as d) as replayed, (
        select cast(${jsonList}(${rowAsJson}) as text) from (
          select * from deliveries ${byDue}
          where tenant = r.tenant and stream = r.stream and due_at is not null and due_at > ${latest}
            and ${positionIn}(${kinds}, kind) > 0
          order by due_at, event_id limit ${takeMax}) as d) as late
    from ${listedRows(asked)}
    join runs r on r.tenant = cast(listed.value ->> 0 as integer) and r.stream = listed.value ->> 1`;
}

const rowAsJson = perDialect({
  sqlite: columnsBy('json_array'),
  postgres: columnsBy('json_build_array'),
});

function columnsBy(list: string): string {
  return `${list}(event_id, "offset", type, time, kind, attempt, due_at, order_key)`;
}

/** The instant until which rows of the request are not late, and the kinds that its stream sends. */
const latest = perDialect({
  sqlite: 'cast(listed.value ->> 2 as integer)',
  postgres: 'cast(listed.value ->> 2 as bigint)',
});
const kinds = perDialect({ sqlite: 'listed.value ->> 3', postgres: '(listed.value ->> 3)' });

type Columns = [string, Offset | null, string, Millis, DeliveryKind, number, Millis, string | null];

function rowsOf({ tenant, stream, others, replayed, late }: RowLists): DueRow[] {
  const all = [others, replayed, late].flatMap((list) => listOf<Columns>(list));
  return all
    .map(([id, offset, type, time, kind, attempt, dueAt, orderKey]) => {
      const row = { event_id: id, offset, type, time, kind, attempt };
      return { tenant, stream, ...row, due_at: dueAt, order_key: orderKey };
    })
    .toSorted(
      (one, other) => one.due_at - other.due_at || (one.event_id < other.event_id ? -1 : 1),
    );
}

/**
 * Reads the oldest blocked row of each key that is requested; none while another row of the key is in
 * progress, as one that a try of the same claim took before its result was lost.
 */
function* nextOfKeys(requests: readonly EligibleRequest[]): Command<readonly DueRow[]> {
  const keys = requests.flatMap(({ tenant, stream, kinds: sent, keys: wanted = [] }) =>
    sent.includes('first') ? wanted.map((key) => [tenant, stream, key]) : [],
  );
  if (keys.length === 0) return [];
  return yield* sql.all<DueRow>`
    select d.tenant, d.stream, d.event_id, d."offset", d.type, d.time, d.kind, d.attempt, d.due_at,
      d.order_key
    from ${listedRows(keys)}
    join runs r on r.tenant = cast(listed.value ->> 0 as integer) and r.stream = listed.value ->> 1
    join deliveries d on d.tenant = r.tenant and d.stream = r.stream and d.event_id = (
      select b.event_id from deliveries b ${byOrder}
      where b.tenant = r.tenant and b.stream = r.stream and b.order_key = listed.value ->> 2
        and b.state = 'blocked'
      order by b."offset" limit 1)
    where not exists (
      select 1 from deliveries h ${byOrder}
      where h.tenant = r.tenant and h.stream = r.stream and h.order_key = listed.value ->> 2
        and h.state in ('parked', 'retrying') and h.kind = 'first')`;
}

interface Claim {
  readonly request: DueRequest;
  readonly taken: readonly DueRow[];
}

/** Parks rows until their leases end. Returns them with the bodies of their events, by {@link keyOf}. */
function* park(claims: readonly Claim[], now: Millis): Command<ReadonlyMap<string, LocatedRow>> {
  const taking = claims.filter(({ taken }) => taken.length > 0);
  const groups = Map.groupBy(taking, ({ request }) => request.leaseMs);
  const parked = yield* together(
    ...[...groups].map(
      ([leaseMs, some]) => sql.all<LocatedRow>`
        update deliveries set state = 'parked', due_at = ${now + leaseMs}
        where (tenant, stream, event_id) in ${amongRows(some.flatMap(({ taken }) => taken))}
        returning tenant, stream, event_id, "offset", body, trace ${dayOfEvent}`,
    ),
  );
  // The runs of the rows are locked, so no body is removed at the same time.
  const complete = yield* engine.withBodies(parked.flat());
  return new Map(complete.map((row) => [keyOf(row), row]));
}

const dayOfEvent = perDialect({ sqlite: '', postgres: ', event_day' });

function amongRows(rows: readonly DueRow[]): Fragment {
  const keys = rows.map(({ tenant, stream, event_id: id }) => [tenant, stream, id]);
  return new Fragment({
    sqlite: piece`(
      select value ->> 0, value ->> 1, value ->> 2 from json_each(${JSON.stringify(keys)}))`,
    postgres: piece`(select * from unnest(${rows.map(({ tenant }) => tenant)}::int[],
      ${rows.map(({ stream }) => stream)}::text[], ${rows.map((row) => row.event_id)}::text[]))`,
  });
}

function deliveryOf(row: DueRow, located: LocatedRow | undefined): Delivery | undefined {
  if (located === undefined) return undefined;
  const { kind, attempt, order_key: orderKey } = row;
  const event = deliveredEventOf({ ...row, body: located.body, trace: located.trace });
  const delivery = { event, kind, state: 'parked', attempt } as const;
  return orderKey === null ? delivery : { ...delivery, orderKey };
}
