import { CommandFailed, exitCodes } from '../errors.ts';
import type { ApiClient, Query } from './api-client.ts';

const pageItemsMax = 100;

/**
 * Returns the items of a list from all its pages (docs/http-api.md#cursor-pages), at most `itemsMax`.
 *
 * @param field the field of a page that holds its items
 */
export async function allPages<Item>(
  api: Pick<ApiClient, 'send' | 'url'>,
  path: string,
  field: string,
  { query = {}, itemsMax = Infinity }: { query?: Query; itemsMax?: number } = {},
): Promise<Item[]> {
  const items: Item[] = [];
  let from: string | undefined;
  do {
    const take = Math.min(pageItemsMax, itemsMax - items.length);
    const response = await api.send({ method: 'GET', path, query: { ...query, take, from } });
    const page = Object(response.body) as Record<string, unknown>;
    const next = page['next'];
    if (!Array.isArray(page[field])) throw notAPage(api.url, field);
    items.push(...(page[field] as Item[]));
    // Stops at a server that names the same page again.
    from = typeof next === 'string' && next !== from ? next : undefined;
  } while (from !== undefined && items.length < itemsMax);
  return items;
}

function notAPage(url: string, field: string): CommandFailed {
  const message = `${url} answered without "${field}": is it the address of a Leat server?`;
  return new CommandFailed(exitCodes.failed, message);
}

const numberedUsersMax = 1000;

/**
 * Returns every user, at most `itemsMax`. A server that does not support cursor pages returns an
 * array; its pages are numbered and end after the first thousand users.
 */
export async function allUsers<User>(
  api: Pick<ApiClient, 'send' | 'url'>,
  itemsMax: number,
): Promise<User[]> {
  const path = '/users';
  const first = await api.send({ method: 'GET', path, query: { take: 1 } });
  if (!Array.isArray(first.body)) return allPages<User>(api, path, 'users', { itemsMax });
  return numberedPages<User>(api, path, Math.min(itemsMax, numberedUsersMax));
}

/** Returns the items of a list with numbered pages, at most `itemsMax`. */
export async function numberedPages<Item>(
  api: Pick<ApiClient, 'send' | 'url'>,
  path: string,
  itemsMax = Infinity,
): Promise<Item[]> {
  const items: Item[] = [];
  for (let page = 0; items.length < itemsMax; page++) {
    const query = { page, per_page: pageItemsMax };
    const { body } = await api.send({ method: 'GET', path, query });
    if (!Array.isArray(body)) throw notAPage(api.url, path);
    items.push(...(body as Item[]));
    if (body.length < pageItemsMax) break;
  }
  return items.slice(0, itemsMax);
}
