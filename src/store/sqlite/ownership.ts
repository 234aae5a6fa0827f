import type { Millis } from '../../core/clock.ts';
import type { Offset, Stream } from '../../core/types.ts';
import type { Seal } from '../seal.ts';
import type { CursorRaise, Node, OwnedStream, OwnershipStore, StreamRef } from '../port.ts';
import type { Database } from './database.ts';
import { failWaiting } from './disabling.ts';
import { isPresent, readRun, writeRun, type Run } from './runs.ts';
import { readStream } from './streams.ts';

/**
 * Who works for which stream. Differs from an engine that several processes share: there is no
 * lease. The file belongs to one process, so a node that is gone is a process that is gone, and
 * {@link voidOwnership} frees its streams; within one process a node ends by `release`, or by
 * joining anew.
 */
export function createOwnershipStore(deps: {
  readonly db: Database;
  readonly seal: Seal;
}): OwnershipStore {
  const { db } = deps;
  return {
    join: async (nodeId) => db.transact('relaxed', () => join(db, nodeId)),
    claim: async (node, take, now) => db.transact('relaxed', () => claim(deps, node, take, now)),
    owned: async (node, streams) => {
      if (!isPresent(db, node)) return [];
      return streams.flatMap((ref) => ownedNow(deps, node, ref) ?? []);
    },
    raiseCursors: async (cursors) =>
      db.transact('relaxed', () => cursors.forEach((cursor) => raise(db, cursor))),
    release: async (node, cursors) =>
      db.transact('relaxed', () => {
        if (isPresent(db, node)) cursors.forEach((cursor) => release(db, node, cursor));
      }),
  };
}

/** Frees every stream: for a process that has just become the only one on its file. */
export function voidOwnership(db: Database): void {
  db.transact('relaxed', () => db.run`update runs set owner = null where owner is not null`);
}

function join(db: Database, id: string): Node {
  db.run`update runs set owner = null where owner = ${id}`;
  const row = db.get<{ incarnation: number }>`
    insert into nodes (id, incarnation, last_batch) values (${id}, 1, 0)
    on conflict do update set incarnation = incarnation + 1, last_batch = 0
    returning incarnation`;
  if (row === undefined) throw new Error('An insert that returns a row returned none.');
  return { id, incarnation: row.incarnation };
}

type Deps = Parameters<typeof createOwnershipStore>[0];

function claim(deps: Deps, node: Node, take: number, now: Millis): OwnedStream[] {
  if (!isPresent(deps.db, node)) return [];
  const free = deps.db.all<StreamRef>`
    select runs.tenant, runs.stream
    from runs join streams on streams.tenant = runs.tenant and streams.id = runs.stream
    where runs.owner is null and (
      streams.status = 'enabled' or exists (
        select 1 from deliveries d
        where d.tenant = runs.tenant and d.stream = runs.stream and d.due_at is not null))
    order by runs.tenant, runs.stream limit ${take}`;
  return free.flatMap((ref) => claimOne(deps, node, ref, now) ?? []);
}

function claimOne(
  deps: Deps,
  node: Node,
  { tenant, stream }: StreamRef,
  now: Millis,
): OwnedStream | undefined {
  const { db } = deps;
  const run = readRun(db, tenant, stream);
  if (run === undefined) return undefined;
  db.run`update runs set owner = ${node.id}, epoch = epoch + 1 where key = ${run.key}`;
  if (run.status === 'disabled') {
    writeRun(db, { ...run, health: failWaiting(db, run, 'parked', now) });
  }
  // The attempts that parked these rows ended with their owner.
  db.run`
    update deliveries set due_at = ${now}
    where tenant = ${tenant} and stream = ${stream} and state = 'parked' and due_at is not null`;
  return ownedNow(deps, node, { tenant, stream });
}

function ownedNow(deps: Deps, node: Node, ref: StreamRef): OwnedStream | undefined {
  const run = readRun(deps.db, ref.tenant, ref.stream);
  const stream = readStream(deps, ref.tenant, ref.stream);
  if (run?.owner !== node.id || stream === undefined) return undefined;
  return ownedStream(deps.db, run, stream);
}

function ownedStream(db: Database, run: Run, stream: Stream): OwnedStream {
  const { tenant, epoch, cursor } = run;
  const name = db.get<{ name: string }>`select name from tenants where id = ${tenant}`;
  const due = db.get<{ waiting: number; next_due_at: Millis | null }>`
    select count(*) filter (where kind <> 'redelivery') as waiting, min(due_at) as next_due_at
    from deliveries
    where tenant = ${tenant} and stream = ${run.stream} and due_at is not null`;
  const above = db.all<{ offset: Offset }>`
    select offset from deliveries
    where tenant = ${tenant} and stream = ${run.stream} and offset > ${cursor} order by offset`;
  return {
    stream,
    tenantName: name?.name ?? '',
    epoch,
    run: run.run,
    cursor,
    waiting: due?.waiting ?? 0,
    nextDueAt: due?.next_due_at ?? undefined,
    rowsAbove: above.map((row) => row.offset),
  };
}

function raise(db: Database, { tenant, stream, epoch, run, cursor }: CursorRaise): void {
  db.run`
    update runs set cursor = ${cursor}
    where tenant = ${tenant} and stream = ${stream} and epoch = ${epoch} and run = ${run}
      and owner is not null and cursor < ${cursor}`;
}

function release(db: Database, node: Node, last: CursorRaise): void {
  raise(db, last);
  db.run`
    update runs set owner = null
    where tenant = ${last.tenant} and stream = ${last.stream} and owner = ${node.id}
      and epoch = ${last.epoch}`;
}
