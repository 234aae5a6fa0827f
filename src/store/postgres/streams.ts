import type { Millis } from '../../core/clock.ts';
import { firstSubscription, withoutPassed } from '../../core/subscription.ts';
import type { Health, Stream } from '../../core/types.ts';
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
import type { Seal } from '../seal.ts';
import { type Database, type Queries, advisoryLock } from './database.ts';
import { failWaiting } from './disabling.ts';
import { type Tip, tipOf } from './log.ts';
import { lockRun, noteChanges, type Run, writeRuns } from './runs.ts';
import { countSkipped, passedOverBy } from './skipped.ts';
import { listStats } from './stats.ts';
import { storeNow } from './time.ts';
import { boundedRows, boundOf, type CountedRow, rowBytes } from '../rows/bounded.ts';
import { streamOf, type StreamRow, streamsOf, typeNamesBytes } from '../rows/streams.ts';

export interface StreamDeps {
  readonly db: Database;
  readonly seal: Seal;
  readonly hint: (hint: Hint) => void;
}

/**
 * Creates the store of streams. The destination and the signing secrets are sealed at rest. Written
 * apart from SQLite because changes depend on runs and on the log, which are.
 */
export function createStreamStore({ db, seal, hint }: StreamDeps): StreamStore {
  return {
    create: async (stream, rules) => {
      const result = await db.transact('durable', (tx) => create(tx, seal, stream, rules));
      if ('created' in result) hint({ kind: 'stream', tenant: stream.tenant, stream: stream.id });
      return result;
    },
    get: (tenant, id) => readStream(db, seal, tenant, id),
    list: (tenant, page) => list(db, seal, tenant, page),
    health: (tenant, id) => readHealth(db, tenant, id),
    update: async (tenant, id, decide) => {
      const change = { tenant, id, decide };
      const result = await db.transact('confirmed', (tx) => update(tx, seal, change));
      if (!('updated' in result)) return result;
      const { updated, held, passedOver } = result;
      if (result.changed) hint({ kind: 'stream', tenant, stream: id });
      return { updated, held, skipped: passedOver ? await countSkipped(db, passedOver) : 0 };
    },
    delete: async (tenant, id) => {
      const deleted = await db.transact('confirmed', (tx) => deleteStream(tx, tenant, id));
      if (deleted) hint({ kind: 'stream', tenant, stream: id });
      return deleted;
    },
    stats: (tenant, id, window) => listStats(db, tenant, id, window),
  };
}

/** Returns the current state of the stream. */
async function readStream(
  db: Queries,
  seal: Seal,
  tenant: number,
  id: string,
): Promise<Stream | undefined> {
  const row = await db.get<StreamRow>`
    select tenant, id, name, status, subscriptions, destination, signing_secrets, version,
      created_at, updated_at
    from streams where tenant = ${tenant} and id = ${id}`;
  return row && streamOf(seal, row);
}

/** Ids rise with their time of creation, so their order is that of creation. */
async function list(
  db: Queries,
  seal: Seal,
  tenant: number,
  { after, take, bytesMax }: Parameters<StreamStore['list']>[1],
): Promise<Page<Stream>> {
  // Differs because PostgreSQL sends a result as a whole: the statement leaves out rows beyond the
  // bound.
  const read = await db.all<StreamRow & CountedRow>`
    select tenant, id, name, status, subscriptions, destination, signing_secrets, version,
      created_at, updated_at, found
    from (
      select page.*, count(*) over () as found, row_number() over (order by id) as number,
        sum(octet_length(subscriptions) + octet_length(destination) + ${rowBytes + typeNamesBytes}::integer)
          over (order by id) as bytes
      from (
        select tenant, id, name, status, subscriptions, destination, signing_secrets, version,
          created_at, updated_at
        from streams where tenant = ${tenant} and id > ${after ?? ''} order by id limit ${take + 1}
      ) as page
    ) as sized
    where bytes <= ${boundOf(bytesMax)}::bigint or number = 1
    order by id`;
  const { rows, hasMore } = boundedRows(read, take);
  const items = await streamsOf(seal, rows);
  return { items, next: hasMore ? items.at(-1)?.id : undefined };
}

async function readHealth(db: Queries, tenant: number, id: string): Promise<Health | undefined> {
  return db.get`
    select consecutive_failures as consecutive, total_failures as total
    from runs where tenant = ${tenant} and stream = ${id}`;
}

/** Creations in one tenant follow each other, so that the limit holds. */
async function create(
  tx: Queries,
  seal: Seal,
  { types, cursor, ...stream }: Parameters<StreamStore['create']>[0],
  rules: Parameters<StreamStore['create']>[1],
): ReturnType<StreamStore['create']> {
  await lockNames(tx, stream.tenant);
  if (await hasName(tx, stream)) return { refused: 'name_taken' };
  const row = await tx.get<{ count: number }>`
    select count(*) as count from streams where tenant = ${stream.tenant}`;
  if ((row?.count ?? 0) >= rules.streamsMax) return { refused: 'too_many' };
  const created: Stream = { ...stream, subscriptions: firstSubscription(types), version: 1 };
  await Promise.all([
    // Prevents pruning from here to the commit: the stream counts for that only afterwards.
    tx.run`select 1 from tenants where id = ${created.tenant} for share`,
    tx.run`
      insert into streams (tenant, id, name, status, subscriptions, destination, signing_secrets,
        version, created_at, updated_at)
      values (${created.tenant}, ${created.id}, ${created.name}, ${created.status},
        ${JSON.stringify(created.subscriptions)}, ${seal.seal(JSON.stringify(created.destination))},
        ${seal.seal(JSON.stringify(created.signingSecrets))}, ${created.version},
        ${created.createdAt}, ${created.updatedAt})`,
    tx.run`
      insert into runs (tenant, stream, cursor, run, consecutive_failures, total_failures, epoch)
      select id, ${created.id}, greatest(least(head, ${cursor}::bigint), pruned_to), 1, 0, 0, 0
      from tenants where id = ${created.tenant}`,
  ]);
  return { created };
}

