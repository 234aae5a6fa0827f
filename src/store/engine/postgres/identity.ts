import type { RandomBytes } from '../../../core/clock.ts';
import { StoreReplaced, StoreUnavailable } from '../../../core/errors.ts';
import type { Offset } from '../../../core/types.ts';
import type { Hint } from '../../port/hints.ts';
import type { HeadChange, Replacement } from '../../port/ownership.ts';
import type { Database, Durability, Queries } from './database.ts';
import { stateOf } from './errors.ts';

/**
 * Tracks which store this process works with. PostgreSQL can fail over to a replica that was
 * behind, or be restored from a backup, under a running process: what the process has cached from
 * the store is invalid then. Each command that relies on it compares the store inside its own
 * transaction, without another round trip; at a difference it writes nothing and throws
 * `StoreReplaced`, and so does every later one until the process has joined the store again
 * (docs/adr/0020).
 */
export interface StoreIdentity {
  /** Runs `db.transact`, with the comparison before the first statement of `work`. */
  transact<T>(
    db: Pick<Database, 'transact'>,
    durability: Durability,
    work: (tx: Queries) => Promise<T>,
  ): Promise<T>;
  /**
   * Runs a command whose statements contain the comparison: they select `leat_compare(generation,
   * identity, flushed)` with the values that they receive, and pass its result to `seen`.
   */
  compared<T>(command: (known: KnownStore) => Promise<T>): Promise<T>;
  /** Records that the log of a tenant reaches this offset. */
  sawHead(tenant: number, head: Offset): void;
  /**
   * Accepts the store as it is, within a transaction: stores its identity if that has changed, and
   * raises the generation then.
   */
  adopt(tx: Queries, self?: string): Promise<Adoption>;
  /** Call it once the transaction of {@link adopt} has committed. */
  adopted(adoption: Adoption): void;
  /** Stops comparing: the server cannot identify the store. */
  giveUp(): void;
  /** The generation of the store that this process joined. */
  readonly generation: number | undefined;
}

/** The store as a process joined it; all absent where the server cannot identify it. */
export interface KnownStore {
  readonly generation: number | undefined;
  readonly identity: string | undefined;
  /** The known length of the server's log; it never falls on one store. */
  readonly flushed: number | undefined;
  /** Receives the result of `leat_compare`. */
  seen(flushed: number | null | undefined): void;
}

export interface Adoption {
  readonly generation: number | undefined;
  readonly identity: string | undefined;
  readonly flushed: number | undefined;
  /** Present when the store is another one than this process knew. */
  readonly replaced: Replacement | undefined;
}

/**
 * Leases of other nodes are valid this long after the store was replaced: they may have been
 * renewed on the previous store.
 */
const leaseMs = 10_000;

export interface StoreIdentityDeps {
  readonly emit: (hint: Hint) => void;
  readonly random: RandomBytes;
}

export function createStoreIdentity({ emit, random }: StoreIdentityDeps): StoreIdentity {
  let known = unknownStore;
  /** Heads of the logs that this process has read. */
  const heads = new Map<number, Offset>();
  /** The store that was known when a difference was found, so that it is reported once. */
  let left: KnownStore | undefined;
  let isSupported = true;

  const compared = async <T>(command: (known: KnownStore) => Promise<T>): Promise<T> => {
    const mine = known;
    try {
      const result = await command(mine);
      // The result is from a store that this process has left in the meantime, which may not have
      // what was written.
      if (mine !== known) throw new StoreReplaced(replacedText, { mayBeStored: true });
      return result;
    } catch (error) {
      if (error instanceof StoreReplaced && mine === known && left !== mine) {
        left = mine;
        emit({ kind: 'replaced' });
      }
      throw error;
    }
  };

  return {
    compared,
    transact: (db, durability, work) =>
      compared((mine) => db.transact(durability, (tx) => comparing(tx, mine, work))),
    sawHead: (tenant, head) => {
      if (head > (heads.get(tenant) ?? 0)) heads.set(tenant, head);
    },
    adopt: (tx, self) =>
      isSupported
        ? adopt(tx, { known, heads, self, isLeft: left === known, random })
        : Promise.resolve(nothingAdopted),
    giveUp: () => {
      isSupported = false;
    },
    get generation() {
      return known.generation;
    },
    adopted: ({ replaced, ...adopted }) => {
      // A command in progress on this store keeps its comparison: what it committed counts.
      if (isSameStore(known, adopted)) known.seen(adopted.flushed);
      else known = knownOf(adopted);
      if (replaced !== undefined) heads.clear();
      for (const { tenant, now } of replaced?.heads ?? []) heads.set(tenant, now);
    },
  };
}

const replacedText = 'The store has failed over or was restored.';
const nothingAdopted: Adoption = {
  generation: undefined,
  identity: undefined,
  flushed: undefined,
  replaced: undefined,
};

