import type { Clock, Millis } from '../../core/clock.ts';
import type { Offset, Stream, Node, StreamRef } from '../../core/types.ts';
import { nextDueInMs } from '../rules/due.ts';
import { type KeyRow, keyRowsOf } from '../rules/order.ts';
import { type StoreTime, type WaitRule, waitRuleOf } from '../port/time.ts';
import type { Seal } from '../seal.ts';
import { failWaiting } from '../directory/disabling.ts';
import { noteRefusal } from '../directory/refused-results.ts';
import { readStream } from '../directory/streams.ts';
import { keepTaken, takenByOthers, yieldedRaise } from '../directory/taken-events.ts';
import type {
  ClaimRequest,
  KnownStream,
  CursorRaise,
  Heartbeat,
  NodeState,
  OwnedStream,
  OwnershipStore,
} from '../port/ownership.ts';
import { type DueKind, sendingOf, waitingOf } from '../rules/pause.ts';
import type { Run } from '../rows/runs.ts';
import { openedStream, type StreamRow } from '../rows/streams.ts';
import { run as runCommand } from './commands.ts';
import type { Database } from './database.ts';
import { createRunSteps, historySteps } from './run-steps.ts';
import { isPresent, raiseCursor, readRun, writeRun } from './runs.ts';

/**
 * Tracks which node owns which stream. Written apart from PostgreSQL because the file belongs to
 * one process: leases are measured by its monotonic clock and are void at its end, see {@link
 * voidOwnership}.
 */
export function createOwnershipStore(deps: {
  readonly db: Database;
  readonly seal: Seal;
  readonly clock: Pick<Clock, 'elapsedMs'>;
  readonly time: StoreTime;
  /** Receives the error of a stream whose secrets do not open. */
  readonly report: (error: unknown) => void;
  /** Lets seals be bound to their place, if they are not yet; called in a transaction. */
  readonly bindSeals: () => void;
}): OwnershipStore {
  const { db } = deps;
  const runs = createRunSteps(deps.time);
  return {
    join: async (nodeId, leaseMs) => db.transact('relaxed', () => join(deps, nodeId, leaseMs)),
    heartbeat: async (node, leaseMs) =>
      db.transact('relaxed', () => heartbeat(deps, node, leaseMs)),
    claim: async (node, request) =>
      db.transact('relaxed', () => claim(deps, node, request, deps.time.now())),
    begin: async (node, streams, rule) =>
      db.transact('relaxed', () =>
        isPresent(db, node)
          ? streams.flatMap((ref) => beginTaken(deps, node, ref, rule) ?? [])
          : [],
      ),
    owned: async (node, streams, rule) => {
      if (!isPresent(db, node)) return [];
      const read = (): OwnedStream[] =>
        streams.flatMap((ref) => ownedNow(deps, node, ref, rule) ?? []);
      const found = read();
      see(db, node, found);
      const others = takenByOthers(found, streams);
      if (others.length === 0) return found;
      db.transact('relaxed', () => {
        for (const one of others) runCommand(db, keepTaken(runs, one, one.taken));
      });
      return read();
    },
    hasSeen: async (ref) => hasSeen(deps, ref),
    owner: async (ref) => owner(deps, ref),
    raiseCursors: async (cursors) =>
      db.transact('relaxed', () => cursors.map((cursor) => raiseCursor(db, cursor))),
    release: async (node, cursors) =>
      db.transact('relaxed', () => {
        if (isPresent(db, node)) cursors.forEach((cursor) => release(deps, node, cursor));
      }),
    noteRefusal: async (node, ref, code) =>
      db.transact('relaxed', () => runCommand(db, noteRefusal(node, ref, code))),
    leave: async (node) =>
      db.transact('relaxed', () => {
        if (isPresent(db, node)) freeStreamsOf(db, node.id);
      }),
    nodes: async () => nodes(deps),
  };
}

