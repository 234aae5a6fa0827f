import { hashSecret, makeClientId, makeClientSecret } from '../auth/clients.ts';
import type { RandomBytes } from '../core/clock.ts';
import { firstCredentialsVersion } from '../core/clients.ts';
import type { Client, Grant } from '../core/types.ts';
import {
  client,
  type ClientCreate,
  clientCreate,
  clientParams,
  type ClientPatch,
  clientPatch,
  clientWithSecret,
} from '../schemas/clients.ts';
import { carriedNames } from '../schemas/carried-fields.ts';
import { emptyBody } from '../schemas/schema.ts';
import type { GuardedStore } from '../store/port/guard.ts';
import type { Store } from '../store/port/store.ts';
import { carryOrThrow } from './carry.ts';
import { usableKeys } from './client-keys.ts';
import { clientReads } from './client-reads.ts';
import { noClient } from './not-found.ts';
import { type Call, type Operation, operation } from './operation.ts';
import { heldScopes } from './scope-rules.ts';
import { changedName, type NameField, sentName } from './sent-name.ts';
import { badBody, conflict, type Problem, quoted } from './http/problem.ts';
import type { ApiSettings } from './settings.ts';
import { showClient } from './show-client.ts';

export interface ClientDeps {
  readonly store: Pick<Store, 'clients' | 'guarded'>;
  readonly random: RandomBytes;
  readonly settings: Pick<ApiSettings, 'trustedIssuers' | 'limits'>;
}

const shared = { tag: 'Clients', lifecycle: 'Early Access' } as const;
const nameField: NameField = { property: 'name', description: 'Name of the client' };

/** Creates the operations of clients (docs/http-api.md#clients). */
export function clientOperations(deps: ClientDeps): Operation[] {
  return [
    ...clientReads(deps),
    createClient(deps),
    updateClient(deps),
    deleteClient(deps),
    rotateClientSecret(deps),
  ];
}

function createClient(deps: ClientDeps): Operation {
  return operation({
    ...shared,
    operationId: 'createClient',
    method: 'POST',
    path: '/clients',
    summary: 'Create a client',
    description: 'The response contains the secret, which is not shown again.',
    scopes: ['create:clients'],
    body: { schema: clientCreate, required: true },
    success: 201,
    response: clientWithSecret,
    errors: [409],
    handle: async (call) => ({ body: await create(deps, call) }),
  });
}

async function create(
  { store, random, settings }: ClientDeps,
  { tenant, body, now, guard, entry }: Call<unknown, unknown, ClientCreate>,
): Promise<object> {
  const { client_id: sentId, issuer, global = false } = body;
  const name = sentName(body.name, nameField);
  checkIssuer(body, settings);
  const jwks = await usableKeys(body.jwks);
  // A client without issuer has no grants yet, and each of them needs the caller's scopes.
  const required = global ? heldScopes({ issuer }, []) : [];
  const secret = issuer === undefined ? makeClientSecret(random) : undefined;
  const id = sentId ?? makeClientId(random);
  const result = await store.guarded(guard(required), entry(id)).clients.create({
    tenant: tenant.id,
    id,
    name,
    global,
    issuer,
    secretHash: secret && hashSecret(secret),
    jwks: jwks ?? undefined,
    carriedJson: carryOrThrow(undefined, body, carriedNames.client.create),
    credentialsVersion: firstCredentialsVersion,
    createdAt: now,
  });
  if ('refused' in result) throw conflict('The client already exists.', 'already_exists');
  return showClient(result.created, { secret });
}

function updateClient({ store }: ClientDeps): Operation {
  return operation({
    ...shared,
    operationId: 'updateClient',
    method: 'PATCH',
    path: '/clients/:client_id',
    summary: 'Update a client',
    description:
      'Any subset of the fields. Clearing `global` and removing a key also affect tokens already issued. A client can be changed only if the token of the request has all scopes of the client.',
    scopes: ['update:clients'],
    params: clientParams,
    body: { schema: clientPatch, required: true },
    success: 200,
    response: client,
    errors: [404],
    handle: async ({ tenant, params, body, guard, entry }) => {
      const jwks = await usableKeys(body.jwks);
      const caller = guard();
      const target = { tenant: tenant.id, id: params.client_id };
      const guarded = store.guarded(caller, entry(target.id));
      const updated = await change(guarded, target, (before, grants) =>
        patched(before, { ...body, jwks }, () => caller.requireScopes(heldScopes(before, grants))),
      );
      return { body: showClient(updated) };
    },
  });
}

