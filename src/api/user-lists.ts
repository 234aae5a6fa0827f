import { mapInSlices } from '../core/slices.ts';
import type { User } from '../core/types.ts';
import {
  type FieldsQuery,
  users,
  usersByEmail,
  usersByEmailQuery,
  type UsersQuery,
  usersQuery,
} from '../schemas/users.ts';
import type { Store } from '../store/port/store.ts';
import { numberedPageOf, pageTooLarge, totalsOf } from './numbered-page.ts';
import { type Operation, operation } from './operation.ts';
import { nextOf, pageOf } from './page.ts';
import { badQuery, Problem } from './http/problem.ts';
import type { ApiSettings } from './settings.ts';
import { showUser } from './show-user.ts';
import type { JsonText } from './http/sliced-json.ts';

interface Deps {
  readonly store: Pick<Store, 'users'>;
  readonly settings: Pick<ApiSettings, 'limits'>;
}

const tag = 'Users';
const lifecycle = 'Generally Available';

/** The operations that answer more than one user (docs/http-api.md#list-users). */
export function userLists(deps: Deps): Operation[] {
  return [listUsers(deps), findUsersByEmail(deps)];
}

function listUsers(deps: Deps): Operation {
  return operation({
    operationId: 'listUsers',
    method: 'GET',
    path: '/users',
    summary: 'List users',
    description:
      'By number with `page`, as far as the first 1,000, or without that limit with `take` and `from`. A page of more than 8 MiB is refused with `page`, and ends early with `take`.',
    tag,
    scopes: ['read:users'],
    lifecycle,
    query: usersQuery,
    isList: true,
    success: 200,
    response: users,
    errors: [400],
    handle: async ({ tenant, query }) => {
      if (query.q !== undefined) throw badQuery('Searching is not supported', 'q', 'Not supported');
      const onwards = query.take !== undefined || query.from !== undefined;
      return { body: await (onwards ? pageFrom : pageByNumber)(deps, tenant.id, query) };
    },
  });
}

/** Users that `page` can reach; beyond them an offset costs more with every page. */
const numberedUsersMax = 1000;

async function pageByNumber(
  { store, settings }: Deps,
  tenant: number,
  query: UsersQuery,
): Promise<object> {
  const asked = numberedPageOf(query);
  if (asked.page * asked.perPage >= numberedUsersMax) {
    const message = 'You can only page through the first 1000 records.';
    throw new Problem(400, message, 'invalid_paging');
  }
  const counted = query.include_totals === true;
  const max = { users: settings.limits.sortedUsersMax, bytes: settings.limits.sortedBytesMax };
  const sort = sortOf(query.sort);
  const answer = await store.users.list(tenant, {
    ...asked,
    counted,
    bytesMax: settings.limits.pageBytesMax,
    sort: sort && { ...sort, max },
  });
  if ('refused' in answer) {
    if (answer.refused === 'too_large') throw pageTooLarge('per_page or take');
    throw tooManyToSort(sort?.field ?? '', max.users);
  }
  const { items, total } = answer;
  const shown = await showUsers(items, query);
  if (!counted) return shown;
  return { ...totalsOf(query, total), length: shown.length, users: shown };
}

/** 400 for an order that no index has, in a tenant where it would take too long. */
function tooManyToSort(field: string, usersMax: number): Problem {
  const reason = `More than ${usersMax} users, or too much metadata, to sort by ${field}; sort by created_at, updated_at, email, user_id or username`;
  return badQuery(reason, 'sort', 'field:1 or field:-1');
}

async function pageFrom(
  { store, settings }: Deps,
  tenant: number,
  query: UsersQuery,
): Promise<object> {
  if (query.sort !== undefined) {
    throw badQuery('Not allowed beside take and from', 'sort', 'field:1 or field:-1');
  }
  const asked = pageOf(query, settings.limits, isUserId);
  const page = await store.users.listFrom(tenant, asked);
  return { users: await showUsers(page.items, query), ...nextOf(page.next) };
}

function isUserId(key: string): boolean {
  return /^[^|]+\|./.test(key);
}

function findUsersByEmail({ store }: Deps): Operation {
  return operation({
    operationId: 'findUsersByEmail',
    method: 'GET',
    path: '/users-by-email',
    summary: 'Find users by e-mail',
    description: 'Capitals make no difference.',
    tag,
    scopes: ['read:users'],
    lifecycle,
    query: usersByEmailQuery,
    success: 200,
    response: usersByEmail,
    errors: [400],
    handle: async ({ tenant, query }) => {
      const found = await store.users.byEmail(tenant.id, query.email.toLowerCase());
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

/** `field:1` or `field:-1`; the schema has made sure of the form. */
function sortOf(sort: string | undefined): { field: string; descending: boolean } | undefined {
  if (sort === undefined) return undefined;
  const [field = '', direction] = sort.split(':');
  return { field, descending: direction === '-1' };
}
