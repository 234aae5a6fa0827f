import { CommandFailed, exitCodes } from '../errors.ts';
import type { ApiClient, Query } from './api-client.ts';

const pageItemsMax = 100;

/** A request of a search reads a part of a list, such as 5,000 failures, of which none may match. */
const emptyPagesMax = 1000;

/**
 * Creates a function that returns where the next page of one list begins, by the `next` of a page and
 * its number of items; `undefined` after the last one. It throws {@link CommandFailed} when the list has
 * no end: when a `next` comes twice, or after a thousand pages in a row without items.
 */
export function createPageCursor(
  url: string,
): (next: unknown, items: number) => string | undefined {
  const before = new Set<string>();
  let emptyInARow = 0;
  return (next, items) => {
    if (typeof next !== 'string') return undefined;
    if (before.has(next)) throw withoutEnd(url, 'a "next" came twice');
    before.add(next);
    emptyInARow = items === 0 ? emptyInARow + 1 : 0;
    if (emptyInARow < emptyPagesMax) return next;
    throw withoutEnd(url, `${emptyPagesMax} in a row had no items`);
  };
}

function withoutEnd(url: string, reason: string): CommandFailed {
  const message = `${url} sends pages without an end (${reason}): is it the address of a Leat server?`;
  return new CommandFailed(exitCodes.failed, message);
}

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
  const cursor = createPageCursor(api.url);
  let from: string | undefined;
  do {
    const take = Math.min(pageItemsMax, itemsMax - items.length);
    const response = await api.send({ method: 'GET', path, query: { ...query, take, from } });
    const page = Object(response.body) as Record<string, unknown>;
    const found = page[field];
    if (!Array.isArray(found)) throw notAPage(api.url, field);
    items.push(...(found as Item[]));
    if (items.length >= itemsMax) break;
    from = cursor(page['next'], found.length);
  } while (from !== undefined);
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
  let before = '';
  for (let page = 0; items.length < itemsMax; page++) {
    const query = { page, per_page: pageItemsMax };
    const { body, text } = await api.send({ method: 'GET', path, query });
    if (!Array.isArray(body)) throw notAPage(api.url, path);
    items.push(...(body as Item[]));
    if (body.length < pageItemsMax) break;
    if (text === before) throw withoutEnd(api.url, 'a page came twice');
    before = text;
  }
  return items.slice(0, itemsMax);
}
