import type { Millis } from '../../core/clock.ts';
import type { Node } from '../../core/types.ts';
import { currentKeyCheck } from '../key-check.ts';
import type { NodeKeys } from '../port/secrets.ts';
import type { NodeState, Replacement } from '../port/ownership.ts';
import { isSkewed, skewMaxMs } from '../port/time.ts';
import type { Seal } from '../seal.ts';
import { type Command, ServerOnly, sql, type Statement, together } from './command.ts';
import { forNoKeyUpdate, Fragment, forUpdate, oneOf, perDialect, piece } from './dialect.ts';
import { sealingRow } from './sealing.ts';

/** What an engine knows of the nodes on its store. */
export interface NodeEngine {
  /** Runs a command of a node that accepts the store as it is now. */
  join<T extends { readonly now: Millis }>(
    nodeId: string,
    command: () => Command<T>,
  ): Promise<T & { readonly replaced?: Replacement | undefined }>;
  /** Runs a heartbeat; throws what must prevent a renewal of the lease. */
  renew<T extends { readonly now: Millis } | undefined>(heartbeat: () => Promise<T>): Promise<T>;
  /** How far the clock of the process is ahead of the store's. */
  skewMs(): Millis;
  /** Receives the number of live nodes at each heartbeat. */
  counted(living: number): void;
  /** Tells other processes that streams are free. */
  freed(): void;
}

/**
 * The clock of leases: that of the server, and where one process has the store its monotonic one, so that the
 * leases of a former process are void.
 */
export const leaseNow = perDialect({ sqlite: 'leat_elapsed()', postgres: 'clock_timestamp()' });

function leaseUntil(leaseMs: number): Fragment {
  return new Fragment({
    sqlite: piece`leat_elapsed() + ${leaseMs}`,
    postgres: piece`clock_timestamp() + ${leaseMs} * interval '1 ms'`,
  });
}

/** Registers a node; see {@link OwnershipStore.join}. */
export function* joinNode(
  seal: Seal,
  id: string,
  leaseMs: number,
): Command<Node & { readonly now: Millis }> {
  yield* lockNode(id);
  const row = yield* sql.get<{ incarnation: number; now: Millis }>`
    insert into nodes as n (id, incarnation, lease_until, ${ownColumns})
    values (${id}, 1, ${leaseUntil(leaseMs)}, ${ownValues(leaseMs, seal)})
    on conflict (id) do update set incarnation = n.incarnation + 1,
      lease_until = excluded.lease_until, ${ownUpdates}
    returning incarnation, leat_now() as now`;
  if (row === undefined) throw new Error('An insert that returns a row returned none.');
  // Under a lock: a rotation that begins now either sees this node and its keys, or is seen here.
  currentKeyCheck(seal, yield* sealingRow());
  yield* sql.run`update runs set owner = null where owner = ${id}`;
  return { id, incarnation: row.incarnation, now: row.now };
}

// What nodes of several processes tell each other; SQLite has the numbers of the steps of a node there.
const ownColumns = perDialect({
  sqlite: 'last_batch, last_claim',
  postgres: 'lease_ms, secret_keys',
});
const ownUpdates = perDialect({
  sqlite: 'last_batch = 0, last_claim = 0',
  postgres: `lease_ms = excluded.lease_ms, skew_ms = 0, freed = false,
    secret_keys = excluded.secret_keys`,
});

function ownValues(leaseMs: number, seal: Seal): Fragment {
  return new Fragment({
    sqlite: piece`0, 0`,
    postgres: piece`${leaseMs}, ${seal.keys.ids().join(',')}`,
  });
}

/** What a heartbeat finds. */
export interface Beat {
  readonly now: Millis;
  /** The lease had ended. */
  readonly lapsed: boolean;
  /** Nodes with a lease, this one included. */
  readonly living: number;
  /** Those of them whose clocks are right. */
  readonly inTime: number;
}

/**
 * Renews the lease, with the tables of the nodes and of the store's identity alone: nothing that waits
 * for streams ends a lease. Returns `undefined` when the node has no row of this incarnation.
 */
export function* renewLease(
  node: Node,
  leaseMs: number,
  skewMs: Millis,
): Command<Beat | undefined> {
  const [before, renewed, others] = yield* together(
    sql.get<{ lapsed: boolean | number }>`
      select lease_until <= ${leaseNow} as lapsed from nodes
      where id = ${node.id} and incarnation = ${node.incarnation} ${forNoKeyUpdate}`,
    sql.get<{ now: Millis }>`
      update nodes set lease_until = ${leaseUntil(leaseMs)} ${beating(leaseMs, skewMs)}
      where id = ${node.id} and incarnation = ${node.incarnation} returning leat_now() as now`,
    sql.get<{ living: number; in_time: number }>`
      select count(*) as living, ${countInTime(skewMs)} as in_time
      from nodes where id <> ${node.id} and lease_until > ${leaseNow}`,
  );
  if (before === undefined || renewed === undefined || others === undefined) return undefined;
  return {
    now: renewed.now,
    lapsed: Boolean(before.lapsed),
    living: others.living + 1,
    inTime: others.in_time + (isSkewed(skewMs) ? 0 : 1),
  };
}

