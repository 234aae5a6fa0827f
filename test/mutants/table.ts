import { format } from 'oxfmt';
import type { Mutant } from './mutant.ts';

/** How a mutant was found. */
export interface Kill {
  readonly mutant: Mutant;
  /** The first seed of the simulation that finds it and the guarantee it violates, or the title of a test. */
  readonly how: string;
}

const begin = '<!-- Made by npm run mutants. -->';
const end = '<!-- End of what npm run mutants made. -->';

/** Returns the rows of the table in a document, cell by cell. Throws when it has none. */
export function rowsIn(document: string): string[][] {
  const [, made] = split(document);
  return made
    .split('\n')
    .filter((line) => line.startsWith('|'))
    .slice(2)
    .map((line) =>
      line
        .split(/(?<!\\)\|/)
        .slice(1, -1)
        .map((cell) => cell.trim()),
    );
}

/** Returns the first cells of the row of a mutant: all but how it was found. */
export function cellsOf({ name, file, killedBy }: Mutant): string[] {
  return [name, `\`${file}\``, killedBy === undefined ? 'simulation' : `\`${killedBy.file}\``];
}

/** Returns the document with a table of these kills in the place of the one that is there. */
export async function withTable(document: string, kills: readonly Kill[]): Promise<string> {
  const [before, , after] = split(document);
  const rows = kills.map(({ mutant, how }) => [...cellsOf(mutant), how]);
  const head = ['mutant', 'file', 'killed by', 'how'];
  const table = [head, head.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`);
  const text = [before, begin, '\n\n', table.join('\n'), '\n\n', end, after].join('');
  const { code } = await format('table.md', text, { printWidth: 100, singleQuote: true });
  return code;
}

function split(document: string): [before: string, made: string, after: string] {
  const [before, rest] = document.split(begin);
  const [made, after] = rest?.split(end) ?? [];
  if (before === undefined || made === undefined || after === undefined) {
    throw new Error(`There is no "${begin}" with a later "${end}" in the document.`);
  }
  return [before, made, after];
}
