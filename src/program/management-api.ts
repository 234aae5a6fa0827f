import assert from 'node:assert/strict';
import type { Logger } from 'pino';
import { buildApp } from '../api/app.ts';
import type { ConsoleProvider } from '../api/console-login.ts';
import { guardConnections } from '../api/http/connection-guard.ts';
import type { NodeFacts } from '../api/node-facts.ts';
import type { TlsServer } from '../api/http/tls.ts';
import type { Ed25519Jwk } from '../auth/key-use.ts';
import { createKeyring, type Keyring } from '../auth/keys.ts';
import { createTrustedIssuers } from '../auth/remote-keys.ts';
import { createTokenEndpoint } from '../auth/token.ts';
import { createVerifier } from '../auth/verify.ts';
import { type Config, limits, usesPlainHttp } from '../config.ts';
import { literalAddress } from '../core/address.ts';
import type { Clock, RandomBytes } from '../core/clock.ts';
import { createRoleOfMapping } from '../core/console-mapping.ts';
import type { UnknownHosts } from '../core/unknown-hosts.ts';
import { Pulls } from '../pull/pulls.ts';
import { dayMs } from '../core/units.ts';
import type { Store } from '../store/port/store.ts';
import type { ServiceMetrics } from './metrics.ts';
import type { Network } from './network.ts';

export interface ManagementApiDeps {
  readonly config: Config;
  readonly clock: Clock;
  readonly random: RandomBytes;
  readonly log: Logger;
  readonly network: Pick<Network, 'egress' | 'fetch' | 'inspector'>;
  /** Absent where no other node can have the store. */
  readonly nodeId: string | undefined;
  readonly node: NodeFacts;
  readonly version: string;
  readonly webhookKeyring: Keyring<Ed25519Jwk>;
  readonly metrics: ServiceMetrics | undefined;
  readonly tls: TlsServer | undefined;
  readonly unknownHosts: UnknownHosts;
  /** Aborted when the service stops: it is not ready any more, and connections are closed. */
  readonly ending: AbortSignal;
  /** Returns why the service is not healthy; `undefined` when it is. */
  readonly obstacle: () => string | undefined;
}

export interface ManagementApi {
  readonly app: ReturnType<typeof buildApp>;
  /** Stops watching the store. */
  close(): void;
}

/** Builds the management API with its authentication and pulls; does not listen. */
export async function createManagementApi(
  store: Store,
  deps: ManagementApiDeps,
): Promise<ManagementApi> {
  const { config, clock, random, log, tls, metrics, ending, obstacle } = deps;
  const { webhookKeyring } = deps;
  const access = createAccess(store, deps);
  const pulls = createServicePulls(store, deps);
  metrics?.observePulls(pulls);
  const app = buildApp({
    store,
    ...access.parts,
    webhookKeyring,
    pulls,
    inspector: deps.network.inspector,
    nodeId: deps.nodeId,
    unknownHosts: deps.unknownHosts,
    node: deps.node,
    version: deps.version,
    settings: {
      ...config,
      plainHttp: access.plainHttp,
      leaseGraceMs: limits.delivery.leaseGraceMs,
      blockedLiteral: (hostname) => {
        const address = literalAddress(hostname);
        return address === undefined ? undefined : deps.network.egress.blocked(address);
      },
      limits: limits.http,
    },
    clock,
    random,
    log,
    ready: () => !ending.aborted,
    obstacle,
    tls,
    provider: await createConsoleProvider(deps),
    requestMetrics: metrics?.meter,
  });
  guardConnections(app.server, { rule: config, clock, log, count: metrics?.connectionRefused });
  // An idle keep-alive connection would delay the stop until it is cut off.
  // Not an async function: that would cost every response a promise.
  app.addHook('onSend', (_request, reply, _payload, done) => {
    if (ending.aborted) reply.header('connection', 'close');
    done();
  });
  return { app, close: access.close };
}

/** Keys, tokens and trusted issuers. */
function createAccess(store: Store, { config, clock, log, network }: ManagementApiDeps) {
  const plainHttp = (domain: string): boolean => usesPlainHttp(config, domain);
  const watch = store.watch.bind(store);
  const keyring = createKeyring({ keys: store.keys, watch, clock });
  const trusted = createTrustedIssuers(
    {
      fetch: network.fetch,
      clock,
      report: (error) => log.warn({ err: error }, 'the keys of a trusted issuer cannot be fetched'),
    },
    config.trustedIssuers,
    config.trustedIssuerClaims,
  );
  const { clients } = store;
  const { managementTokenSeconds } = config;
  const verifier = createVerifier({ keyring, clients, watch, clock, plainHttp, trusted });
  const tokenEndpoint = createTokenEndpoint({ store, keyring, plainHttp, managementTokenSeconds });
  return {
    parts: { keyring, verifier, tokenEndpoint },
    plainHttp,
    close: () => {
      verifier.close();
      keyring.close();
    },
  };
}

/** The identity provider of the console, if the settings name one: they have all of them or none. */
async function createConsoleProvider({
  config,
  clock,
  network,
}: Pick<ManagementApiDeps, 'config' | 'clock' | 'network'>): Promise<ConsoleProvider | undefined> {
  const { consoleOidcIssuer, consoleOidcClientId, consoleOidcClientSecret, consoleRoles } = config;
  if (consoleOidcIssuer === undefined || consoleRoles === undefined) return undefined;
  assert(consoleOidcClientId !== undefined && consoleOidcClientSecret !== undefined);
  const { createOpenIdProvider } = await import('../auth/openid-provider.ts');
  const openId = createOpenIdProvider({
    fetch: network.fetch,
    clock,
    settings: {
      issuer: consoleOidcIssuer,
      clientId: consoleOidcClientId,
      clientSecret: consoleOidcClientSecret,
      scopes: config.consoleOidcScopes,
    },
    limits: limits.consoleLogin,
  });
  return {
    openId,
    mappings: consoleRoles,
    roleOf: createRoleOfMapping(consoleRoles),
    limits: limits.consoleLogin,
  };
}

function createServicePulls(
  store: Store,
  { config, clock, random, log }: Pick<ManagementApiDeps, 'config' | 'clock' | 'random' | 'log'>,
): Pulls {
  return new Pulls({
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
