import type { Millis } from '../../../core/clock.ts';
import { StoreEventIdInUse, StoreTenantGone, StoreUnavailable } from '../../../core/errors.ts';
import type { Appended, LogEvent, NewEvent, Offset } from '../../../core/types.ts';
import type { Hint } from '../../port/hints.ts';
import type { StoreTime } from '../../port/time.ts';
import { traced } from '../../rows/delivered-event.ts';
import { contentHash } from '../../rules/content.ts';
import type { Database } from './database.ts';
import type { WalRoom } from './wal-room.ts';
import type { SyncDone, WalSync } from './wal-sync.ts';

export interface AppendDeps {
  readonly db: Database;
  readonly time: StoreTime;
  readonly hint: (hint: Hint) => void;
  readonly walRoom: WalRoom;
  /** Absent for a database in memory: there a commit is durable at once. */
  readonly walSync?: Pick<WalSync, 'whenSynced' | 'whenRepaired' | 'hasFailed'> | undefined;
}

/** Appends to the logs of all tenants. Calls for one tenant must not overlap. */
export interface Append {
  /**
   * Appends all of `events` in one step for every reader, or none; resolves when they are on the
   * disk. Readers do not see them before: after a power cut other events could have their offsets.
   */
  append(tenant: number, events: readonly NewEvent[]): Promise<Appended[]>;
  /** The last offset on the disk, for each log that may have one that is not. */
  readonly syncedHeads: ReadonlyMap<number, Offset>;
}

/** Maximum characters of bodies in one commit: SQLite writes them in about a millisecond. */
const partBodiesMax = 256 * 1024;

/**
 * Creates {@link Append}. Another thread waits for the disk. An append larger than one part is
 * written part by part, above the head of the log, where no reader scans; then the head is raised.
 * Commits of others run in between. Events above the head when an append begins were left by a
 * refused one.
 */
export function createAppend(deps: AppendDeps): Append {
  const { db, time, walRoom, walSync } = deps;
  const syncedHeads = new Map<number, Offset>();

  const synced = (): Promise<void> =>
    new Promise((resolve, reject) => {
      whenSynced(deps, (error) => (error === undefined ? resolve() : reject(error)));
    });
  /**
   * Returns `undefined` when another append of the tenant ran in between: that took the offsets.
   */
  const stage = async (tenant: number, parts: readonly Part[]): Promise<Batch | undefined> => {
    let batch: Batch | undefined;
    for (const { events, bodies } of parts) {
      await walRoom.make(bodies);
      const isNext = db.transact('relaxed', () => {
        batch ??= begin(db, tenant, time.now());
        if (!isAt(db, tenant, batch.head)) return false;
        insert(db, tenant, batch, events);
        return true;
      });
      if (!isNext) return undefined;
      await synced();
    }
    return batch;
  };

  return {
    append: async (tenant, events) => {
      // Before a write that no watcher could be notified of.
      if (walSync?.hasFailed === true) await synced();
      const parts = partsOf(events);
      const staged = parts.length > 1 ? await stage(tenant, parts) : undefined;
      const [{ bodies } = nothing] = parts;
      if (parts.length === 1) await walRoom.make(bodies);
      const { appended, written } = db.transact('relaxed', () => {
        const isWhole = staged !== undefined && isStaged(db, tenant, staged);
        return isWhole
          ? raiseHead(db, tenant, staged)
          : appendWithin(db, tenant, events, time.now());
      });
      await show(deps, { tenant, written, syncedHeads });
      return appended;
    },
    syncedHeads,
  };
}

function whenSynced({ walSync }: AppendDeps, done: SyncDone): void {
  if (walSync === undefined) done();
  else walSync.whenSynced(done);
}

/** Resolves once `written` is on the disk, visible, and the watchers were notified. */
function show(
  deps: AppendDeps,
  {
    tenant,
    written,
    syncedHeads,
  }: {
    readonly tenant: number;
    readonly written: readonly LogEvent[];
    readonly syncedHeads: Map<number, Offset>;
  },
): Promise<void> {
  const [first] = written;
  if (first !== undefined) syncedHeads.set(tenant, first.offset - 1);
  const notify = (): void => {
    syncedHeads.delete(tenant);
    if (written.length > 0) deps.hint({ kind: 'appended', tenant, events: written });
  };
  return new Promise((resolve, reject) => {
    // In the callback: a durable commit of the same tenant emits its own event right after it.
    whenSynced(deps, (error) => {
      if (error === undefined) {
        notify();
        resolve();
      } else {
        // The append is refused, but its events are in the log: visible once they are on the disk.
        deps.walSync?.whenRepaired(notify);
        const { message, reason } = error;
        reject(new StoreUnavailable(message, { cause: error, reason, mayBeStored: true }));
      }
    });
  });
}

/** The events of one commit. */
interface Part {
  readonly events: NewEvent[];
  /** Characters of their bodies. */
  bodies: number;
}

const nothing: Part = { events: [], bodies: 0 };

/**
 * Splits events into parts: at least one event each, then as many as {@link partBodiesMax} allows.
 */