function beating(leaseMs: number, skewMs: Millis): Fragment {
  return new Fragment({
    sqlite: piece``,
    postgres: piece`, lease_ms = ${leaseMs}, skew_ms = ${skewMs}, freed = false`,
  });
}

/** Nodes of one process have the same clock. */
function countInTime(skewMs: Millis): Fragment {
  return new Fragment({
    sqlite: piece`iif(${isSkewed(skewMs)}, 0, count(*))`,
    postgres: piece`count(*) filter (where abs(skew_ms) <= ${skewMaxMs}::bigint)`,
  });
}

/**
 * Waits for claims of the node, and keeps later ones off until the commit: a claim must not take streams
 * that are being freed. Only this and {@link freeExpiredNodes} lock the row so that a claim notices; a
 * heartbeat neither waits for a claim nor for a settlement.
 */
function lockNode(id: string): Statement<unknown> {
  return sql.get`select 1 from nodes where id = ${id} ${forUpdate}`;
}

/** Returns whether the node is alive in this incarnation; a former one may not write any more. */
export function* isPresent({ id, incarnation }: Node): Command<boolean> {
  const row = yield* sql.get`
    select 1 from nodes where id = ${id} and incarnation = ${incarnation}`;
  return row !== undefined;
}

/** Returns whether a process has joined under the name of the node, and is not forgotten. */
export function* isKnown({ id }: Node): Command<boolean> {
  return (yield* sql.get`select 1 from nodes where id = ${id}`) !== undefined;
}

/**
 * Frees the streams of nodes without a lease; done once for each lease that has ended. A lease with
 * more time left than its length was written while the server's clock was ahead, and starts now.
 */
export function* freeExpiredNodes(): Command<void> {
  yield* new ServerOnly(sql.run`
    update nodes set lease_until = clock_timestamp() + lease_ms * interval '1 ms'
    where lease_until > clock_timestamp() + (lease_ms + ${skewMaxMs}) * interval '1 ms'`);
  const dead = yield* sql.all<{ id: string }>`
    update nodes set ${free} where id in (
      select id from nodes where ${isExpired} order by id ${forUpdateSkipping})
    returning id`;
  if (dead.length > 0) {
    const ids = dead.map(({ id }) => id);
    yield* sql.run`update runs set owner = null where owner ${oneOf(ids)}`;
  }
  yield* new ServerOnly(sql.run`
    delete from nodes where freed and lease_until < clock_timestamp() - interval '1 day'`);
}

/** A lease of 0 has ended, and others may have the streams of its node. */
const free = perDialect({ sqlite: 'lease_until = 0', postgres: 'freed = true' });
const isExpired = perDialect({
  sqlite: 'lease_until > 0 and lease_until <= leat_elapsed()',
  postgres: 'not freed and lease_until <= clock_timestamp()',
});
const forUpdateSkipping = perDialect({ sqlite: '', postgres: 'for update skip locked' });

/** Ends the lease of a node and frees its streams. */
export function* leaveNode(node: Node): Command<void> {
  yield* lockNode(node.id);
  const left = yield* sql.run`
    update nodes set ${ended} where id = ${node.id} and incarnation = ${node.incarnation}`;
  if (left > 0) yield* sql.run`update runs set owner = null where owner = ${node.id}`;
}

const ended = perDialect({
  sqlite: 'lease_until = 0',
  postgres: 'lease_until = clock_timestamp(), freed = true',
});

/** Frees every stream, for a process that has just become the only one on its store. */
export function* voidOwnership(): Command<void> {
  yield* sql.run`update runs set owner = null where owner is not null`;
  yield* sql.run`update nodes set lease_until = 0`;
}

/** Returns the nodes with a lease, and former ones whose streams are not taken yet. */
export function* listNodes(skewMs: Millis): Command<NodeState[]> {
  const rows = yield* sql.all<NodeState>`
    select n.id, count(r.key) as streams, ${leaseLeft} as "leaseMs", ${shownSkew(skewMs)} as "skewMs"
    from nodes n left join runs r on r.owner = n.id
    where n.lease_until > ${leaseNow} or r.key is not null
    group by n.id order by n.id`;
  return rows.map((row) => ({ ...row }));
}

const leaseLeft = perDialect({
  sqlite: 'cast(max(0, round(n.lease_until - leat_elapsed())) as integer)',
  postgres: 'greatest(0, extract(epoch from n.lease_until - clock_timestamp()) * 1000)::int',
});

function shownSkew(skewMs: Millis): Fragment {
  return new Fragment({ sqlite: piece`${skewMs}`, postgres: piece`n.skew_ms` });
}

/** Returns the nodes with a lease and the keys that they reported when they joined. */
export function* liveNodes(): Command<readonly NodeKeys[]> {
  const rows = yield* sql.all<{ id: string; keys: string }>`
    select id, secret_keys as keys from nodes where lease_until > clock_timestamp() order by id`;
  return rows.map(({ id, keys }) => ({ id, keys: keys.split(',') }));
}
