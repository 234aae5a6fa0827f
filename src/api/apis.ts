import type { RandomBytes } from '../core/clock.ts';
import { makeId } from '../core/ids.ts';
import { nameForm } from '../core/name.ts';
import { mapInSlices } from '../core/slices.ts';
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
import { carriedNames } from '../schemas/carried-fields.ts';
import { type FieldsQuery, oneQuery } from '../schemas/fields.ts';
import type { NumberedPage, PageByNumber } from '../store/port/page.ts';
import type { Store } from '../store/port/store.ts';
import { isManagementAudience, managementApi } from './management.ts';
import { carriedPart, carryOrThrow } from './carry.ts';
import { noApi, orNotFound } from './not-found.ts';
import { numberedResponse, numberedPageOf, pageTooLarge } from './page.ts';
import { type Call, type Operation, operation } from './operation.ts';
import { badBody, conflict, Problem, quoted } from './http/problem.ts';
import type { JsonText } from './http/sliced-json.ts';
import type { ApiSettings } from './settings.ts';
import { changedName, type NameField, refuseInvisible } from './sent-name.ts';
import { showFields } from './show-fields.ts';

export interface ApiDeps {
  readonly store: Pick<Store, 'apis' | 'recording'>;
  readonly random: RandomBytes;
  readonly settings: Pick<ApiSettings, 'plainHttp' | 'managementTokenSeconds' | 'limits'>;
}

const shared = { tag: 'APIs', lifecycle: 'Early Access' } as const;
const nameField: NameField = { property: 'name', description: 'Name of the API' };

/** Creates the operations of APIs (docs/http-api.md#apis). */
export function apiOperations(deps: ApiDeps): Operation[] {
  return [listApis(deps), createApi(deps), readApi(deps), updateApi(deps), deleteApi(deps)];
}

function listApis({ store, settings }: ApiDeps): Operation {
  return operation({
    ...shared,
    operationId: 'listResourceServers',
    method: 'GET',
    path: '/resource-servers',
    summary: 'List APIs, oldest first, the management API last',
    scopes: ['read:resource_servers'],
    query: apisQuery,
    isList: true,
    success: 200,
    response: apis,
    handle: async ({ tenant, query }) => {
      const page = numberedPageOf(query);
      const bytesMax = settings.limits.pageBytesMax;
      const { identifiers } = query;
      const result = await store.apis.list(tenant.id, { ...page, bytesMax, identifiers });
      if ('refused' in result) throw pageTooLarge('per_page');
      const isListed = (one: string): boolean => isManagementAudience(one, tenant, settings);
      const hasManagement = identifiers?.some(isListed) ?? true;
      const { items, total } = hasManagement
        ? withManagement(result, page, managementApi(tenant, settings))
        : result;
      const shown = { items: await showApis(items, query), total };
      return { body: numberedResponse('resource_servers', shown, query) };
    },
  });
}

/** Adds the management API at the end of the list, where it moves no other API to another page. */
function withManagement(
  { items, total }: NumberedPage<Api>,
  { page, perPage }: PageByNumber,
  management: Api,
): NumberedPage<Api> {
  const isLastPage = perPage > 0 && Math.floor(total / perPage) === page;
  return { items: isLastPage ? [...items, management] : items, total: total + 1 };
}

function createApi(deps: ApiDeps): Operation {
  return operation({
    ...shared,
    operationId: 'createResourceServer',
    method: 'POST',
    path: '/resource-servers',
    summary: 'Create an API',
    scopes: ['create:resource_servers'],
    body: { schema: apiCreate, required: true },
    success: 201,
    response: api,
    errors: [409],
    handle: async (call) => ({ body: showApi(await create(deps, call)) }),
  });
}

