import { createTenant, renewBootstrap } from './auth/bootstrap.ts';
import type { Credentials } from './auth/clients.ts';
import { revokeKey, rotateKey } from './auth/keys.ts';
import type { Config } from './config.ts';
import type { Clock, RandomBytes } from './core/clock.ts';
import { StartRefused } from './core/errors.ts';
import type { Tenant } from './core/types.ts';
import { formatTime } from './core/date.ts';
import { domain, tenantName } from './core/value.ts';
import { openServiceStore } from './service.ts';
import type { NodeState, Store } from './store/port.ts';

/**
 * What the operator does straight on the store: nodes, tenants, signing keys, bootstrap clients
 * (contract section 2). With SQLite no server may run meanwhile; the store says so.
 */
export interface Admin {
  listNodes(): Promise<string>;
  listTenants(): Promise<string>;
  createTenant(name: string, domain: string): Promise<string>;
  renewBootstrapClient(name: string): Promise<string>;
  listKeys(tenant?: string): Promise<string>;
  rotateKey(immediately: boolean, tenant?: string): Promise<string>;
  revokeKey(kid: string, tenant?: string): Promise<string>;
}

export interface AdminDeps {
  readonly config: Config;
  readonly clock: Clock;
  readonly random: RandomBytes;
}

/** Every command opens the store for itself, answers what to print, and throws `StartRefused`. */
export function createAdmin(deps: AdminDeps): Admin {
  const { clock, random, config } = deps;
  const withStore = async (work: (store: Store) => Promise<string>): Promise<string> => {
    const store = await openServiceStore(deps);
    try {
      return await work(store);
    } finally {
      await store.close();
    }
  };
  const withTenant = (
    name: string | undefined,
    work: (store: Store, tenant: Tenant) => Promise<string>,
  ): Promise<string> => withStore(async (store) => work(store, await tenantNamed(store, name)));

  return {
    listNodes: () => withStore(async (store) => nodeLines(await store.ownership.nodes())),
    listTenants: () => withStore(async (store) => tenantLines(await store.tenants.list())),
    createTenant: (name, at) =>
      withStore(async (store) => {
        const wish = {
          name: checked('name', tenantName, name),
          domain: checked('domain', domain, at),
        };
        // The next start would take it for the first tenant and give it the configured names.
        if ((await store.tenants.list()).length === 0) throw new StartRefused(noTenant);
        const answer = await createTenant({ store, random, now: clock.now() }, wish);
        if ('refused' in answer) throw new StartRefused(takenLine(answer.refused, wish));
        return `Created ${wish.name} at ${wish.domain}. ${credentialLines(answer)}`;
      }),
    renewBootstrapClient: (name) =>
      withTenant(name, async (store, tenant) => {
        const made = { store, random, now: clock.now() };
        const answer = await renewBootstrap(made, tenant.id, config.bootstrapClientId);
        return `The former bootstrap client's secret has ended. ${credentialLines(answer)}${revival(config)}`;
      }),
    listKeys: (name) =>
      withTenant(name, async (store, tenant) => {
        const keys = await store.keys.list(tenant.id, clock.now());
        const at = formatTime;
        return keys
          .map(({ kid, signsFrom, expiresAt }) => {
            const until = expiresAt === undefined ? '' : `, published until ${at(expiresAt)}`;
            return `${kid}  signs from ${at(signsFrom)}${until}`;
          })
          .join('\n');
      }),
    rotateKey: (immediately, name) =>
      withTenant(name, async (store, tenant) => {
        const kid = await rotateKey(store, tenant.id, { now: clock.now(), immediately });
        const from = immediately ? 'now' : '10 minutes from now';
        return `Key ${kid} is published and signs from ${from}. Tokens of the former key stay valid.`;
      }),
    revokeKey: (kid, name) =>
      withTenant(name, async (store, tenant) => {
        const answer = await revokeKey(store, tenant.id, kid, clock.now());
        if (answer === 'unknown') {
          throw new StartRefused(`No key is called "${kid}"; leat keys list shows them.`);
        }
        return `Key ${kid} is gone; tokens signed with it are refused from now on.`;
      }),
  };
}

const noTenant = 'There is no tenant yet: leat start makes the first one.';

/** The tenant with a name, or the first one. */
async function tenantNamed(store: Store, name: string | undefined): Promise<Tenant> {
  const tenants = await store.tenants.list();
  const found = name === undefined ? tenants[0] : tenants.find((tenant) => tenant.name === name);
  if (found !== undefined) return found;
  if (tenants.length === 0) throw new StartRefused(noTenant);
  const known = tenants.map((tenant) => tenant.name).join(', ');
  throw new StartRefused(`No tenant is called "${String(name)}"; there are ${known}.`);
}

function checked(what: string, parse: typeof domain, text: string): string {
  const parsed = parse(text);
  if ('problem' in parsed) throw new StartRefused(`The ${what} "${text}" ${parsed.problem}.`);
  return parsed.value;
}

function takenLine(refused: 'name_taken' | 'domain_taken', wish: { name: string; domain: string }) {
  return refused === 'name_taken'
    ? `A tenant is called "${wish.name}" already; choose another name.`
    : `The domain "${wish.domain}" is another tenant's; choose another one.`;
}

function nodeLines(nodes: readonly NodeState[]): string {
  if (nodes.length === 0) return 'No node runs.';
  return nodes
    .map(({ id, streams, leaseMs }) => {
      const lease = leaseMs > 0 ? `lease ${(leaseMs / 1000).toFixed(1)} s` : 'lease ended';
      return `${id.padEnd(32)} ${String(streams).padStart(6)} streams  ${lease}`;
    })
    .join('\n');
}

function tenantLines(tenants: readonly Tenant[]): string {
  return tenants.map(({ name, domain: at }) => `${name.padEnd(24)} ${at}`).join('\n');
}

/** A start puts the secret of the environment back in force (contract section 16). */
function revival({ bootstrapClientId }: Config): string {
  if (bootstrapClientId === undefined) return '';
  return '\nRemove LEAT_BOOTSTRAP_CLIENT_ID and LEAT_BOOTSTRAP_CLIENT_SECRET, or the next start brings their secret back.';
}

function credentialLines({ clientId, clientSecret }: Credentials): string {
  return `Its bootstrap client, shown once:\n  id      ${clientId}\n  secret  ${clientSecret}`;
}
