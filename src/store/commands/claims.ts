import type { Millis } from '../../core/clock.ts';
import type { Node, StreamRef } from '../../core/types.ts';
import type { ClaimFilter, ClaimRequest, OwnedStream } from '../port/ownership.ts';
import type { Run } from '../rows/runs.ts';
import { needsOwner } from '../rules/owner.ts';
import { type Command, engine, sql } from './command.ts';
import { byDue } from './delivery-indexes.ts';
import { forKeyShare, Fragment, perDialect, piece } from './dialect.ts';
import { failWaiting } from './disabling.ts';
import { freeExpiredNodes, leaseNow } from './nodes.ts';
import { type OwnedAsk, type OwnedDeps, ownedStreams } from './owned-streams.ts';
import { amongStreams, lockRuns } from './runs.ts';

/** Claims free streams, or returns those of a claim that was made before. */
export function* claim(deps: OwnedDeps, node: Node, request: ClaimRequest): Command<OwnedStream[]> {
  const self = yield* readNode(node);
  if (self === undefined) return [];
  const ask = { node, rule: request };
  if (!(yield* engine.beginStep(node, 'claim', request.claim))) {
    const before = yield* sql.all<StreamRef>`
      select tenant, stream from runs where owner = ${node.id} and claim = ${request.claim}
      order by tenant, stream`;
    return yield* ownedStreams(deps, { ...ask, refs: before });
  }
  if (!self.isAlive) return [];
  yield* freeExpiredNodes();
  const free = yield* takeFree(node, request);
  if (request.takesOnly !== true) yield* begin(yield* lockRuns(free), self.now);
  return yield* ownedStreams(deps, { ...ask, refs: free });
}

/** Begins streams that a claim has only taken. */
export function* beginTaken(deps: OwnedDeps, ask: OwnedAsk): Command<OwnedStream[]> {
  const { node, refs } = ask;
  const self = yield* readNode(node);
  if (self === undefined) return [];
  const runs = [...(yield* lockRuns(refs))].filter(([, { owner }]) => owner === node.id);
  yield* begin(new Map(runs), self.now);
  return yield* ownedStreams(deps, { ...ask, refs: runs.map(([, run]) => run) });
}

interface NodeRow {
  /** A number on SQLite, which has no booleans. */
  readonly isAlive: boolean | number;
  readonly now: Millis;
}

/** Keeps claims and incarnations of the node off until the transaction ends. */
function* readNode(node: Node): Command<NodeRow | undefined> {
  return yield* sql.get<NodeRow>`
    select lease_until > ${leaseNow} as "isAlive", leat_now() as now from nodes
    where id = ${node.id} and incarnation = ${node.incarnation} ${forKeyShare}`;
}

/** Takes streams in the order of tenant and id, and skips those that others are taking now. */
function* takeFree(
  node: Node,
  { claim: number, take, among }: ClaimRequest,
): Command<readonly StreamRef[]> {
  const free = yield* sql.all<StreamRef>`
    select r.tenant, r.stream
    from runs r join streams s on s.tenant = r.tenant and s.id = r.stream
    where r.owner is null and ${isAmong(among)} and ${needsOwner}
    order by r.tenant, r.stream limit ${take} ${forTaking}`;
  if (free.length === 0) return free;
  yield* sql.run`
    update runs set owner = ${node.id}, epoch = epoch + 1, claim = ${number}, unseen = ${false}
    where (tenant, stream) in ${amongStreams(free)}`;
  return free;
}

const forTaking = perDialect({ sqlite: '', postgres: 'for no key update of r skip locked' });

function isAmong(among: ClaimFilter = { after: undefined, behind: false }): Fragment {
  if ('tenants' in among) return tenantsIn(among.tenants);
  const { tenant, stream } = among.after ?? { tenant: 0, stream: '' };
  return new Fragment({
    sqlite: piece`(r.tenant, r.stream) > (${tenant}, ${stream})
      and (not ${among.behind}
        or r.cursor < (select head from tenants where id = r.tenant))`,
    // A merge join begins both sides there.
    postgres: piece`(r.tenant, r.stream) > (${tenant}::int, ${stream}::text collate "C")
      and (s.tenant, s.id) > (${tenant}::int, ${stream}::text collate "C")
      and (not ${among.behind}::boolean
        or r.cursor < (select head from tenants where id = r.tenant))`,
  });
}

function tenantsIn(tenants: readonly number[]): Fragment {
  return new Fragment({
    sqlite: piece`r.tenant in (select value from json_each(${JSON.stringify(tenants)}))`,
    postgres: piece`r.tenant = any(${tenants}::int[])`,
  });
}

/** The attempts that parked these rows ended with the former owner. */
function* begin(runs: ReadonlyMap<string, Run>, now: Millis): Command<void> {
  if (runs.size === 0) return;
  const claimed = [...runs.values()];
  for (const run of claimed.filter(({ status }) => status === 'disabled')) {
    const health = yield* failWaiting(run, 'parked', now);
    yield* engine.writeRuns([{ ...run, health }]);
  }
  yield* sql.run`
    update deliveries ${byDue} set due_at = ${now}
    where state = 'parked' and due_at is not null and (tenant, stream) in ${amongStreams(claimed)}`;
}
