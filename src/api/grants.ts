import type { RandomBytes } from '../core/clock.ts';
import { makeId } from '../core/ids.ts';
import { type Grant, managementApiId, type Tenant } from '../core/types.ts';
import {
  grant,
  grantCreate,
  grantParams,
  grantPatch,
  grants,
  grantsQuery,
} from '../schemas/grants.ts';
import type { Store } from '../store/port/store.ts';
import { noApi } from './apis.ts';
import { apiOf, audiencesOf } from './api-lookup.ts';
import { noClient } from './clients.ts';
import { type Caller, type Operation, operation } from './operation.ts';
import { heldScopes, requireSubset } from './scope-rules.ts';
import { nextOf, pageOf } from './page.ts';
import { conflict, notFound, type Problem } from './http/problem.ts';
import type { ApiSettings } from './settings.ts';

export interface GrantDeps {
  readonly store: Pick<Store, 'grants' | 'apis' | 'clients'>;
  readonly random: RandomBytes;
  readonly settings: Pick<ApiSettings, 'plainHttp' | 'limits'>;
}

const tag = 'Client grants';
const lifecycle = 'Early Access';

/** The operations of client grants (docs/http-api.md#client-grants). */
export function grantOperations(deps: GrantDeps): Operation[] {
  return [listGrants(deps), createGrant(deps), updateGrant(deps), deleteGrant(deps)];
}

function listGrants(deps: GrantDeps): Operation {
  return operation({
    operationId: 'listClientGrants',
    method: 'GET',
    path: '/client-grants',
    summary: 'List client grants',
    tag,
    scopes: ['read:client_grants'],
    lifecycle,
    query: grantsQuery,
    isList: true,
    success: 200,
    response: grants,
    errors: [400],
    handle: async ({ tenant, query }) => {
      const { client_id: client, audience } = query;
      const asked = pageOf(query, deps.settings.limits, isGrantId);
      const api = audience === undefined ? undefined : await apiOf(deps, tenant, audience);
      if (audience !== undefined && api === undefined) return { body: { client_grants: [] } };
      const page = await deps.store.grants.list(tenant.id, { ...asked, client, api: api?.id });
      const items = await showAll(deps, tenant, page.items);
      return { body: { client_grants: items, ...nextOf(page.next) } };
    },
  });
}

function createGrant(deps: GrantDeps): Operation {
  return operation({
    operationId: 'createClientGrant',
    method: 'POST',
    path: '/client-grants',
    summary: 'Grant a client scopes of an API',
    description: 'Scopes of the management API only as far as the token of the request has them.',
    tag,
    scopes: ['create:client_grants'],
    lifecycle,
    body: { schema: grantCreate, required: true },
    success: 201,
    response: grant,
    errors: [400, 404, 409, 413, 415],
    handle: async ({ tenant, caller, body, now }) => {
      const { client_id: client, audience, scope = [] } = body;
      const api = await apiOf(deps, tenant, audience);
      if (api === undefined) throw noApi();
      const id = makeId('cgr_', now, deps.random);
      const wanted = { tenant: tenant.id, id, client, api: api.id, scope };
      await requireOwnGrant(deps, caller, wanted);
      const answer = await deps.store.grants.create(wanted);
      if ('refused' in answer) throw refusals[answer.refused]();
      return { body: show(answer.created, api.identifier) };
    },
  });
}

function updateGrant(deps: GrantDeps): Operation {
  return operation({
    operationId: 'updateClientGrant',
    method: 'PATCH',
    path: '/client-grants/:id',
    summary: 'Update a client grant',
    description: 'Acts on the next token.',
    tag,
    scopes: ['update:client_grants'],
    lifecycle,
    params: grantParams,
    body: { schema: grantPatch, required: true },
    success: 200,
    response: grant,
    errors: [400, 404, 413, 415],
    handle: async ({ tenant, caller, params, body }) => {
      const before = await deps.store.grants.get(tenant.id, params.id);
      if (before === undefined) throw noGrant();
      const { scope = before.scope } = body;
      if (scope !== before.scope) await requireOwnGrant(deps, caller, { ...before, scope });
      const answer = await deps.store.grants.update(tenant.id, params.id, scope);
      if ('refused' in answer) throw noGrant();
      const [shown] = await showAll(deps, tenant, [answer.updated]);
      if (shown === undefined) throw noGrant();
      return { body: shown };
    },
  });
}

function deleteGrant({ store }: GrantDeps): Operation {
  return operation({
    operationId: 'deleteClientGrant',
    method: 'DELETE',
    path: '/client-grants/:id',
    summary: 'Delete a client grant',
    description: 'Also 204 when there is no such grant. Acts on the next token.',
    tag,
    scopes: ['delete:client_grants'],
    lifecycle,
    params: grantParams,
    success: 204,
    errors: [400],
    handle: async ({ tenant, params }) => {
      await store.grants.delete(tenant.id, params.id);
      return {};
    },
  });
}

/** The rule "no more than one's own", for a grant as it shall be. */
async function requireOwnGrant({ store }: GrantDeps, caller: Caller, wanted: Grant): Promise<void> {
  if (wanted.api !== managementApiId) return;
  const client = await store.clients.get(wanted.tenant, wanted.client);
  requireSubset(caller, heldScopes({ issuer: client?.issuer }, [wanted]));
}

/** Grants with their audiences; one whose API is deleted at this moment is gone with it. */
async function showAll(
  deps: GrantDeps,
  tenant: Tenant,
  items: readonly Grant[],
): Promise<object[]> {
  const audiences = await audiencesOf(
    deps,
    tenant,
    items.map(({ api }) => api),
  );
  return items.flatMap((item) => {
    const audience = audiences.get(item.api);
    return audience === undefined ? [] : [show(item, audience)];
  });
}

function show({ id, client, scope }: Grant, audience: string): object {
  return { id, client_id: client, audience, scope };
}

function isGrantId(key: string): boolean {
  return /^cgr_[\x21-\x7E]+$/.test(key);
}

const refusals = {
  exists: () => conflict('The grant already exists.', 'already_exists'),
  unknown_client: noClient,
  unknown_api: noApi,
};

function noGrant(): Problem {
  return notFound('The grant does not exist.');
}
