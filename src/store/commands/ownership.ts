import type { Millis } from '../../core/clock.ts';
import { StoreUnavailable } from '../../core/errors.ts';
import { streamKeyOf } from '../../core/stream-key.ts';
import type { Node, StreamRef } from '../../core/types.ts';
import type {
  CursorRaise,
  Heartbeat,
  KnownStream,
  OwnedStream,
  OwnershipStore,
} from '../port/ownership.ts';
import { isSkewed } from '../port/time.ts';
import { needsOwner } from '../rules/owner.ts';
import { beginTaken, claim } from './claims.ts';
import { type Command, LockTimeout, type On, sql } from './command.ts';
import { perDialect } from './dialect.ts';
import {
  type Beat,
  isKnown,
  isPresent,
  joinNode,
  leaseNow,
  leaveNode,
  listNodes,
  type NodeEngine,
  renewLease,
} from './nodes.ts';
import { type OwnedAsk, type OwnedDeps, ownedStreams } from './owned-streams.ts';
import { amongClaims, amongStreams, lockRuns, raiseCursors } from './runs.ts';
import { keepTaken, takenByOthers, yieldedRaise } from './taken-events.ts';

export interface OwnershipDeps extends On, OwnedDeps {
  readonly ofNodes: NodeEngine;
}

/** Creates the store of which node owns which stream. */
export function createOwnershipStore(deps: OwnershipDeps): OwnershipStore {
  const { on, ofNodes, seal } = deps;
  const { lease, delivering, commands } = on;
  const withStreams = createStreamsReader(deps);
  return {
    join: async (nodeId, leaseMs) => {
      const join = () => joinNode(seal, nodeId, leaseMs);
      const { id, incarnation, replaced } = await ofNodes.join(nodeId, join);
      return { id, incarnation, ...(replaced && { replaced }) };
    },
    heartbeat: async (node, leaseMs) => {
      const skewMs = ofNodes.skewMs();
      const beat = await ofNodes.renew(() =>
        lease.transact('relaxed', () => renewLease(node, leaseMs, skewMs)),
      );
      if (beat === undefined) return (await lease.read(isKnown(node))) ? undefined : 'removed';
      ofNodes.counted(beat.living);
      return withStreams(node, beat, skewMs);
    },
    claim: (node, request) => delivering.transact('settling', () => claim(deps, node, request)),
    begin: (node, refs, rule) =>
      delivering.transact('settling', () => beginTaken(deps, { node, refs, rule })),
    owned: (node, streams, rule) =>
      delivering.transact('settling', () => owned(deps, { node, refs: streams, rule })),
    hasSeen: (ref) => commands.read(hasSeen(ref)),
    owner: (ref) => commands.read(owner(ref)),
    raiseCursors: (cursors) =>
      delivering.transact('relaxed', function* () {
        return yield* raiseCursors(yield* lockRuns(cursors), cursors);
      }),
    release: async (node, cursors) => {
      await delivering.transact('settling', () => release(node, cursors));
      ofNodes.freed();
    },
    noteRefusal: (node, ref, code) =>
      delivering.transact('relaxed', () => noteRefusal(node, ref, code)),
    leave: async (node) => {
      await lease.transact('settling', () => leaveNode(node));
      ofNodes.freed();
    },
    nodes: () => commands.read(listNodes(ofNodes.skewMs())),
  };
}

type StreamsReader = (node: Node, beat: Beat, skewMs: Millis) => Promise<Heartbeat>;

