import type { RandomBytes } from '../core/clock.ts';
import { makeId } from '../core/ids.ts';
import { type Api, managementApiId, type Tenant } from '../core/types.ts';
import {
  api,
  type ApiCreate,
  apiCreate,
  apiParams,
  type ApiPatch,
  apiPatch,
  apis,
  apisQuery,
} from '../schemas/apis.ts';
import type { NumberedPage, PageByNumber } from '../store/port/page.ts';
import type { Store } from '../store/port/store.ts';
import { isManagementAudience, managementApi } from './management.ts';
import { numberedResponse, numberedPageOf, pageTooLarge } from './numbered-page.ts';
import { type Call, type Operation, operation } from './operation.ts';
import { badBody, conflict, notFound, Problem, quoted } from './http/problem.ts';
import type { ApiSettings } from './settings.ts';

export interface ApiDeps {
  readonly store: Pick<Store, 'apis'>;
  readonly random: RandomBytes;
  readonly settings: Pick<ApiSettings, 'plainHttp' | 'limits'>;
}

const tag = 'APIs';
const lifecycle = 'Early Access';

/** The operations of APIs (docs/http-api.md#apis). */
export function apiOperations(deps: ApiDeps): Operation[] {
  return [listApis(deps), createApi(deps), readApi(deps), updateApi(deps), deleteApi(deps)];
}

/** 404 for an API that is not there. */
export function noApi(): Problem {
  return notFound('The API does not exist.');
}

function listApis({ store, settings }: ApiDeps): Operation {
  return operation({
    operationId: 'listResourceServers',
    method: 'GET',
    path: '/resource-servers',
    summary: 'List APIs, oldest first, the management API last',
    tag,
    scopes: ['read:resource_servers'],
    lifecycle,
    query: apisQuery,
    isList: true,
    success: 200,
    response: apis,
    errors: [400],
    handle: async ({ tenant, query }) => {
      const asked = numberedPageOf(query);
      const bytesMax = settings.limits.pageBytesMax;
      const answer = await store.apis.list(tenant.id, { ...asked, bytesMax });
      if ('refused' in answer) throw pageTooLarge('per_page');
      const { items, total } = withManagement(answer, asked, tenant);
      const shown = { items: items.map(showApi), total };
      return { body: numberedResponse('resource_servers', shown, query) };
    },
  });
}

/** The list with the management API at its end, where it moves no other item to another page. */
function withManagement(
  { items, total }: NumberedPage<Api>,
  { page, perPage }: PageByNumber,
  tenant: Tenant,
): NumberedPage<Api> {
  const isItsPage = perPage > 0 && Math.floor(total / perPage) === page;
  return { items: isItsPage ? [...items, managementApi(tenant)] : items, total: total + 1 };
}

function createApi(deps: ApiDeps): Operation {
  return operation({
    operationId: 'createResourceServer',
    method: 'POST',
    path: '/resource-servers',
    summary: 'Create an API',
    tag,
    scopes: ['create:resource_servers'],
    lifecycle,
    body: { schema: apiCreate, required: true },
    success: 201,
    response: api,
    errors: [400, 409, 413, 415],
    handle: async (call) => ({ body: showApi(await create(deps, call)) }),
  });
}

async function create(
  { store, random, settings }: ApiDeps,
  { tenant, body, now }: Call<unknown, unknown, ApiCreate>,
): Promise<Api> {
  const { identifier } = body;
  checkScopes(body.scopes);
  if (isManagement(identifier, tenant, settings)) throw apiExists();
  const plain: Api = {
    tenant: tenant.id,
    id: makeId('api_', now, random),
    identifier,
    name: identifier,
    scopes: [],
    enforcePolicies: false,
    tokenDialect: 'access_token',
    tokenLifetimeSeconds: 86_400,
    createdAt: now,
  };
  const answer = await store.apis.create(patched(plain, body));
  if ('refused' in answer) throw apiExists();
  return answer.created;
}

