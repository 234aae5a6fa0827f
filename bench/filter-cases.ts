/** Filters and events that take as much work as possible; no event matches a filter. */
export interface FilterCase {
  readonly name: string;
  /** The condition of each stream. */
  condition(stream: number): object;
  /** `data.object` of the events as JSON, nearly as long as an event may be. */
  readonly object: string;
}

const eventBytes = 255 * 1024;
/** Comparisons of a filter, and bytes of a filter, at most. */
const conditions = 64;
const filterBytes = 16_384;

export const filterCases: readonly FilterCase[] = [
  {
    name: 'texts to search',
    condition: (stream) => ({
      $or: Array.from({ length: 6 }, (_, index) => ({
        'data.object.text': { $contains: `${'a'.repeat(2000)}${stream}b${index}` },
      })),
    }),
    object: JSON.stringify({ text: 'a'.repeat(eventBytes - 100) }),
  },
  {
    name: 'arrays of objects',
    condition: (stream) => ({
      $or: Array.from({ length: 8 }, (_, index) => ({
        'data.object.list': { $contains: nested(1500, `${stream} ${index}`) },
      })),
    }),
    object: `{"list":[${items(JSON.stringify(nested(200, 'no')), eventBytes - 100)}]}`,
  },
  {
    name: 'many names',
    condition: (stream) => ({
      $or: many(50, (index) => ({
        'data.object': { $eq: { a: 'x'.repeat(200), b: [stream, index] } },
      })),
    }),
    object: `{${Array.from({ length: 16_000 }, (_, n) => `"name${n}":{}`)
      .join(',')
      .slice(0, eventBytes - 200)
      .replace(/,[^,]*$/, '')}}`,
  },
  {
    name: 'depth',
    condition: (stream) =>
      deep(8, {
        $or: many(60, (index) => ({ [`data.object${'.0'.repeat(90)}`]: { $gt: stream + index } })),
      }),
    // Nearly as deep as an event may be.
    object: `[${items('['.repeat(90) + ']'.repeat(90), eventBytes - 200)}]`,
  },
  {
    name: 'types',
    condition: (stream) => ({
      $or: many(60, (index) => ({
        'data.object.list': { $in: [stream, `${index}`, [stream], { a: index }, -1, 1e300] },
      })),
    }),
    object: `{"list":[${items('null,true,1e308,"x",{"a":{}},[[]],-0', eventBytes - 100)}]}`,
  },
  {
    name: 'prototype names',
    condition: (stream) => ({
      $or: many(60, (index) => ({
        [`data.object.${['__proto__', 'constructor', 'toString'][index % 3]}.prototype`]: {
          $eq: stream,
        },
      })),
    }),
    object: `{"__proto__":{"prototype":[${items('{}', eventBytes / 2)}]},"constructor":{"prototype":[${items('[]', eventBytes / 2 - 200)}]}}`,
  },
  {
    name: 'long arrays',
    condition: (stream) => ({
      $or: many(conditions, (index) => ({
        'data.object.list': { $endsWith: `${'y'.repeat(150)}${stream}${index}` },
      })),
    }),
    object: `{"list":[${items(`"${'y'.repeat(240)}"`, eventBytes - 100)}]}`,
  },
  {
    name: 'long texts',
    condition: (stream) => ({
      $or: many(conditions, (index) => ({ 'data.object.list': { $in: [`${stream}`, index] } })),
    }),
    object: `{"list":[${items(`"${'z'.repeat(4100)}"`, eventBytes - 100)}]}`,
  },
  {
    name: 'one condition',
    condition: (stream) => ({ 'data.object.missing': stream }),
    object: `{"list":[${items('{}', eventBytes - 100)}]}`,
  },
];

function many(count: number, condition: (index: number) => object): object[] {
  const list = Array.from({ length: count }, (_, index) => condition(index));
  if (JSON.stringify(list).length > filterBytes - 200) throw new Error('The filter is too large.');
  return list;
}

/** Wraps a condition in `$not` twice per two levels: it decides the same. */
function deep(levels: number, condition: object): object {
  let wrapped = condition;
  for (let level = 2; level < levels; level += 2) wrapped = { $not: { $not: wrapped } };
  return wrapped;
}

function nested(length: number, text: string): object {
  return { a: { b: { c: ['x'.repeat(length), text] } } };
}

/** Repeats an item up to this many bytes. */
function items(item: string, bytes: number): string {
  return Array(Math.floor(bytes / (item.length + 1)))
    .fill(item)
    .join(',');
}
