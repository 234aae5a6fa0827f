import type { Clock, Millis } from '../../core/clock.ts';
import { StoreUnavailable } from '../../core/errors.ts';
import type { Node, StreamRef } from '../../core/types.ts';
import { noteRefusal } from '../directory/refused-results.ts';
import { currentKeyCheck, type KeyCheckRow } from '../key-check.ts';
import type { Hint } from '../port/hints.ts';
import { streamKeyOf } from '../../core/stream-key.ts';
import { keepTaken, takenByOthers, yieldedRaise } from '../directory/taken-events.ts';
import type {
  CursorRaise,
  Heartbeat,
  KnownStream,
  OwnedStream,
  OwnershipStore,
} from '../port/ownership.ts';
import { isSkewed, skewMaxMs } from '../port/time.ts';
import { openedStream } from '../rows/streams.ts';
import type { Seal } from '../seal.ts';
import { beginTaken, claim } from './claims.ts';
import { run } from './commands.ts';
import { runSteps } from './run-steps.ts';
import { numbers, type Database, type Queries, withCommit } from './database.ts';
import type { KnownStore, StoreIdentity } from './identity.ts';
import { nodes } from './nodes.ts';
import { type OpenStream, type OwnedAsk, ownedStreams } from './owned-streams.ts';
import { isPresent, lockRuns, raiseCursors } from './runs.ts';
import type { Pools } from './pools.ts';
import { ownVersion } from './schema.ts';
import type { ServerTime } from './time.ts';

export interface OwnershipDeps {
  readonly pools: Pick<Pools, 'lease' | 'delivering' | 'commands'>;
  readonly identity: StoreIdentity;
  readonly seal: Seal;
  readonly hint: (hint: Hint) => void;
  /** Receives the error of a stream whose secrets do not open, and that of a heartbeat that renewed the lease. */
  readonly report: (error: unknown) => void;
  /** Receives the number of live nodes at each heartbeat. */
  readonly counted: (living: number) => void;
  readonly clock: Pick<Clock, 'elapsedMs'>;
  /** Receives the server's time from the results of joining and heartbeats. */
  readonly time: ServerTime;
  /** Throws what must prevent a renewal of the lease. */
  readonly beforeHeartbeat: () => Promise<void>;
}

/**
 * Tracks which node owns which stream. Written apart from SQLite because nodes share the streams:
 * leases are measured by the clock of the server, and claims of several nodes skip each other's
 * rows.
 */
export function createOwnershipStore({
  pools: { lease, delivering, commands },
  identity,
  seal,
  report,
  hint,
  counted,
  clock,
  time,
  beforeHeartbeat,
}: OwnershipDeps): OwnershipStore {
  const open: OpenStream = (row) => openedStream(seal, row, report);
  const learning = async <T extends { readonly now: Millis } | undefined>(
    request: () => Promise<T>,
  ): Promise<T> => {
    const requestedMs = clock.elapsedMs();
    const result = await request();
    if (result !== undefined) time.learn(result.now, requestedMs, clock.elapsedMs());
    return result;
  };
  const withStreams = createStreamsReader(lease, report);
  return {
    join: async (nodeId, leaseMs) => {
      const { node, adoption } = await learning(() =>
        lease.transact('durable', async (tx) => ({
          adoption: await identity.adopt(tx, nodeId),
          ...(await join(tx, seal, nodeId, leaseMs)),
        })),
      );
      identity.adopted(adoption);
      return { ...node, ...(adoption.replaced && { replaced: adoption.replaced }) };
    },
    heartbeat: async (node, leaseMs) => {
      await beforeHeartbeat();
      const sign = { leaseMs, skewMs: time.skewMs() };
      const beat = await learning(() =>
        identity.compared((known) => renew(lease, known, node, sign)),
      );
      if (beat === undefined) return (await isKnown(lease, node)) ? undefined : 'removed';
      counted(beat.living);
      return withStreams(node, beat, sign.skewMs);
    },
    claim: (node, request) =>
      identity.transact(delivering, 'durable', (tx) => claim(tx, open, node, request)),
    begin: (node, refs, rule) =>
      identity.transact(delivering, 'durable', (tx) => beginTaken(tx, open, { node, refs, rule })),
    owned: (node, streams, rule) =>
      identity.transact(delivering, 'durable', (tx) =>
        owned(tx, open, { node, refs: streams, rule }),
      ),
    hasSeen: (ref) => hasSeen(commands, ref),
    owner: (ref) => owner(commands, ref),
    raiseCursors: (cursors) =>
      identity.transact(delivering, 'relaxed', async (tx) =>
        raiseCursors(tx, await lockRuns(tx, cursors), cursors),
      ),
    release: async (node, cursors) => {
      await identity.transact(delivering, 'durable', (tx) => release(tx, node, cursors));
      hint({ kind: 'free' });
    },
    noteRefusal: (node, ref, code) =>
      identity.transact(delivering, 'relaxed', (tx) => run(tx, noteRefusal(node, ref, code))),
    leave: async (node) => {
      await identity.transact(lease, 'durable', (tx) => leave(tx, node));
      hint({ kind: 'free' });
    },
    nodes: () => nodes(commands),
  };
}

