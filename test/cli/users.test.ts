import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test, type TestContext } from 'node:test';
import { openLoggedInShell, openServer, type Shell } from './shell.ts';

describe('leat users', { concurrency: 2 }, () => {
  let leat: Awaited<ReturnType<typeof openServer>>;
  before(async () => {
    leat = await openServer();
  });
  after(() => leat.close());

  const openShellWithPassword = async (
    t: TestContext,
  ): Promise<{ shell: Shell; password: string }> => {
    const shell = await openLoggedInShell(t, leat);
    const password = join(shell.home, 'password');
    await writeFile(password, 'correct-horse-battery\n');
    return { shell, password };
  };

  test('leat users: creates, finds, changes and deletes a user by e-mail', async (t) => {
    const { shell, password } = await openShellWithPassword(t);
    const data = '{"app_metadata": {"plan": "pro"}, "given_name": "Ada"}';
    const words = ['--email', 'ada@example.com', '--name', 'Ada\u009BL', '--data', data];
    const secret = ['--password-file', password];
    const user = await shell.leat(['users', 'create', ...words, ...secret, '--json']);
    assert.equal(user.code, 0, user.stderr);
    const { user_id: id, app_metadata: metadata } = JSON.parse(user.stdout) as Record<
      string,
      unknown
    >;
    assert.deepEqual(metadata, { plan: 'pro' });
    const shown = await shell.leat(['users', 'show', 'ada@example.com', '--json']);
    assert.equal(shown.stdout, user.stdout);
    const changed = await shell.leat([
      'users',
      'update',
      String(id),
      '--data',
      '{"blocked": true}',
      '--json',
    ]);
    assert.equal((JSON.parse(changed.stdout) as Record<string, unknown>)['blocked'], true);
    const listed = await shell.leat(['users', 'list', '--email', 'ada@example.com']);
    assert.match(
      listed.stdout,
      /^ID +E-MAIL +NAME +BLOCKED +CREATED\nleat\|\w+ +ada@example\.com +Ada\\u\{9b\}L +yes /,
    );
    assert.equal((await shell.leat(['users', 'delete', 'ada@example.com'])).code, 2);
    assert.equal((await shell.leat(['users', 'delete', 'ada@example.com', '--yes'])).code, 0);
    const gone = await shell.leat(['users', 'show', 'ada@example.com']);
    assert.equal(gone.code, 4);
    assert.match(gone.stderr, /No user has the e-mail ada@example\.com/);
  });

  test('leat users: names a missing option, and reports what the server refuses', async (t) => {
    const { shell, password } = await openShellWithPassword(t);
    const cases: [string[], number, RegExp][] = [
      [['create', '--password-file', password], 2, /No e-mail: add --email/],
      [['create', '--email', 'a@example.com'], 2, /No password: add --password-file <file>/],
      [['create', '--email', 'a@example.com', '--data', '[]'], 2, /--data is not a JSON object/],
      [['update', 'leat|1'], 2, /Nothing to change/],
      [['update', 'leat|1', '--name', 'a'], 4, /The user does not exist/],
    ];
    for (const [words, exitCode, message] of cases) {
      const { code, stderr } = await shell.leat(['users', ...words]);
      assert.equal(code, exitCode, stderr);
      assert.match(stderr, message);
    }
    const words = ['users', 'create', '--email', 'twice@example.com', '--password-file', password];
    assert.equal((await shell.leat(words)).code, 0);
    const few = await shell.leat(['users', 'list', '--limit', '1', '--json']);
    assert.equal((JSON.parse(few.stdout) as unknown[]).length, 1);
    const twice = await shell.leat(words);
    assert.deepEqual([twice.code, twice.stderr], [5, 'The user already exists.\n']);
  });
});
