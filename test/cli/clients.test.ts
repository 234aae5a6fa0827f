import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { openLoggedInShell, openServer } from './shell.ts';

describe('leat clients', { concurrency: 2 }, () => {
  let leat: Awaited<ReturnType<typeof openServer>>;
  before(async () => {
    leat = await openServer();
  });
  after(() => leat.close());

  test('leat clients: creates, grants, shows, rotates and deletes a client', async (t) => {
    const shell = await openLoggedInShell(t, leat);
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
