import type { Clock, Millis } from '../../core/clock.ts';
import type { Offset, Node, Stream, StreamRef } from '../../core/types.ts';
import type { Hint } from '../port/hints.ts';
import type {
  ClaimRequest,
  CursorRaise,
  Heartbeat,
  OwnedStream,
  OwnershipStore,
} from '../port/ownership.ts';
import { isSkewed, skewMaxMs, type WaitRule, waitRuleOf } from '../port/time.ts';
import { nextDueInMs } from '../rules/due.ts';
import { type KeyRow, keyRowsOf } from '../rules/order.ts';
import type { Seal } from '../seal.ts';
import { failWaiting } from '../directory/disabling.ts';
import { currentKeyCheck, type KeyCheckRow } from '../key-check.ts';
import { run as runCommand } from './commands.ts';
import { numbers, type Database, type Queries, withCommit } from './database.ts';
import { runSteps } from './run-steps.ts';
import { ownVersion } from './schema.ts';
import type { KnownStore, StoreIdentity } from './identity.ts';
import { nodes } from './nodes.ts';
import { isPresent, lockRuns, raiseCursors, type Run, writeRuns } from './runs.ts';
import type { ServerTime } from './time.ts';
import { openedStream, type StreamRow } from '../rows/streams.ts';

/**
 * Tracks which node owns which stream. Written apart from SQLite because nodes share the streams:
 * leases are measured by the clock of the server, and claims of several nodes skip each other's
 * rows.
 */
export function createOwnershipStore(deps: {
  readonly db: Database;
  readonly identity: StoreIdentity;
  readonly seal: Seal;
  readonly hint: (hint: Hint) => void;
  /** Receives the error of a stream whose secrets do not open. */
  readonly report: (error: unknown) => void;
  /** Receives the number of live nodes at each heartbeat. */
  readonly counted: (living: number) => void;
  readonly clock: Pick<Clock, 'elapsedMs'>;
  /** Receives the server's time from the results of joining and heartbeats. */
  readonly time: ServerTime;
}): OwnershipStore {
  const { db, identity, seal, report, hint, counted, clock, time } = deps;
  const open: OpenStream = (row) => openedStream(seal, row, report);
  const learning = async <T extends { readonly now: Millis } | undefined>(
    request: () => Promise<T>,
  ): Promise<T> => {
    const requestedMs = clock.elapsedMs();
    const result = await request();
    if (result !== undefined) time.learn(result.now, requestedMs, clock.elapsedMs());
    return result;
  };
  return {
    join: async (nodeId, leaseMs) => {
      const { node, adoption } = await learning(() =>
        db.transact('durable', async (tx) => ({
          adoption: await identity.adopt(tx, nodeId),
          ...(await join(tx, seal, nodeId, leaseMs)),
        })),
      );
      identity.adopted(adoption);
      const { replaced } = adoption;
      return { ...node, ...(replaced && { replaced }) };
    },
    heartbeat: async (node, leaseMs) => {
      const sign = { leaseMs, skewMs: time.skewMs() };
      const beat = await learning(() =>
        identity.compared((known) => heartbeat(db, known, node, sign)),
      );
      if (beat === undefined) return (await isKnown(db, node)) ? undefined : 'removed';
      counted(beat.living);
      return { lapsed: beat.lapsed, share: beat.share, changed: beat.changed };
    },
    claim: (node, request) =>
      identity.transact(db, 'durable', (tx) => claim(tx, open, node, request)),
    owned: (node, streams, rule) =>
      identity.transact(db, 'durable', (tx) => owned(tx, open, { node, refs: streams, rule })),
    hasSeen: (ref) => hasSeen(db, ref),
    owner: async ({ tenant, stream }) => {
      const row = await db.get<{ id: string }>`
        select n.id from runs r join nodes n on n.id = r.owner
        where r.tenant = ${tenant} and r.stream = ${stream}
          and n.lease_until > clock_timestamp()`;
      return row?.id;
    },
    raiseCursors: (cursors) =>
      identity.transact(db, 'relaxed', async (tx) =>
        raiseCursors(tx, await lockRuns(tx, cursors), cursors),
      ),
    release: async (node, cursors) => {
      await identity.transact(db, 'durable', (tx) => release(tx, node, cursors));
      hint({ kind: 'free' });
    },
    leave: async (node) => {
      await identity.transact(db, 'durable', (tx) => leave(tx, node));
      hint({ kind: 'free' });
    },
    nodes: () => nodes(db),
  };
}

