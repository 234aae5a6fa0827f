import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import { releaseViolation } from '../../tools/release.ts';

describe('npm run release', () => {
  test('a clean checkout with a heading of the version may be released, with and without its tag', async (t) => {
    const { folder, git } = await checkout(t);
    assert.equal(releaseViolation(folder, '0.2.0'), undefined);
    git('tag', '-a', 'v0.2.0', '-m', 'Leat 0.2.0');
    assert.equal(releaseViolation(folder, '0.2.0'), undefined);
  });

  test('a release refuses changes and files that git does not know', async (t) => {
    const { folder, git } = await checkout(t);
    // Settings of a user must not hide them.
    git('config', 'status.showUntrackedFiles', 'no');
    await writeFile(join(folder, 'other.ts'), '');
    assert.equal(
      releaseViolation(folder, '0.2.0'),
      'The tree has changes: commit or stash them first\n?? other.ts',
    );
  });

  test('a release refuses a version without a heading in the changelog', async (t) => {
    const { folder } = await checkout(t);
    for (const version of ['0.2', '0.2.1', '0.1.0']) {
      assert.match(
        releaseViolation(folder, version) ?? '',
        /^CHANGELOG\.md has no heading for 0\.[\d.]+, the version in package\.json: add "## 0\./,
      );
    }
  });

  test('a release refuses a version whose tag is at another commit', async (t) => {
    const { folder, git } = await checkout(t);
    git('tag', '-a', 'v0.2.0', '-m', 'Leat 0.2.0');
    git('commit', '--allow-empty', '-m', 'fix: more');
    assert.match(
      releaseViolation(folder, '0.2.0') ?? '',
      /^The tag v0\.2\.0 is at another commit \([\da-f]{12}\): raise the version/,
    );
  });

  test('a release refuses a folder that is no checkout', async (t) => {
    const folder = await mkdtemp(join(tmpdir(), 'leat-release-'));
    t.after(() => rm(folder, { recursive: true }));
    assert.match(releaseViolation(folder, '0.2.0') ?? '', /is no git checkout/);
  });
});

/** Creates a checkout with one commit and a changelog of version 0.2.0. */
async function checkout(t: TestContext) {
  const folder = await mkdtemp(join(tmpdir(), 'leat-release-'));
  t.after(() => rm(folder, { recursive: true }));
  const env = {
    PATH: process.env['PATH'] ?? '',
    HOME: folder,
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_AUTHOR_NAME: 'a',
    GIT_AUTHOR_EMAIL: 'a@example.com',
    GIT_COMMITTER_NAME: 'a',
    GIT_COMMITTER_EMAIL: 'a@example.com',
  };
  const git = (...words: string[]): void => {
    execFileSync('git', words, { cwd: folder, env, stdio: 'pipe' });
  };
  await writeFile(
    join(folder, 'CHANGELOG.md'),
    '# Changelog\n\n## Unreleased\n\n## 0.2.0 (today)\n',
  );
  git('init', '--quiet');
  git('add', '.');
  git('commit', '--quiet', '-m', 'feat: all');
  return { folder, git };
}
