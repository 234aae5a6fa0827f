import type { Millis, RandomBytes } from '../core/clock.ts';
import { StartRefused } from '../core/errors.ts';
import { type Client, managementApiId, type Tenant } from '../core/types.ts';
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
import { placeSample, type SampleOptions } from './sample.ts';
import { managementScopes } from './scopes.ts';

const CLIENTS_PER_PAGE = 100;

/** Ids of bootstrap clients begin so: an id never changes, unlike a name. */
const BOOTSTRAP_PREFIX = 'bootstrap-';

type AccessStore = Pick<Store, 'tenants' | 'keys' | 'clients' | 'apis' | 'grants' | 'roles'>;

/** What making a client takes. */
export interface ClientDeps {
  readonly store: AccessStore;
  readonly random: RandomBytes;
  readonly now: Millis;
}

/** What the operator asks of the first start (docs/http-api.md#first-start). */
export interface BootstrapOptions {
  readonly name: string;
  readonly domain: string;
  /** LEAT_BOOTSTRAP_CLIENT_ID and LEAT_BOOTSTRAP_CLIENT_SECRET, both or none. */
  readonly client?: Credentials | undefined;
  /**
   * Hands a generated client over to the operator. The client is stored only once this is done: a
   * start that ends in between leaves no client whose secret nobody knows. Absent where it could be
   * handed to nobody: the two variables are required then.
   */
  readonly deliverCredentials?: DeliverCredentials | undefined;
  /** What a first start makes for the message API; absent where that is not wanted. */
  readonly sample?: SampleOptions | undefined;
}

/** What the start has done. */
export interface Bootstrapped {
  /** The first tenant, with the name and the domain of now. */
  readonly tenant: Tenant;
  /** Its domain before this start, when that was another: tokens of that issuer end. */
  readonly formerDomain: string | undefined;
  /** Set when a client was made with a generated secret, which has been handed over. */
  readonly generated: Credentials | undefined;
  /** True when the client of the message API's sample was made and handed over. */
  readonly sampleMade: boolean;
  /** True when the secret in the environment took the place of another. */
  readonly secretReplaced: boolean;
}

/**
 * Makes what a start needs and finds missing: the first tenant, its signing key, the sample of the
 * message API, and its bootstrap client. It can be repeated, also after it was cut off at any point.
 *
 * Throws `StartRefused` when a name or a domain is another tenant's, and when the client in the
 * environment is missing or belongs to an external issuer.
 */
export async function bootstrap(deps: ClientDeps, wish: BootstrapOptions): Promise<Bootstrapped> {
  const [first] = await deps.store.tenants.list();
  const tenant = await placeTenant(deps, first, wish);
  await createFirstKey(deps.store, tenant.id, deps.now);
  // Before the management client: its absence tells that a first start has not got this far.
  const sampleMade = wish.sample !== undefined && (await placeSample(deps, tenant, wish.sample));
  const client = await placeClient(deps, tenant.id, wish);
  const moved = first !== undefined && first.domain !== tenant.domain;
  return { tenant, formerDomain: moved ? first.domain : undefined, sampleMade, ...client };
}

/**
 * Makes a tenant with a signing key and a bootstrap client: `leat tenants create`. What another
 * tenant has already is refused.
 */
export async function createTenant(
  deps: ClientDeps,
  wish: Pick<Tenant, 'name' | 'domain'>,
): Promise<({ created: Tenant } & Credentials) | { refused: 'name_taken' | 'domain_taken' }> {
  const answer = await deps.store.tenants.create(wish, deps.now);
  if ('refused' in answer) return answer;
  await createFirstKey(deps.store, answer.created.id, deps.now);
  return { ...answer, ...(await makeManager(deps, answer.created.id)) };
}

/**
 * Makes a new bootstrap client and ends the secrets of those before it: `leat tenants bootstrap`.
 * `configuredId` is LEAT_BOOTSTRAP_CLIENT_ID where it is set; that client is one of them.
 */
export async function renewBootstrap(
  deps: ClientDeps,
  tenant: number,
  configuredId?: string,
): Promise<Credentials> {
  const former: Client[] = [];
  for await (const client of clientsOf(deps.store, tenant)) {
    const made = client.id.startsWith(BOOTSTRAP_PREFIX) && client.issuer === undefined;
    if (made || client.id === configuredId) former.push(client);
  }
  // A tenant whose making was cut off may have no key yet.
  await createFirstKey(deps.store, tenant, deps.now);
  const credentials = await makeManager(deps, tenant);
  for (const client of former) {
    await deps.store.clients.update(tenant, client.id, (before) => ({
      after: { ...before, secretHash: undefined },
    }));
  }
  return credentials;
}

