import type { ApiClient, Query } from './api-client.ts';
import { CommandFailed, exitCodes } from '../errors.ts';

const pageItemsMax = 100;

/**
 * The items of a list that is paged by `take` and `from` (docs/http-api.md#cursor-pages), over all its pages;
 * at most `itemsMax`.
 *
 * @param member the member of a page that holds its items
 */
export async function allPages<Item>(
  api: Pick<ApiClient, 'send' | 'url'>,
  path: string,
  member: string,
  { query = {}, itemsMax = Infinity }: { query?: Query; itemsMax?: number } = {},
): Promise<Item[]> {
  const items: Item[] = [];
  let from: string | undefined;
  do {
    const take = Math.min(pageItemsMax, itemsMax - items.length);
    const answer = await api.send({ method: 'GET', path, query: { ...query, take, from } });
    const page = Object(answer.body) as Record<string, unknown>;
    const next = page['next'];
    if (!Array.isArray(page[member])) throw notAPage(api.url, member);
    items.push(...(page[member] as Item[]));
    // A server that names the same page again would never come to an end.
    from = typeof next === 'string' && next !== from ? next : undefined;
  } while (from !== undefined && items.length < itemsMax);
  return items;
}

function notAPage(url: string, member: string): CommandFailed {
  const message = `${url} answered without "${member}": is it the address of a Leat server?`;
  return new CommandFailed(exitCodes.failed, message);
}

const numberedUsersMax = 1000;

/**
 * Every user, at most `itemsMax`. Leat pages them by `take` and `from`; a server that does not know
 * these answers an array and is asked by page number, which ends after the first thousand.
 */
export async function allUsers<User>(
  api: Pick<ApiClient, 'send' | 'url'>,
  itemsMax: number,
): Promise<User[]> {
  const path = '/users';
  const first = await api.send({ method: 'GET', path, query: { take: 1 } });
  if (!Array.isArray(first.body)) return allPages<User>(api, path, 'users', { itemsMax });
  return numberedPages<User>(api, path, undefined, {
    itemsMax: Math.min(itemsMax, numberedUsersMax),
  });
}

/**
 * The items of a list that is paged by number: bare arrays, or objects that hold them in `member`.
 */
export async function numberedPages<Item>(
  api: Pick<ApiClient, 'send' | 'url'>,
  path: string,
  member: string | undefined,
  { itemsMax }: { readonly itemsMax: number },
): Promise<Item[]> {
  const items: Item[] = [];
  for (let page = 0; items.length < itemsMax; page++) {
    const query = { page, per_page: pageItemsMax };
    const { body } = await api.send({ method: 'GET', path, query });
    const listed = member === undefined ? body : (Object(body) as Record<string, unknown>)[member];
    if (!Array.isArray(listed)) throw notAPage(api.url, member ?? path);
    items.push(...(listed as Item[]));
    if (listed.length < pageItemsMax) break;
  }
  return items.slice(0, itemsMax);
}
