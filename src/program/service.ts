import { promises as dns } from 'node:dns';
import { once } from 'node:events';
import { createServer } from 'node:net';
import os from 'node:os';
import type { Logger } from 'pino';
import { createAlerting } from './alerting.ts';
import { buildApp } from '../api/app.ts';
import { type CloseAddresses, openOtherAddresses } from '../api/http/extra-listeners.ts';
import type { TlsServer } from '../api/http/tls.ts';
import { bootstrap, type Bootstrapped } from '../auth/bootstrap.ts';
import type { DeliverCredentials } from '../auth/clients.ts';
import type { SampleOptions } from '../auth/sample.ts';
import { issuerOf } from '../auth/issuer.ts';
import { createKeyring } from '../auth/keys.ts';
import { createTrustedIssuers } from '../auth/remote-keys.ts';
import { createTokenEndpoint } from '../auth/token.ts';
import { createVerifier } from '../auth/verify.ts';
import {
  type Config,
  dataFolderOf,
  endsTls,
  limits,
  tenantDomainOf,
  usesPlainHttp,
} from '../config.ts';
import { literalAddress } from '../core/address.ts';
import { guardConnections } from '../api/http/connection-guard.ts';
import type { Clock, RandomBytes } from '../core/clock.ts';
import { createDispatcher } from '../delivery/dispatcher.ts';
import type { EgressRule } from '../delivery/http/egress.ts';
import type { OwnFetch } from '../delivery/http/fetch.ts';
import type { Transport } from '../delivery/http/transport.ts';
import { type ListenAddress, listenRefusal, urlOf } from './listen-address.ts';
import { openNetwork } from './network.ts';
import { openMetrics, type ServiceMetrics } from './metrics.ts';
import { openOperator } from '../operator/serve.ts';
import { loadOrCreateSecretKey } from '../files/data-folder.ts';
import { createUpkeep } from '../upkeep/upkeep.ts';
import { storeAlerts } from '../alerting/store-alerts.ts';
import { createSystemAlerts, type SystemAlerts } from '../alerting/system-alerts.ts';
import { removeLeaving } from '../upkeep/tenant-removal.ts';
import { createPulls, type Pulls } from '../pull/pulls.ts';
import { logReport } from './delivery-log.ts';
import { openStore } from '../store/open.ts';
import type { Store } from '../store/port/store.ts';
import { isSkewed } from '../store/port/time.ts';
import { authorityFileOf, openTls, refuseWrongTlsFiles } from './tls.ts';

const dayMs = 86_400_000;

/** A running Leat: the management API and the dispatcher over one store. */
export interface Service {
  /** `http://host:port` of it, for clients on the same machine; `https://` where TLS ends here. */
  readonly url: string;
  /** The authority to trust, where the service made its own (LEAT_TLS=local). */
  readonly authorityFile: string | undefined;
  /** Of the metrics, where LEAT_METRICS_PORT is set. */
  readonly metricsUrl: string | undefined;
  /** What the start made or changed. */
  readonly bootstrapped: Bootstrapped;
  /**
   * Takes no new request, lets requests and attempts under way end, records them and closes the
   * store: nothing in flight is lost. A request that does not end in time is cut off.
   */
  stop(): Promise<void>;
  /**
   * The work in the background. Resolves after {@link Service.stop}; rejects when it ended by itself,
   * which is a bug: a service that takes events and delivers none should not go on.
   */
  readonly work: Promise<unknown>;
}

export interface ServiceDeps {
  readonly config: Config;
  readonly clock: Clock;
  readonly random: RandomBytes;
  readonly log: Logger;
  /** Of the program, for the `User-Agent` of deliveries. */
  readonly version: string;
  /** Hands a generated management client over; absent where it could be handed to nobody. */
  readonly deliverCredentials?: DeliverCredentials | undefined;
  /** What a first start makes for the message API, where that is wanted. */
  readonly sample?: SampleOptions | undefined;
  /** All addresses of a name; those that the machine finds unless given. */
  readonly addressesOf?: (hostname: string) => Promise<readonly string[]>;
}