function deleteClient({ store }: ClientDeps): Operation {
  return operation({
    ...shared,
    operationId: 'deleteClient',
    method: 'DELETE',
    path: '/clients/:client_id',
    summary: 'Delete a client',
    description:
      'Also 204 if the client does not exist. Deletes its grants too; its tokens stop working. Only if the token of the request has all scopes of the client.',
    scopes: ['delete:clients'],
    params: clientParams,
    success: 204,
    handle: async ({ tenant, params, guard, entry }) => {
      const caller = guard();
      const guarded = store.guarded(caller, entry(params.client_id));
      await guarded.clients.delete(tenant.id, params.client_id, (before, grants) => {
        if (hasAccess(before)) caller.requireScopes(heldScopes(before, grants));
      });
      return {};
    },
  });
}

function rotateClientSecret({ store, random }: ClientDeps): Operation {
  return operation({
    ...shared,
    operationId: 'rotateClientSecret',
    method: 'POST',
    path: '/clients/:client_id/rotate-secret',
    summary: 'Rotate the secret of a client',
    description:
      'The former secret and all tokens stop working immediately. The new secret is not shown again.',
    scopes: ['update:clients'],
    params: clientParams,
    body: { schema: emptyBody, required: false },
    success: 200,
    response: clientWithSecret,
    errors: [404],
    handle: async ({ tenant, params, guard, entry }) => {
      const secret = makeClientSecret(random);
      const caller = guard();
      const target = { tenant: tenant.id, id: params.client_id };
      const guarded = store.guarded(caller, entry(target.id));
      const updated = await change(guarded, target, (before, grants) => {
        caller.requireScopes(heldScopes(before, grants));
        if (before.issuer !== undefined) throw noSecret();
        return { ...before, secretHash: hashSecret(secret) };
      });
      return { body: showClient(updated, { secret }) };
    },
  });
}

/**
 * Changes a client. `decide` throws if the change is not allowed. It receives the grants of the same
 * transaction, so that a concurrent grant cannot bypass the check.
 */
async function change(
  store: GuardedStore,
  { tenant, id }: Pick<Client, 'tenant' | 'id'>,
  decide: (before: Client, grants: readonly Grant[]) => Client,
): Promise<Client> {
  const result = await store.clients.update(tenant, id, (before, grants) => ({
    after: decide(before, grants),
  }));
  if ('refused' in result) throw noClient(id);
  return result.updated;
}

/**
 * Returns the client with a PATCH applied. Calls `requireAll` before any change, as the caller needs all
 * scopes of the client then: keys and `global` let it act as the client, and the name is what people
 * recognize a client by in lists and in the audit log.
 */
function patched(before: Client, sent: CheckedPatch, requireAll: () => void): Client {
  const { global = before.global, jwks } = sent;
  const name = changedName(before.name, sent.name, nameField);
  const carriedJson = carryOrThrow(before.carriedJson, sent, carriedNames.client.patch);
  const isChanged =
    name !== before.name ||
    global !== before.global ||
    jwks !== undefined ||
    carriedJson !== before.carriedJson;
  if (isChanged && (hasAccess(before) || global)) requireAll();
  if (jwks !== undefined && before.issuer !== undefined) throw noKeys();
  return {
    ...before,
    name,
    global,
    jwks: jwks === undefined ? before.jwks : (jwks ?? undefined),
    carriedJson,
  };
}

/** A PATCH with its keys in the form of {@link usableKeys}. */
type CheckedPatch = Omit<ClientPatch, 'jwks'> & {
  readonly jwks: Awaited<ReturnType<typeof usableKeys>>;
};

/** Returns whether a client has any access: one of an external issuer has none while it is not global. */
function hasAccess({ issuer, global }: Client): boolean {
  return issuer === undefined || global;
}

/** Checks the rules for `client_id` and `issuer` that the schema cannot express. */
function checkIssuer(
  { client_id: id, issuer, jwks }: ClientCreate,
  { trustedIssuers }: ClientDeps['settings'],
): void {
  if (issuer === undefined) {
    if (id === undefined) return;
    throw badBody(
      'client_id is allowed only together with issuer',
      'client_id',
      'Id of the client',
    );
  }
  if (!trustedIssuers.includes(issuer)) {
    throw badBody(
      `No enum match for: ${quoted(issuer)}; allowed: those of LEAT_TRUSTED_ISSUERS`,
      'issuer',
      'External issuer of the tokens of this client, one of the trusted ones',
    );
  }
  if (id === undefined) {
    throw badBody('Missing required property: client_id', 'client_id', 'Id of the client');
  }
  if (jwks !== undefined) throw noKeys();
}

function noKeys(): Problem {
  return badBody(
    'A client of an external issuer has no keys',
    'jwks',
    'Public keys that prove private_key_jwt',
  );
}

function noSecret(): Problem {
  return badBody(
    'A client of an external issuer has no secret',
    'client_secret',
    'Known at this moment only; stored as a hash',
  );
}
