import type { Clock, Millis, RandomBytes } from '../../../core/clock.ts';
import { createKeyedSerialQueue } from '../../../core/serial-queue.ts';
import type { Purposes } from '../../commands/command.ts';
import {
  createStoreCommands,
  createGuardedCommands,
  createRecordingCommands,
  type CommandDeps,
} from '../../commands/store-commands.ts';
import { liveNodes, type NodeEngine } from '../../commands/nodes.ts';
import { createReadCache } from '../../commands/read-cache.ts';
import { createHints } from '../../hints.ts';
import { lackedKey } from '../../key-check.ts';
import type { Hint } from '../../port/hints.ts';
import type { Store } from '../../port/store.ts';
import { createSeal, type Seal } from '../../seal.ts';
import { createWriteCheck, type WriteCheck, type WriteCheckDeps } from '../../write-check.ts';
import { type Comparing, createCommands, run } from './commands.ts';
import type { Database } from './database.ts';
import { createFailureReader } from './failures.ts';
import { createHistoryPruner } from './history-pruner.ts';
import { createHosts, type Hosts } from './hosts.ts';
import { adoptAtOpen, createStoreIdentity, type StoreIdentity } from './identity.ts';
import { type ListenNotify, openListenNotify } from './listen-notify.ts';
import { createLogStore } from './log.ts';
import { refuseHalfMigrated } from './migrate-store.ts';
import { engineOverview } from './overview.ts';
import { makeMissingDay } from './partitions.ts';
import { createPools, type Pools } from './pools.ts';
import { nameOf } from './refusal.ts';
import { keyCheckRow, prepareSchema } from './schema.ts';
import { createSettle } from './settle.ts';
import { removals } from './tenant-removal.ts';
import { createServerTime, readTime, type ServerTime } from './time.ts';
import { createUpkeepStore } from './upkeep.ts';

export interface PostgresStoreDeps {
  /** Connections of this process, including the one that listens. */
  readonly connectionsMax: number;
  /** The keys of the secrets in the database, 32 bytes each: see `docs/secrets.md`. */
  readonly secretKeys: readonly Uint8Array[];
  readonly random: RandomBytes;
  readonly clock: Clock;
  /** Defers a commit until other calls of the same turn of the event loop have joined it. */
  readonly defer: (action: () => void) => void;
  /**
   * Receives errors of listeners of `watch`, outages of the hints of other processes, and errors of
   * streams whose secrets do not open.
   */
  readonly report: (error: unknown) => void;
  /** As {@link StoreOptions.reportFailure}. */
  readonly reportFailure?: WriteCheckDeps['report'];
}

const applicationName = 'leat';

/**
 * Opens a PostgreSQL database, which any number of processes may share.
 *
 * Throws `StartRefused` with one line for the operator.
 */
export async function openPostgresStore(url: string, deps: PostgresStoreDeps): Promise<Store> {
  const { clock, report, random, connectionsMax } = deps;
  const hosts = createHosts(url, applicationName);
  const seal = createSeal(deps.secretKeys, random);
  const pools = createPools({
    hosts,
    connectionsMax,
    clock,
    repair: makeMissingDay,
    lackedKey: async (db) => lackedKey(seal, await keyCheckRow(db)),
  });
  const { commands } = pools;
  const { emit, watch } = createHints({ report });
  const identity = createStoreIdentity({ emit, random });
  const time = createServerTime(clock);
  try {
    // First: the schema of a partly migrated store waits for its key check.
    await refuseHalfMigrated(commands, nameOf(url));
    await prepareSchema(commands, nameOf(url), seal);
    await readTime(commands, time, clock);
    await adoptAtOpen(commands, identity, report);
  } catch (error) {
    await pools.close();
    throw error;
  }
  const listenNotify = await openListenNotify({
    db: commands,
    hosts,
    self: Buffer.from(random(9)).toString('base64url'),
    clock,
    generation: () => identity.generation,
    onMessage: emit,
    report,
  });
  const hint = (message: Hint): void => {
    emit(message);
    listenNotify.publish(message);
  };
  const writes = writeCheckOf(pools.publishing, deps);
  const { idle, ...parts } = partsOf(pools, {
    ...deps,
    hosts,
    identity,
    seal,
    hint,
    readCache: createReadCache(watch),
    listenNotify,
    time,
    late: (tenant) => writes.late(tenant),
  });
  return {
    ...parts,
    log: {
      ...parts.log,
      append: (tenant, events, waitedMs) =>
        writes.observe(tenant, parts.log.append(tenant, events, waitedMs)),
    },
    foreignSessions: () => hosts.sessions.altered,
    watch,
    ping: () => writes.check(),
    failure: () => writes.failure(),
    close: async () => {
      writes.close();
      await idle();
      await listenNotify.close();
      await pools.close();
    },
  };
}

function writeCheckOf(db: Database, { clock, reportFailure }: PostgresStoreDeps): WriteCheck {
  return createWriteCheck({
    clock,
    read: () => readWritable(db),
    tryWrite: (tenant) => tryWrite(db, tenant),
    report: reportFailure,
  });
}

