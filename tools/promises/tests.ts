import { globSync, readFileSync } from 'node:fs';
import { parseAst } from 'rolldown/parseAst';

/**
 * Returns an entry for each title of a test or a suite under `test/`, without its file, which may change.
 * A title that is computed counts as its source text: the cases of a table have one entry.
 */
export function testEntries(): string[] {
  return globSync('test/**/*.{ts,mjs}').flatMap((path) => {
    const source = readFileSync(path, 'utf8');
    return source.includes("'node:test'") ? titlesIn(source) : [];
  });
}

/** Returns the entries of the titles in a TypeScript source. */
export function titlesIn(source: string): string[] {
  const entries: string[] = [];
  const collect = (node: unknown): void => {
    if (typeof node !== 'object' || node === null) return;
    const kind = isCall(node) ? kindOf(node.callee) : undefined;
    const title = isCall(node) ? node.arguments[0] : undefined;
    if (kind !== undefined && title !== undefined) entries.push(`${kind}: ${textOf(title)}`);
    for (const child of Object.values(node)) collect(child);
  };
  const textOf = ({ type, value, start, end }: Title): string =>
    type === 'Literal' && typeof value === 'string'
      ? value
      : source.slice(start, end).replace(/^`(?<text>.*)`$/s, '$<text>');
  collect(parseAst(source, { lang: 'ts' }));
  return entries;
}

interface Title {
  readonly type: string;
  readonly value?: unknown;
  readonly start: number;
  readonly end: number;
}

interface Call {
  readonly callee: Callee;
  readonly arguments: readonly Title[];
}

interface Callee {
  readonly name?: string;
  readonly object?: Callee;
  readonly property?: Callee;
}

function isCall(node: object): node is Call {
  return 'type' in node && node.type === 'CallExpression';
}

/** Returns the kind of an entry for a call of `test`, `it`, `describe` or `suite`, or of `t.test`. */
function kindOf({ name, object, property }: Callee): 'test' | 'suite' | undefined {
  const called = object?.name === 't' ? property?.name : name;
  if (called === 'test' || (called === 'it' && object === undefined)) return 'test';
  if (object !== undefined) return undefined;
  return called === 'describe' || called === 'suite' ? 'suite' : undefined;
}