function knownOf({ generation, identity, ...rest }: Omit<Adoption, 'replaced'>): KnownStore {
  let { flushed } = rest;
  return {
    generation,
    identity,
    get flushed() {
      return flushed;
    },
    seen: (position) => {
      if (position !== null && position !== undefined) flushed = Math.max(flushed ?? 0, position);
    },
  };
}

/** Throws `StoreReplaced` unless the store is still the known one. */
export async function requireSame(db: Queries, known: KnownStore): Promise<void> {
  const { generation, identity, flushed, seen } = known;
  const row = await db.get<{ flushed: number | null }>`
    select leat_compare(${generation}, ${identity}, ${flushed}) as flushed`;
  seen(row?.flushed);
}

function isSameStore(known: KnownStore, { generation, identity }: Omit<Adoption, 'replaced'>) {
  return known.generation === generation && known.identity === identity;
}

/** For commands that compare nothing. */
export const unknownStore: KnownStore = knownOf(nothingAdopted);

/** Pipelines the comparison with the first statements of `work`. Its failure takes precedence. */
async function comparing<T>(
  tx: Queries,
  { generation, identity, flushed, seen }: KnownStore,
  work: (tx: Queries) => Promise<T>,
): Promise<T> {
  const comparison = tx.get<{ flushed: number | null }>`
    select leat_compare(${generation}, ${identity}, ${flushed}) as flushed`;
  comparison.catch(() => undefined);
  try {
    return await work(tx);
  } finally {
    seen((await comparison)?.flushed);
  }
}

interface Present {
  readonly generation: number;
  readonly identity: string;
  /** The row before it is updated. */
  readonly stored: string | null;
  readonly flushed: number;
  /** A restore adds foreign keys after all rows. */
  readonly isWhole: boolean;
}

async function adopt(
  tx: Queries,
  deps: {
    readonly known: KnownStore;
    readonly heads: ReadonlyMap<number, Offset>;
    readonly self: string | undefined;
    /** Records that a command has found the store to be another one. */
    readonly isLeft: boolean;
    readonly random: RandomBytes;
  },
): Promise<Adoption> {
  const { known, self, isLeft, random } = deps;
  const row = await tx.get<Present>`
    select generation, identity as stored, leat_identity() as identity, leat_flushed() as flushed,
      exists (select from pg_constraint where conrelid = 'node_steps'::regclass and contype = 'f')
        as "isWhole"
    from store where id = 1 for update`;
  if (row?.isWhole !== true) {
    const part = row === undefined ? 'The row of the store is' : 'Keys of tables are';
    throw new StoreUnavailable(`${part} missing: a restore may be under way.`);
  }
  const { identity, flushed, stored } = row;
  // The log may have grown past the known position since a command found it shorter.
  const isBelow = isLeft || flushed < (known.flushed ?? 0);
  const wentBack = isBelow && row.generation === known.generation;
  const isOther = stored !== identity || wentBack || row.generation < (known.generation ?? 0);
  const latest = Math.max(row.generation, known.generation ?? 0);
  const generation = isOther ? generationAfter(latest, random) : row.generation;
  if (isOther) await tx.run`update store set generation = ${generation}, identity = ${identity}`;
  // Before the first process nothing can have been replaced.
  if (isOther && stored !== null) await keepLeases(tx, self);
  const isKnown = known.generation === undefined || known.generation === generation;
  const replaced = isKnown ? undefined : { generation, heads: await headChanges(tx, deps.heads) };
  return { generation, identity, flushed, replaced };
}

/**
 * Returns a higher generation, with 32 random bits: two servers that were promoted from the same
 * one have the same identity, and a backup that is restored twice has the same row. There are 2^21
 * such steps below the highest safe integer.
 */
function generationAfter(latest: number, random: RandomBytes): number {
  return latest + 1 + Buffer.from(random(4)).readUInt32BE();
}

async function keepLeases(tx: Queries, self: string | undefined): Promise<void> {
  await tx.run`
    update nodes set lease_until = greatest(lease_until,
      clock_timestamp() + ${leaseMs} * interval '1 ms')
    where not freed and id is distinct from ${self}`;
}

async function headChanges(
  tx: Queries,
  heads: ReadonlyMap<number, Offset>,
): Promise<readonly HeadChange[]> {
  const rows = await tx.all<{ id: number; head: Offset }>`select id, head from tenants order by id`;
  return rows.flatMap(({ id: tenant, head: now }) => {
    const before = heads.get(tenant);
    return before === undefined ? [] : [{ tenant, before, now }];
  });
}

/** Functions that a server lacks, or that this user may not call. */
const unsupported = new Set(['0A000', '42501', '42883']);

/**
 * Adopts the store when it is opened. A server that cannot identify the store is used without
 * comparison.
 */
export async function adoptAtOpen(
  db: Database,
  identity: StoreIdentity,
  report: (error: unknown) => void,
): Promise<void> {
  try {
    identity.adopted(await db.transact('durable', (tx) => identity.adopt(tx)));
  } catch (error) {
    if (!unsupported.has(stateOf(error))) throw error;
    identity.giveUp();
    report(error);
  }
}
