import type { RandomBytes } from '../core/clock.ts';
import { makeId } from '../core/ids.ts';
import { type Grant, managementApiId, type Tenant } from '../core/types.ts';
import {
  grant,
  grantCreate,
  grantParams,
  grantPatch,
  grants,
  type GrantCreate,
  type GrantsQuery,
  grantsQuery,
} from '../schemas/grants.ts';
import type { GrantFilter } from '../store/port/grants.ts';
import type { Store } from '../store/port/store.ts';
import { apiOf, audiencesOf } from './api-lookup.ts';
import { noApi, noClient, noGrant, orNotFound } from './not-found.ts';
import { type Operation, operation } from './operation.ts';
import { heldScopes } from './scope-rules.ts';
import {
  isNumbered,
  nextOf,
  noItems,
  numberedPageOf,
  numberedResponse,
  pageOf,
  pageTooLarge,
} from './page.ts';
import { conflict } from './http/problem.ts';
import type { JsonText } from './http/sliced-json.ts';
import { carriedPart, carryOrThrow } from './carry.ts';
import { showFields } from './show-fields.ts';
import { carriedNames } from '../schemas/carried-fields.ts';
import type { ApiSettings } from './settings.ts';

export interface GrantDeps {
  readonly store: Pick<Store, 'grants' | 'apis' | 'clients' | 'guarded'>;
  readonly random: RandomBytes;
  readonly settings: Pick<ApiSettings, 'plainHttp' | 'managementTokenSeconds' | 'limits'>;
}

const shared = { tag: 'Client grants', lifecycle: 'Early Access' } as const;

/** Creates the operations of client grants (docs/http-api.md#client-grants). */
export function grantOperations(deps: GrantDeps): Operation[] {
  return [
    listGrants(deps),
    createGrant(deps),
    readGrant(deps),
    updateGrant(deps),
    deleteGrant(deps),
  ];
}

function listGrants(deps: GrantDeps): Operation {
  return operation({
    ...shared,
    operationId: 'listClientGrants',
    method: 'GET',
    path: '/client-grants',
    summary: 'List client grants',
    scopes: ['read:client_grants'],
    query: grantsQuery,
    isList: true,
    success: 200,
    response: grants,
    handle: async ({ tenant, query }) => {
      const filter = await filterOf(deps, tenant, query);
      const read = isNumbered(query) ? pageByNumber : pageByCursor;
      return { body: await read(deps, tenant, query, filter) };
    },
  });
}

/** Returns `undefined` when no grant can match. */
async function filterOf(
  deps: GrantDeps,
  tenant: Tenant,
  { client_id: client, audience, subject_type: subject }: GrantsQuery,
): Promise<GrantFilter | undefined> {
  if (subject === 'user') return undefined;
  if (audience === undefined) return { client };
  const api = await apiOf(deps, tenant, audience);
  return api && { client, api: api.id };
}

async function pageByNumber(
  deps: GrantDeps,
  tenant: Tenant,
  query: GrantsQuery,
  filter: GrantFilter | undefined,
): Promise<object> {
  const page = { ...numberedPageOf(query), bytesMax: deps.settings.limits.pageBytesMax };
  const found = filter && (await deps.store.grants.list(tenant.id, { ...page, ...filter }));
  if (found === undefined) return numberedResponse('client_grants', noItems, query);
  if ('refused' in found) throw pageTooLarge('per_page or take');
  const items = await showAll(deps, tenant, found.items);
  return numberedResponse('client_grants', { items, total: found.total }, query);
}

async function pageByCursor(
  deps: GrantDeps,
  tenant: Tenant,
  query: GrantsQuery,
  filter: GrantFilter | undefined,
): Promise<object> {
  const page = pageOf(query, deps.settings.limits, isGrantId);
  if (filter === undefined) return { client_grants: [] };
  const { items, next } = await deps.store.grants.listFrom(tenant.id, { ...page, ...filter });
  return { client_grants: await showAll(deps, tenant, items), ...nextOf(next) };
}

function createGrant(deps: GrantDeps): Operation {
  return operation({
    ...shared,
    operationId: 'createClientGrant',
    method: 'POST',
    path: '/client-grants',
    summary: 'Grant a client scopes of an API',
    description: 'Scopes of the management API only if the token of the request has them too.',
    scopes: ['create:client_grants'],
    body: { schema: grantCreate, required: true },
    success: 201,
    response: grant,
    errors: [404, 409],
    handle: async ({ tenant, body, now, guard, entry }) => {
      const { client_id: client, audience, scope = [] } = body;
      const api = orNotFound(await apiOf(deps, tenant, audience), noApi, audience);
      const id = makeId('cgr_', now, deps.random);
      const carriedJson = carryOrThrow(undefined, body, carriedNames.grant.create);
      const requested = { tenant: tenant.id, id, client, api: api.id, scope, carriedJson };
      const required = await scopesNeeded(deps, requested);
      const guarded = deps.store.guarded(guard(required), entry(id, client, api.id));
      const result = await guarded.grants.create(requested);
      if ('refused' in result) throw refusals[result.refused](body);
      return { body: show(result.created, api.identifier) };
    },
  });
}