async function join(
  tx: Queries,
  seal: Seal,
  id: string,
  leaseMs: number,
): Promise<{ readonly node: Node; readonly now: Millis }> {
  const row = await tx.get<{ incarnation: number; now: Millis }>`
    insert into nodes as n (id, incarnation, lease_until, lease_ms, secret_keys, schema_version)
    values (${id}, 1, clock_timestamp() + ${leaseMs} * interval '1 ms', ${leaseMs},
      ${seal.keys.ids().join(',')}, ${ownVersion()})
    on conflict (id) do update set incarnation = n.incarnation + 1, last_batch = 0, last_claim = 0,
      lease_until = excluded.lease_until, lease_ms = excluded.lease_ms, skew_ms = 0, freed = false,
      secret_keys = excluded.secret_keys, schema_version = excluded.schema_version
    returning incarnation, leat_now() as now`;
  if (row === undefined) throw new Error('An insert that returns a row returned none.');
  // Under a lock: a rotation that begins now either sees this node and its keys, or is seen here.
  const keyCheck = await tx.get<KeyCheckRow>`select sealed from key_check for share`;
  seal.follow(currentKeyCheck(seal, keyCheck));
  await tx.run`update runs set owner = null where owner = ${id}`;
  return { node: { id, incarnation: row.incarnation }, now: row.now };
}

interface Beat extends Heartbeat {
  readonly living: number;
  readonly now: Millis;
}

/**
 * A node whose clock is wrong leaves the streams to nodes whose clocks are right, if there are any:
 * signatures and certificates use the clock of the node that sends. One round trip: the commit is sent
 * along with the statement.
 */
async function heartbeat(
  db: Database,
  known: KnownStore,
  node: Node,
  { leaseMs, skewMs }: { readonly leaseMs: number; readonly skewMs: number },
): Promise<Beat | undefined> {
  const { rows } = await db.transact('relaxed', async (tx) => {
    const sent = tx.all<BeatRow & StreamRef>`
      select * from leat_heartbeat(${known.generation}, ${known.identity}, ${known.flushed},
        ${node.id}, ${node.incarnation}, ${leaseMs}, ${skewMs}, ${skewMaxMs})`;
    withCommit(sent);
    return { rows: sent };
  });
  const [first, ...changed] = await rows;
  if (first === undefined) throw new Error('A function that returns a row returned none.');
  known.seen(first.flushed);
  const { now, lapsed, living, in_time: right, wanted } = first;
  if (now === null || lapsed === null) return undefined;
  const sharers = right === 0 ? living : right;
  const fairShare = living > 1 ? Math.ceil((wanted ?? 0) / sharers) : Infinity;
  const share = right > 0 && isSkewed(skewMs) ? 0 : fairShare;
  const streams = changed.map(({ tenant, stream }) => ({ tenant, stream }));
  return { lapsed, share, changed: streams, living, now };
}

interface BeatRow {
  readonly flushed: number | null;
  /** Null when the node was not renewed. */
  readonly now: Millis | null;
  readonly lapsed: boolean | null;
  readonly living: number;
  readonly in_time: number;
  /** Streams that need an owner; null while the node is alone. */
  readonly wanted: number | null;
}

/** Returns whether a process has joined under the name of the node, and is not forgotten. */
async function isKnown(db: Queries, { id }: Node): Promise<boolean> {
  return (await db.get`select 1 from nodes where id = ${id}`) !== undefined;
}

interface NodeRow {
  readonly last_claim: number;
  readonly alive: boolean;
  readonly now: Millis;
}

/** Returns `undefined` for a stream whose secrets do not open. */
type OpenStream = (row: StreamRow) => Stream | undefined;

async function claim(
  tx: Queries,
  open: OpenStream,
  node: Node,
  request: ClaimRequest,
): Promise<OwnedStream[]> {
  const self = await tx.get<NodeRow>`
    select last_claim, lease_until > clock_timestamp() as alive, leat_now() as now from nodes
    where id = ${node.id} and incarnation = ${node.incarnation} for no key update`;
  if (self === undefined) return [];
  if (request.claim <= self.last_claim) {
    const before = await tx.all<StreamRef>`
      select tenant, stream from runs where owner = ${node.id} and claim = ${request.claim}`;
    return ownedStreams(tx, open, { node, refs: before, rule: request });
  }
  if (!self.alive) return [];
  await tx.run`update nodes set last_claim = ${request.claim} where id = ${node.id}`;
  await freeExpiredNodes(tx);
  const free = await takeFree(tx, node, request);
  await begin(tx, await lockRuns(tx, free), self.now);
  return ownedStreams(tx, open, { node, refs: free, rule: request });
}

/**
 * Frees the streams of nodes without a lease; done once for each lease that has ended. A lease with
 * more time left than its length was written while the server's clock was ahead, and starts now.
 */
