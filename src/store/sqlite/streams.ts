import type { Millis } from '../../core/clock.ts';
import { firstSubscription, withoutPassed } from '../../core/subscription.ts';
import type { Offset, Stream } from '../../core/types.ts';
import type { Seal } from '../seal.ts';
import {
  type Changed,
  type ChangeRefused,
  enabledAfter,
  type Enabling,
  noSwitch,
} from '../rules/enable.ts';
import type { Hint } from '../port/hints.ts';
import type { Page } from '../port/page.ts';
import type { StreamStore } from '../port/streams.ts';
import type { StoreTime } from '../port/time.ts';
import type { Run } from '../rows/runs.ts';
import type { Database } from './database.ts';
import { failWaiting } from './disabling.ts';
import { headOf } from './append.ts';
import { oldestAfter } from './log.ts';
import { noteChange, readRun, writeRun } from './runs.ts';
import { countSkipped, passedOverBy } from './skipped.ts';
import { listStats } from './stats.ts';
import { readPieces } from '../rows/bounded.ts';
import { streamBytes, streamOf, type StreamRow, streamsOf } from '../rows/streams.ts';

export interface StreamDeps {
  readonly db: Database;
  readonly seal: Seal;
  readonly hint: (hint: Hint) => void;
  /** Runs `action` after other work of the event loop had its turn. */
  readonly defer: (action: () => void) => void;
  readonly time: StoreTime;
}

/**
 * Creates the store of streams. The destination and the signing secrets are sealed at rest. Written
 * apart from PostgreSQL because changes depend on runs and on the log, which are.
 */
export function createStreamStore(deps: StreamDeps): StreamStore {
  const { db, hint, time } = deps;
  return {
    create: async (stream, rules) => {
      const result = db.transact('durable', () => create(deps, stream, rules));
      if ('created' in result) hint({ kind: 'stream', tenant: stream.tenant, stream: stream.id });
      return result;
    },
    get: async (tenant, id) => readStream(deps, tenant, id),
    list: async (tenant, page) => list(deps, tenant, page),
    health: async (tenant, id) => readRun(db, tenant, id)?.health,
    update: async (tenant, id, decide) => {
      const result = db.transact('durable', () => update(deps, tenant, id, decide, time.now()));
      if (!('updated' in result)) return result;
      const { updated, held, passedOver } = result;
      if (result.changed) hint({ kind: 'stream', tenant, stream: id });
      return { updated, held, skipped: passedOver ? await countSkipped(deps, passedOver) : 0 };
    },
    delete: async (tenant, id) => {
      const deleted = db.transact('durable', () => deleteStream(db, tenant, id));
      if (deleted) hint({ kind: 'stream', tenant, stream: id });
      return deleted;
    },
    stats: async (tenant, id, window) => listStats(db, tenant, id, window),
  };
}

/** Returns the current state of the stream. */
export function readStream(
  deps: Pick<StreamDeps, 'db' | 'seal'>,
  tenant: number,
  id: string,
): Stream | undefined {
  const row = deps.db.get<StreamRow>`
    select tenant, id, name, status, subscriptions, destination, signing_secrets, version,
      created_at, updated_at
    from streams where tenant = ${tenant} and id = ${id}`;
  return row && streamOf(deps.seal, row);
}

/** Ids rise with their time of creation, so their order is that of creation. */
async function list(
  { db, seal }: StreamDeps,
  tenant: number,
  page: Parameters<StreamStore['list']>[1],
): Promise<Page<Stream>> {
  const { after = '' } = page;
  const found = (read: readonly StreamRow[], take: number): Iterable<StreamRow> => db.each`
    select tenant, id, name, status, subscriptions, destination, signing_secrets, version,
      created_at, updated_at
    from streams where tenant = ${tenant} and id > ${read.at(-1)?.id ?? after}
    order by id limit ${take}`;
  const { rows, hasMore } = await readPieces(found, page, streamBytes);
  const items = await streamsOf(seal, rows);
  return { items, next: hasMore ? items.at(-1)?.id : undefined };
}

function create(
  { db, seal }: StreamDeps,
  { types, cursor, ...stream }: Parameters<StreamStore['create']>[0],
  rules: Parameters<StreamStore['create']>[1],
): Awaited<ReturnType<StreamStore['create']>> {
  if (hasName(db, stream)) return { refused: 'name_taken' };
  if (streamCount(db, stream.tenant) >= rules.streamsMax) return { refused: 'too_many' };
  const head = headOf(db, stream.tenant);
  const created: Stream = { ...stream, subscriptions: firstSubscription(types), version: 1 };
  db.run`
    insert into streams (tenant, id, name, status, subscriptions, destination, signing_secrets,
      version, created_at, updated_at)
    values (${created.tenant}, ${created.id}, ${created.name}, ${created.status},
      ${JSON.stringify(created.subscriptions)}, ${seal.seal(JSON.stringify(created.destination))},
      ${seal.seal(JSON.stringify(created.signingSecrets))}, ${created.version},
      ${created.createdAt}, ${created.updatedAt})`;
  db.run`
    insert into runs (tenant, stream, cursor, run, consecutive_failures, total_failures, epoch)
    values (${created.tenant}, ${created.id}, ${Math.min(cursor ?? head, head)}, 1, 0, 0, 0)`;
  return { created };
}

