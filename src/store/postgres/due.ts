import { streamKeyOf } from '../../core/stream-key.ts';
import type { Millis } from '../../core/clock.ts';
import type { Delivery, DeliveryKind, Offset } from '../../core/types.ts';
import { deliveredEventOf, type EventColumns } from '../rows/delivered-event.ts';
import { chooseDue } from '../rules/due.ts';
import { sendingOf, sentKinds } from '../rules/pause.ts';
import type { DueRows, DueRequest } from '../port/deliveries.ts';
import { numbers, type Queries } from './database.ts';
import { type BodyLocation, withBodies } from './kept.ts';
import { lockRuns, type Run } from './runs.ts';
import { storeNow } from './time.ts';

/**
 * Claims due rows of many streams; see {@link DeliveryStore.claimDue}. Written apart from SQLite
 * because one statement for all streams saves a round trip for each.
 */
export async function claimDue(tx: Queries, requests: readonly DueRequest[]): Promise<DueRows[]> {
  const [runs, now] = await Promise.all([lockRuns(tx, requests), storeNow(tx)]);
  const eligible = requests.flatMap((request) => {
    const run = runs.get(streamKeyOf(request));
    return isAnswered(run, request) ? { ...request, kinds: sentKinds(sendingOf(run)) } : [];
  });
  const [rows, ofKeys] = await Promise.all([dueRows(tx, eligible, now), nextOfKeys(tx, eligible)]);
  const rowsByStream = Map.groupBy(rows, streamKeyOf);
  const nextByStream = Map.groupBy(ofKeys, streamKeyOf);
  const claims = requests.map((request) => {
    const own = rowsByStream.get(streamKeyOf(request)) ?? [];
    const next = nextByStream.get(streamKeyOf(request)) ?? [];
    const { taken, nextDueInMs } = chooseDue(own, request.take - next.length, now, request);
    return { request, taken: [...next, ...taken], nextDueInMs };
  });
  await park(
    tx,
    claims.flatMap(({ request, taken }) =>
      taken.map((row) => ({ ...row, until: now + request.leaseMs })),
    ),
  );
  const withBody = await bodiesOf(
    tx,
    claims.flatMap(({ taken }) => taken),
  );
  return claims.map(({ request: { tenant, stream }, taken, nextDueInMs }) => ({
    tenant,
    stream,
    rows: taken.map((row) => deliveryOf(withBody.get(row) ?? row)),
    nextDueInMs,
  }));
}

/** The runs of the rows are locked, so no body is removed at the same time. */
async function bodiesOf(tx: Queries, rows: readonly DueRow[]): Promise<Map<DueRow, DueRow>> {
  const complete = await withBodies(tx, rows);
  return new Map(
    rows.flatMap((row, index) => {
      const found = complete[index];
      return found === undefined ? [] : [[row, found] as const];
    }),
  );
}

function isAnswered(run: Run | undefined, request: DueRequest): run is Run {
  return run?.epoch === request.epoch && run.owner !== null;
}

/** A request, with the kinds of rows that its stream sends. */
type EligibleRequest = DueRequest & { readonly kinds: readonly DeliveryKind[] };

interface DueRow extends EventColumns, BodyLocation {
  readonly tenant: number;
  readonly offset: Offset | null;
  readonly body: string | null;
  readonly trace: string | null;
  readonly stream: string;
  readonly kind: DeliveryKind;
  readonly attempt: number;
  readonly due_at: Millis;
  readonly order_key: string | null;
}

/**
 * Reads per stream the oldest rows first, those of a replay apart from all others, and one more
 * than requested, which shows when the next is due. Of a disabled stream only redeliveries,
 * whatever other rows its last attempts left, and of a paused one also tests. Rows of a replay have an index of their own, so they
 * are found however many others wait. So are rows that wait longer than the rule of their request
 * allows.
 */