function partsOf(events: readonly NewEvent[]): Part[] {
  const parts: Part[] = [];
  let part: Part | undefined;
  for (const event of events) {
    const { length } = event.body;
    if (part === undefined || part.bodies + length > partBodiesMax) {
      part = { events: [], bodies: 0 };
      parts.push(part);
    }
    part.events.push(event);
    part.bodies += length;
  }
  return parts;
}

/** The progress of one append. */
interface Batch {
  /** The head of the log before it. */
  readonly head: Offset;
  readonly publishedAt: Millis;
  /** Of the hashes of contents. */
  readonly contentKey: Uint8Array;
  readonly appended: Appended[];
  readonly written: LogEvent[];
}

/**
 * Appends `events` inside the caller's transaction. Emit `{ kind: 'appended' }` with `written`
 * after the commit, unless it is empty. Throws `StoreTenantGone`, and `StoreContentRefused` when the
 * content is at fault; the caller's transaction must end then.
 */
export function appendWithin(
  db: Database,
  tenant: number,
  events: readonly NewEvent[],
  now: Millis,
): Pick<Batch, 'appended' | 'written'> {
  const batch = begin(db, tenant, now);
  insert(db, tenant, batch, events);
  return raiseHead(db, tenant, batch);
}

function begin(db: Database, tenant: number, now: Millis): Batch {
  const tip = db.get<{ head: Offset; last_published_at: Millis; content_key: Uint8Array }>`
    select head, last_published_at, content_key from tenants where id = ${tenant}`;
  if (tip === undefined) throw new StoreTenantGone(tenant);
  db.run`delete from events where tenant = ${tenant} and offset > ${tip.head}`;
  const publishedAt = Math.max(now, tip.last_published_at);
  return { head: tip.head, publishedAt, contentKey: tip.content_key, appended: [], written: [] };
}

function insert(db: Database, tenant: number, batch: Batch, events: readonly NewEvent[]): void {
  const { publishedAt, contentKey, appended, written } = batch;
  for (const { id, chosen, type, time, body, trace, content } of events) {
    const hash = content === undefined ? undefined : contentHash(contentKey, content);
    // The query also finds events that this batch has inserted, so repeats in it are detected too.
    const first = chosen ? firstOf(db, tenant, id) : undefined;
    if (first !== undefined) {
      if (isOther(first.content, hash)) throw new StoreEventIdInUse(appended.length);
      appended.push({ id, offset: first.offset, repeated: true });
      continue;
    }
    const offset = batch.head + written.length + 1;
    db.run`insert into events (tenant, offset, id, type, time, published_at, body, trace, content)
      values (
        ${tenant}, ${offset}, ${id}, ${type}, ${time}, ${publishedAt}, ${body}, ${trace}, ${hash})`;
    appended.push({ id, offset, repeated: false });
    written.push({ offset, id, type, time, publishedAt, body, ...traced(trace) });
  }
}

/** Deletes the events of unfinished appends of a former process. */
export function dropUnended(db: Database): void {
  db.transact('relaxed', () => {
    db.run`
      delete from events where rowid in (
        select events.rowid from tenants cross join events
        on events.tenant = tenants.id and events.offset > tenants.head)`;
  });
}

/** Returns whether the head is still the same; false as well once the tenant is gone. */
function isAt(db: Database, tenant: number, head: Offset): boolean {
  return db.get`select 1 from tenants where id = ${tenant} and head = ${head}` !== undefined;
}

/**
 * Returns false once another append of the tenant has begun: it deletes the events above the head.
 */
function isStaged(db: Database, tenant: number, { head, written }: Batch): boolean {
  const row = db.get<{ count: number }>`
    select count(*) as count from events where tenant = ${tenant} and offset > ${head}`;
  return isAt(db, tenant, head) && row?.count === written.length;
}

function raiseHead(db: Database, tenant: number, batch: Batch): Batch {
  const { head, publishedAt, written } = batch;
  if (written.length > 0) {
    db.run`
      update tenants set head = ${head + written.length}, last_published_at = ${publishedAt}
      where id = ${tenant}`;
  }
  return batch;
}

interface First {
  readonly offset: Offset;
  /** The hash that is kept of it. */
  readonly content: Uint8Array | null;
}

/** Returns the event in the log that has this id, or a pruned one while a delivery of it is open. */
function firstOf(db: Database, tenant: number, id: string): First | undefined {
  return (
    db.get<First>`select offset, content from events where tenant = ${tenant} and id = ${id}` ??
    db.get<First>`
      select offset, null as content from deliveries
      where tenant = ${tenant} and event_id = ${id} and offset is not null limit 1`
  );
}

function isOther(kept: Uint8Array | null, hash: Uint8Array | undefined): boolean {
  return kept !== null && hash !== undefined && Buffer.compare(kept, hash) !== 0;
}

/** Returns the last offset assigned, 0 for an unknown tenant. */
export function headOf(db: Database, tenant: number): Offset {
  const row = db.get<{ head: Offset }>`select head from tenants where id = ${tenant}`;
  return row?.head ?? 0;
}