/** The share stays as it was while the streams cannot be read. */
function createStreamsReader({ on, report }: OwnershipDeps): StreamsReader {
  let share = Infinity;
  return async (node, beat, skewMs) => {
    const read = await on.lease
      .transact('relaxed', () => readStreams(node, beat.living > 1))
      .catch((error: unknown) => {
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
function* readStreams({ id }: Node, isShared: boolean): Command<StreamsRead> {
  yield* new LockTimeout(1000);
  const changed = yield* sql.all<StreamRef>`
    select tenant, stream from runs where owner = ${id} and ${isUnseen}`;
  const count = isShared
    ? yield* sql.get<{ wanted: number }>`
        select count(*) as wanted from streams s where ${needsOwner}`
    : undefined;
  return {
    changed: changed.map(({ tenant, stream }) => ({ tenant, stream })),
    wanted: count?.wanted ?? 0,
  };
}

/** A partial index of SQLite is used for this text alone. */
const isUnseen = perDialect({ sqlite: 'unseen = 1', postgres: 'unseen' });

/**
 * A node whose clock is wrong leaves the streams to nodes whose clocks are right, if there are any:
 * signatures and certificates use the clock of the node that sends.
 */
function shareOf({ living, inTime }: Beat, skewMs: Millis, wanted: number): number {
  if (inTime > 0 && isSkewed(skewMs)) return 0;
  return living > 1 ? Math.max(1, Math.ceil(wanted / (inTime === 0 ? living : inTime))) : Infinity;
}

/**
 * Marks first and then reads: a change that commits between the two is read, and still counts as
 * unseen.
 */
function* owned(
  deps: OwnershipDeps,
  request: OwnedAsk & { readonly refs: readonly KnownStream[] },
): Command<OwnedStream[]> {
  const { node, refs } = request;
  if (!(yield* isPresent(node))) return [];
  yield* sql.run`
    update runs set unseen = ${false}
    where ${isUnseen} and owner = ${node.id} and (tenant, stream) in ${amongStreams(refs)}`;
  const found = yield* ownedStreams(deps, request);
  const others = takenByOthers(found, refs);
  if (others.length === 0) return found;
  for (const one of others) yield* keepTaken(one, one.taken);
  return yield* ownedStreams(deps, request);
}

function* hasSeen({ tenant, stream }: StreamRef): Command<boolean> {
  const unseen = yield* sql.get`
    select 1 from runs r join nodes n on n.id = r.owner
    where r.tenant = ${tenant} and r.stream = ${stream} and ${isUnseen}
      and n.lease_until > ${leaseNow}`;
  return unseen === undefined;
}

function* owner({ tenant, stream }: StreamRef): Command<string | undefined> {
  const row = yield* sql.get<{ id: string }>`
    select n.id from runs r join nodes n on n.id = r.owner
    where r.tenant = ${tenant} and r.stream = ${stream} and n.lease_until > ${leaseNow}`;
  return row?.id;
}

function* release(node: Node, last: readonly (CursorRaise & KnownStream)[]): Command<void> {
  if (!(yield* isPresent(node))) return;
  const before = yield* lockRuns(last);
  const wasRead = ({ version, ...ref }: CursorRaise): boolean =>
    before.get(streamKeyOf(ref))?.version === version;
  const raises: CursorRaise[] = [];
  for (const { taken, ...raise } of last) {
    if (taken === undefined || wasRead(raise)) raises.push(raise);
    else raises.push(yieldedRaise(raise, taken, yield* keepTaken(raise, taken)));
  }
  const locked = last.every(wasRead) ? before : yield* lockRuns(last);
  yield* raiseCursors(locked, raises);
  yield* sql.run`
    update runs set owner = null
    where owner = ${node.id} and (tenant, stream, epoch) in ${amongClaims(last)}`;
}

/** Notes since when results of a stream of the node are refused, or that none is any more. */
function* noteRefusal(
  { id }: Node,
  { tenant, stream, epoch }: StreamRef & Pick<CursorRaise, 'epoch'>,
  code: string | undefined,
): Command<void> {
  if (code === undefined) {
    yield* sql.run`
      update runs set refused_at = null, refused_code = null
      where tenant = ${tenant} and stream = ${stream} and owner = ${id} and epoch = ${epoch}`;
  } else {
    yield* sql.run`
      update runs set refused_at = coalesce(refused_at, leat_now()), refused_code = ${code}
      where tenant = ${tenant} and stream = ${stream} and owner = ${id} and epoch = ${epoch}`;
  }
}
