import { mapInSlices } from '../core/slices.ts';
import type { Client } from '../core/types.ts';
import {
  client,
  clientParams,
  clients,
  type ClientsQuery,
  clientsQuery,
} from '../schemas/clients.ts';
import { oneQuery } from '../schemas/fields.ts';
import type { Store } from '../store/port/store.ts';
import type { JsonText } from './http/sliced-json.ts';
import { noClient, orNotFound } from './not-found.ts';
import { type Operation, operation } from './operation.ts';
import {
  isCursorPage,
  nextOf,
  numberedPageOf,
  numberedResponse,
  pageOf,
  pageTooLarge,
} from './page.ts';
import type { ApiSettings } from './settings.ts';
import { showClient } from './show-client.ts';

interface Deps {
  readonly store: Pick<Store, 'clients'>;
  readonly settings: Pick<ApiSettings, 'limits'>;
}

const shared = { tag: 'Clients', lifecycle: 'Early Access' } as const;

/** Creates the operations that return clients and change nothing (docs/http-api.md#clients). */
export function clientReads(deps: Deps): Operation[] {
  return [listClients(deps), readClient(deps)];
}

function listClients(deps: Deps): Operation {
  return operation({
    ...shared,
    operationId: 'listClients',
    method: 'GET',
    path: '/clients',
    summary: 'List clients, oldest first',
    description: 'With `take` and `from`: by id.',
    scopes: ['read:clients'],
    query: clientsQuery,
    isList: true,
    success: 200,
    response: clients,
    handle: async ({ tenant, query }) => {
      const read = isCursorPage(query) ? pageByCursor : pageByNumber;
      return { body: await read(deps, tenant.id, query) };
    },
  });
}

async function pageByNumber(
  { store, settings }: Deps,
  tenant: number,
  query: ClientsQuery,
): Promise<object> {
  const bounds = { bytesMax: settings.limits.pageBytesMax, global: query.is_global };
  const result = await store.clients.list(tenant, { ...numberedPageOf(query), ...bounds });
  if ('refused' in result) throw pageTooLarge('per_page or take');
  const items = await showClients(result.items, query);
  return numberedResponse('clients', { items, total: result.total }, query);
}

async function pageByCursor(
  { store, settings }: Deps,
  tenant: number,
  query: ClientsQuery,
): Promise<object> {
  const page = { ...pageOf(query, settings.limits, isClientId), global: query.is_global };
  const { items, next } = await store.clients.listFrom(tenant, page);
  return { clients: await showClients(items, query), ...nextOf(next) };
}

/** Ids of clients of external issuers have any printable characters. */
function isClientId(key: string): boolean {
  return /^[\x20-\x7E]+$/.test(key);
}

function showClients(found: readonly Client[], query: ClientsQuery): Promise<JsonText[]> {
  return mapInSlices(
    found,
    (item) => showClient(item, { query }),
    ({ jwks = '', carriedJson = '' }) => jwks.length + carriedJson.length,
  );
}

function readClient({ store }: Deps): Operation {
  return operation({
    ...shared,
    operationId: 'readClient',
    method: 'GET',
    path: '/clients/:client_id',
    summary: 'Read a client',
    scopes: ['read:clients'],
    params: clientParams,
    query: oneQuery,
    success: 200,
    response: client,
    errors: [404],
    handle: async ({ tenant, params, query }) => {
      const found = orNotFound(
        await store.clients.get(tenant.id, params.client_id),
        noClient,
        params.client_id,
      );
      return { body: showClient(found, { query }) };
    },
  });
}