function readGrant(deps: GrantDeps): Operation {
  return operation({
    ...shared,
    operationId: 'readClientGrant',
    method: 'GET',
    path: '/client-grants/:id',
    summary: 'Read a client grant',
    scopes: ['read:client_grants'],
    params: grantParams,
    success: 200,
    response: grant,
    errors: [404],
    handle: async ({ tenant, params }) => {
      const found = orNotFound(
        await deps.store.grants.get(tenant.id, params.id),
        noGrant,
        params.id,
      );
      const [shown] = await showAll(deps, tenant, [found]);
      return { body: orNotFound(shown, noGrant, params.id) };
    },
  });
}

function updateGrant(deps: GrantDeps): Operation {
  return operation({
    ...shared,
    operationId: 'updateClientGrant',
    method: 'PATCH',
    path: '/client-grants/:id',
    summary: 'Update a client grant',
    description:
      'Scopes of the management API only if the token of the request has them too, also to remove them. A scope that is removed no longer counts in tokens for the management API already issued; otherwise takes effect with the next token.',
    scopes: ['update:client_grants'],
    params: grantParams,
    body: { schema: grantPatch, required: true },
    success: 200,
    response: grant,
    errors: [404],
    handle: async ({ tenant, params, body, guard, entry }) => {
      const { scope } = body;
      const caller = guard();
      const targets = await targetsOf(deps, tenant, params.id);
      const { grants: store } = deps.store.guarded(caller, entry(...targets));
      const result = await store.update(tenant.id, params.id, (before, client) => {
        const carriedJson = carryOrThrow(before.carriedJson, body, carriedNames.grant.patch);
        if (scope === undefined) return { scope: before.scope, carriedJson };
        caller.requireScopes([
          ...heldScopes({}, [before]),
          ...heldScopes(client, [{ ...before, scope }]),
        ]);
        return { scope, carriedJson };
      });
      if ('refused' in result) throw noGrant(params.id);
      const [shown] = await showAll(deps, tenant, [result.updated]);
      return { body: orNotFound(shown, noGrant, params.id) };
    },
  });
}

function deleteGrant({ store }: GrantDeps): Operation {
  return operation({
    ...shared,
    operationId: 'deleteClientGrant',
    method: 'DELETE',
    path: '/client-grants/:id',
    summary: 'Delete a client grant',
    description:
      'Also 204 if the grant does not exist. Its scopes of the management API, which the token of the request must have too, no longer count in tokens already issued; otherwise takes effect with the next token.',
    scopes: ['delete:client_grants'],
    params: grantParams,
    success: 204,
    handle: async ({ tenant, params, guard, entry }) => {
      const caller = guard();
      const targets = await targetsOf({ store }, tenant, params.id);
      await store
        .guarded(caller, entry(...targets))
        .grants.delete(tenant.id, params.id, (before) =>
          caller.requireScopes(heldScopes({}, [before])),
        );
      return {};
    },
  });
}

/** Returns the scopes that a caller needs to create a grant: none for other APIs. */
async function scopesNeeded({ store }: GrantDeps, after: Grant): Promise<readonly string[]> {
  if (after.api !== managementApiId) return [];
  const client = await store.clients.get(after.tenant, after.client);
  return heldScopes({ issuer: client?.issuer }, [after]);
}

/** Returns the ids that an entry about a grant has: its own, that of its client and that of its API. */
async function targetsOf(
  { store }: Pick<GrantDeps, 'store'>,
  { id: tenant }: Tenant,
  id: string,
): Promise<string[]> {
  const found = await store.grants.get(tenant, id);
  return found === undefined ? [] : [id, found.client, found.api];
}

/** Returns grants with their audiences, without those whose API has just been deleted. */
async function showAll(
  deps: GrantDeps,
  tenant: Tenant,
  items: readonly Grant[],
): Promise<JsonText[]> {
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

function show({ id, client, scope, carriedJson }: Grant, audience: string): JsonText {
  const fields = { id, client_id: client, audience, scope };
  return showFields([JSON.stringify(fields), ...carriedPart(carriedJson)]);
}

function isGrantId(key: string): boolean {
  return /^cgr_[\x21-\x7E]+$/.test(key);
}

const refusals = {
  exists: () => conflict('The grant already exists.', 'already_exists'),
  unknown_client: ({ client_id: client }: GrantCreate) => noClient(client),
  unknown_api: ({ audience }: GrantCreate) => noApi(audience),
};
