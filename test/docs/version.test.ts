import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

const root = new URL('../../', import.meta.url);
const textOf = (path: string): string => readFileSync(new URL(path, root), 'utf8');
const { version } = JSON.parse(textOf('package.json')) as { readonly version: string };

test('documents that are followed by copying name the files of the present version', () => {
  for (const path of ['README.md', 'docs/installing.md', 'docs/containers.md']) {
    const named = [...textOf(path).matchAll(/\bleat[-:](?<version>\d+\.\d+\.\d+)/g)];
    assert.ok(named.length > 0, `${path} names no file`);
    for (const { groups } of named) assert.equal(groups?.['version'], version, path);
  }
});

test('the changelog has a section for the present version', () => {
  assert.match(textOf('CHANGELOG.md'), new RegExp(`^## ${RegExp.escape(version)} - 20`, 'm'));
});
