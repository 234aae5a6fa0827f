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
    assert.match(created.stdout, /^Global +yes$/m);
    const secret = /^Secret +(?<secret>\S{20,})$/m.exec(created.stdout)?.groups?.['secret'] ?? '';
    const event = ['events', 'publish', '--type', 'order.paid'];
    const env = { LEAT_URL: leat.url, LEAT_CLIENT_ID: id, LEAT_CLIENT_SECRET: secret };
    const published = await shell.leat(event, { env });
    assert.equal(published.code, 0, published.stderr);
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

  test('leat clients: a name stands for the id of the only client that has it', async (t) => {
    const shell = await openLoggedInShell(t, leat);
    const create = async (name: string) => {
      const { stdout } = await shell.leat(['clients', 'create', '--name', name, '--json']);
      return (JSON.parse(stdout) as { client_id: string }).client_id;
    };
    const id = await create('named');
    const shown = await shell.leat(['clients', 'show', 'named']);
    assert.match(shown.stdout, new RegExp(`^Id +${id}\n`));
    const granted = await shell.leat(['clients', 'grant', 'named', '--scope', 'read:events']);
    assert.match(granted.stdout, /^Granted for .*: read:events\n.*\nIt may use the management API/);
    const local = await shell.leat(['clients', 'update', 'named', '--no-global']);
    assert.match(local.stdout, /^Global +no$/m);
    assert.equal((await shell.leat(['clients', 'rotate-secret', 'named'])).code, 0);
    await create('named');
    const two = await shell.leat(['clients', 'delete', 'named', '--yes']);
    assert.deepEqual([two.code, /More than one client has the name/.test(two.stderr)], [5, true]);
    const none = await shell.leat(['clients', 'delete', 'nobody', '--yes']);
    assert.deepEqual(
      [none.code, none.stderr],
      [4, 'No client has the id or the name "nobody": leat clients list shows their ids.\n'],
    );
    assert.equal((await shell.leat(['clients', 'delete', id, '--yes'])).stdout, `Deleted ${id}.\n`);
    assert.equal((await shell.leat(['clients', 'delete', 'named', '--yes'])).code, 0);
  });

  test('leat clients: refuses a scope that the management API does not have, before it creates a client', async (t) => {
    const shell = await openLoggedInShell(t, leat);
    const create = ['clients', 'create', '--name', 'typo', '--scope'];
    const near = await shell.leat([...create, 'read:events,read:event_stream']);
    assert.deepEqual(
      [near.code, near.stdout, near.stderr],
      [
        2,
        '',
        'The management API has no scope "read:event_stream". Did you mean read:event_streams?\n',
      ],
    );
    const far = await shell.leat([...create, 'read:nonsense']);
    assert.equal(far.code, 2);
    assert.match(
      far.stderr,
      /has no scope "read:nonsense"\. Its scopes: create:event_streams .*read:logs\n$/,
    );
    assert.ok(!(await shell.leat(['clients', 'list'])).stdout.includes('typo'));
    const grant = await shell.leat(['clients', 'grant', 'operator', '--scope', 'read:nonsense']);
    assert.deepEqual([grant.code, grant.stdout], [2, '']);
  });

  test('leat clients: grants scopes of another API that the API does not list', async (t) => {
    const shell = await openLoggedInShell(t, leat);
    const api = { identifier: 'https://orders.example.com', name: 'orders' };
    assert.equal((await leat.send('POST', '/api/v2/resource-servers', api)).status, 201);
    const words = ['--name', 'orders', '--audience', api.identifier, '--scope', 'read:nonsense'];
    const created = await shell.leat(['clients', 'create', ...words]);
    assert.equal(created.code, 0, created.stderr);
    assert.match(created.stderr, /^Granted for https:\/\/orders\.example\.com: read:nonsense\n/);
  });
});
