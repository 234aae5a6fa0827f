import type { Logger } from 'pino';
import { bootstrap, type Bootstrapped } from '../auth/bootstrap.ts';
import type { DeliverCredentials } from '../auth/clients.ts';
import { issuerOf } from '../auth/issuer.ts';
import type { SampleOptions } from '../auth/sample.ts';
import { type Config, endsTls, tenantDomainOf, usesPlainHttp } from '../config.ts';
import type { Clock, RandomBytes } from '../core/clock.ts';
import { StartRefused } from '../core/errors.ts';
import { sleep } from '../core/sleep.ts';
import { entryOfCommand } from '../operator/audit-log.ts';
import type { Store } from '../store/port/store.ts';

export interface FirstStartDeps {
  readonly config: Config;
  readonly clock: Clock;
  readonly random: RandomBytes;
  readonly log: Logger;
  /** Delivers a generated management client to the operator; absent: the settings must name one. */
  readonly deliverCredentials?: DeliverCredentials | undefined;
  /** The sample of the message API that a first start creates; absent: none. */
  readonly sample?: SampleOptions | undefined;
  /** Gives the first tenant the domain of the settings also while other nodes use the stored one. */
  readonly rename?: boolean | undefined;
}

/**
 * Creates the first tenant, its key and its clients where they are missing, applies changed
 * settings to them, and warns of changes. Throws `StartRefused`, also for a domain that differs from the one
 * that other nodes use (docs/http-api.md#first-start).
 */
export async function applyFirstStart(store: Store, deps: FirstStartDeps): Promise<Bootstrapped> {
  const { config, clock, random, log } = deps;
  if (deps.rename !== true) await refuseOtherDomain(store, config);
  const bootstrapped = await bootstrap(
    { store, random, now: clock.now(), entry: entryOfCommand(deps, 'start') },
    {
      name: config.tenantName,
      domain: tenantDomainOf(config),
      client: configuredClient(config),
      deliverCredentials: deps.deliverCredentials,
      sample: deps.sample,
    },
  );
  warnOfChanges(bootstrapped, config, log);
  warnOfPlainHttp(config, log);
  return bootstrapped;
}

/**
 * Throws `StartRefused` when other nodes use the store under another domain: the start would change the
 * issuer of all of them. A file of SQLite has one process, and its former one may just have been killed.
 */
async function refuseOtherDomain(
  store: Pick<Store, 'tenants' | 'ownership'>,
  config: Config,
): Promise<void> {
  const present = await otherDomain(store, config);
  if (present === undefined) return;
  const nodes = await store.ownership.nodes();
  const leaseMs = Math.max(0, ...nodes.map((node) => node.leaseMs));
  if (leaseMs === 0) return;
  throw domainRefused(
    present,
    config,
    `. If none runs, they were killed: their leases end within ${Math.ceil(leaseMs / 1000)} s`,
  );
}

/** Returns the domain of the first tenant on PostgreSQL where the settings have another one. */
async function otherDomain(
  { tenants }: Pick<Store, 'tenants'>,
  config: Config,
): Promise<string | undefined> {
  if (config.store.engine !== 'postgres') return undefined;
  const [first] = await tenants.list();
  return first === undefined || first.domain === tenantDomainOf(config) ? undefined : first.domain;
}

function domainRefused(present: string, config: Config, more = ''): StartRefused {
  const [variable, value] =
    config.publicUrl === undefined
      ? ['LEAT_TENANT_DOMAIN', present]
      : ['LEAT_PUBLIC_URL', `https://${present}`];
  return new StartRefused(
    `LEAT_TENANT_DOMAIN: other nodes use this store as "${present}", not as "${tenantDomainOf(config)}": start with ${variable}=${value}, or with --rename to change the issuer of all nodes, which ends all tokens${more}`,
  );
}

/** Longer than a start takes from its check of other nodes to its change of the domain. */
const changeMsMax = 500;
const leasePollMs = 50;

/**
 * Rejects with `StartRefused` when a node that started at the same moment has given the store another
 * domain: neither had a lease yet when the other checked.
 */
export async function confirmDomain(
  store: Pick<Store, 'tenants'>,
  { config, clock, rename }: Pick<FirstStartDeps, 'config' | 'clock' | 'rename'>,
  { obstacle, signal }: { obstacle: () => string | undefined; signal: AbortSignal },
): Promise<void> {
  if (config.store.engine !== 'postgres' || rename === true) return;
  // No other start changes it once this node has its lease.
  while (!signal.aborted && obstacle() !== undefined) await sleep(clock, leasePollMs, signal);
  await sleep(clock, changeMsMax, signal);
  if (signal.aborted) return;
  // A store that is away for a moment is no reason to end.
  const present = await otherDomain(store, config).catch(() => undefined);
  if (present !== undefined) throw domainRefused(present, config);
}

function configuredClient(config: Config): { clientId: string; clientSecret: string } | undefined {
  const { bootstrapClientId: clientId, bootstrapClientSecret: clientSecret } = config;
  if (clientId === undefined || clientSecret === undefined) return undefined;
  return { clientId, clientSecret };
}

function warnOfChanges(bootstrapped: Bootstrapped, config: Config, log: Logger): void {
  if (bootstrapped.secretReplaced) {
    log.warn('LEAT_BOOTSTRAP_CLIENT_SECRET replaced the stored secret');
  }
  if (bootstrapped.formerDomain === undefined) return;
  const { formerDomain, tenant } = bootstrapped;
  // Unknown how clients reached the former domain; a public URL is that of the present domain.
  const formerConfig = { ...config, publicUrl: undefined };
  const from = issuerOf(formerDomain, usesPlainHttp(formerConfig, formerDomain));
  const to = issuerOf(tenant.domain, usesPlainHttp(config, tenant.domain));
  log.warn(
    { from, to },
    'the tenant has a new issuer: tokens of the old one are no longer accepted',
  );
}

function warnOfPlainHttp({ host, trustProxy, ...config }: Config, log: Logger): void {
  const isLoopback = /^(127\.|localhost$|::1$)/.test(host);
  if (!isLoopback && trustProxy.length === 0 && !endsTls(config)) {
    log.warn({ host }, 'plain HTTP on an address that is not loopback');
  }
}
