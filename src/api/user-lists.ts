import { mapInSlices } from '../core/slices.ts';
import type { User } from '../core/types.ts';
import { databaseConnection } from '../core/users.ts';
import {
  users,
  usersByEmail,
  usersByEmailQuery,
  type UsersQuery,
  usersQuery,
} from '../schemas/users.ts';
import type { FieldsQuery } from '../schemas/fields.ts';
import type { Store } from '../store/port/store.ts';
import {
  isCursorPage,
  nextOf,
  noItems,
  numberedPageOf,
  numberedResponse,
  pageOf,
  pageTooLarge,
  refuseFarPage,
} from './page.ts';
import { type Operation, operation } from './operation.ts';
import { badQuery, type Problem } from './http/problem.ts';
import type { ApiSettings } from './settings.ts';
import { showUser } from './show-user.ts';
import type { JsonText } from './http/sliced-json.ts';

interface Deps {
  readonly store: Pick<Store, 'users'>;
  readonly settings: Pick<ApiSettings, 'limits'>;
}

const shared = { tag: 'Users', lifecycle: 'Generally Available' } as const;

/** Creates the operations that return several users (docs/http-api.md#list-users). */
export function userLists(deps: Deps): Operation[] {
  return [listUsers(deps), findUsersByEmail(deps)];
}

function listUsers(deps: Deps): Operation {
  return operation({
    ...shared,
    operationId: 'listUsers',
    method: 'GET',
    path: '/users',
    summary: 'List users',
    description:
      'With `page`: the first 1,000 users by page number. With `take` and `from`: all users. A page of more than 8 MiB is rejected with `page`, and shortened with `take`.',
    scopes: ['read:users'],
    query: usersQuery,
    isList: true,
    success: 200,
    response: users,
    handle: async ({ tenant, query }) => {
      const read = isCursorPage(query) ? pageByCursor : pageByNumber;
      return { body: await read(deps, tenant.id, query) };
    },
  });
}

async function pageByNumber(
  { store, settings }: Deps,
  tenant: number,
  query: UsersQuery,
): Promise<object> {
  const page = numberedPageOf(query);
  refuseFarPage(page);
  if (isOfOtherConnection(query)) return numberedResponse('users', noItems, query);
  const counted = query.include_totals === true;
  const max = { users: settings.limits.sortedUsersMax, bytes: settings.limits.sortedBytesMax };
  const sort = sortOf(query.sort);
  const result = await store.users.list(tenant, {
    ...page,
    counted,
    bytesMax: settings.limits.pageBytesMax,
    sort: sort && { ...sort, max },
  });
  if ('refused' in result) {
    if (result.refused === 'too_large') throw pageTooLarge('per_page or take');
    throw tooManyToSort(sort?.field ?? '', max.users);
  }
  const { items, total } = result;
  const shown = await showUsers(items, query);
  return numberedResponse('users', { items: shown, total }, query);
}

/** Returns the 400 for an order without an index, in a tenant where sorting would take too long. */
function tooManyToSort(field: string, usersMax: number): Problem {
  const reason = `More than ${usersMax} users, or too much metadata, to sort by ${field}; sort by created_at, updated_at, email, user_id or username`;
  return badQuery(reason, 'sort', 'field:1 or field:-1');
}

async function pageByCursor(
  { store, settings }: Deps,
  tenant: number,
  query: UsersQuery,
): Promise<object> {
  if (query.sort !== undefined) {
    throw badQuery('Not allowed beside take and from', 'sort', 'field:1 or field:-1');
  }
  const page = pageOf(query, settings.limits, isUserId);
  if (isOfOtherConnection(query)) return { users: [] };
  const { items, next } = await store.users.listFrom(tenant, page);
  return { users: await showUsers(items, query), ...nextOf(next) };
}

function isOfOtherConnection({ connection = databaseConnection }: UsersQuery): boolean {
  return connection !== databaseConnection;
}

function isUserId(key: string): boolean {
  return /^[^|]+\|./.test(key);
}

function findUsersByEmail({ store }: Deps): Operation {
  return operation({
    ...shared,
    operationId: 'findUsersByEmail',
    method: 'GET',
    path: '/users-by-email',
    summary: 'Find users by e-mail',
    description: 'Finds the e-mail in any case, Unicode form and form of its domain.',
    scopes: ['read:users'],
    query: usersByEmailQuery,
    success: 200,
    response: usersByEmail,
    handle: async ({ tenant, query }) => {
      const found = await store.users.byEmail(tenant.id, query.email);
      return { body: await showUsers(found, query) };
    },
  });
}

function showUsers(found: readonly User[], query: FieldsQuery): Promise<JsonText[]> {
  return mapInSlices(
    found,
    (user) => showUser(user, query),
    ({ profileJson }) => profileJson.length,
  );
}

/** Parses `field:1` or `field:-1`, which the schema has checked. */
function sortOf(sort: string | undefined): { field: string; descending: boolean } | undefined {
  if (sort === undefined) return undefined;
  const [field = '', direction] = sort.split(':');
  return { field, descending: direction === '-1' };
}
