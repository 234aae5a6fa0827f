import { readFileSync } from 'node:fs';
import { posix } from 'node:path';
import { importsOf } from '../helpers/imports.ts';
import type { KillingTest } from './mutant.ts';

const root = new URL('../../', import.meta.url);

/** Creates a function that returns whether a test or suite of that title is in a file, without running it. */
export function createTitleSearch(): (test: KillingTest) => boolean {
  const known = new Map<string, readonly RegExp[]>();
  return ({ file, title }) => {
    const titles = known.get(file) ?? [...reachedFrom(file)].flatMap(titlesIn);
    known.set(file, titles);
    return titles.some((pattern) => pattern.test(title));
  };
}

/** Returns a test file and the files of `test/` that it imports, in any number of steps. */
function reachedFrom(file: string, reached = new Set<string>()): ReadonlySet<string> {
  if (reached.has(file) || !file.startsWith('test/')) return reached;
  reached.add(file);
  for (const { specifier } of importsOf(textOf(file))) {
    if (specifier.startsWith('.')) reachedFrom(posix.join(posix.dirname(file), specifier), reached);
  }
  return reached;
}

const titleLiteral =
  /\b(?:test|describe)\(\s*(?<quote>['"`])(?<text>(?:\\.|(?!\k<quote>).)+)\k<quote>/g;

/** Returns a pattern for each title that stands in the file; a hole of a template fits any text. */
function titlesIn(file: string): RegExp[] {
  return [...textOf(file).matchAll(titleLiteral)].map(({ groups = {} }) => {
    const text = (groups['text'] ?? '').replaceAll(/\\(.)/g, '$1');
    const parts = groups['quote'] === '`' ? text.split(/\$\{[^}]*\}/) : [text];
    return new RegExp(`^${parts.map((part) => RegExp.escape(part)).join('.*')}$`);
  });
}

function textOf(file: string): string {
  return readFileSync(new URL(file, root), 'utf8');
}