async function create(
  { store, random, settings }: ApiDeps,
  { tenant, body, now, entry }: Call<unknown, unknown, ApiCreate>,
): Promise<Api> {
  const { identifier } = body;
  checkScopes(body.scopes);
  checkIdentifier(identifier);
  if (isManagement(identifier, tenant, settings)) throw apiExists();
  const defaults: Api = {
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
  const recording = store.recording(entry(defaults.id));
  const result = await recording.apis.create(patched(defaults, body));
  if ('refused' in result) throw apiExists();
  return result.created;
}

function readApi(deps: ApiDeps): Operation {
  return operation({
    ...shared,
    operationId: 'readResourceServer',
    method: 'GET',
    path: '/resource-servers/:id',
    summary: 'Read an API',
    scopes: ['read:resource_servers'],
    params: apiParams,
    query: oneQuery,
    success: 200,
    response: api,
    errors: [404],
    handle: async ({ tenant, params, query }) => {
      if (isManagement(params.id, tenant, deps.settings)) {
        return { body: showApi(managementApi(tenant, deps.settings), query) };
      }
      const found = orNotFound(await deps.store.apis.get(tenant.id, params.id), noApi, params.id);
      return { body: showApi(found, query) };
    },
  });
}

function updateApi({ store, settings }: ApiDeps): Operation {
  return operation({
    ...shared,
    operationId: 'updateResourceServer',
    method: 'PATCH',
    path: '/resource-servers/:id',
    summary: 'Update an API',
    description: 'Any subset of the fields. Fields of the management API have one value.',
    scopes: ['update:resource_servers'],
    params: apiParams,
    body: { schema: apiPatch, required: true },
    success: 200,
    response: api,
    errors: [404],
    handle: async ({ tenant, params, body, entry }) => {
      if (isManagement(params.id, tenant, settings)) {
        const before = managementApi(tenant, settings);
        // Tools send what they have read, for every API.
        if (JSON.stringify(patched(before, body)) !== JSON.stringify(before)) throw readOnly();
        return { body: showApi(before) };
      }
      checkScopes(body.scopes);
      const { id } = orNotFound(await store.apis.get(tenant.id, params.id), noApi, params.id);
      const recording = store.recording(entry(id));
      const result = await recording.apis.update(tenant.id, id, (before) => patched(before, body));
      if ('refused' in result) throw noApi(params.id);
      return { body: showApi(result.updated) };
    },
  });
}

function deleteApi({ store, settings }: ApiDeps): Operation {
  return operation({
    ...shared,
    operationId: 'deleteResourceServer',
    method: 'DELETE',
    path: '/resource-servers/:id',
    summary: 'Delete an API',
    description: 'Also 204 if the API does not exist. Deletes its grants too.',
    scopes: ['delete:resource_servers'],
    params: apiParams,
    success: 204,
    handle: async ({ tenant, params, entry }) => {
      if (isManagement(params.id, tenant, settings)) throw readOnly();
      const found = await store.apis.get(tenant.id, params.id);
      // Also if it was not found: only the store can confirm that a former delete is durable.
      const id = found?.id ?? params.id;
      await store.recording(entry(id)).apis.delete(tenant.id, id);
      return {};
    },
  });
}

/** Returns whether this is the id or one of the audiences of the management API, which are reserved. */
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
    name: changedName(before.name, sent.name, nameField),
    scopes:
      sent.scopes?.map(({ value, description = '' }) => ({ value, description })) ?? before.scopes,
    enforcePolicies: sent.enforce_policies ?? before.enforcePolicies,
    tokenDialect: sent.token_dialect ?? before.tokenDialect,
    tokenLifetimeSeconds: sent.token_lifetime ?? before.tokenLifetimeSeconds,
    carriedJson: carryOrThrow(before.carriedJson, sent, carriedNames.api.patch),
  };
}

/** Throws 400 if an identifier looks like another text: other programs compare it letter by letter. */
function checkIdentifier(identifier: string): void {
  const field = { property: 'identifier', description: 'Audience of the tokens for the API' };
  refuseInvisible(identifier, field);
  if (nameForm(identifier) === identifier) return;
  throw badBody('Not in the Unicode normal form NFC', field.property, field.description);
}

/** Throws 400 if a scope is listed twice, because a scope has one description. */
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

function showApis(items: readonly Api[], query: FieldsQuery): Promise<JsonText[]> {
  return mapInSlices(
    items,
    (item) => showApi(item, query),
    ({ scopes, carriedJson = '' }) => 100 * scopes.length + carriedJson.length,
  );
}

function showApi(shown: Api, query: FieldsQuery = {}): JsonText {
  const fields = {
    id: shown.id,
    identifier: shown.identifier,
    name: shown.name,
    scopes: shown.scopes,
    enforce_policies: shown.enforcePolicies,
    token_dialect: shown.tokenDialect,
    token_lifetime: shown.tokenLifetimeSeconds,
    is_system: shown.id === managementApiId,
  };
  return showFields([JSON.stringify(fields), ...carriedPart(shown.carriedJson)], query);
}

function apiExists(): Problem {
  return conflict('The API already exists.', 'already_exists');
}

function readOnly(): Problem {
  return new Problem(400, 'The management API is read-only.', 'invalid_body');
}
