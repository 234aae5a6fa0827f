import { firstCredentialsVersion } from '../core/clients.ts';
import type { MakeEntry } from '../core/audit-log.ts';
import type { Millis, RandomBytes } from '../core/clock.ts';
import { StartRefused } from '../core/errors.ts';
import { type Client, managementApiId, type Tenant } from '../core/types.ts';
import type { RecordingStore } from '../store/port/audit-log.ts';
import type { Store } from '../store/port/store.ts';
import {
  type Credentials,
  type DeliverCredentials,
  hashSecret,
  makeClientId,
  makeClientSecret,
  makeGrantId,
} from './clients.ts';
import { createFirstKey } from './keys.ts';
import { ensureSample, type SampleOptions } from './sample.ts';
import { managementScopes } from './scopes.ts';

const CLIENTS_PER_PAGE = 100;

/** Prefix of the ids of bootstrap clients: a name can change, an id cannot. */
const BOOTSTRAP_PREFIX = 'bootstrap-';

type AccessStore = Pick<
  Store,
  'tenants' | 'keys' | 'clients' | 'apis' | 'grants' | 'roles' | 'recording'
>;

export interface ClientDeps {
  readonly store: AccessStore;
  readonly random: RandomBytes;
  readonly now: Millis;
  /** Makes the entries about what changes; without it none is recorded. */
  readonly entry?: MakeEntry | undefined;
}

/** The settings of the first start (docs/http-api.md#first-start). */
export interface BootstrapOptions {
  readonly name: string;
  readonly domain: string;
  /** LEAT_BOOTSTRAP_CLIENT_ID and LEAT_BOOTSTRAP_CLIENT_SECRET, both or none. */
  readonly client?: Credentials | undefined;
  /**
   * Delivers the credentials of a generated client. The client is stored only afterwards: a start
   * that is interrupted leaves no client with an unknown secret. Absent where credentials cannot be
   * delivered: the two variables are required then.
   */
  readonly deliverCredentials?: DeliverCredentials | undefined;
  /** The sample client of the message API; absent: a first start creates none. */
  readonly sample?: SampleOptions | undefined;
}

/** What a start found, created and changed. */
export interface Bootstrapped {
  /** The first tenant, with the configured name and domain. */
  readonly tenant: Tenant;
  /** Its domain before this start, if it changed: tokens of that issuer stop working. */
  readonly formerDomain: string | undefined;
  /** Set when a client with a generated secret was created; its credentials were delivered. */
  readonly generated: Credentials | undefined;
  /** True when the sample client was created; its credentials were delivered. */
  readonly sampleCreated: boolean;
  /** True when the secret in the environment replaced another one. */
  readonly secretReplaced: boolean;
}

/**
 * Creates the first tenant, its signing key, the sample of the message API and the bootstrap client,
 * each unless it exists. May be repeated, also after an interruption at any point.
 *
 * Throws `StartRefused` when another tenant has the name or the domain, and when the client in the
 * environment is missing or belongs to an external issuer.
 */
export async function bootstrap(
  deps: ClientDeps,
  options: BootstrapOptions,
): Promise<Bootstrapped> {
  const [first] = await deps.store.tenants.list();
  const tenant = await ensureFirstTenant(deps, first, options);
  await createFirstKey(deps.store.keys, tenant.id, deps.now);
  const recording = (target: string) => recordingOf(deps, tenant.id, target);
  const sampleDeps = { ...deps, recording };
  // Before the management client: without that client the next start knows it has to continue.
  const sampleCreated =
    options.sample !== undefined && (await ensureSample(sampleDeps, tenant, options.sample));
  const client = await ensureClient(deps, tenant.id, options);
  const moved = first !== undefined && first.domain !== tenant.domain;
  return { tenant, formerDomain: moved ? first.domain : undefined, sampleCreated, ...client };
}

