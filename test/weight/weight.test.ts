import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import { largestDeps, weightOf } from '../../tools/source-weight.ts';

describe('the weight of a file', () => {
  const sources: [path: string, lines: readonly string[], code: number, comments: number][] = [
    ['a.ts', ['import {', '  // why', '  a,', "} from './a.ts';", '', 'export const b = a;'], 1, 0],
    ['a.ts', ["export { a } from './a.ts';"], 1, 0],
    ['a.ts', ['/**', ' * Länge in 😀', ' */', 'const a = 1; // one', '// two'], 1, 4],
    ['a.ts', ["const a = '// no comment';", 'const b = `', '  /* none */', '`;'], 4, 0],
    ['a.tsx', ['const a = (', '  // why', '  <p>// text</p>', ');'], 3, 1],
    [
      'a.sql',
      ['-- why', "select '--' as a; -- b", '/* one', 'two */', '', "select 'it''s --';"],
      2,
      3,
    ],
    ['a.sql', ['create function a() as $$', '  -- why', '  select 1', '$$;'], 3, 1],
    ['a.css', ['/* why', '', '   so */', "p::before { content: '/* a */'; }"], 1, 2],
  ];
  for (const [path, lines, code, comments] of sources) {
    test(`${path} ${JSON.stringify(lines)} has ${code} lines of code`, () => {
      const { codeLines, commentLines } = weightOf(path, lines.join('\n'));
      assert.deepEqual({ codeLines, commentLines }, { codeLines: code, commentLines: comments });
    });
  }

  test('exported names: declarations, lists and re-exports count each name', () => {
    const source = [
      'export const a = 1, b = 2;',
      'export function c() {}',
      'export interface D {}',
      'const e = 1;',
      'export { e, e as f };',
      "export type { G } from './g.ts';",
    ];
    assert.equal(weightOf('a.ts', source.join('\n')).exportedNames, 7);
  });

  test('the largest deps: fields of extended interfaces count, those of other interfaces do not', () => {
    const { interfaces } = weightOf(
      'a.ts',
      [
        'interface Base { readonly a: number; b(): void }',
        'export interface SmallDeps { readonly c: number; readonly d: number }',
        'export interface LargeDeps extends Base, Pick<Base, "a"> { readonly e: number }',
        'interface Wide { f: 1; g: 1; h: 1; i: 1 }',
      ].join('\n'),
    );
    assert.deepEqual(largestDeps(interfaces), { name: 'LargeDeps', members: 3 });
  });

  test('a file that is no TypeScript is an error that names it', () => {
    assert.throws(() => weightOf('a.ts', 'const = ;'), /^Error: a\.ts: /);
  });
});

describe('node tools/weight.ts', () => {
  const fitting = [
    '--- a/src/a.ts',
    '+++ b/src/a.ts',
    '@@ -1 +1,2 @@',
    ' export const a = 1;',
    '+export const c = 1;',
    '--- a/src/b.ts',
    '+++ b/src/b.ts',
    '@@ -1 +1 @@',
    '-export const b = 1;',
    '+export const b = 2;',
    '',
  ].join('\n');

  test('passes and prints the table while every number is within its limit', (t) => {
    const { status, stdout } = weigh(t, { 'files of a new kind': { limit: 2 } }, fitting);
    assert.match(stdout, /^code lines +2 +5$/m);
    assert.match(stdout, /^files of a new kind +2 +2$/m);
    assert.equal(status, 0, stdout);
  });

  test('fails with what to do when a change touches more files than its limit', (t) => {
    const { status, stdout } = weigh(t, { 'files of a new kind': { limit: 1 } }, fitting);
    assert.match(stdout, /^files of a new kind: 2 is above the limit of 1: let one place know /m);
    assert.equal(status, 1);
  });

  test('fails with what to do when there is more code than the limit', (t) => {
    const { status, stdout } = weigh(t, { 'code lines': { limit: 1 } }, fitting);
    assert.match(stdout, /^code lines: 2 is above the limit of 1: remove what /m);
    assert.equal(status, 1);
  });

  test('fails with what to do when a patch does not fit', (t) => {
    const { status, stdout } = weigh(
      t,
      {},
      fitting.replace('-export const b = 1;', '-const b = 1;'),
    );
    assert.match(
      stdout,
      /^test\/weight\/kind\.patch does not fit any more: make the same change /m,
    );
    assert.equal(status, 1);
  });

  test('fails for a limit of something that it does not measure', (t) => {
    const { status, stdout } = weigh(t, { 'code line': { limit: 5 } }, fitting);
    assert.match(stdout, /^test\/weight\/limits\.json has a limit for "code line", which /m);
    assert.equal(status, 1);
  });
});

/** Runs the tool on a checkout with two files and a patch, `kind`. */
function weigh(t: TestContext, limits: object, patch: string): { status: unknown; stdout: string } {
  const folder = mkdtempSync(join(tmpdir(), 'leat-weight-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const write = (path: string, text: string): void => {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  };
  write('src/a.ts', 'export const a = 1;\n');
  write('src/b.ts', 'export const b = 1;\n');
  write('test/weight/kind.patch', patch);
  write('test/weight/limits.json', JSON.stringify({ start: { 'code lines': 5 }, limits }));
  const tool = join(import.meta.dirname, '../../tools/weight.ts');
  const { status, stdout, stderr } = spawnSync(process.execPath, [tool, folder], {
    encoding: 'utf8',
  });
  return { status, stdout: stdout + stderr };
}