async function join(
  tx: Queries,
  seal: Seal,
  id: string,
  leaseMs: number,
): Promise<{ readonly node: Node; readonly now: Millis }> {
  await lockNode(tx, id);
  const row = await tx.get<{ incarnation: number; now: Millis }>`
    insert into nodes as n (id, incarnation, lease_until, lease_ms, secret_keys, schema_version)
    values (${id}, 1, clock_timestamp() + ${leaseMs} * interval '1 ms', ${leaseMs},
      ${seal.keys.ids().join(',')}, ${ownVersion()})
    on conflict (id) do update set incarnation = n.incarnation + 1,
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

interface Beat {
  readonly now: Millis;
  readonly lapsed: boolean;
  /** Nodes with a lease, this one included. */
  readonly living: number;
  /** Those of them whose clocks are right. */
  readonly inTime: number;
}

/**
 * Renews the lease, with the tables of the nodes and of the store's identity alone: nothing that waits
 * for streams ends a lease. One round trip: the commit is sent along with the statement.
 */
async function renew(
  db: Database,
  known: KnownStore,
  node: Node,
  { leaseMs, skewMs }: { readonly leaseMs: number; readonly skewMs: number },
): Promise<Beat | undefined> {
  const { rows } = await db.transact('relaxed', async (tx) => {
    const sent = tx.all<BeatRow>`
      with before as (
        select id, lease_until <= clock_timestamp() as has_lapsed from nodes
        where id = ${node.id} and incarnation = ${node.incarnation} for no key update),
      renewed as (
        update nodes set lease_until = clock_timestamp() + ${leaseMs} * interval '1 ms',
          lease_ms = ${leaseMs}, skew_ms = ${skewMs}, freed = false
        from before where nodes.id = before.id
        returning leat_now() as now, before.has_lapsed as lapsed),
      others as (
        select count(*) as living,
          count(*) filter (where abs(skew_ms) <= ${skewMaxMs}::bigint) as in_time
        from nodes where id <> ${node.id} and lease_until > clock_timestamp())
      select leat_compare(${known.generation}, ${known.identity}, ${known.flushed}) as flushed,
        renewed.now, renewed.lapsed, others.living, others.in_time
      from others left join renewed on true`;
    withCommit(sent);
    return { rows: sent };
  });
  const [row] = await rows;
  if (row === undefined) throw new Error('A count returned no row.');
  known.seen(row.flushed);
  const { now, lapsed, living, in_time: inTime } = row;
  if (now === null || lapsed === null) return undefined;
  return { now, lapsed, living: living + 1, inTime: inTime + (isSkewed(skewMs) ? 0 : 1) };
}

interface BeatRow {
  readonly flushed: number | null;
  /** Null when the node was not renewed. */
  readonly now: Millis | null;
  readonly lapsed: boolean | null;
  /** Of the other nodes. */
  readonly living: number;
  readonly in_time: number;
}

type StreamsReader = (node: Node, beat: Beat, skewMs: Millis) => Promise<Heartbeat>;

/** The share stays as it was while the streams cannot be read. */
function createStreamsReader(db: Database, report: (error: unknown) => void): StreamsReader {
  let share = Infinity;
  return async (node, beat, skewMs) => {
    const read = await readStreams(db, node, beat.living > 1).catch((error: unknown) => {
      // Rejecting would lose that the lease had ended: the next heartbeat finds it renewed.
      if (!(error instanceof StoreUnavailable)) report(error);
      return undefined;
    });
    if (read !== undefined) share = shareOf(beat, skewMs, read.wanted);
    return { lapsed: beat.lapsed, share, changed: read?.changed ?? [] };
  };
}

interface StreamsRead {
  readonly changed: readonly StreamRef[];
  /** Streams that need an owner; 0 while the node is alone. */
  readonly wanted: number;
}

/** Waits for a lock no longer than a second: the next heartbeat reads them again. */
function readStreams(db: Database, { id }: Node, isShared: boolean): Promise<StreamsRead> {
  return db.transact('relaxed', async (tx) => {
    await tx.run`set local lock_timeout = 1000`;
    const changed = await tx.all<StreamRef>`
      select tenant, stream from runs where owner = ${id} and unseen`;
    return { changed, wanted: isShared ? await wantedStreams(tx) : 0 };
  });
}

async function wantedStreams(tx: Queries): Promise<number> {
  const row = await tx.get<{ wanted: number }>`
    select count(*) as wanted from streams s
    where status = 'enabled' or exists (
      select 1 from deliveries d
      where d.tenant = s.tenant and d.stream = s.id and d.due_at is not null
        and d.kind <> 'replay')`;
  return row?.wanted ?? 0;
}

/**
 * A node whose clock is wrong leaves the streams to nodes whose clocks are right, if there are any:
 * signatures and certificates use the clock of the node that sends.
 */
function shareOf({ living, inTime }: Beat, skewMs: Millis, wanted: number): number {
  if (inTime > 0 && isSkewed(skewMs)) return 0;
  return living > 1 ? Math.ceil(wanted / (inTime === 0 ? living : inTime)) : Infinity;
}

/** Returns whether a process has joined under the name of the node, and is not forgotten. */
async function isKnown(db: Queries, { id }: Node): Promise<boolean> {
  return (await db.get`select 1 from nodes where id = ${id}`) !== undefined;
}

/**
 * Waits for claims of the node, and keeps later ones off until the commit: a claim must not take streams
 * that are being freed. Only this and {@link freeExpiredNodes} lock the row so that a claim notices; a
 * heartbeat neither waits for a claim nor for a settlement.
 */
async function lockNode(tx: Queries, id: string): Promise<void> {
  await tx.run`select 1 from nodes where id = ${id} for update`;
}

/**
 * Marks first and then reads: a change that commits between the two is read, and still counts as
 * unseen.
 */
async function owned(
  tx: Queries,
  open: OpenStream,
  request: OwnedAsk & { readonly refs: readonly KnownStream[] },
): Promise<OwnedStream[]> {
  const { node, refs } = request;
  if (!(await isPresent(tx, node))) return [];
  await tx.run`
    update runs set unseen = false
    where unseen and owner = ${node.id} and (tenant, stream) in (select * from unnest(
      ${numbers(refs.map(({ tenant }) => tenant))}::int[],
      ${refs.map(({ stream }) => stream)}::text[]))`;
  const found = await ownedStreams(tx, open, request);
  const others = takenByOthers(found, refs);
  if (others.length === 0) return found;
  for (const one of others) await run(tx, keepTaken(runSteps, one, one.taken));
  return ownedStreams(tx, open, request);
}

async function hasSeen(db: Queries, { tenant, stream }: StreamRef): Promise<boolean> {
  const unseen = await db.get`
    select 1 from runs r join nodes n on n.id = r.owner
    where r.tenant = ${tenant} and r.stream = ${stream} and r.unseen
      and n.lease_until > clock_timestamp()`;
  return unseen === undefined;
}

async function owner(db: Queries, { tenant, stream }: StreamRef): Promise<string | undefined> {
  const row = await db.get<{ id: string }>`
    select n.id from runs r join nodes n on n.id = r.owner
    where r.tenant = ${tenant} and r.stream = ${stream} and n.lease_until > clock_timestamp()`;
  return row?.id;
}

async function release(
  tx: Queries,
  node: Node,
  last: readonly (CursorRaise & KnownStream)[],
): Promise<void> {
  if (!(await isPresent(tx, node))) return;
  const before = await lockRuns(tx, last);
  const wasRead = ({ version, ...ref }: CursorRaise): boolean =>
    before.get(streamKeyOf(ref))?.version === version;
  const raises: CursorRaise[] = [];
  for (const { taken, ...raise } of last) {
    if (taken === undefined || wasRead(raise)) raises.push(raise);
    else raises.push(yieldedRaise(raise, taken, await run(tx, keepTaken(runSteps, raise, taken))));
  }
  await raiseCursors(tx, last.every(wasRead) ? before : await lockRuns(tx, last), raises);
  await tx.run`
    update runs r set owner = null
    from unnest(${numbers(last.map(({ tenant }) => tenant))}::int[],
      ${last.map(({ stream }) => stream)}::text[], ${numbers(last.map(({ epoch }) => epoch))}::int[])
      as u(tenant, stream, epoch)
    where r.tenant = u.tenant and r.stream = u.stream and r.epoch = u.epoch
      and r.owner = ${node.id}`;
}

async function leave(tx: Queries, node: Node): Promise<void> {
  await lockNode(tx, node.id);
  const left = await tx.run`
    update nodes set lease_until = clock_timestamp(), freed = true
    where id = ${node.id} and incarnation = ${node.incarnation}`;
  if (left > 0) await tx.run`update runs set owner = null where owner = ${node.id}`;
}
