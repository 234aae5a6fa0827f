import { mapInSlices } from '../core/slices.ts';

/**
 * Returns what `JSON.stringify` returns of the body of an answer. Long lists are written item by item,
 * with breaks: a page of 8 MiB takes some 40 ms.
 *
 * @param body is of plain objects and arrays; a list is the body itself, or a member of it
 */
export function slicedJson(body: unknown): string | Promise<string> {
  if (Array.isArray(body)) return body.length > 1 ? listJson(body) : JSON.stringify(body);
  const list = Object.entries(Object(body) as object).find(isLongList);
  if (list === undefined) return JSON.stringify(body);
  return withList(body as object, list);
}

function isLongList(member: [string, unknown]): member is [string, unknown[]] {
  return Array.isArray(member[1]) && member[1].length > 1;
}

async function withList(body: object, [name, items]: [string, unknown[]]): Promise<string> {
  const json = await listJson(items);
  const members = Object.entries(body).map(([key, value]) => {
    const text = key === name ? json : JSON.stringify(value);
    return text === undefined ? [] : `${JSON.stringify(key)}:${text}`;
  });
  return `{${members.flat().join(',')}}`;
}

async function listJson(items: readonly unknown[]): Promise<string> {
  const texts = await mapInSlices(
    items,
    (item) => JSON.stringify(item) ?? 'null',
    (_item, text) => text.length,
  );
  return `[${texts.join(',')}]`;
}
