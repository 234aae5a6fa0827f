import { spawnSync } from 'node:child_process';
import { globSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { parseArgs } from 'node:util';
import { largestDeps, type SourceWeight, weightOf } from './source-weight.ts';

/**
 * `node tools/weight.ts [folder]`: prints how much code a checkout has, and how many files a change of each
 * kind in `test/weight/*.patch` touches. Fails when a number is above its limit in
 * `test/weight/limits.json`, or when a patch does not fit.
 */
const { positionals } = parseArgs({ allowPositionals: true });
const [root = join(import.meta.dirname, '..')] = positionals;
const patchFolder = 'test/weight';
const limitsFile = `${patchFolder}/limits.json`;

/** A limit, and the number that the project wants to reach where the limit is above it. */
interface Limit {
  readonly limit: number;
  readonly goal?: number;
}

interface Limits {
  /** The numbers of the commit at which this began, `commit`. */
  readonly start: Readonly<Record<string, number | string>>;
  readonly limits: Readonly<Record<string, Limit>>;
}

const { start, limits } = JSON.parse(
  readFileSync(join(root, limitsFile), 'utf8'),
) as unknown as Limits;
const problems: string[] = [];
const { numbers, notes } = measured();
print('', 'now', 'start', 'limit', 'goal');
for (const [name, value] of Object.entries(numbers)) {
  const { limit, goal } = limits[name] ?? {};
  print(name, value, start[name], limit, goal, notes[name]);
  if (limit !== undefined && value > limit) problems.push(aboveLimit(name, value, limit));
}
for (const name of Object.keys(limits)) {
  if (numbers[name] === undefined)
    problems.push(`${limitsFile} has a limit for "${name}", which is not measured.`);
}
for (const problem of problems) console.log(problem);
if (problems.length > 0) process.exitCode = 1;

function measured(): { numbers: Record<string, number>; notes: Record<string, string> } {
  const all = weightsOf('src/**/*.{ts,tsx,sql,css}');
  const code = sumOf(all, 'codeLines');
  const comments = sumOf(all, 'commentLines');
  const deps = largestDeps(all.flatMap(({ interfaces }) => interfaces));
  const found: Record<string, number> = {
    'code lines': code,
    'comment lines': comments,
    'comment lines per code line': Number((comments / code).toFixed(3)),
    files: all.length,
    'exported names': sumOf(all, 'exportedNames'),
    'members of the largest deps': deps.members,
    'bench code lines': sumOf(weightsOf('bench/**/*.ts'), 'codeLines'),
  };
  for (const patch of filesOf(`${patchFolder}/*.patch`)) {
    const kind = `files of a new ${basename(patch, '.patch').replaceAll('-', ' ')}`;
    found[kind] = touchedBy(patch);
  }
  return { numbers: found, notes: { 'members of the largest deps': deps.name } };
}

function weightsOf(pattern: string): SourceWeight[] {
  return filesOf(pattern).map((path) => weightOf(path, readFileSync(join(root, path), 'utf8')));
}

function sumOf(
  weights: readonly SourceWeight[],
  part: 'codeLines' | 'commentLines' | 'exportedNames',
): number {
  return weights.reduce((total, weight) => total + weight[part], 0);
}

function filesOf(pattern: string): string[] {
  return globSync(pattern, { cwd: root }).toSorted();
}

/** Returns how many files of src a patch touches; notes a problem when it does not fit. */
function touchedBy(patch: string): number {
  const { error, status, stdout, stderr } = spawnSync(
    'git',
    // Without the index: what fits is the files as they are. Moved lines are found by their context.
    ['apply', '--check', '--numstat', patch],
    { cwd: root, encoding: 'utf8' },
  );
  if (status !== 0) {
    problems.push(
      `${patch} does not fit any more: make the same change to the code as it is now, check it with npm run types, and write git diff -U1 into the file. ${error?.message ?? stderr.trim()}`,
    );
  }
  return new Set(stdout.split('\n').filter((line) => /\tsrc\//.test(line))).size;
}

function aboveLimit(name: string, value: number, limit: number): string {
  const way = name.startsWith('files of a new ')
    ? 'let one place know what the others repeat, so that such a change touches fewer files'
    : 'remove what the change makes superfluous';
  return `${name}: ${value} is above the limit of ${limit}: ${way}; or raise the limit in ${limitsFile}, with the reason in the commit.`;
}

function print(name: string, ...cells: (number | string | undefined)[]): void {
  const [now, began, limit, goal, note] = cells.map((cell) => String(cell ?? ''));
  const columns = [now, began, limit, goal].map((cell = '') => cell.padStart(8)).join('');
  console.log(`${name.padEnd(34)}${columns}  ${note ?? ''}`.trimEnd());
}