function readApi(deps: ApiDeps): Operation {
  return operation({
    operationId: 'readResourceServer',
    method: 'GET',
    path: '/resource-servers/:id',
    summary: 'Read an API',
    tag,
    scopes: ['read:resource_servers'],
    lifecycle,
    params: apiParams,
    success: 200,
    response: api,
    errors: [400, 404],
    handle: async ({ tenant, params }) => {
      if (isManagement(params.id, tenant, deps.settings)) {
        return { body: showApi(managementApi(tenant)) };
      }
      const found = await deps.store.apis.get(tenant.id, params.id);
      if (found === undefined) throw noApi();
      return { body: showApi(found) };
    },
  });
}

function updateApi({ store, settings }: ApiDeps): Operation {
  return operation({
    operationId: 'updateResourceServer',
    method: 'PATCH',
    path: '/resource-servers/:id',
    summary: 'Update an API',
    description: 'Any subset of the members.',
    tag,
    scopes: ['update:resource_servers'],
    lifecycle,
    params: apiParams,
    body: { schema: apiPatch, required: true },
    success: 200,
    response: api,
    errors: [400, 404, 413, 415],
    handle: async ({ tenant, params, body }) => {
      if (isManagement(params.id, tenant, settings)) throw readOnly();
      checkScopes(body.scopes);
      const found = await store.apis.get(tenant.id, params.id);
      if (found === undefined) throw noApi();
      const answer = await store.apis.update(tenant.id, found.id, (before) =>
        patched(before, body),
      );
      if ('refused' in answer) throw noApi();
      return { body: showApi(answer.updated) };
    },
  });
}

function deleteApi({ store, settings }: ApiDeps): Operation {
  return operation({
    operationId: 'deleteResourceServer',
    method: 'DELETE',
    path: '/resource-servers/:id',
    summary: 'Delete an API',
    description: 'Also 204 when there is no such API. Its grants go with it.',
    tag,
    scopes: ['delete:resource_servers'],
    lifecycle,
    params: apiParams,
    success: 204,
    errors: [400],
    handle: async ({ tenant, params }) => {
      if (isManagement(params.id, tenant, settings)) throw readOnly();
      const found = await store.apis.get(tenant.id, params.id);
      // Also where it is gone: only the store knows whether that is sure to last.
      await store.apis.delete(tenant.id, found?.id ?? params.id);
      return {};
    },
  });
}

/** By id or by any of its audiences: no other API may have one of them. */
function isManagement(
  idOrIdentifier: string,
  tenant: Tenant,
  settings: ApiDeps['settings'],
): boolean {
  return (
    idOrIdentifier === managementApiId || isManagementAudience(idOrIdentifier, tenant, settings)
  );
}

function patched(before: Api, sent: ApiPatch): Api {
  return {
    ...before,
    name: sent.name ?? before.name,
    scopes:
      sent.scopes?.map(({ value, description = '' }) => ({ value, description })) ?? before.scopes,
    enforcePolicies: sent.enforce_policies ?? before.enforcePolicies,
    tokenDialect: sent.token_dialect ?? before.tokenDialect,
    tokenLifetimeSeconds: sent.token_lifetime ?? before.tokenLifetimeSeconds,
  };
}

/** A scope has one description. */
function checkScopes(scopes: ApiPatch['scopes'] = []): void {
  const seen = new Set<string>();
  for (const [index, { value }] of scopes.entries()) {
    if (seen.has(value)) {
      const reason = `The scope is listed twice: ${quoted(value)}`;
      throw badBody(reason, `scopes.${index}.value`, 'A scope, without spaces');
    }
    seen.add(value);
  }
}

function showApi(of: Api): object {
  return {
    id: of.id,
    identifier: of.identifier,
    name: of.name,
    scopes: of.scopes,
    enforce_policies: of.enforcePolicies,
    token_dialect: of.tokenDialect,
    token_lifetime: of.tokenLifetimeSeconds,
    is_system: of.id === managementApiId,
  };
}

function apiExists(): Problem {
  return conflict('The API already exists.', 'already_exists');
}

function readOnly(): Problem {
  return new Problem(400, 'The management API is read-only.', 'invalid_body');
}