/** A server that has become read-only reports that at once in an open session. */
async function readWritable(db: Database): Promise<void> {
  const row = await db.get<{ isReadOnly: boolean }>`
    select current_setting('transaction_read_only') = 'on' as "isReadOnly"`;
  if (row?.isReadOnly === true) await tryWrite(db);
}

/** Appends an event as publishers do, with the same locks and the wait for a standby, and takes it back. */
async function tryWrite(db: Database, tenant?: number): Promise<void> {
  await db.transact('durable', async (tx) => {
    const sent = [
      tx.run`savepoint trial`,
      tx.get`
        select leat_append(coalesce(${tenant}::integer, (select min(id) from tenants)),
          array['evt_trial'], array[false], array['trial'], array[0]::bigint[], array['{}'], '{}', '{}')`,
      tx.run`rollback to savepoint trial`,
    ];
    await Promise.all(sent);
  });
}

interface Parts extends Omit<Store, 'watch' | 'share' | 'ping' | 'failure' | 'close'> {
  /** Resolves when no append and no change of a user is in progress. */
  idle(): Promise<unknown>;
}

interface PartDeps {
  readonly hosts: Hosts;
  readonly report: (error: unknown) => void;
  readonly identity: StoreIdentity;
  readonly seal: Seal;
  readonly hint: (hint: Hint) => void;
  readonly defer: (action: () => void) => void;
  readonly readCache: CommandDeps['readCache'];
  readonly listenNotify: ListenNotify;
  readonly clock: Clock;
  readonly time: ServerTime;
  readonly late: (tenant: number) => void;
}

function partsOf(pools: Pools, deps: PartDeps): Parts {
  const { time } = deps;
  const { commands, delivering } = pools;
  const userChanges = createKeyedSerialQueue();
  const commandDeps = { ...commandDepsOf(pools, deps), userChanges };
  const nouns = createStoreCommands(commandDeps);
  const { appender, ...log } = createLogStore({ ...deps, pools });
  const upkeepDeps = { ...deps, db: commands, others: pools.lists };
  return {
    ...nouns,
    idle: () => Promise.all([appender.idle(), userChanges.idle()]),
    log,
    deliveries: {
      ...nouns.deliveries,
      settle: createSettle({ ...deps, db: delivering }),
      pruneAttempts: createHistoryPruner(upkeepDeps),
    },
    upkeep: { ...nouns.upkeep, ...createUpkeepStore(upkeepDeps) },
    time,
    recording: (entry) => createRecordingCommands(commandDeps, entry),
    guarded: (guard, entry) => createGuardedCommands(commandDeps, guard, entry),
  };
}

function commandDepsOf(pools: Pools, deps: PartDeps): Omit<CommandDeps, 'userChanges'> {
  const { hosts, identity, seal, hint, defer, readCache, report } = deps;
  return {
    on: purposesOf(pools, identity),
    seal,
    hint,
    report,
    removals,
    engine: engineOverview(pools.lists, hosts),
    failures: createFailureReader(pools.lists),
    defer,
    readCache,
    ofNodes: createNodeEngine(pools, deps),
    countMax: 200_000,
    liveNodes,
  };
}

/** Returns the connections of each purpose for commands. */
function purposesOf(pools: Pools, identity: Comparing): Purposes {
  const on = (purpose: keyof Purposes) => createCommands(pools[purpose], identity);
  return {
    lists: { ...on('lists'), bounded: (list) => pools.lists.bounded(list) },
    commands: on('commands'),
    tokens: on('tokens'),
    access: on('access'),
    delivering: on('delivering'),
    lease: on('lease'),
  };
}

interface NodeEngineDeps {
  readonly identity: StoreIdentity;
  readonly listenNotify: Pick<ListenNotify, 'publish' | 'counted'>;
  readonly clock: Pick<Clock, 'elapsedMs'>;
  /** Learns the server's time from the results of joining and heartbeats. */
  readonly time: ServerTime;
}

/** Creates what this engine knows of the nodes, whose leases are measured by the clock of the server. */
function createNodeEngine(
  { lease, guard }: Pick<Pools, 'lease' | 'guard'>,
  { identity, listenNotify, clock, time }: NodeEngineDeps,
): NodeEngine {
  const learning = async <T extends { readonly now: Millis } | undefined>(
    request: () => Promise<T>,
  ): Promise<T> => {
    const requestedMs = clock.elapsedMs();
    const result = await request();
    if (result !== undefined) time.learn(result.now, requestedMs, clock.elapsedMs());
    return result;
  };
  return {
    join: async (nodeId, command) => {
      const { joined, adoption } = await learning(() =>
        lease.transact('durable', async (tx) => {
          const adopted = await identity.adopt(tx, nodeId);
          const node = await run(tx, command());
          return { joined: node, adoption: adopted, now: node.now };
        }),
      );
      identity.adopted(adoption);
      return { ...joined, replaced: adoption.replaced };
    },
    renew: async (heartbeat) => {
      await guard.check();
      return learning(heartbeat);
    },
    skewMs: () => time.skewMs(),
    counted: listenNotify.counted,
    freed: () => listenNotify.publish({ kind: 'free' }),
  };
}