/** Creates a tenant with a signing key and a bootstrap client: `leat tenants create`. */
export async function createTenant(
  deps: ClientDeps,
  options: Pick<Tenant, 'name' | 'domain'>,
): Promise<({ created: Tenant } & Credentials) | { refused: 'name_taken' | 'domain_taken' }> {
  const result = await deps.store.tenants.create(options, deps.now);
  if ('refused' in result) return result;
  await createFirstKey(deps.store.keys, result.created.id, deps.now);
  return { ...result, ...(await createGeneratedManager(deps, result.created.id)) };
}

/**
 * Creates a new bootstrap client and deletes secrets and keys of the former ones:
 * `leat tenants bootstrap`. The client `configuredId` (LEAT_BOOTSTRAP_CLIENT_ID) counts as one of them.
 * `deliverCredentials` runs before any change.
 */
export async function renewBootstrap(
  deps: ClientDeps,
  tenant: number,
  {
    configuredId,
    deliverCredentials,
  }: {
    configuredId?: string | undefined;
    deliverCredentials?: DeliverCredentials | undefined;
  } = {},
): Promise<Credentials> {
  const former: Client[] = [];
  for await (const client of clientsOf(deps.store, tenant)) {
    const isBootstrap = client.id.startsWith(BOOTSTRAP_PREFIX) && client.issuer === undefined;
    if (isBootstrap || client.id === configuredId) former.push(client);
  }
  // A tenant whose creation was interrupted may have no key yet.
  await createFirstKey(deps.store.keys, tenant, deps.now);
  const credentials = await createGeneratedManager(deps, tenant, deliverCredentials);
  for (const client of former) {
    await recordingOf(deps, tenant, client.id).clients.update(tenant, client.id, (before) => ({
      after: { ...before, secretHash: undefined, jwks: undefined },
    }));
  }
  return credentials;
}

/** Creates the first tenant, or renames it to the configured name and domain. */
async function ensureFirstTenant(
  deps: ClientDeps,
  first: Tenant | undefined,
  { name, domain }: BootstrapOptions,
): Promise<Tenant> {
  const { store, now } = deps;
  if (first === undefined) {
    const result = await store.tenants.create({ name, domain }, now);
    if ('created' in result) return result.created;
    // Another node on the same store may have started at the same moment.
    const [created] = await store.tenants.list();
    if (created?.name === name && created.domain === domain) return created;
    throw new StartRefused(
      `LEAT_TENANT_DOMAIN: another node that started at the same moment uses this store as "${created?.domain}", not as "${domain}": give all nodes the same LEAT_TENANT_NAME and domain`,
    );
  }
  if (first.name === name && first.domain === domain) return first;
  const result = await recordingOf(deps, first.id, name).tenants.rename(first.id, { name, domain });
  if (result === 'name_taken' || result === 'domain_taken') throw taken(result, name, domain);
  return { ...first, name, domain };
}

function taken(refused: 'name_taken' | 'domain_taken', name: string, domain: string): StartRefused {
  return new StartRefused(
    refused === 'name_taken'
      ? `LEAT_TENANT_NAME: "${name}" is the name of another tenant, for example LEAT_TENANT_NAME=${name}-1`
      : `LEAT_TENANT_DOMAIN: "${domain}" is the domain of another tenant, for example LEAT_TENANT_DOMAIN=leat.example.com`,
  );
}

type EnsuredClient = Pick<Bootstrapped, 'generated' | 'secretReplaced'>;

async function ensureClient(
  deps: ClientDeps,
  tenant: number,
  options: BootstrapOptions,
): Promise<EnsuredClient> {
  if (options.client !== undefined) return ensureConfiguredClient(deps, tenant, options.client);
  if (await hasManager(deps.store, tenant)) return { generated: undefined, secretReplaced: false };
  if (options.deliverCredentials === undefined) {
    throw new StartRefused(
      'LEAT_BOOTSTRAP_CLIENT_ID: is required with LEAT_BOOTSTRAP_CLIENT_SECRET where there is no terminal to show a generated one, for example LEAT_BOOTSTRAP_CLIENT_ID=operator',
    );
  }
  const generated = await createGeneratedManager(deps, tenant, options.deliverCredentials);
  return { generated, secretReplaced: false };
}

