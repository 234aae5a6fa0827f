import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import { documentsIn } from '../../tools/documents.ts';

const documents = ['README.md', 'deploy/postgres/compose.yaml', 'docs/README.md'];

describe('the documents of the package', () => {
  test('in a checkout they are what git tracks, without ignored files and without new ones', async (t) => {
    const folder = await sources(t);
    git(folder, 'init', '--quiet');
    git(folder, 'add', '.');
    await write(folder, '.gitignore', '.env\n');
    await write(folder, 'deploy/postgres/.env', 'POSTGRES_PASSWORD=secret\n');
    await write(folder, 'deploy/kubernetes/secret.yaml', 'stringData: {}\n');
    assert.deepEqual(documentsIn(folder), documents);
  });

  test('a tracked file that was removed is left out', async (t) => {
    const folder = await sources(t);
    git(folder, 'init', '--quiet');
    git(folder, 'add', '.');
    await rm(join(folder, 'docs/README.md'));
    assert.deepEqual(documentsIn(folder), documents.slice(0, 2));
  });

  test('in an archive of the sources they are all files without a leading dot', async (t) => {
    const folder = await sources(t);
    await write(folder, 'deploy/postgres/.env', 'POSTGRES_PASSWORD=secret\n');
    await write(folder, 'docs/.cache/b.md', '');
    assert.deepEqual(documentsIn(folder), documents);
  });

  test('a checkout that git cannot read is an error', async (t) => {
    const folder = await sources(t);
    await mkdir(join(folder, '.git'));
    assert.throws(
      () => documentsIn(folder),
      /^Error: git cannot list the files of .+: run git status/,
    );
  });
});

/** Creates a folder with {@link documents} and a source. */
async function sources(t: TestContext): Promise<string> {
  const folder = `${await mkdtemp(join(tmpdir(), 'leat-documents-'))}/`;
  t.after(() => rm(folder, { recursive: true }));
  for (const path of [...documents, 'src/main.ts']) await write(folder, path, '');
  return folder;
}

async function write(folder: string, path: string, text: string): Promise<void> {
  await mkdir(dirname(join(folder, path)), { recursive: true });
  await writeFile(join(folder, path), text);
}

function git(folder: string, ...words: string[]): void {
  execFileSync('git', words, { cwd: folder, stdio: 'pipe' });
}