/** Opens the store, makes what the first start needs, and listens. Throws `StartRefused`. */
export async function startService(deps: ServiceDeps): Promise<Service> {
  const store = await openServiceStore(deps);
  let metrics: ServiceMetrics | undefined;
  try {
    metrics = await openMetrics(store, deps);
    return await startOn(store, metrics, deps);
  } catch (error) {
    await metrics?.close();
    await store.close();
    throw error;
  }
}

/** The store that the settings name, with the key that seals its secrets. */
export async function openServiceStore(
  deps: Pick<ServiceDeps, 'config' | 'random' | 'clock'> & Partial<Pick<ServiceDeps, 'log'>>,
): Promise<Store> {
  const { config, random, clock, log } = deps;
  const secretKey = config.secretKey ?? (await generatedSecretKey(config, random));
  const report = log && ((error: unknown) => log.warn({ err: error }, 'hints of the store'));
  return openStore({
    location: config.store,
    connectionsMax: config.storeConnections,
    secretKey,
    random,
    clock,
    report,
  });
}

async function startOn(
  store: Store,
  metrics: ServiceMetrics | undefined,
  deps: ServiceDeps,
): Promise<Service> {
  const { config, clock, random, log } = deps;
  await refuseTakenAddress(config);
  await refuseWrongTlsFiles(config);
  const bootstrapped = await bootstrap(
    { store, random, now: clock.now() },
    {
      name: config.tenantName,
      domain: tenantDomainOf(config),
      client: configuredClient(config),
      deliverCredentials: deps.deliverCredentials,
      sample: deps.sample,
    },
  );
  warnOfChanges(bootstrapped, config, log);
  const tls = await openTls(store.tenants, deps);

  const ending = new AbortController();
  const { signal } = ending;
  const network = openNetwork(deps);
  const { egress, transport, fetch, lookup } = network;
  const nodeId = newNodeId(random);
  const system = createSystemAlerts();
  const named = { ...deps, nodeId };
  const dispatcher = createServiceDispatcher(store, { transport, metrics, system }, named);
  metrics?.observeDispatcher(dispatcher);
  metrics?.observeLookups(network.names);
  const stored = { ...deps, clock: storeClockOf(store, clock) };
  const upkeep = createServiceUpkeep(store, system, stored);
  const alarm = createAlerting(store, { ...stored, fetch, lookup, nodeId, system });
  const obstacle = (): string | undefined =>
    dispatcher.state().holdsLease ? undefined : 'The node has no lease.';
  const around = { egress, fetch, ending: signal, tls: tls?.server, metrics, obstacle };
  const { app, close: closeAccess } = buildServiceApp(store, around, deps);
  // First: whoever sees the service ready finds the socket.
  const operator = await openOperator(store, deps);
  const { url, closeOthers } = await listen(app, deps).catch(async (error: unknown) => {
    await operator?.close();
    throw error;
  });
  const work = Promise.all([
    removeLeaving(store, deps, signal),
    dispatcher.run(signal),
    upkeep.run(signal),
    alarm.run(signal),
    tls?.follow(signal),
  ]);

  return {
    url,
    authorityFile: authorityFileOf(config),
    metricsUrl: metrics?.url,
    bootstrapped,
    work,
    stop: async () => {
      ending.abort();
      await operator?.close();
      try {
        await closeInTime(app, closeOthers, clock);
        await work;
      } finally {
        closeAccess();
        await network.close();
        await metrics?.close();
        await store.close();
      }
    },
  };
}

/**
 * Node judges no time-out of a request any more once its server closes: a client that never ends
 * its request would hold the process for ever.
 */
async function closeInTime(
  app: ReturnType<typeof buildApp>,
  closeOthers: CloseAddresses,
  clock: Clock,
): Promise<void> {
  const cutOff = clock.after(limits.http.closingMs, () => app.server.closeAllConnections());
  try {
    await Promise.all([app.close(), closeOthers()]);
  } finally {
    cutOff.cancel();
  }
}