/** Creates the client of the environment, or sets its secret to the one set there. */
async function ensureConfiguredClient(
  deps: ClientDeps,
  tenant: number,
  configured: Credentials,
): Promise<EnsuredClient> {
  const { clientId, clientSecret } = configured;
  const present = await deps.store.clients.get(tenant, clientId);
  if (present?.issuer !== undefined) {
    throw new StartRefused(
      `LEAT_BOOTSTRAP_CLIENT_ID: "${clientId}" is a client of an external issuer, for example LEAT_BOOTSTRAP_CLIENT_ID=operator`,
    );
  }
  const secretHash = hashSecret(clientSecret);
  const secretReplaced = present !== undefined && present.secretHash !== secretHash;
  if (secretReplaced) {
    const decide = (before: Client): { after: Client } => ({ after: { ...before, secretHash } });
    await recordingOf(deps, tenant, clientId).clients.update(tenant, clientId, decide);
  }
  // The id may have been used before: tokens of then must not count again.
  if (present === undefined) await createManager(deps, tenant, configured, deps.now);
  else await grantAll(deps, tenant, clientId, recordingOf(deps, tenant, clientId));
  return { generated: undefined, secretReplaced };
}

/**
 * Returns whether a client can manage the tenant with a secret or a key. A client without a grant,
 * which an interrupted start leaves, does not count.
 */
async function hasManager(store: AccessStore, tenant: number): Promise<boolean> {
  for await (const client of clientsOf(store, tenant)) {
    const canAuthenticate = (client.secretHash ?? client.jwks) !== undefined;
    const isManager = client.global && client.issuer === undefined && canAuthenticate;
    if (isManager && (await store.grants.of(tenant, client.id, managementApiId)) !== undefined) {
      return true;
    }
  }
  return false;
}

async function* clientsOf(store: AccessStore, tenant: number): AsyncGenerator<Client> {
  for (let after: string | undefined; ;) {
    const { items, next } = await store.clients.listFrom(tenant, { after, take: CLIENTS_PER_PAGE });
    yield* items;
    if (next === undefined) return;
    after = next;
  }
}

async function createGeneratedManager(
  deps: ClientDeps,
  tenant: number,
  deliverCredentials?: DeliverCredentials,
): Promise<Credentials> {
  const clientId = BOOTSTRAP_PREFIX + makeClientId(deps.random);
  const credentials = { clientId, clientSecret: makeClientSecret(deps.random) };
  await deliverCredentials?.(credentials);
  await createManager(deps, tenant, credentials, firstCredentialsVersion);
  return credentials;
}

async function createManager(
  deps: ClientDeps,
  tenant: number,
  { clientId, clientSecret }: Credentials,
  credentialsVersion: number,
): Promise<void> {
  await recordingOf(deps, tenant, clientId).clients.create({
    tenant,
    id: clientId,
    name: 'Bootstrap client',
    global: true,
    issuer: undefined,
    secretHash: hashSecret(clientSecret),
    jwks: undefined,
    credentialsVersion,
    createdAt: deps.now,
  });
  await grantAll(deps, tenant, clientId);
}

/** Returns the changes of the store, with an entry about `target` where entries are recorded. */
function recordingOf(
  { store, entry }: ClientDeps,
  tenant: number,
  target: string,
): Pick<RecordingStore, 'clients' | 'grants' | 'tenants'> {
  return entry === undefined ? store : store.recording(entry(tenant, [target]));
}

/** Grants every scope of the management API, unless the client already has a grant for it. */
async function grantAll(
  { store, random }: ClientDeps,
  tenant: number,
  client: string,
  { grants }: Pick<RecordingStore, 'grants'> = store,
): Promise<void> {
  const id = makeGrantId(random);
  await grants.create({ tenant, id, client, api: managementApiId, scope: managementScopes });
}
