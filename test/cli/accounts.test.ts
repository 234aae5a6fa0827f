import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test, type TestContext } from 'node:test';
import { logIn, openServer, openShell, type Shell } from './shell.ts';

describe('users and clients', { concurrency: 2 }, () => {
  let leat: Awaited<ReturnType<typeof openServer>>;
  before(async () => {
    leat = await openServer();
  });
  after(() => leat.close());

  const loggedIn = async (t: TestContext): Promise<Shell> => {
    const shell = await openShell(t);
    assert.equal((await logIn(shell, leat)).code, 0);
    await writeFile(join(shell.home, 'password'), 'correct-horse-battery\n');
    return shell;
  };

  test('leat users: creates, finds, changes and deletes a user by e-mail', async (t) => {
    const shell = await loggedIn(t);
    const data = '{"app_metadata": {"plan": "pro"}, "given_name": "Ada"}';
    const words = ['--email', 'ada@example.com', '--name', 'Ada\u009BL', '--data', data];
    const secret = ['--password-file', 'password'];
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
    const shell = await loggedIn(t);
    const cases: [string[], number, RegExp][] = [
      [['create', '--password-file', 'password'], 2, /No e-mail: add --email/],
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
    const words = [
      'users',
      'create',
      '--email',
      'twice@example.com',
      '--password-file',
      'password',
    ];
    assert.equal((await shell.leat(words)).code, 0);
    const few = await shell.leat(['users', 'list', '--limit', '1', '--json']);
    assert.equal((JSON.parse(few.stdout) as unknown[]).length, 1);
    const twice = await shell.leat(words);
    assert.deepEqual([twice.code, twice.stderr], [5, 'The user already exists.\n']);
  });

  test('leat clients: creates, grants, shows, rotates and deletes a client', async (t) => {
    const shell = await loggedIn(t);
    const words = [
      'clients',
      'create',
      '--name',
      'reporter',
      '--scope',
      'read:events,create:events',
    ];
    const created = await shell.leat(words);
    assert.equal(created.code, 0, created.stderr);
    const id = /^Id +(?<id>\w+)$/m.exec(created.stdout)?.groups?.['id'] ?? '';
    assert.match(created.stdout, /^Secret +\S{20,}$/m);
    assert.match(
      created.stderr,
      /^Granted for https:\/\/\S+\/api\/v2\/: read:events create:events\n/,
    );
    const more = await shell.leat(['clients', 'grant', id, '--scope', 'read:users,read:events']);
    assert.match(more.stdout, /: read:events create:events read:users\n/);
    const global = await shell.leat(['clients', 'update', id, '--global', '--name', 'r2']);
    assert.match(global.stdout, /^Name +r2\nGlobal +yes$/m);
    const local = await shell.leat(['clients', 'update', id, '--no-global']);
    assert.match(local.stdout, /^Global +no$/m);
    assert.equal((await shell.leat(['clients', 'update', id])).code, 2);
    const shown = await shell.leat(['clients', 'show', id]);
    assert.match(
      shown.stdout,
      /^Granted +https:\/\/\S+\/api\/v2\/: read:events create:events read:users$/m,
    );
    assert.ok(!shown.stdout.includes('Secret'));
    const rotated = await shell.leat(['clients', 'rotate-secret', id, '--json']);
    assert.match(
      (JSON.parse(rotated.stdout) as Record<string, string>)['client_secret'] ?? '',
      /^\S{20,}$/,
    );
    const listed = await shell.leat(['clients', 'list']);
    assert.match(listed.stdout, new RegExp(`^${id}  r2`, 'm'));
    assert.equal((await shell.leat(['clients', 'delete', id, '--yes'])).code, 0);
    assert.equal((await shell.leat(['clients', 'show', id])).code, 4);
  });
});
