import type { DatabaseSync } from 'node:sqlite';
import type { Clock, RandomBytes } from '../../../core/clock.ts';
import { StoreUnavailable } from '../../../core/errors.ts';
import { createKeyedSerialQueue } from '../../../core/serial-queue.ts';
import type { StoreTime } from '../../port/time.ts';
import { createReadCache } from '../../commands/read-cache.ts';
import { createSeal } from '../../seal.ts';
import { createHints } from '../../hints.ts';
import type { Store } from '../../port/store.ts';
import { dropUnended } from './append.ts';
import { defineTestKey } from './attempts.ts';
import {
  createStoreCommands,
  createGuardedCommands,
  createRecordingCommands,
  type CommandDeps,
} from '../../commands/store-commands.ts';
import { type NodeEngine, voidOwnership } from '../../commands/nodes.ts';
import { createCommands, purposesOf, run } from './commands.ts';
import { openConnection, type SqliteLocation } from './connection.ts';
import { createCopy } from './copy.ts';
import { createDatabase, type Database } from './database.ts';
import { createDeliveryStore } from './deliveries.ts';
import { createEntryPruner } from './upkeep.ts';
import { createFailureReader } from './failures.ts';
import { type FileIdentity, markFile, openFileIdentity } from './file-identity.ts';
import { createGuardedTime } from './guarded-time.ts';
import { createLogStore } from './log.ts';
import { engineOverview } from './overview.ts';
import { refusalOf } from './refusal.ts';
import { applicationId, prepareSchema } from './schema.ts';
import { createUpkeepStore } from './upkeep.ts';
import { removals } from './tenant-removal.ts';
import { createWalRoom } from './wal-room.ts';
import { createWriteCheck, type WriteCheck, type WriteCheckDeps } from '../../write-check.ts';
import { createWalSync, type WalSync, walFileOf } from './wal-sync.ts';

export interface SqliteStoreDeps {
  /** The keys of the secrets in the database, 32 bytes each: see `docs/secrets.md`. */
  readonly secretKeys: readonly Uint8Array[];
  readonly random: RandomBytes;
  /** The clock of leases of nodes and of the steps of upkeep. */
  readonly clock: Pick<Clock, 'now' | 'elapsedMs' | 'after'>;
  /** The clock of every stored instant; the guarded clock by default. */
  readonly time?: StoreTime | undefined;
  /** Defers a commit until other calls of the same turn of the event loop have joined it. */
  readonly defer: (action: () => void) => void;
  /** Receives errors of listeners of `watch`, and those of streams whose secrets do not open. */
  readonly report: (error: unknown) => void;
  /** As {@link StoreOptions.reportFailure}. */
  readonly reportFailure?: WriteCheckDeps['report'];
}

/**
 * Opens a SQLite database, in a file of this process alone or in memory.
 *
 * Throws `StartRefused` with one line for the operator.
 */
export async function openSqliteStore(
  location: SqliteLocation,
  deps: SqliteStoreDeps,
): Promise<Store> {
  const connection = openConnection(location);
  let identity: FileIdentity | undefined;
  try {
    await prepareSchema(connection, location, createSeal(deps.secretKeys, deps.random));
    const { file } = location;
    secureWal(connection, location, deps.random);
    identity = file === undefined ? undefined : openFileIdentity(file, deps);
    const walSync = syncOf(connection, location, { ...deps, identity });
    return createSqliteStore(connection, deps, walSync, identity);
  } catch (error) {
    connection.close();
    identity?.close();
    throw error;
  }
}

/**
 * Creates the store on a connection of its own whose schema is prepared. Every transaction ends in
 * the turn of the event loop in which it began, so none sees another one unfinished.
 */
export function createSqliteStore(
  connection: DatabaseSync,
  deps: SqliteStoreDeps,
  walSync?: WalSync,
  identity?: FileIdentity,
): Store {
  const { clock, defer, report } = deps;
  const time = deps.time ?? createGuardedTime(clock);
  const seal = createSeal(deps.secretKeys, deps.random);
  defineTestKey(connection);
  connection.function('leat_now', () => time.now());
  connection.function('leat_elapsed', () => clock.elapsedMs());
  const db = databaseOf(connection, { walSync, identity });
  db.transact('relaxed', () => run(db, voidOwnership()));
  dropUnended(db);
  const { emit: hint, watch } = createHints({ report });
  const writes = writeCheckOf(connection, db, deps, { walSync, identity });
  const walRoom = createWalRoom(db);
  const shared = {
    db,
    late: (tenant: number) => writes.late(tenant),
    on: purposesOf(createCommands(db, walRoom)),
    seal,
    hint,
    report,
    defer,
    readCache: createReadCache(watch),
    clock,
    time,
    walRoom,
    userChanges: createKeyedSerialQueue(),
    walSync,
    settled: (count: number) => walSync?.committed(count),
  };
  const { appender, ...log } = createLogStore(shared);
  const file = connection.location() ?? undefined;
  const commandDeps = commandDepsOf(shared, file);
  const nouns = createStoreCommands(commandDeps);
  return {
    ...nouns,
    log: {
      ...log,
      append: (tenant, events, waitedMs) =>
        writes.observe(tenant, log.append(tenant, events, waitedMs)),
    },
    deliveries: { ...nouns.deliveries, ...createDeliveryStore(shared) },
    auditLog: { ...nouns.auditLog, prune: createEntryPruner(shared) },
    upkeep: { ...nouns.upkeep, ...createUpkeepStore({ ...shared, connection }) },
    copy: createCopy(connection, () => identity?.checkContent()),
    time,
    recording: (entry) => createRecordingCommands(commandDeps, entry),
    guarded: (guard, entry) => createGuardedCommands(shared, guard, entry),
    watch,
    // The file belongs to this process.
    ping: () => writes.check(),
    failure: () => writes.failure(),
    close: async () => {
      writes.close();
      await Promise.all([appender.idle(), shared.userChanges.idle()]);
      await walSync?.close();
      db.close();
      identity?.close();
    },
  };
}