function buildServiceApp(
  store: Store,
  around: {
    readonly egress: EgressRule;
    readonly ending: AbortSignal;
    readonly tls: TlsServer | undefined;
    readonly metrics: ServiceMetrics | undefined;
    readonly obstacle: () => string | undefined;
    readonly fetch: OwnFetch['fetch'];
  },
  deps: ServiceDeps,
): { app: ReturnType<typeof buildApp>; close: () => void } {
  const { config, clock, random, log, version } = deps;
  const { egress, ending, tls, metrics, obstacle, fetch } = around;
  const plainHttp = (domain: string): boolean => usesPlainHttp(config, domain);
  const watch = store.watch.bind(store);
  const keyring = createKeyring({ keys: store.keys, watch, clock });
  const trusted = createTrustedIssuers(
    {
      fetch,
      clock,
      report: (error) => log.warn({ err: error }, 'the keys of a trusted issuer cannot be fetched'),
    },
    config.trustedIssuers,
  );
  const { clients } = store;
  const verifier = createVerifier({ keyring, clients, watch, clock, plainHttp, trusted });
  const pulls = createServicePulls(store, deps);
  metrics?.observePulls(pulls);
  const app = buildApp({
    store,
    verifier,
    pulls,
    keyring,
    tokenEndpoint: createTokenEndpoint({ store, keyring, plainHttp }),
    settings: {
      ...config,
      plainHttp,
      blockedLiteral: (hostname) => {
        const address = literalAddress(hostname);
        return address === undefined ? undefined : egress.blocked(address);
      },
      limits: limits.http,
    },
    clock,
    random,
    log,
    ready: () => !ending.aborted,
    obstacle,
    version,
    tls,
    requestMetrics: metrics?.meter,
  });
  guardConnections(app.server, { rule: config, clock, log, count: metrics?.connectionRefused });
  // A connection that stayed open after its answer would hold up the end until it is cut off.
  // Not an async function: that would cost every answer a promise.
  app.addHook('onSend', (_request, reply, _payload, done) => {
    if (ending.aborted) reply.header('connection', 'close');
    done();
  });
  return {
    app,
    close: () => {
      verifier.close();
      keyring.close();
    },
  };
}

function createServicePulls(store: Store, deps: ServiceDeps): Pulls {
  const { config, clock, random, log } = deps;
  return createPulls({
    store,
    clock,
    random,
    settings: {
      ...limits.pull,
      connectionsMax: config.sseMaxConnections,
      eventRetentionMs: config.eventRetentionDays * dayMs,
    },
    log,
  });
}

function createServiceDispatcher(
  store: Store,
  around: {
    readonly transport: Transport;
    readonly metrics: ServiceMetrics | undefined;
    readonly system: SystemAlerts;
  },
  { config, clock, log, version, nodeId }: ServiceDeps & { readonly nodeId: string },
): ReturnType<typeof createDispatcher> {
  const { transport, metrics, system } = around;
  return createDispatcher({
    nodeId: config.store.engine === 'postgres' ? nodeId : undefined,
    store,
    transport,
    clock,
    settings: {
      ...limits.delivery,
      streamConcurrency: config.streamConcurrency,
      concurrency: config.concurrency,
      inflightBytesMax: config.inflightBytesMax,
      retryDelaysMs: config.retryDelaysMs,
      retry4xx: config.retry4xx,
      attemptTimeoutMs: config.attemptTimeoutMs,
      disable: { consecutive: config.disableConsecutive, total: config.disableTotal },
      userAgent: `Leat/${version}`,
      attributePrefix: config.attributePrefix,
    },
    report: (report) => {
      logReport(log, report);
      metrics?.report(report);
      if (report.kind === 'store_replaced') {
        for (const alert of storeAlerts(report)) system.raise(alert);
      }
    },
  });
}

/**
 * Nodes on one database need names of their own, also where containers have the same host name: so
 * each process has a new one, and what a crash leaves is free once its lease has ended.
 */
