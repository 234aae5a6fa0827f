import { parseSync } from 'rolldown/utils';

/** What one file, or many, weigh. Lines are those of oxfmt, so they compare between commits. */
export interface SourceWeight {
  /** Lines with code other than imports. */
  readonly codeLines: number;
  /** Lines with comments only. */
  readonly commentLines: number;
  /** Names that the modules export. */
  readonly exportedNames: number;
  /** Interfaces whose name ends in `Deps`, and all that those may extend. */
  readonly interfaces: readonly InterfaceWeight[];
}

/** An interface with the names that it has itself and those of the interfaces that it extends. */
export interface InterfaceWeight {
  readonly name: string;
  readonly members: number;
  readonly extended: readonly string[];
}

/** Returns what a file weighs. `path` chooses the language: TypeScript, SQL or CSS. */
export function weightOf(path: string, source: string): SourceWeight {
  if (!/\.tsx?$/.test(path)) {
    const spans = path.endsWith('.sql') ? SQL_SPANS : CSS_SPANS;
    return { ...linesOf(source, commentsIn(source, spans), []), exportedNames: 0, interfaces: [] };
  }
  const { program, comments, errors } = parseSync(path, source);
  if (errors.length > 0) throw new Error(`${path}: ${errors[0]?.message}`);
  const imports = program.body.filter(({ type }) => type === 'ImportDeclaration');
  const exported = program.body.filter(({ type }) => type.startsWith('Export'));
  return {
    ...linesOf(source, comments, imports),
    exportedNames: exported.reduce((sum, statement) => sum + namesExportedBy(statement), 0),
    interfaces: program.body.flatMap(interfacesIn),
  };
}

/** Returns the largest interface whose name ends in `Deps`, with the members that it inherits. */
export function largestDeps(interfaces: readonly InterfaceWeight[]): {
  name: string;
  members: number;
} {
  const named = Map.groupBy(interfaces, ({ name }) => name);
  const sizeOf = ({ members, extended }: InterfaceWeight): number =>
    extended.reduce(
      (sum, name) => sum + Math.max(0, ...(named.get(name) ?? []).map(sizeOf)),
      members,
    );
  const sizes = interfaces
    .filter(({ name }) => name.endsWith('Deps'))
    .map((one) => ({ name: one.name, members: sizeOf(one) }));
  return sizes.reduce((one, other) => (other.members > one.members ? other : one), {
    name: 'none',
    members: 0,
  });
}

interface Span {
  readonly start: number;
  readonly end: number;
}

/** Strings and comments, so that neither begins within the other; `comment` is the group of comments. */
const SQL_SPANS =
  /(?<comment>--[^\n]*|\/\*[^]*?\*\/)|'(?:[^']|'')*'|"[^"]*"|(?<tag>\$\w*\$)(?=[^]*?\k<tag>)/g;
const CSS_SPANS = /(?<comment>\/\*[^]*?\*\/)|'(?:[^'\\]|\\[^])*'|"(?:[^"\\]|\\[^])*"/g;

/** Returns the comments of SQL or CSS. Code within `$$ … $$` of SQL has comments too. */
function commentsIn(source: string, spans: RegExp): Span[] {
  return [...source.matchAll(spans)]
    .filter(({ groups }) => groups?.['comment'] !== undefined)
    .map(({ index, 0: text }) => ({ start: index, end: index + text.length }));
}

/** Counts the lines of code and of comments; a line with both is one of code. */
function linesOf(
  source: string,
  comments: readonly Span[],
  imports: readonly Span[],
): Pick<SourceWeight, 'codeLines' | 'commentLines'> {
  const kinds = new Uint8Array(source.length);
  for (const { start, end } of comments) kinds.fill(COMMENT, start, end);
  for (const { start, end } of imports) kinds.fill(IMPORT, start, end);
  let codeLines = 0;
  let commentLines = 0;
  for (const { 0: line, index } of source.matchAll(/.+/g)) {
    const visible = [...line.matchAll(/\S/g)].map((match) => kinds[index + match.index]);
    if (visible.includes(CODE)) codeLines++;
    else if (visible.includes(COMMENT)) commentLines++;
  }
  return { codeLines, commentLines };
}

const CODE = 0;
const COMMENT = 1;
const IMPORT = 2;

/** The parts of a statement (ESTree) that are read here. */
interface Statement {
  readonly type: string;
  readonly specifiers?: readonly unknown[];
  readonly declaration?: unknown;
}

function namesExportedBy({ specifiers, declaration }: Statement): number {
  const { declarations } = Object(declaration) as { declarations?: readonly unknown[] };
  return (specifiers?.length ?? 0) + (declarations?.length ?? (declaration ? 1 : 0));
}

function interfacesIn(statement: Statement): InterfaceWeight[] {
  const declared = (statement.declaration ?? statement) as {
    readonly type: string;
    readonly id: { readonly name: string };
    readonly body: { readonly body: readonly unknown[] };
    readonly extends: readonly { readonly expression: { readonly name?: string } }[];
  };
  if (declared.type !== 'TSInterfaceDeclaration') return [];
  const extended = declared.extends.map(({ expression }) => expression.name ?? '');
  return [{ name: declared.id.name, members: declared.body.body.length, extended }];
}
