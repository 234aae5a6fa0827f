import type { Logger } from 'pino';
import { bootstrap, type Bootstrapped } from '../auth/bootstrap.ts';
import type { DeliverCredentials } from '../auth/clients.ts';
import { issuerOf } from '../auth/issuer.ts';
import type { SampleOptions } from '../auth/sample.ts';
import { type Config, endsTls, tenantDomainOf, usesPlainHttp } from '../config.ts';
import type { Clock, RandomBytes } from '../core/clock.ts';
import { StartRefused } from '../core/errors.ts';
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
  { tenants, ownership }: Pick<Store, 'tenants' | 'ownership'>,
  config: Config,
): Promise<void> {
  if (config.store.engine !== 'postgres') return;
  const [first] = await tenants.list();
  const domain = tenantDomainOf(config);
  if (first === undefined || first.domain === domain) return;
  const nodes = await ownership.nodes();
  const leaseMs = Math.max(0, ...nodes.map((node) => node.leaseMs));
  if (leaseMs === 0) return;
  const variable = config.publicUrl === undefined ? 'LEAT_TENANT_DOMAIN' : 'LEAT_PUBLIC_URL';
  const value = config.publicUrl === undefined ? first.domain : `https://${first.domain}`;
  throw new StartRefused(
    `LEAT_TENANT_DOMAIN: other nodes use this store as "${first.domain}", not as "${domain}": start with ${variable}=${value}, or with --rename to change the issuer of all nodes, which ends all tokens. If none runs, they were killed: their leases end within ${Math.ceil(leaseMs / 1000)} s`,
  );
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