/** Serialises checks and changes of the names of one tenant's streams. */
async function lockNames(tx: Queries, tenant: number): Promise<void> {
  await advisoryLock(tx, `streams ${tenant}`);
}

/** Returns whether another stream has the name. */
async function hasName(
  tx: Queries,
  stream: Pick<Stream, 'tenant' | 'id' | 'name'>,
): Promise<boolean> {
  const other = await tx.get`
    select 1 from streams
    where tenant = ${stream.tenant} and name = ${stream.name} and id <> ${stream.id}`;
  return other !== undefined;
}

interface Change {
  readonly tenant: number;
  readonly id: string;
  readonly decide: Parameters<StreamStore['update']>[2];
}

async function update(
  tx: Queries,
  seal: Seal,
  { tenant, id, decide }: Change,
): Promise<Changed | ChangeRefused> {
  const [run, now] = await Promise.all([lockRun(tx, tenant, id), storeNow(tx)]);
  const before = await readStream(tx, seal, tenant, id);
  if (before === undefined || run === undefined) return { refused: 'unknown' };
  const tip = await tipOf(tx, tenant);
  const decision = decide(before, { health: run.health, head: tip.head });
  if ('refused' in decision) return { refused: decision.refused, health: run.health };
  if (decision.after === before) return { updated: before, changed: false, ...noSwitch };
  const { createdAt } = before;
  const wanted: Stream = { ...decision.after, tenant, id, createdAt };
  if (wanted.name !== before.name) {
    await lockNames(tx, tenant);
    if (await hasName(tx, wanted)) return { refused: 'name_taken' };
  }
  const { runAfter, ...enabling } = await switched(tx, run, wanted, decision.resume, tip, now);
  if (runAfter !== run) await writeRuns(tx, [runAfter]);
  const subscriptions = withoutPassed(wanted.subscriptions, runAfter.cursor);
  const updated = { ...wanted, subscriptions, version: before.version + 1 };
  await Promise.all([writeStream(tx, seal, updated), noteChanges(tx, [run])]);
  return { updated, changed: true, ...enabling };
}

/** Returns the effect of a change of status on the run, which is the same object without one. */
async function switched(
  tx: Queries,
  run: Run,
  wanted: Stream,
  resume: 'latest' | 'held' | undefined,
  { head }: Tip,
  now: Millis,
): Promise<Enabling & { readonly runAfter: Run }> {
  if (run.status === wanted.status) return { runAfter: run, ...noSwitch };
  if (wanted.status === 'disabled') {
    const health = await failWaiting(tx, run, 'retrying', now);
    return { runAfter: { ...run, health }, ...noSwitch };
  }
  if (resume !== 'held') {
    const passedOver = await passedOverBy(tx, run, wanted.subscriptions, head);
    return { runAfter: enabledAfter(run, head), held: undefined, passedOver };
  }
  // Prevents pruning from here to the commit: the stream counts for that only afterwards.
  await tx.run`select 1 from tenants where id = ${run.tenant} for share`;
  const { prunedTo } = await tipOf(tx, run.tenant);
  const held = prunedTo > run.cursor ? 'pruned' : 'complete';
  return { runAfter: enabledAfter(run, run.cursor), held, passedOver: undefined };
}

async function writeStream(tx: Queries, seal: Seal, stream: Stream): Promise<void> {
  await tx.run`
    update streams set name = ${stream.name}, status = ${stream.status},
      subscriptions = ${JSON.stringify(stream.subscriptions)},
      destination = ${seal.seal(JSON.stringify(stream.destination))},
      signing_secrets = ${seal.seal(JSON.stringify(stream.signingSecrets))},
      version = ${stream.version}, updated_at = ${stream.updatedAt},
      disabled_reason = case when ${stream.status}::text = 'enabled' then null
        else disabled_reason end,
      -- A stream that is enabled far behind is warned about before it is disabled for that.
      lag_reported = case when ${stream.status}::text <> status then 0 else lag_reported end
    where tenant = ${stream.tenant} and id = ${stream.id}`;
}

/** The history stays, under a key that is never used again, and is removed with its days. */
async function deleteStream(tx: Queries, tenant: number, id: string): Promise<boolean> {
  if ((await lockRun(tx, tenant, id)) === undefined) return false;
  await Promise.all([
    tx.run`delete from deliveries where tenant = ${tenant} and stream = ${id}`,
    tx.run`delete from replays where tenant = ${tenant} and stream = ${id}`,
    tx.run`delete from stream_stats where tenant = ${tenant} and stream = ${id}`,
    tx.run`delete from runs where tenant = ${tenant} and stream = ${id}`,
    tx.run`delete from streams where tenant = ${tenant} and id = ${id}`,
  ]);
  return true;
}