async function dueRows(
  tx: Queries,
  requests: readonly EligibleRequest[],
  now: Millis,
): Promise<DueRow[]> {
  if (requests.length === 0) return [];
  return tx.all`
    select d.tenant, d.stream, d.event_id, d."offset", d.type, d.time, d.kind, d.attempt, d.due_at,
      d.order_key, d.event_day, d.body, d.trace
    from unnest(${numbers(requests.map(({ tenant }) => tenant))}::int[],
      ${requests.map(({ stream }) => stream)}::text[], ${numbers(requests.map(({ take }) => take))}::int[],
      ${numbers(requests.map(({ longestWaitMs }) => now + longestWaitMs))}::bigint[],
      ${requests.map(({ kinds }) => kinds.join(','))}::text[])
      as requested(tenant, stream, take, latest, kinds)
    cross join lateral (
      (select * from deliveries
        where tenant = requested.tenant and stream = requested.stream and due_at <= requested.latest
          and kind <> 'replay' and kind = any(string_to_array(requested.kinds, ','))
        order by due_at, event_id limit requested.take + 1)
      union all
      (select * from deliveries
        where tenant = requested.tenant and stream = requested.stream and due_at <= requested.latest
          and kind = 'replay' and kind = any(string_to_array(requested.kinds, ','))
        order by due_at, event_id limit requested.take + 1)
      union all
      (select * from deliveries
        where tenant = requested.tenant and stream = requested.stream and due_at > requested.latest
          and kind = any(string_to_array(requested.kinds, ','))
        order by due_at, event_id limit requested.take + 1)
    ) as d
    order by d.due_at, d.event_id`;
}

/**
 * Reads the oldest blocked row of each key that is requested; none while another row of the key is in
 * progress, as one that a try of the same claim took before its result was lost.
 */
async function nextOfKeys(tx: Queries, requests: readonly EligibleRequest[]): Promise<DueRow[]> {
  const keys = requests.flatMap(({ tenant, stream, kinds, keys: wanted = [] }) =>
    kinds.includes('first') ? wanted.map((key) => ({ tenant, stream, key })) : [],
  );
  if (keys.length === 0) return [];
  return tx.all`
    select d.tenant, d.stream, d.event_id, d."offset", d.type, d.time, d.kind, d.attempt, d.due_at,
      d.order_key, d.event_day, d.body, d.trace
    from unnest(${numbers(keys.map(({ tenant }) => tenant))}::int[],
      ${keys.map(({ stream }) => stream)}::text[], ${keys.map(({ key }) => key)}::text[])
      as requested(tenant, stream, key)
    cross join lateral (
      select * from deliveries
      where tenant = requested.tenant and stream = requested.stream
        and order_key = requested.key and state = 'blocked'
      order by "offset" limit 1
    ) as d
    where not exists (
      select 1 from deliveries h
      where h.tenant = requested.tenant and h.stream = requested.stream
        and h.order_key = requested.key and h.state in ('parked', 'retrying') and h.kind = 'first')`;
}

async function park(
  tx: Queries,
  rows: readonly (DueRow & { readonly until: Millis })[],
): Promise<void> {
  if (rows.length === 0) return;
  await tx.run`
    update deliveries d set state = 'parked', due_at = u.until
    from unnest(${numbers(rows.map(({ tenant }) => tenant))}::int[],
      ${rows.map(({ stream }) => stream)}::text[], ${rows.map((row) => row.event_id)}::text[],
      ${numbers(rows.map(({ until }) => until))}::bigint[]) as u(tenant, stream, event_id, until)
    where d.tenant = u.tenant and d.stream = u.stream and d.event_id = u.event_id`;
}

function deliveryOf(row: DueRow): Delivery {
  const { kind, attempt, order_key: orderKey } = row;
  const delivery = { event: deliveredEventOf(row), kind, state: 'parked', attempt } as const;
  return orderKey === null ? delivery : { ...delivery, orderKey };
}