function newNodeId(random: RandomBytes): string {
  return `${os.hostname()}-${Buffer.from(random(4)).toString('hex')}`;
}

/** What judges the age of what is stored goes by the clock that stamped it. */
function storeClockOf(store: Pick<Store, 'time'>, clock: Clock): Clock {
  return { ...clock, now: () => store.time.now() };
}

function createServiceUpkeep(
  store: Store,
  alerts: SystemAlerts,
  { config, clock, random, log }: ServiceDeps,
): ReturnType<typeof createUpkeep> {
  return createUpkeep({
    store,
    clock,
    alerts,
    leader: newNodeId(random),
    mayWork: () => !isSkewed(store.time.skewMs()),
    settings: {
      ...limits.upkeep,
      eventRetentionMs: config.eventRetentionDays * dayMs,
      attemptRetentionMs: config.attemptRetentionDays * dayMs,
      lagMaxMs: config.lagMaxDays * dayMs,
    },
    log,
    report: (error, what) =>
      log.error({ err: error, what }, 'a step of upkeep failed; the next round goes on'),
  });
}

interface Listener {
  readonly url: string;
  readonly closeOthers: CloseAddresses;
}

async function listen(
  app: ReturnType<typeof buildApp>,
  { config, addressesOf = systemAddressesOf }: ServiceDeps,
): Promise<Listener> {
  const { host, port } = config;
  const url = urlOf(config, { tls: endsTls(config) });
  try {
    const [first = host, ...others] = host === 'localhost' ? await addressesOf(host) : [];
    await app.listen({ host: first, port });
    return { url, closeOthers: await openOtherAddresses(app.server, others) };
  } catch (error) {
    await app.close();
    throw listenRefusal(error, listeningOf(config));
  }
}

async function systemAddressesOf(hostname: string): Promise<string[]> {
  const found = await dns.lookup(hostname, { all: true });
  return found.map(({ address }) => address);
}

function listeningOf({ host, port }: Config): ListenAddress {
  return { host, port, portVariable: 'LEAT_PORT' };
}

/** Asked before anything is made or renamed: a start that cannot listen leaves all as it was. */
async function refuseTakenAddress(config: Config): Promise<void> {
  const probe = createServer();
  try {
    probe.listen(config.port, config.host);
    await once(probe, 'listening');
  } catch (error) {
    throw listenRefusal(error, listeningOf(config));
  }
  probe.close();
  await once(probe, 'close');
}

/** With SQLite the key is made once and kept beside the database. */
async function generatedSecretKey(config: Config, random: RandomBytes): Promise<Uint8Array> {
  if (config.store.engine === 'sqlite' && config.store.file === undefined) return random(32);
  return loadOrCreateSecretKey(dataFolderOf(config), random);
}

function configuredClient(config: Config): { clientId: string; clientSecret: string } | undefined {
  const { bootstrapClientId: clientId, bootstrapClientSecret: clientSecret } = config;
  if (clientId === undefined || clientSecret === undefined) return undefined;
  return { clientId, clientSecret };
}

function warnOfChanges(made: Bootstrapped, config: Config, log: Logger): void {
  if (made.secretReplaced) {
    log.warn('LEAT_BOOTSTRAP_CLIENT_SECRET took the place of the stored secret');
  }
  if (made.formerDomain !== undefined) {
    const { formerDomain, tenant } = made;
    // What the former domain was reached by is not known; a public URL names the present one.
    const from = issuerOf(
      formerDomain,
      usesPlainHttp({ ...config, publicUrl: undefined }, formerDomain),
    );
    const to = issuerOf(tenant.domain, usesPlainHttp(config, tenant.domain));
    log.warn(
      { from, to },
      'the tenant has a new issuer: tokens of the old one are no longer accepted',
    );
  }
  const loopback = /^(127\.|localhost$|::1$)/.test(config.host);
  if (!loopback && config.trustProxy.length === 0 && !endsTls(config)) {
    log.warn({ host: config.host }, 'plain HTTP on an address that is not loopback');
  }
}