function owner({ db, clock }: Deps, { tenant, stream }: StreamRef): string | undefined {
  const row = db.get<{ id: string }>`
    select n.id from runs r join nodes n on n.id = r.owner
    where r.tenant = ${tenant} and r.stream = ${stream} and n.lease_until > ${clock.elapsedMs()}`;
  return row?.id;
}

/** Frees every stream, for a process that has just become the only one on its file. */
export function voidOwnership(db: Database): void {
  db.transact('relaxed', () => {
    db.run`update runs set owner = null where owner is not null`;
    db.run`update nodes set lease_until = 0`;
  });
}

type Deps = Parameters<typeof createOwnershipStore>[0];

function join({ db, clock, bindSeals }: Deps, id: string, leaseMs: number): Node {
  bindSeals();
  db.run`update runs set owner = null where owner = ${id}`;
  const leaseUntil = clock.elapsedMs() + leaseMs;
  const row = db.get<{ incarnation: number }>`
    insert into nodes (id, incarnation, last_batch, lease_until) values (${id}, 1, 0, ${leaseUntil})
    on conflict do update set incarnation = incarnation + 1, last_batch = 0, last_claim = 0,
      lease_until = excluded.lease_until
    returning incarnation`;
  if (row === undefined) throw new Error('An insert that returns a row returned none.');
  return { id, incarnation: row.incarnation };
}

function heartbeat({ db, clock }: Deps, node: Node, leaseMs: number): Heartbeat | undefined {
  const nowMs = clock.elapsedMs();
  const before = db.get<{ lease_until: number }>`
    select lease_until from nodes where id = ${node.id} and incarnation = ${node.incarnation}`;
  if (before === undefined) return undefined;
  db.run`update nodes set lease_until = ${nowMs + leaseMs} where id = ${node.id}`;
  const row = db.get<{ living: number }>`
    select count(*) as living from nodes where lease_until > ${nowMs}`;
  const living = row?.living ?? 1;
  const share = living > 1 ? Math.ceil(countWanted(db) / living) : Infinity;
  return { lapsed: before.lease_until <= nowMs, share, changed: unseenBy(db, node) };
}

/**
 * Returns the node's streams that were changed and not read since: usually none, found by an index.
 */
function unseenBy(db: Database, node: Node): StreamRef[] {
  const rows = db.all<StreamRef>`
    select tenant, stream from runs where owner = ${node.id} and unseen = 1`;
  // Rows have no prototype; the store returns plain objects.
  return rows.map(({ tenant, stream }) => ({ tenant, stream }));
}

/** Counts the streams that need an owner. */
function countWanted(db: Database): number {
  const row = db.get<{ wanted: number }>`
    select count(*) as wanted from streams
    where status = 'enabled' or exists (
      select 1 from deliveries d indexed by deliveries_due
      where d.tenant = streams.tenant and d.stream = streams.id and d.due_at is not null
        and d.kind <> 'replay')`;
  return row?.wanted ?? 0;
}

function claim(deps: Deps, node: Node, request: ClaimRequest, now: Millis): OwnedStream[] {
  const { db, clock } = deps;
  const nowMs = clock.elapsedMs();
  const self = db.get<{ incarnation: number; last_claim: number; lease_until: number }>`
    select incarnation, last_claim, lease_until from nodes where id = ${node.id}`;
  if (self?.incarnation !== node.incarnation) return [];
  if (request.claim <= self.last_claim) return claimedBefore(deps, node, request);
  if (self.lease_until <= nowMs) return [];
  db.run`update nodes set last_claim = ${request.claim} where id = ${node.id}`;
  freeExpiredNodes(db, nowMs);
  const free = freeStreams(db, request);
  return free.flatMap((ref) => claimOne(deps, node, request, ref, now) ?? []);
}

