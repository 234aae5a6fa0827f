import { resolve } from 'node:path';
import type { Config } from '../config.ts';
import type { Millis } from '../core/clock.ts';
import { formatTime } from '../core/date.ts';
import { yieldToEventLoop } from '../core/slices.ts';
import type { Tenant } from '../core/types.ts';
import type { NodeState } from '../store/port/ownership.ts';
import type { SealState } from '../store/port/secrets.ts';
import type { StoreSize, TenantOverview } from '../store/port/overview.ts';
import type { Args, Call, CommandDeps } from './command.ts';
import { bytesText, type Column, countText, durationText, tableOf } from './table.ts';

/** Returns the nodes on the store and how many streams each owns. */
export async function nodes(deps: CommandDeps, args: Args): Promise<string> {
  const list = await nodesOf(deps);
  if (args['json'] === true) return JSON.stringify(list.map(nodeFields), undefined, 2);
  return nodeLines(list, deps.config).join('\n');
}

/** Returns nodes, size of the store, and counts and lag of each tenant. */
export async function status(deps: CommandDeps, args: Args, call: Call): Promise<string> {
  const { store, clock } = deps;
  const [secrets, list, size, tenants, leaving] = await Promise.all([
    store.secrets.state(),
    nodesOf(deps),
    store.overview.size(),
    store.tenants.list(),
    store.tenants.leaving(),
  ]);
  const rows: TenantRow[] = [];
  // One after the other: each takes some milliseconds of a store in use.
  for (const tenant of tenants) {
    call.signal.throwIfAborted();
    call.progress({ step: 'reading tenants', done: rows.length, total: tenants.length });
    const overview = await store.overview.tenant(tenant.id);
    if (overview !== undefined) rows.push({ tenant, overview });
    await yieldToEventLoop();
  }
  const now = clock.now();
  if (args['json'] === true) return jsonOf({ secrets, nodes: list, size, rows, leaving, now });
  return [
    ...nodeLines(list, deps.config),
    '',
    sizeLine(size),
    ...(secrets.former === undefined ? [] : [unfinishedSecrets]),
    '',
    ...tableOf(columnsAt(now), rows),
    ...leaving.map(
      ({ name }) => `${name} is being deleted: leat tenants delete ${name} resumes it.`,
    ),
  ].join('\n');
}

const unfinishedSecrets = 'A change of LEAT_SECRET_KEY is unfinished: leat secrets rotate ends it.';

interface TenantRow {
  readonly tenant: Tenant;
  readonly overview: TenantOverview;
}

/** At most 80 columns with names of up to 20 characters. */
function columnsAt(now: Millis): Column<TenantRow>[] {
  const right = 'right' as const;
  return [
    { header: 'TENANT', text: ({ tenant }) => tenant.name },
    { header: 'EVENTS', align: right, text: ({ overview }) => countText(overview.events) },
    { header: 'ABOUT', align: right, text: ({ overview }) => bytesText(overview.aboutBytes) },
    { header: 'OK', align: right, text: ({ overview }) => String(overview.streams.enabled) },
    { header: 'FAILING', align: right, text: ({ overview }) => String(overview.streams.failing) },
    { header: 'DISABLED', align: right, text: ({ overview }) => String(overview.streams.disabled) },
    { header: 'FAILURES', align: right, text: ({ overview }) => countText(overview.openFailures) },
    { header: 'LAG', align: right, text: ({ overview }) => lagText(overview, now) },
  ];
}

function lagText({ lag }: TenantOverview, now: Millis): string {
  return lag.since === undefined ? '0 s' : durationText(now - lag.since);
}

function sizeLine({ bytes, freeBytes }: StoreSize): string {
  const free = freeBytes === undefined ? '' : `, ${bytesText(freeBytes)} of it free for reuse`;
  return `Store: ${bytesText(bytes)}${free}`;
}

/**
 * Returns the nodes on the store. The store has no versions of them: the version is that of the server
 * that runs the command, which is the only node on its SQLite file.
 */
async function nodesOf({ store, serverVersion }: CommandDeps): Promise<readonly NodeShown[]> {
  const list = await store.ownership.nodes();
  return serverVersion === undefined
    ? list
    : list.map((node) => ({ ...node, version: serverVersion }));
}

/** `skewMs`: how far its clock is ahead of the store's, where the store measures it. */
type NodeShown = NodeState & { readonly skewMs?: number; readonly version?: string };

const skewColumn: Column<NodeShown> = {
  header: 'SKEW',
  align: 'right',
  text: ({ skewMs }) =>
    skewMs === undefined ? '-' : `${(Math.round(skewMs / 100) / 10 || 0).toFixed(1)} s`,
};

const versionColumn: Column<NodeShown> = {
  header: 'VERSION',
  text: ({ version = '-' }) => version,
};

function nodeLines(list: readonly NodeShown[], { store }: Pick<Config, 'store'>): string[] {
  if (list.length === 0) {
    // The settings of a service in another folder may name another file.
    const file = store.engine === 'sqlite' ? store.file : undefined;
    return [file === undefined ? 'No node runs.' : `No node runs on ${resolve(file)}.`];
  }
  const columns: Column<NodeShown>[] = [
    { header: 'NODE', text: ({ id }) => id },
    ...(list.some(({ version }) => version !== undefined) ? [versionColumn] : []),
    { header: 'STREAMS', align: 'right', text: ({ streams }) => countText(streams) },
    { header: 'LEASE', align: 'right', text: ({ leaseMs }) => leaseText(leaseMs) },
    ...(list.some(({ skewMs }) => skewMs !== undefined) ? [skewColumn] : []),
  ];
  return tableOf(columns, list);
}

function leaseText(leaseMs: number): string {
  return leaseMs > 0 ? `${(leaseMs / 1000).toFixed(1)} s` : 'ended';
}

function nodeFields({ id, version, streams, leaseMs, skewMs }: NodeShown): object {
  return { id, version, streams, lease_ms: leaseMs, skew_ms: skewMs };
}

function jsonOf({
  secrets: { key, former },
  nodes: list,
  size: { bytes, freeBytes },
  rows,
  leaving,
  now,
}: {
  readonly secrets: SealState;
  readonly nodes: readonly NodeShown[];
  readonly size: StoreSize;
  readonly rows: readonly TenantRow[];
  readonly leaving: readonly Tenant[];
  readonly now: Millis;
}): string {
  const at = (instant: Millis | undefined): string | undefined =>
    instant === undefined ? undefined : formatTime(instant);
  const tenants = rows.map(({ tenant, overview }) => ({
    name: tenant.name,
    domain: tenant.domain,
    log: {
      head: overview.head,
      events: overview.events,
      about_bytes: overview.aboutBytes,
      oldest_published_at: at(overview.oldestPublishedAt),
      newest_published_at: at(overview.newestPublishedAt),
    },
    streams: overview.streams,
    open_failures: overview.openFailures,
    lag: {
      events: overview.lag.events,
      seconds:
        overview.lag.since === undefined
          ? 0
          : Math.max(0, Math.round((now - overview.lag.since) / 1000)),
    },
  }));
  const body = {
    as_of: formatTime(now),
    store: { bytes, free_bytes: freeBytes },
    secret_key: { id: key, former },
    nodes: list.map(nodeFields),
    tenants,
    being_deleted: leaving.map(({ name }) => name),
  };
  return JSON.stringify(body, undefined, 2);
}
