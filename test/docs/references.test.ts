import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { anchorsOf, citationsIn, type Reference, referencesIn } from '../helpers/references.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));
const read = (path: string): string => readFileSync(`${root}${path}`, 'utf8');
const documents = globSync(['*.md', '{docs,src}/**/*.md'], { cwd: root }).toSorted();
/** Without this file, whose examples lead nowhere. */
const sources = globSync('{src,test,bench,tools}/**/*.{ts,mjs,sql,css,html,js}', { cwd: root })
  .filter((path) => path !== 'test/docs/references.test.ts')
  .toSorted();

/** A number of a section of something that is not in the repository. */
const UNRESOLVABLE =
  /\b(?:contract|design|findings?)(?:-2)?(?:\.md)?,?\s[\s*/]*(?:section|§)|§ ?\d/i;

describe('references', () => {
  for (const path of documents) {
    // The change log speaks of the files of its time.
    if (path === 'CHANGELOG.md') continue;
    test(`${path}: every link and path resolves`, () => {
      assert.deepEqual(brokenOf(referencesIn(path, read(path))), []);
    });
  }

  test('comments cite documents and headings that exist', () => {
    const broken = sources.flatMap((path) =>
      brokenOf(citationsIn(read(path))).map((reference) => `${path}: ${reference}`),
    );
    assert.deepEqual(broken, []);
  });

  test('comments cite no section of a document outside the repository', () => {
    const found = [...sources, ...documents].filter((path) => UNRESOLVABLE.test(read(path)));
    assert.deepEqual(found, []);
  });

  test('docs/adr: every number has one file, or a line of the README that says what became of it', () => {
    const numbers = globSync('docs/adr/[0-9]*.md', { cwd: root }).map((path) =>
      Number(/(?<number>\d{4})-/.exec(path)?.groups?.['number']),
    );
    const gone = [...read('docs/adr/README.md').matchAll(/^\| (?<list>\d[\d, ]*) /gm)].flatMap(
      ({ groups }) => (groups?.['list'] ?? '').split(',').map(Number),
    );
    const all = [...numbers, ...gone].toSorted((one, other) => one - other);
    assert.deepEqual(
      all,
      all.map((_, index) => index + 1),
    );
  });

  test('docs/measurements: the README has every page', () => {
    const pages = globSync('docs/measurements/*.md', { cwd: root })
      .map((path) => path.replace('docs/measurements/', ''))
      .filter((page) => page !== 'README.md');
    const text = read('docs/measurements/README.md');
    assert.deepEqual(
      pages.filter((page) => !text.includes(`[${page}](${page})`)),
      [],
    );
  });

  test('src: every folder with three or more modules has a README that says what to read first', () => {
    const modules = Map.groupBy(globSync('src/*/**/*.{ts,tsx}', { cwd: root }), dirname);
    const folders = [...modules].filter(([, paths]) => paths.length >= 3).map(([path]) => path);
    assert.ok(folders.length > 30, `found ${folders.length}`);
    assert.deepEqual(
      folders.filter((folder) => !isHead(`${folder}/README.md`)),
      [],
    );
  });

  test('there are citations to check', () => {
    const count = sources.reduce((sum, path) => sum + citationsIn(read(path)).length, 0);
    assert.ok(count > 80, `found ${count}`);
  });
});

describe('the check of references', () => {
  const broken: [what: string, reference: Reference][] = [
    ['a file that does not exist', { path: 'docs/nothing.md', anchor: undefined }],
    ['a heading that does not exist', { path: 'README.md', anchor: 'nothing' }],
    ['a pattern without a match', { path: 'test/nothing/*.test.ts', anchor: undefined }],
    ['one option without a match', { path: 'src/{main,nothing}.ts', anchor: undefined }],
  ];
  for (const [what, reference] of broken) {
    test(`reports ${what}`, () => {
      assert.equal(brokenOf([reference]).length, 1);
    });
  }

  test('reads citations from comments and links relative to their document', () => {
    assert.deepEqual(citationsIn('// See docs/http-api.md#errors and docs/pull.md.'), [
      { path: 'docs/http-api.md', anchor: 'errors' },
      { path: 'docs/pull.md', anchor: undefined },
    ]);
    assert.deepEqual(referencesIn('docs/a.md', '[b](../README.md#speed) `src/core/` `x/y`'), [
      { path: 'README.md', anchor: 'speed' },
      { path: 'src/core/', anchor: undefined },
    ]);
    assert.ok(UNRESOLVABLE.test('(contract\n * section 7)'));
  });

  test('names headings as GitHub does', () => {
    const text = '# A `code` & more\n## Twice\n### Twice\n```\n# no heading\n```\n';
    assert.deepEqual([...anchorsOf(text)], ['a-code--more', 'twice', 'twice-1']);
  });
});

/** Returns whether a README of a folder has the parts of one, and at least one link to a file. */
function isHead(path: string): boolean {
  if (!exists(path)) return false;
  const text = read(path);
  const parts = ['Read first', 'Used by', 'Rule'].map((part) => `- **${part}:** `);
  return parts.every((part) => text.includes(part)) && referencesIn(path, text).length > 0;
}

/** Returns the references that lead nowhere, as written. */
function brokenOf(references: readonly Reference[]): string[] {
  return references.filter((reference) => !resolves(reference)).map(textOf);
}

function resolves({ path, anchor }: Reference): boolean {
  if (path !== '' && !optionsOf(path).every((option) => exists(option))) return false;
  if (anchor === undefined || !path.endsWith('.md')) return true;
  return anchorsOf(read(path)).has(anchor);
}

/** Returns a pattern once for each of its `{a,b}`: each has to lead somewhere. */
function optionsOf(path: string): string[] {
  const braces = /\{(?<list>[^}]*)\}/.exec(path);
  if (braces === null) return [path];
  const list = braces.groups?.['list']?.split(',') ?? [];
  return list.flatMap((option) => optionsOf(path.replace(braces[0], option)));
}

function exists(path: string): boolean {
  return globSync(path.replace(/\/$/, ''), { cwd: root }).length > 0;
}

const textOf = ({ path, anchor }: Reference): string =>
  anchor === undefined ? path : `${path}#${anchor}`;