/** Reads the streams that need an owner, in the order of tenant and id. */
function freeStreams(db: Database, { take, among }: ClaimRequest): StreamRef[] {
  if (among !== undefined && 'tenants' in among) {
    return db.all<StreamRef>`
      select runs.tenant, runs.stream
      from runs join streams on streams.tenant = runs.tenant and streams.id = runs.stream
      where runs.owner is null and runs.tenant in (select value from json_each(${JSON.stringify(among.tenants)}))
        and (streams.status = 'enabled' or exists (
          select 1 from deliveries d indexed by deliveries_due
          where d.tenant = runs.tenant and d.stream = runs.stream and d.due_at is not null
            and d.kind <> 'replay'))
      order by runs.tenant, runs.stream limit ${take}`;
  }
  const { tenant, stream } = among?.after ?? { tenant: 0, stream: '' };
  return db.all<StreamRef>`
    select runs.tenant, runs.stream
    from runs join streams on streams.tenant = runs.tenant and streams.id = runs.stream
    where runs.owner is null and (runs.tenant, runs.stream) > (${tenant}, ${stream})
      and (${among?.behind !== true}
        or runs.cursor < (select head from tenants where id = runs.tenant))
      and (streams.status = 'enabled' or exists (
        select 1 from deliveries d indexed by deliveries_due
        where d.tenant = runs.tenant and d.stream = runs.stream and d.due_at is not null
          and d.kind <> 'replay'))
    order by runs.tenant, runs.stream limit ${take}`;
}

/** Frees the streams of nodes without a lease; done once for each lease that has ended. */
function freeExpiredNodes(db: Database, nowMs: number): void {
  const dead = db.all<{ id: string }>`
    select id from nodes where lease_until > 0 and lease_until <= ${nowMs}`;
  for (const { id } of dead) freeStreamsOf(db, id);
}

function freeStreamsOf(db: Database, id: string): void {
  db.run`update nodes set lease_until = 0 where id = ${id}`;
  db.run`update runs set owner = null where owner = ${id}`;
}

function claimedBefore(deps: Deps, node: Node, request: ClaimRequest): OwnedStream[] {
  const refs = deps.db.all<StreamRef>`
    select tenant, stream from runs where owner = ${node.id} and claim = ${request.claim}
    order by tenant, stream`;
  return refs.flatMap((ref) => ownedNow(deps, node, ref, request) ?? []);
}

function claimOne(
  deps: Deps,
  node: Node,
  request: ClaimRequest,
  { tenant, stream }: StreamRef,
  now: Millis,
): OwnedStream | undefined {
  const { db } = deps;
  const run = readRun(db, tenant, stream);
  if (run === undefined) return undefined;
  db.run`
    update runs set owner = ${node.id}, epoch = epoch + 1, claim = ${request.claim}, unseen = 0
    where key = ${run.key}`;
  if (request.takesOnly !== true) begin(db, run, now);
  return ownedNow(deps, node, { tenant, stream }, request);
}

/** Begins a stream that a claim has only taken. */
function beginTaken(
  deps: Deps,
  node: Node,
  ref: StreamRef,
  rule: WaitRule,
): OwnedStream | undefined {
  const run = readRun(deps.db, ref.tenant, ref.stream);
  if (run?.owner !== node.id) return undefined;
  begin(deps.db, run, deps.time.now());
  return ownedNow(deps, node, ref, rule);
}

/** The attempts that parked these rows ended with the former owner. */
function begin(db: Database, run: Run, now: Millis): void {
  const { tenant, stream } = run;
  if (run.status === 'disabled') {
    const health = runCommand(db, failWaiting(historySteps, run, 'parked', now));
    writeRun(db, { ...run, health });
  }
  db.run`
    update deliveries indexed by deliveries_due set due_at = ${now}
    where tenant = ${tenant} and stream = ${stream} and state = 'parked' and due_at is not null`;
}

/** The owner starts no work for the stream before it has this result. */
function see(db: Database, node: Node, read: readonly OwnedStream[]): void {
  const unseen = unseenBy(db, node).filter(({ tenant, stream }) =>
    read.some((owned) => owned.stream.tenant === tenant && owned.stream.id === stream),
  );
  if (unseen.length === 0) return;
  db.transact('relaxed', () => {
    for (const { tenant, stream } of unseen) {
      db.run`update runs set unseen = 0 where tenant = ${tenant} and stream = ${stream}`;
    }
  });
}

