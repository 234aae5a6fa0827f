import { firstCredentialsVersion } from '../core/clients.ts';
import type { Millis, RandomBytes } from '../core/clock.ts';
import { makeId, makeRoleId } from '../core/ids.ts';
import type { Client, Tenant } from '../core/types.ts';
import type { RecordingStore } from '../store/port/audit-log.ts';
import type { Store } from '../store/port/store.ts';
import {
  type DeliverCredentials,
  hashSecret,
  makeClientId,
  makeClientSecret,
  makeGrantId,
} from './clients.ts';
import { issuerOf, managementAudiences } from './issuer.ts';

/** The sample that a first start of both APIs creates, to try the message API without any setup. */
export interface SampleOptions {
  /** Identifier of the API: the audience that the message API expects. */
  readonly audience: string;
  /** Called before the client is stored. */
  readonly deliverCredentials: DeliverCredentials;
}

export interface SampleDeps {
  readonly store: Pick<Store, 'clients' | 'apis' | 'grants' | 'roles'>;
  readonly random: RandomBytes;
  readonly now: Millis;
  /** Returns the changes of the store, with an entry of the audit log about `target`. */
  readonly recording: (target: string) => Pick<RecordingStore, 'clients'>;
}

/** Name of the client, and the prefix of its id. */
const CLIENT_NAME = 'messages-sample';
const ROLE_NAME = 'messages-admin';
const PERMISSION = 'read:admin-messages';

/**
 * Creates the API, a role with its permission, and a client that holds the role
 * (docs/message-api.md#sample-client), but only in an unused tenant: one without clients. Completes a
 * sample whose creation was interrupted. Returns whether it created the client.
 */
export async function ensureSample(
  deps: SampleDeps,
  { id: tenant, domain }: Pick<Tenant, 'id' | 'domain'>,
  { audience, deliverCredentials }: SampleOptions,
): Promise<boolean> {
  const { store } = deps;
  // Audiences of the management API are reserved.
  if (isManagementAudience(audience, domain)) return false;
  const { items: clients } = await store.clients.listFrom(tenant, { after: undefined, take: 2 });
  const [present, another] = clients;
  if (another !== undefined || (present !== undefined && !isSample(present))) return false;

  const api = await ensureApi(deps, tenant, audience);
  const role = await ensureRole(deps, tenant, api);
  const client = present?.id ?? (await createClient(deps, tenant, deliverCredentials));
  const id = makeGrantId(deps.random);
  await store.grants.create({ tenant, id, client, api, scope: [] });
  await store.roles.addClients(tenant, role, [client]);
  return present === undefined;
}

function isManagementAudience(audience: string, domain: string): boolean {
  return [true, false].some((plainHttp) =>
    managementAudiences(domain, issuerOf(domain, plainHttp)).includes(audience),
  );
}

function isSample({ id }: Client): boolean {
  return id.startsWith(`${CLIENT_NAME}-`);
}

/** Returns the id of the API. */
async function ensureApi(
  { store, random, now }: SampleDeps,
  tenant: number,
  identifier: string,
): Promise<string> {
  const present = await store.apis.get(tenant, identifier);
  if (present !== undefined) return present.id;
  const id = makeId('api_', now, random);
  await store.apis.create({
    tenant,
    id,
    identifier,
    name: 'Message API',
    scopes: [{ value: PERMISSION, description: 'Read admin messages' }],
    enforcePolicies: true,
    tokenDialect: 'access_token_authz',
    tokenLifetimeSeconds: 86_400,
    createdAt: now,
  });
  return id;
}

/** Returns the id of the role. */
async function ensureRole(
  { store, random, now }: SampleDeps,
  tenant: number,
  api: string,
): Promise<string> {
  const present = await store.roles.byName(tenant, ROLE_NAME);
  const id = present?.id ?? makeRoleId(random);
  if (present === undefined) {
    const description = 'Reads admin messages';
    await store.roles.create({ tenant, id, name: ROLE_NAME, description, createdAt: now });
  }
  await store.roles.addPermissions(tenant, id, [{ api, name: PERMISSION }]);
  return id;
}

/** Returns the id of the client. */
async function createClient(
  { random, now, recording }: SampleDeps,
  tenant: number,
  deliverCredentials: DeliverCredentials,
): Promise<string> {
  const clientId = `${CLIENT_NAME}-${makeClientId(random)}`;
  const credentials = { clientId, clientSecret: makeClientSecret(random) };
  await deliverCredentials(credentials);
  await recording(clientId).clients.create({
    tenant,
    id: clientId,
    name: CLIENT_NAME,
    global: false,
    issuer: undefined,
    secretHash: hashSecret(credentials.clientSecret),
    credentialsVersion: firstCredentialsVersion,
    jwks: undefined,
    createdAt: now,
  });
  return clientId;
}