/** Returns whether another stream has the name. */
function hasName(db: Database, stream: Pick<Stream, 'tenant' | 'id' | 'name'>): boolean {
  const other = db.get`
    select 1 from streams
    where tenant = ${stream.tenant} and name = ${stream.name} and id <> ${stream.id}`;
  return other !== undefined;
}

function streamCount(db: Database, tenant: number): number {
  const row = db.get<{ count: number }>`
    select count(*) as count from streams where tenant = ${tenant}`;
  return row?.count ?? 0;
}

function update(
  deps: StreamDeps,
  tenant: number,
  id: string,
  decide: Parameters<StreamStore['update']>[2],
  now: Millis,
): Changed | ChangeRefused {
  const { db } = deps;
  const before = readStream(deps, tenant, id);
  const run = readRun(db, tenant, id);
  if (before === undefined || run === undefined) return { refused: 'unknown' };
  const head = headOf(db, tenant);
  const decision = decide(before, { health: run.health, head });
  if ('refused' in decision) return { refused: decision.refused, health: run.health };
  if (decision.after === before) return { updated: before, changed: false, ...noSwitch };
  if (hasName(db, { ...decision.after, tenant, id })) return { refused: 'name_taken' };
  const { createdAt } = before;
  const wanted: Stream = { ...decision.after, tenant, id, createdAt };
  const { runAfter, ...enabling } = switched(db, run, wanted, decision.resume, head, now);
  if (runAfter !== run) writeRun(db, runAfter);
  const subscriptions = withoutPassed(wanted.subscriptions, runAfter.cursor);
  const updated = { ...wanted, subscriptions, version: before.version + 1 };
  writeStream(deps, updated);
  noteChange(db, run);
  return { updated, changed: true, ...enabling };
}

/** Returns the effect of a change of status on the run, which is the same object without one. */
function switched(
  db: Database,
  run: Run,
  wanted: Stream,
  resume: 'latest' | 'held' | undefined,
  head: Offset,
  now: Millis,
): Enabling & { readonly runAfter: Run } {
  if (run.status === wanted.status) return { runAfter: run, ...noSwitch };
  if (wanted.status === 'disabled') {
    return { runAfter: { ...run, health: failWaiting(db, run, 'retrying', now) }, ...noSwitch };
  }
  if (resume !== 'held') {
    const passedOver = passedOverBy(db, run, wanted.subscriptions, head);
    return { runAfter: enabledAfter(run, head), held: undefined, passedOver };
  }
  const pruned = oldestAfter(db, run.tenant, run.cursor) > run.cursor + 1;
  return {
    runAfter: enabledAfter(run, run.cursor),
    held: pruned ? 'pruned' : 'complete',
    passedOver: undefined,
  };
}

function writeStream({ db, seal }: StreamDeps, stream: Stream): void {
  db.run`
    update streams set name = ${stream.name}, status = ${stream.status},
      subscriptions = ${JSON.stringify(stream.subscriptions)},
      destination = ${seal.seal(JSON.stringify(stream.destination))},
      signing_secrets = ${seal.seal(JSON.stringify(stream.signingSecrets))},
      version = ${stream.version}, updated_at = ${stream.updatedAt},
      disabled_reason = iif(${stream.status} = 'enabled', null, disabled_reason),
      -- A stream that is enabled far behind is warned about before it is disabled for that.
      lag_reported = iif(${stream.status} <> status, 0, lag_reported)
    where tenant = ${stream.tenant} and id = ${stream.id}`;
}

/**
 * Deliveries are bounded by the limits of disabling; the history is not, so its entries stay, under
 * a key that is never used again, and are removed when they are old (see history-pruner.ts).
 */
function deleteStream(db: Database, tenant: number, id: string): boolean {
  db.run`delete from deliveries where tenant = ${tenant} and stream = ${id}`;
  db.run`delete from replays where tenant = ${tenant} and stream = ${id}`;
  db.run`delete from stream_stats where tenant = ${tenant} and stream = ${id}`;
  db.run`delete from runs where tenant = ${tenant} and stream = ${id}`;
  return db.run`delete from streams where tenant = ${tenant} and id = ${id}` > 0;
}