async function freeExpiredNodes(tx: Queries): Promise<void> {
  await tx.run`
    update nodes set lease_until = clock_timestamp() + lease_ms * interval '1 ms'
    where lease_until > clock_timestamp() + (lease_ms + ${skewMaxMs}) * interval '1 ms'`;
  const dead = await tx.all<{ id: string }>`
    update nodes set freed = true where id in (
      select id from nodes where not freed and lease_until <= clock_timestamp()
      order by id for no key update skip locked)
    returning id`;
  if (dead.length > 0) {
    await tx.run`update runs set owner = null where owner = any(${dead.map(({ id }) => id)}::text[])`;
  }
  await tx.run`delete from nodes where freed and lease_until < clock_timestamp() - interval '1 day'`;
}

/** Skips rows that others are taking now. In the order of tenant and id. */
async function takeFree(tx: Queries, node: Node, request: ClaimRequest): Promise<StreamRef[]> {
  const { among } = request;
  const taken =
    among !== undefined && 'tenants' in among
      ? await takeOfTenants(tx, node, request, among.tenants)
      : await takeInOrder(tx, node, request, among);
  return taken.toSorted(
    (one, other) => one.tenant - other.tenant || (one.stream < other.stream ? -1 : 1),
  );
}

function takeInOrder(
  tx: Queries,
  node: Node,
  { claim: number, take }: ClaimRequest,
  { after, behind = false }: { after?: StreamRef | undefined; behind?: boolean } = {},
): Promise<StreamRef[]> {
  const { tenant, stream } = after ?? { tenant: 0, stream: '' };
  return tx.all<StreamRef>`
    with free as (
      select r.tenant, r.stream
      from runs r join streams s on s.tenant = r.tenant and s.id = r.stream
      where r.owner is null and (r.tenant, r.stream) > (${tenant}::int, ${stream}::text collate "C")
        -- A merge join begins both sides there.
        and (s.tenant, s.id) > (${tenant}::int, ${stream}::text collate "C")
        and (not ${behind}::boolean
          or r.cursor < (select head from tenants where id = r.tenant))
        and (s.status = 'enabled' or exists (
          select 1 from deliveries d
          where d.tenant = r.tenant and d.stream = r.stream and d.due_at is not null
            and d.kind <> 'replay'))
      order by r.tenant, r.stream limit ${take} for no key update of r skip locked
    )
    update runs r set owner = ${node.id}, epoch = r.epoch + 1, claim = ${number}, unseen = false
    from free where r.tenant = free.tenant and r.stream = free.stream
    returning r.tenant, r.stream`;
}

function takeOfTenants(
  tx: Queries,
  node: Node,
  { claim: number, take }: ClaimRequest,
  tenants: readonly number[],
): Promise<StreamRef[]> {
  return tx.all<StreamRef>`
    with free as (
      select r.tenant, r.stream
      from runs r join streams s on s.tenant = r.tenant and s.id = r.stream
      where r.owner is null and r.tenant = any(${numbers(tenants)}::int[])
        and (s.status = 'enabled' or exists (
          select 1 from deliveries d
          where d.tenant = r.tenant and d.stream = r.stream and d.due_at is not null
            and d.kind <> 'replay'))
      order by r.tenant, r.stream limit ${take} for no key update of r skip locked
    )
    update runs r set owner = ${node.id}, epoch = r.epoch + 1, claim = ${number}, unseen = false
    from free where r.tenant = free.tenant and r.stream = free.stream
    returning r.tenant, r.stream`;
}

/** The attempts that parked these rows ended with the former owner. */
async function begin(tx: Queries, runs: ReadonlyMap<string, Run>, now: Millis): Promise<void> {
  if (runs.size === 0) return;
  const claimed = [...runs.values()];
  for (const run of claimed.filter(({ status }) => status === 'disabled')) {
    const health = await runCommand(tx, failWaiting(runSteps, run, 'parked', now));
    await writeRuns(tx, [{ ...run, health }]);
  }
  await tx.run`
    update deliveries set due_at = ${now}
    where state = 'parked' and due_at is not null and (tenant, stream) in (select * from unnest(
      ${numbers(claimed.map(({ tenant }) => tenant))}::int[],
      ${claimed.map(({ stream }) => stream)}::text[]))`;
}

/**
 * Marks first and then reads: a change that commits between the two is read, and still counts as
 * unseen.
 */
async function owned(tx: Queries, open: OpenStream, request: OwnedAsk): Promise<OwnedStream[]> {
  const { node, refs } = request;
  if (!(await isPresent(tx, node))) return [];
  await tx.run`
    update runs set unseen = false
    where unseen and owner = ${node.id} and (tenant, stream) in (select * from unnest(
      ${numbers(refs.map(({ tenant }) => tenant))}::int[],
      ${refs.map(({ stream }) => stream)}::text[]))`;
  return ownedStreams(tx, open, request);
}

interface OwnedAsk {
  readonly node: Node;
  readonly refs: readonly StreamRef[];
  readonly rule: WaitRule;
}