function hasSeen({ db, clock }: Deps, { tenant, stream }: StreamRef): boolean {
  const unseen = db.get`
    select 1 from runs join nodes on nodes.id = runs.owner
    where runs.tenant = ${tenant} and runs.stream = ${stream} and runs.unseen = 1
      and nodes.lease_until > ${clock.elapsedMs()}`;
  return unseen === undefined;
}

function ownedNow(deps: Deps, node: Node, ref: StreamRef, rule: WaitRule): OwnedStream | undefined {
  const { db, seal, report } = deps;
  const { tenant, stream: id } = ref;
  const run = readRun(db, tenant, id);
  const open = (row: StreamRow): Stream | undefined => openedStream(seal, row, report);
  const stream = runCommand(db, readStream(tenant, id, open));
  if (run?.owner !== node.id || stream === undefined) return undefined;
  return ownedStream(deps, run, stream, rule);
}

function ownedStream({ db, time }: Deps, run: Run, stream: Stream, rule: WaitRule): OwnedStream {
  const { tenant, epoch, cursor } = run;
  const name = db.get<{ name: string }>`select name from tenants where id = ${tenant}`;
  const due = db.all<DueKind>`
    select kind, count(*) as count, min(due_at) as first_due_at, max(due_at) as last_due_at
    from deliveries indexed by deliveries_due
    where tenant = ${tenant} and stream = ${run.stream} and due_at is not null
    group by kind`;
  const { waiting, replays, dueAts } = waitingOf(due, sendingOf(run));
  const above = db.all<{ offset: Offset }>`
    select offset from deliveries
    where tenant = ${tenant} and stream = ${run.stream} and offset > ${cursor}
    union select value from runs join json_each(runs.settled_above)
    where runs.key = ${run.key} and value > ${cursor}
    order by offset`;
  const keys = db.all<KeyRow>`
    select order_key as key, count(*) filter (where state = 'blocked') as blocked,
      count(*) filter (where kind = 'first' and due_at is not null) as held,
      count(*) filter (where failed_at is not null) as failed
    from deliveries
    where tenant = ${tenant} and stream = ${run.stream} and order_key is not null
    group by order_key`;
  const replay = db.get<{ id: string }>`
    select id from replays
    where tenant = ${tenant} and stream = ${run.stream} and status = 'running'`;
  const refused = db.get`select 1 from runs where key = ${run.key} and refused_at is not null`;
  return {
    stream,
    tenantName: name?.name ?? '',
    epoch,
    run: run.run,
    cursor,
    waiting,
    waitingReplays: replays,
    health: run.health,
    nextDueInMs: nextDueInMs(dueAts, time.now(), waitRuleOf(stream, rule)),
    replay: replay?.id,
    takenAbove: above.map((row) => row.offset),
    keys: keyRowsOf(stream, keys),
    isRefused: refused !== undefined,
  };
}

function release(
  { db, time }: Deps,
  node: Node,
  { taken, ...last }: CursorRaise & KnownStream,
): void {
  const raise =
    taken === undefined
      ? last
      : yieldedRaise(last, taken, runCommand(db, keepTaken(createRunSteps(time), last, taken)));
  raiseCursor(db, raise);
  db.run`
    update runs set owner = null
    where tenant = ${last.tenant} and stream = ${last.stream} and owner = ${node.id}
      and epoch = ${last.epoch}`;
}

function nodes({ db, clock, time }: Deps): NodeState[] {
  const nowMs = clock.elapsedMs();
  const skewMs = time.skewMs();
  const rows = db.all<{ id: string; lease_until: number; streams: number }>`
    select id, lease_until, (select count(*) from runs where owner = nodes.id) as streams
    from nodes where lease_until > ${nowMs} or exists (select 1 from runs where owner = nodes.id)
    order by id`;
  return rows.map(({ id, lease_until: leaseUntil, streams }) => ({
    id,
    streams,
    leaseMs: Math.max(0, Math.round(leaseUntil - nowMs)),
    skewMs,
  }));
}
