import type { Api, Query } from './api.ts';
import { CommandFailed, exitCodes } from './failure.ts';

const pageItemsMax = 100;

/**
 * The items of a list that is paged by `take` and `from` (contract section 3), over all its pages;
 * at most `itemsMax`.
 *
 * @param member the member of a page that holds its items
 */
export async function allPages<Item>(
  api: Pick<Api, 'send' | 'url'>,
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