interface OwnedRow extends StreamRow {
  readonly tenant_name: string;
  readonly epoch: number;
  readonly run: number;
  readonly cursor: Offset;
  readonly waiting: number;
  readonly replays: number;
  readonly consecutive_failures: number;
  readonly total_failures: number;
  readonly next_due_at: Millis | null;
  readonly last_due_at: Millis | null;
  readonly now: Millis;
  readonly above: string[] | null;
  /** JSON of offsets. */
  readonly settled_above: string | null;
  readonly keys: readonly KeyRow[] | null;
  readonly replay: string | null;
}

/** Returns the current state of those streams that the node owns, in the order of the request. */
async function ownedStreams(
  tx: Queries,
  open: OpenStream,
  { node, refs, rule }: OwnedAsk,
): Promise<OwnedStream[]> {
  if (refs.length === 0) return [];
  const rows = await tx.all<OwnedRow>`
    select s.tenant, s.id, s.name, s.status, s.subscriptions, s.destination, s.delivery,
      s.signing_secrets, s.paused_at, s.pause_reason, s.version, s.created_at, s.updated_at, t.name as tenant_name, r.epoch, r.run, r.cursor,
      r.consecutive_failures, r.total_failures, d.waiting, d.replays, d.next_due_at, d.last_due_at, leat_now() as now, d.above,
      r.settled_above, k.keys, (
        select id from replays p
        where p.tenant = r.tenant and p.stream = r.stream and p.status = 'running') as replay
    from unnest(${numbers(refs.map(({ tenant }) => tenant))}::int[],
      ${refs.map(({ stream }) => stream)}::text[]) with ordinality as requested(tenant, stream, n)
    join runs r on r.tenant = requested.tenant and r.stream = requested.stream
    join streams s on s.tenant = r.tenant and s.id = r.stream
    join tenants t on t.id = r.tenant
    cross join lateral (
      select count(*) filter (where due_at is not null and kind in ('first', 'test')) as waiting,
        count(*) filter (where due_at is not null and kind = 'replay') as replays,
        min(due_at) filter (where case
          when s.status <> 'enabled' then kind <> 'replay'
          else s.paused_at is null or kind in ('redelivery', 'test') end) as next_due_at,
        max(due_at) filter (where case
          when s.status <> 'enabled' then kind <> 'replay'
          else s.paused_at is null or kind in ('redelivery', 'test') end) as last_due_at,
        array_agg("offset" order by "offset") filter (where "offset" > r.cursor) as above
      from deliveries where tenant = r.tenant and stream = r.stream
    ) as d
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
    return {
      stream,
      tenantName: row.tenant_name,
      epoch: row.epoch,
      run: row.run,
      cursor: row.cursor,
      waiting: row.waiting,
      waitingReplays: row.replays,
      health: { consecutive: row.consecutive_failures, total: row.total_failures },
      nextDueInMs: nextDueInMs(
        [row.next_due_at, row.last_due_at],
        row.now,
        waitRuleOf(stream, rule),
      ),
      replay: row.replay ?? undefined,
      takenAbove: takenAbove(row),
      keys: keyRowsOf(stream, row.keys ?? []),
    };
  });
}

function takenAbove({ above, settled_above: settled, cursor }: OwnedRow): Offset[] {
  const withRow = (above ?? []).map(Number);
  if (settled === null) return withRow;
  const offsets = (JSON.parse(settled) as Offset[]).filter((offset) => offset > cursor);
  return [...new Set([...withRow, ...offsets])].toSorted((one, other) => one - other);
}

async function hasSeen(db: Queries, { tenant, stream }: StreamRef): Promise<boolean> {
  const unseen = await db.get`
    select 1 from runs r join nodes n on n.id = r.owner
    where r.tenant = ${tenant} and r.stream = ${stream} and r.unseen
      and n.lease_until > clock_timestamp()`;
  return unseen === undefined;
}

async function release(tx: Queries, node: Node, last: readonly CursorRaise[]): Promise<void> {
  if (!(await isPresent(tx, node))) return;
  const runs = await lockRuns(tx, last);
  await raiseCursors(tx, runs, last);
  await tx.run`
    update runs r set owner = null
    from unnest(${numbers(last.map(({ tenant }) => tenant))}::int[],
      ${last.map(({ stream }) => stream)}::text[], ${numbers(last.map(({ epoch }) => epoch))}::int[])
      as u(tenant, stream, epoch)
    where r.tenant = u.tenant and r.stream = u.stream and r.epoch = u.epoch
      and r.owner = ${node.id}`;
}

async function leave(tx: Queries, node: Node): Promise<void> {
  const left = await tx.run`
    update nodes set lease_until = clock_timestamp(), freed = true
    where id = ${node.id} and incarnation = ${node.incarnation}`;
  if (left > 0) await tx.run`update runs set owner = null where owner = ${node.id}`;
}
