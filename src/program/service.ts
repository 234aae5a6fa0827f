import os from 'node:os';
import { createSystemAlerts } from '../alerting/system-alerts.ts';
import type { Bootstrapped } from '../auth/bootstrap.ts';
import { noLease } from '../api/readiness.ts';
import type { Clock, RandomBytes } from '../core/clock.ts';
import { sleep } from '../core/sleep.ts';
import { createUnknownHosts, type UnknownHosts } from '../core/unknown-hosts.ts';
import { addConsoleLink, consoleUrl } from '../operator/console.ts';
import { openOperator } from '../operator/serve.ts';
import type { Store } from '../store/port/store.ts';
import { removeLeaving } from '../upkeep/tenant-removal.ts';
import type { AlertChannel } from '../alerting/channel.ts';
import { createAlerting, createServiceChannels } from './alerting.ts';
import { type Ed25519Jwk, webhookKeys } from '../auth/key-use.ts';
import type { Texts } from '../config.ts';
import { createKeyringOf, type Keyring } from '../auth/keys.ts';
import { createServiceDispatcher } from './dispatcher.ts';
import { applyFirstStart, confirmDomain, type FirstStartDeps } from './first-start.ts';
import { freeFormerInspectors } from './inspector.ts';
import { listen, listenAddressOf, refuseTakenAddress } from './listener.ts';
import { createManagementApi } from './management-api.ts';
import { openMetrics, type ServiceMetrics } from './metrics.ts';
import { type Network, openNetwork } from './network.ts';
import { nodeFactsOf } from './node-facts.ts';
import { createServiceStats } from './stats.ts';
import { openServiceStore, storeClockOf } from './store.ts';
import { followTenantNames } from './tenant-names.ts';
import { authorityFileOf, openTls, refuseWrongTlsFiles } from './tls.ts';
import { createServiceUpkeep } from './upkeep.ts';
import type { Watchdog } from './watchdog.ts';

/** A running Leat: the management API and the dispatcher on one store. */
export interface Service {
  /** `http://host:port` for clients on the same machine; `https://` where this process ends TLS. */
  readonly url: string;
  /** PEM file of the service's own certificate authority (LEAT_TLS=local). */
  readonly authorityFile: string | undefined;
  /** URL of the metrics; absent without LEAT_METRICS_PORT. */
  readonly metricsUrl: string | undefined;
  /** Changes of the start to tenants and clients. */
  readonly bootstrapped: Bootstrapped;
  /** Address of the console of the first tenant. */
  readonly consoleUrl: string;
  /** Returns a one-time link that signs in to it as an operator; never for a log. */
  consoleLink(): Promise<string>;
  /**
   * Rejects new requests, completes and records requests and attempts in progress, and closes the
   * store. A request that takes too long is cut off.
   */
  stop(): Promise<void>;
  /**
   * The background work. Resolves after {@link Service.stop}. A rejection before that is a bug, and
   * the program must end: a service that accepts events without delivering them must not go on.
   */
  readonly work: Promise<unknown>;
}

export interface ServiceDeps extends FirstStartDeps {
  /** The texts of the settings, to show them to operators. */
  readonly texts: Texts;
  /** Version of the program, for the `User-Agent` of deliveries. */
  readonly version: string;
  /** Filled with the names of the tenants, for the log. */
  readonly tenantNames?: Map<number, string>;
  /** Knows which of the operator's commands run; absent: nobody does. */
  readonly watchdog?: Pick<Watchdog, 'during'>;
  /** Returns all addresses of a name; absent: those that the system resolver finds. */
  readonly addressesOf?: (hostname: string) => Promise<readonly string[]>;
}

/** Opens the store, completes the first start, and listens. Throws `StartRefused`. */
export async function startService(deps: ServiceDeps): Promise<Service> {
  const store = await openServiceStore(deps);
  let metrics: ServiceMetrics | undefined;
  try {
    metrics = await openMetrics(store, deps);
    return await startOn(store, metrics, { ...deps, unknownHosts: createUnknownHosts() });
  } catch (error) {
    await metrics?.close();
    await store.close();
    throw error;
  }
}

