import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import { createStream } from '../helpers/api-client.ts';
import { bootstrapClient, type Ended, type Fixture, openFixture, runProgram } from './fixture.ts';

/** The table of docs/clients.md is correct, and its commands work. */

const root = new URL('../../', import.meta.url);
const page = await readFile(new URL('docs/clients.md', root), 'utf8');

interface Row {
  readonly client: string;
  readonly version: string;
  readonly file: string;
}

const rows: readonly Row[] = [
  ...page.matchAll(
    /^\| `(?<client>[a-z0-9-]+)` +\| (?<version>[0-9.]+) +\|.*\| `(?<file>test\/[^`]+)` +\|$/gm,
  ),
].map(({ groups }) => groups as unknown as Row);

describe('the table of clients', () => {
  test('the table of clients names the versions that are installed', async () => {
    assert.ok(rows.length >= 7);
    const text = await readFile(new URL('package.json', root), 'utf8');
    const { devDependencies } = JSON.parse(text) as { devDependencies: Record<string, string> };
    for (const { client, version } of rows) {
      assert.equal(version, devDependencies[client], client);
      const installed = await readFile(
        new URL(`node_modules/${client}/package.json`, root),
        'utf8',
      );
      assert.equal((JSON.parse(installed) as { version: string }).version, version, client);
    }
  });

  test('the table of clients names existing tests that use the client, and every test of this folder', async () => {
    for (const { client, file } of rows) {
      assert.ok(existsSync(new URL(file, root)), file);
      assert.ok((await readFile(new URL(file, root), 'utf8')).includes(client), file);
    }
    const files = await readdir(new URL('test/clients/', root));
    assert.deepEqual(
      files.filter((file) => file.endsWith('.test.ts')).toSorted(),
      [...rows.map(({ file }) => file), 'test/clients/documentation.test.ts']
        .filter((file) => file.startsWith('test/clients/'))
        .map((file) => file.slice('test/clients/'.length))
        .toSorted(),
    );
  });
});

describe('a command of docs/clients.md', () => {
  let fixture: Fixture;
  before(async () => {
    fixture = await openFixture();
  });
  after(() => fixture?.close());

  /** Returns the block of shell commands that is marked with this word. */
  function commands(mark: string): string {
    const block = new RegExp(`^\`\`\`sh ${mark}\n(?<text>.*?)^\`\`\`$`, 'ms').exec(page)?.groups;
    assert.ok(block?.['text'] !== undefined, mark);
    return block['text'];
  }

  function run(mark: string, caFile = fixture.caFile): Promise<Ended> {
    const { id, secret } = bootstrapClient;
    const env = { CA: caFile, SERVER: fixture.url, CLIENT_ID: id, CLIENT_SECRET: secret };
    return runProgram('sh', ['-eu', '-c', commands(mark)], env, fixture.tempStore.folder);
  }

  test(
    'a command of docs/clients.md makes node trust the certificate',
    { tags: ['long'] },
    async () => {
      assert.deepEqual(await run('node'), { code: 0, stdout: '200\n', stderr: '' });
      const distrusting = await run('node', '/dev/null');
      assert.notEqual(distrusting.code, 0);
      assert.match(distrusting.stderr, /UNABLE_TO_VERIFY_LEAF_SIGNATURE|self-signed/i);
    },
  );

  const hasCurl = spawnSync('curl', ['--version']).status === 0;
  test(
    'commands of docs/clients.md make curl trust the certificate, get a token and use it',
    {
      skip: hasCurl ? false : 'there is no curl on this machine',
    },
    async () => {
      const stream = await createStream(fixture, 'https://hooks.example.net/leat');
      const { code, stdout, stderr } = await run('curl');
      assert.equal(code, 0, stderr);
      assert.deepEqual(JSON.parse(stdout), { eventStreams: [stream] });
      const distrusting = await run('curl', '/dev/null');
      assert.notEqual(distrusting.code, 0);
      assert.match(distrusting.stderr, /certificate|CAfile/i);
    },
  );
});