/** What an open file needs besides its connection. */
interface OpenFile {
  readonly walSync: WalSync | undefined;
  readonly identity: FileIdentity | undefined;
}

function databaseOf(connection: DatabaseSync, { walSync, identity }: OpenFile): Database {
  return createDatabase(connection, {
    read: () => identity?.checkContent(),
    last: () => identity?.renew(connection),
    before: (durability) => {
      identity?.check();
      if (durability === 'durable') walSync?.repair();
    },
    committed: (durability) => {
      if (durability === 'durable') walSync?.covered();
      else walSync?.committed(0);
    },
  });
}

function writeCheckOf(
  connection: DatabaseSync,
  db: Database,
  { clock, reportFailure }: SqliteStoreDeps,
  { walSync, identity }: OpenFile,
): WriteCheck {
  return createWriteCheck({
    clock,
    read: async () => {
      identity?.checkHeader();
      ping(db);
    },
    tryWrite: async () => {
      identity?.checkHeader();
      await tryWrite(connection, db, walSync);
    },
    report: reportFailure,
  });
}

/** The nodes of this process have its clock, and no others need to know of them. */
function nodeEngineOf(db: Database, { time }: { readonly time: StoreTime }): NodeEngine {
  return {
    join: async (_id, command) => db.transact('relaxed', () => run(db, command())),
    renew: (heartbeat) => heartbeat(),
    skewMs: () => time.skewMs(),
    counted: () => undefined,
    freed: () => undefined,
  };
}

/** Returns what the parts need that both engines share. */
function commandDepsOf(
  deps: Pick<
    CommandDeps,
    'on' | 'seal' | 'hint' | 'report' | 'userChanges' | 'defer' | 'readCache'
  > & {
    readonly db: Database;
    readonly time: StoreTime;
  },
  file: string | undefined,
): CommandDeps {
  const { db } = deps;
  return {
    ...deps,
    removals,
    engine: engineOverview(db, file),
    failures: createFailureReader(db),
    ofNodes: nodeEngineOf(db, deps),
    // Some 4 ms: a million events at once would block the process for half a second.
    countMax: 10_000,
  };
}

/** A database in memory has nothing to sync. */
function syncOf(
  connection: DatabaseSync,
  { file }: SqliteLocation,
  { clock, report, identity }: SqliteStoreDeps & { readonly identity: FileIdentity | undefined },
): WalSync | undefined {
  if (file === undefined || identity === undefined) return undefined;
  const wal = walFileOf(file);
  const walSync = createWalSync({
    clock,
    sync: async () => {
      await wal.sync();
      // After it: what is acknowledged is in the files that the next start opens.
      identity.check();
    },
    repair: () => {
      identity.check();
      checkpoint(connection);
    },
    // The identity reports itself.
    report: (error) => {
      if (!(error instanceof StoreUnavailable && error.reason === 'gone')) report(error);
    },
  });
  return {
    get hasFailed() {
      return walSync.hasFailed;
    },
    committed: (settlements) => walSync.committed(settlements),
    whenSynced: (done) => walSync.whenSynced(done),
    whenRepaired: (done) => walSync.whenRepaired(done),
    repair: () => walSync.repair(),
    covered: () => walSync.covered(),
    close: async () => {
      await walSync.close();
      await wal.close();
    },
  };
}

/**
 * The former process may have ended because its syncs failed: then the WAL that it left can be read
 * but is not on the disk, a sync would not show that, and a power cut would also take later commits
 * in it.
 */
function secureWal(
  connection: DatabaseSync,
  { file, path }: SqliteLocation,
  random: RandomBytes,
): void {
  try {
    markFile(connection, random);
    checkpoint(connection);
  } catch (error) {
    throw refusalOf(file ?? path, error);
  }
}

/** Moves the WAL into the file and syncs that; both levels of `synchronous` in use do. */
function checkpoint(connection: DatabaseSync): void {
  const row = connection.prepare('pragma wal_checkpoint(truncate)').get();
  if (row?.['busy'] === 1) throw new StoreUnavailable('The write-ahead log is in use.');
}

/** Writes the first page of the file again; resolves when it is on the disk. */
function tryWrite(
  connection: DatabaseSync,
  db: Database,
  walSync: Pick<WalSync, 'whenSynced'> | undefined,
): Promise<void> {
  return new Promise((resolve, reject) => {
    db.transact('relaxed', () => connection.exec(`pragma application_id = ${applicationId}`));
    if (walSync === undefined) resolve();
    else walSync.whenSynced((error) => (error === undefined ? resolve() : reject(error)));
  });
}

/** Reads the file, so that a missing disk is noticed. */
function ping(db: Database): void {
  db.get`select count(*) from tenants`;
}