/** Creates the first tenant, or gives it the name and the domain that are configured now. */
async function placeTenant(
  { store, now }: ClientDeps,
  first: Tenant | undefined,
  { name, domain }: BootstrapOptions,
): Promise<Tenant> {
  if (first === undefined) {
    const answer = await store.tenants.create({ name, domain }, now);
    if ('created' in answer) return answer.created;
    // Another node on the same store started at the same moment.
    const [made] = await store.tenants.list();
    if (made?.name === name && made.domain === domain) return made;
    throw taken(answer.refused, name, domain);
  }
  if (first.name === name && first.domain === domain) return first;
  const answer = await store.tenants.rename(first.id, { name, domain });
  if (answer === 'name_taken' || answer === 'domain_taken') throw taken(answer, name, domain);
  return { ...first, name, domain };
}

function taken(what: 'name_taken' | 'domain_taken', name: string, domain: string): StartRefused {
  return new StartRefused(
    what === 'name_taken'
      ? `LEAT_TENANT_NAME: "${name}" is the name of another tenant, for example LEAT_TENANT_NAME=${name}-1`
      : `LEAT_TENANT_DOMAIN: "${domain}" is the domain of another tenant, for example LEAT_TENANT_DOMAIN=leat.example.com`,
  );
}

type PlacedClient = Pick<Bootstrapped, 'generated' | 'secretReplaced'>;

async function placeClient(
  deps: ClientDeps,
  tenant: number,
  wish: BootstrapOptions,
): Promise<PlacedClient> {
  if (wish.client !== undefined) return placeConfigured(deps, tenant, wish.client);
  if (await hasManager(deps.store, tenant)) return { generated: undefined, secretReplaced: false };
  if (wish.deliverCredentials === undefined) {
    throw new StartRefused(
      'LEAT_BOOTSTRAP_CLIENT_ID: is required with LEAT_BOOTSTRAP_CLIENT_SECRET where there is no terminal to show a generated one, for example LEAT_BOOTSTRAP_CLIENT_ID=operator',
    );
  }
  const generated = await makeManager(deps, tenant, wish.deliverCredentials);
  return { generated, secretReplaced: false };
}

/** The client of the environment: made when it is missing, else given the secret set there. */
async function placeConfigured(
  deps: ClientDeps,
  tenant: number,
  wanted: Credentials,
): Promise<PlacedClient> {
  const { clientId, clientSecret } = wanted;
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
    await deps.store.clients.update(tenant, clientId, decide);
  }
  if (present === undefined) await createManager(deps, tenant, wanted);
  else await grantAll(deps, tenant, clientId);
  return { generated: undefined, secretReplaced };
}

/**
 * Whether somebody can manage the tenant with a secret or a key of their own. A client that a
 * start cut off left without its grant does not count.
 */
async function hasManager(store: AccessStore, tenant: number): Promise<boolean> {
  for await (const client of clientsOf(store, tenant)) {
    const proves = (client.secretHash ?? client.jwks) !== undefined;
    const own = client.global && client.issuer === undefined && proves;
    if (own && (await store.grants.of(tenant, client.id, managementApiId)) !== undefined) {
      return true;
    }
  }
  return false;
}

async function* clientsOf(store: AccessStore, tenant: number): AsyncGenerator<Client> {
  for (let page = 0; ; page += 1) {
    const { items } = await store.clients.list(tenant, { page, perPage: CLIENTS_PER_PAGE });
    yield* items;
    if (items.length < CLIENTS_PER_PAGE) return;
  }
}

async function makeManager(
  deps: ClientDeps,
  tenant: number,
  deliverCredentials?: DeliverCredentials,
): Promise<Credentials> {
  const clientId = BOOTSTRAP_PREFIX + makeClientId(deps.random);
  const credentials = { clientId, clientSecret: makeClientSecret(deps.random) };
  await deliverCredentials?.(credentials);
  await createManager(deps, tenant, credentials);
  return credentials;
}

async function createManager(
  deps: ClientDeps,
  tenant: number,
  { clientId, clientSecret }: Credentials,
): Promise<void> {
  await deps.store.clients.create({
    tenant,
    id: clientId,
    name: 'Bootstrap client',
    global: true,
    issuer: undefined,
    secretHash: hashSecret(clientSecret),
    jwks: undefined,
    createdAt: deps.now,
  });
  await grantAll(deps, tenant, clientId);
}

/** Grants every scope of the management API, unless the client has a grant for it already. */
async function grantAll(
  { store, random }: ClientDeps,
  tenant: number,
  client: string,
): Promise<void> {
  const id = makeGrantId(random);
  await store.grants.create({ tenant, id, client, api: managementApiId, scope: managementScopes });
}
