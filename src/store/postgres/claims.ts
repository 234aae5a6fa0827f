import type { Millis } from '../../core/clock.ts';
import type { Node, StreamRef } from '../../core/types.ts';
import { failWaiting } from '../directory/disabling.ts';
import type { ClaimRequest, OwnedStream } from '../port/ownership.ts';
import { skewMaxMs } from '../port/time.ts';
import { run as runCommand } from './commands.ts';
import { numbers, type Queries } from './database.ts';
import { type OpenStream, type OwnedAsk, ownedStreams } from './owned-streams.ts';
import { runSteps } from './run-steps.ts';
import { lockRuns, type Run, writeRuns } from './runs.ts';

interface NodeRow {
  readonly alive: boolean;
  readonly now: Millis;
}

/** Claims free streams, or returns those of a claim that was made before. */
export async function claim(
  tx: Queries,
  open: OpenStream,
  node: Node,
  request: ClaimRequest,
): Promise<OwnedStream[]> {
  const self = await readNode(tx, node);
  if (self === undefined) return [];
  if (!(await beginsClaim(tx, node, request))) {
    const before = await tx.all<StreamRef>`
      select tenant, stream from runs where owner = ${node.id} and claim = ${request.claim}`;
    return ownedStreams(tx, open, { node, refs: before, rule: request });
  }
  if (!self.alive) return [];
  await freeExpiredNodes(tx);
  const free = await takeFree(tx, node, request);
  if (request.takesOnly !== true) await begin(tx, await lockRuns(tx, free), self.now);
  return ownedStreams(tx, open, { node, refs: free, rule: request });
}

/** Begins streams that a claim has only taken. */
export async function beginTaken(
  tx: Queries,
  open: OpenStream,
  { node, refs, rule }: OwnedAsk,
): Promise<OwnedStream[]> {
  const self = await readNode(tx, node);
  if (self === undefined) return [];
  const runs = [...(await lockRuns(tx, refs))].filter(([, { owner }]) => owner === node.id);
  await begin(tx, new Map(runs), self.now);
  return ownedStreams(tx, open, { node, refs: runs.map(([, run]) => run), rule });
}

/** Keeps claims and incarnations of the node off until the transaction ends. */
function readNode(tx: Queries, node: Node): Promise<NodeRow | undefined> {
  return tx.get<NodeRow>`
    select lease_until > clock_timestamp() as alive, leat_now() as now from nodes
    where id = ${node.id} and incarnation = ${node.incarnation} for key share`;
}

/** Returns false for a claim that was made before. */
async function beginsClaim(
  tx: Queries,
  node: Node,
  { claim: number }: ClaimRequest,
): Promise<boolean> {
  const row = await tx.get<{ begun: boolean }>`
    select leat_begin_step(${node.id}, ${node.incarnation}, 'claim', ${number}) as begun`;
  return row?.begun === true;
}

/**
 * Frees the streams of nodes without a lease; done once for each lease that has ended. A lease with
 * more time left than its length was written while the server's clock was ahead, and starts now.
 */
async function freeExpiredNodes(tx: Queries): Promise<void> {
  await tx.run`
    update nodes set lease_until = clock_timestamp() + lease_ms * interval '1 ms'
    where lease_until > clock_timestamp() + (lease_ms + ${skewMaxMs}) * interval '1 ms'`;
  const dead = await tx.all<{ id: string }>`
    update nodes set freed = true where id in (
      select id from nodes where not freed and lease_until <= clock_timestamp()
      order by id for update skip locked)
    returning id`;
  if (dead.length > 0) {
    await tx.run`update runs set owner = null where owner = any(${dead.map(({ id }) => id)}::text[])`;
  }
  await tx.run`delete from nodes where freed and lease_until < clock_timestamp() - interval '1 day'`;
}

/** Skips rows that others are taking now. In the order of tenant and id. */
async function takeFree(tx: Queries, node: Node, request: ClaimRequest): Promise<StreamRef[]> {
  const { among } = request;
  const taken =
    among !== undefined && 'tenants' in among
      ? await takeOfTenants(tx, node, request, among.tenants)
      : await takeInOrder(tx, node, request, among);
  return taken.toSorted(
    (one, other) => one.tenant - other.tenant || (one.stream < other.stream ? -1 : 1),
  );
}

function takeInOrder(
  tx: Queries,
  node: Node,
  { claim: number, take }: ClaimRequest,
  { after, behind = false }: { after?: StreamRef | undefined; behind?: boolean } = {},
): Promise<StreamRef[]> {
  const { tenant, stream } = after ?? { tenant: 0, stream: '' };
  return tx.all<StreamRef>`
    with free as (
      select r.tenant, r.stream
      from runs r join streams s on s.tenant = r.tenant and s.id = r.stream
      where r.owner is null and (r.tenant, r.stream) > (${tenant}::int, ${stream}::text collate "C")
        -- A merge join begins both sides there.
        and (s.tenant, s.id) > (${tenant}::int, ${stream}::text collate "C")
        and (not ${behind}::boolean
          or r.cursor < (select head from tenants where id = r.tenant))
        and (s.status = 'enabled' or exists (
          select 1 from deliveries d
          where d.tenant = r.tenant and d.stream = r.stream and d.due_at is not null
            and d.kind <> 'replay'))
      order by r.tenant, r.stream limit ${take} for no key update of r skip locked
    )
    update runs r set owner = ${node.id}, epoch = r.epoch + 1, claim = ${number}, unseen = false
    from free where r.tenant = free.tenant and r.stream = free.stream
    returning r.tenant, r.stream`;
}

function takeOfTenants(
  tx: Queries,
  node: Node,
  { claim: number, take }: ClaimRequest,
  tenants: readonly number[],
): Promise<StreamRef[]> {
  return tx.all<StreamRef>`
    with free as (
      select r.tenant, r.stream
      from runs r join streams s on s.tenant = r.tenant and s.id = r.stream
      where r.owner is null and r.tenant = any(${numbers(tenants)}::int[])
        and (s.status = 'enabled' or exists (
          select 1 from deliveries d
          where d.tenant = r.tenant and d.stream = r.stream and d.due_at is not null
            and d.kind <> 'replay'))
      order by r.tenant, r.stream limit ${take} for no key update of r skip locked
    )
    update runs r set owner = ${node.id}, epoch = r.epoch + 1, claim = ${number}, unseen = false
    from free where r.tenant = free.tenant and r.stream = free.stream
    returning r.tenant, r.stream`;
}

/** The attempts that parked these rows ended with the former owner. */
async function begin(tx: Queries, runs: ReadonlyMap<string, Run>, now: Millis): Promise<void> {
  if (runs.size === 0) return;
  const claimed = [...runs.values()];
  for (const run of claimed.filter(({ status }) => status === 'disabled')) {
    const health = await runCommand(tx, failWaiting(runSteps, run, 'parked', now));
    await writeRuns(tx, [{ ...run, health }]);
  }
  await tx.run`
    update deliveries set due_at = ${now}
    where state = 'parked' and due_at is not null and (tenant, stream) in (select * from unnest(
      ${numbers(claimed.map(({ tenant }) => tenant))}::int[],
      ${claimed.map(({ stream }) => stream)}::text[]))`;
}