async function startOn(
  store: Store,
  metrics: ServiceMetrics | undefined,
  deps: ServiceDeps & { readonly unknownHosts: UnknownHosts },
): Promise<Service> {
  const { config } = deps;
  await refuseTakenAddress(listenAddressOf(config));
  await refuseWrongTlsFiles(config);
  const bootstrapped = await applyFirstStart(store, deps);
  const stopNaming = await followTenantNames(store, deps.tenantNames ?? new Map());
  const tls = await openTls(store.tenants, deps);

  const ending = new AbortController();
  const { signal } = ending;
  const network = openNetwork(deps);
  metrics?.observeLookups(network.names);
  const nodeId = newNodeId(deps.random);
  // The file of SQLite belongs to one process.
  const inspecting = config.store.engine === 'postgres' ? nodeId : undefined;
  const stopWatching = freeFormerInspectors(store, network.inspector, inspecting);
  const webhookKeyring = createWebhookKeyring(store, deps);
  const channels = createServiceChannels({ ...deps, network });
  const parts = { ...deps, network, metrics, webhookKeyring, channels };
  const { run, obstacle, finish } = createBackground(store, { ...parts, nodeId });
  const api = await createManagementApi(store, {
    ...parts,
    nodeId: inspecting,
    node: nodeFactsOf({ ...parts, ending: signal }),
    tls: tls?.server,
    ending: signal,
    obstacle,
  });
  // Before the listener: a client that sees the service ready finds the socket of the operator.
  const operator = await openOperator(store, deps);
  const listener = await listen(api.app, deps).catch(async (error: unknown) => {
    await operator?.close();
    throw error;
  });
  const confirmed = confirmDomain(store, deps, { obstacle, signal });
  const work = Promise.all([run(signal), tls?.follow(signal), confirmed]);
  void loadLater(network, deps.clock, signal);

  return {
    url: listener.url,
    authorityFile: authorityFileOf(config),
    metricsUrl: metrics?.url,
    bootstrapped,
    consoleUrl: consoleUrl(config, bootstrapped.tenant),
    consoleLink: () =>
      addConsoleLink({ ...deps, store }, bootstrapped.tenant, {
        role: 'operator',
        command: 'start',
      }),
    work,
    stop: async () => {
      ending.abort();
      await operator?.close();
      try {
        await listener.close();
        await work;
        await finish();
      } finally {
        api.close();
        stopWatching();
        stopNaming();
        webhookKeyring.close();
        await network.close();
        await metrics?.close();
        await store.close();
      }
    },
  };
}

const loadAfterMs = 1000;

/**
 * Loads the client of webhooks after the first responses, which it would delay. Not left to the first
 * webhook: the files may be those of another version by then.
 */
async function loadLater(
  network: Pick<Network, 'load'>,
  clock: Pick<Clock, 'after'>,
  signal: AbortSignal,
): Promise<void> {
  await sleep(clock, loadAfterMs, signal);
  if (!signal.aborted) await network.load();
}

function createWebhookKeyring(
  store: Store,
  { clock }: Pick<ServiceDeps, 'clock'>,
): Keyring<Ed25519Jwk> {
  const watch = store.watch.bind(store);
  return createKeyringOf(webhookKeys, { keys: store.webhookKeys, watch, clock });
}

interface Background {
  /** Runs until aborted; rejects when one of its parts ends with an error. */
  run(this: void, signal: AbortSignal): Promise<unknown>;
  /** Writes what is counted in memory, when no request and no attempt is in progress any more. */
  finish(this: void): Promise<void>;
  /** Returns why this node does not deliver; `undefined` when it does. */
  obstacle(this: void): string | undefined;
}

/** Creates dispatcher, upkeep, alerting and the removal of tenants. */
function createBackground(
  store: Store,
  deps: ServiceDeps & {
    readonly network: ReturnType<typeof openNetwork>;
    readonly metrics: ServiceMetrics | undefined;
    readonly nodeId: string;
    readonly webhookKeyring: Keyring<Ed25519Jwk>;
    readonly channels: readonly AlertChannel[];
  },
): Background {
  const { transport, shortages } = deps.network;
  const { nodeId } = deps;
  const system = createSystemAlerts();
  const disk = { isFull: false };
  const leader = newNodeId(deps.random);
  const stats = createServiceStats(store, { ...deps, writer: leader });
  const dispatcher = createServiceDispatcher(store, {
    ...deps,
    transport,
    shortages,
    nodeId,
    stats,
    system,
    disk,
  });
  const unwatch = store.watch((hint) => stats.hint(hint));
  const clock = storeClockOf(store, deps.clock);
  const upkeep = createServiceUpkeep(store, { ...deps, clock, leader, alerts: system });
  const alerting = createAlerting(store, { ...deps, clock, nodeId, system, disk });
  return {
    run: async (signal) => {
      await Promise.all([
        removeLeaving(store, deps, signal),
        dispatcher.run(signal),
        upkeep.run(signal),
        alerting.run(signal),
        stats.run(signal),
      ]);
    },
    finish: async () => {
      unwatch();
      await stats.flush();
    },
    obstacle: () => (dispatcher.state().holdsLease ? undefined : noLease),
  };
}

/**
 * Returns a new name for each process: containers can share a host name, and nodes on one database
 * need distinct names. The name of a crashed process is free once its lease has expired.
 */
function newNodeId(random: RandomBytes): string {
  return `${os.hostname()}-${Buffer.from(random(4)).toString('hex')}`;
}
