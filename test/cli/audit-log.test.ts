import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { createStream, freshName, postJson } from '../helpers/api-client.ts';
import { bootstrapClient, createTempStore, end, startLeat, waitFor } from '../helpers/leat.ts';
import { freePort } from '../helpers/ports.ts';
import { openLoggedInShell, openServer } from './shell.ts';

interface Entry {
  readonly log_id: string;
  readonly type: string;
  readonly description: string;
  readonly client_id?: string;
  readonly details: { readonly targets: readonly string[] };
}

const linesOf = (text: string): string[] => text.split('\n').filter((line) => line !== '');
const endpoint = 'https://hooks.example.net/';

describe('leat logs', { concurrency: 2 }, () => {
  let leat: Awaited<ReturnType<typeof openServer>>;
  before(async () => {
    leat = await openServer();
  });
  after(() => leat.close());

  test('leat logs: shows changes as a table, newest first, and as JSON', async (t) => {
    const shell = await openLoggedInShell(t, leat);
    const { id } = await createStream(leat, endpoint, { types: ['a.b'] });
    await leat.send('PATCH', `/api/v2/event-streams/${id}`, { name: freshName() });
    const words = ['logs', '--target', id];
    const { code, stdout, stderr } = await shell.leat(words);
    assert.equal(code, 0, stderr);
    const lines = linesOf(stdout);
    assert.match(lines[0] ?? '', /^DATE +TYPE +CLIENT +ADDRESS +WHAT$/);
    const change = (what: string) =>
      new RegExp(
        `^\\S+ \\S+Z +sapi +Bootstrap client +127\\.0\\.0\\.1 +${what} an .*stream ${id}$`,
      );
    assert.match(lines[1] ?? '', change('Update'));
    assert.match(lines[2] ?? '', change('Create'));
    assert.equal(lines.length, 3);
    const json = await shell.leat([...words, '--json', '--limit', '1']);
    const [entry, ...more] = JSON.parse(json.stdout) as Entry[];
    assert.deepEqual(more, []);
    assert.equal(entry?.description, 'Update an event stream');
    assert.deepEqual(entry.details.targets, [id]);
    const none = await shell.leat([...words, '--type', 'fapi,feccft', '--since', '1h']);
    assert.equal(none.stderr, 'No entries.\n');
    assert.equal((await shell.leat(['logs', '--type', 'nonsense'])).code, 1);
    assert.equal((await shell.leat(['logs', '--follow', '--until', '1h'])).code, 2);
  });

  test('leat logs: shows issued and refused tokens within 5 seconds', async (t) => {
    const shell = await openLoggedInShell(t, leat);
    const body = {
      grant_type: 'client_credentials',
      client_id: bootstrapClient.id,
      client_secret: 'wrong-secret-of-a-stranger',
      audience: '/api/v2/',
    };
    for (let count = 0; count < 3; count += 1) {
      assert.equal((await postJson(`${leat.url}/oauth/token`, body)).status, 401);
    }
    const entries = await waitFor('entries of both types', async () => {
      const { stdout } = await shell.leat(['logs', '--type', 'seccft,feccft', '--json']);
      const found = JSON.parse(stdout) as Entry[];
      return new Set(found.map(({ type }) => type)).size === 2 ? found : undefined;
    });
    for (const { client_id: client } of entries) assert.equal(client, bootstrapClient.id);
    assert.ok(!JSON.stringify(entries).includes('wrong-secret'));
  });
});

describe('leat logs --follow', () => {
  test(
    'leat logs --follow: prints each entry once, also after a restart, until Ctrl-C',
    { tags: ['long'] },
    async (t) => {
      const tempStore = await createTempStore();
      t.after(() => tempStore.remove());
      const settings = { LEAT_PORT: String(await freePort()) };
      let leat = await startLeat(tempStore, settings);
      t.after(() => leat.kill());
      const shell = await openLoggedInShell(t, leat);
      const created: string[] = [];
      const create = async (): Promise<void> => {
        created.push((await createStream(leat, endpoint, { types: ['a.b'] })).id);
      };
      await create();
      const follow = shell.start(['logs', '--follow', '--json', '--type', 'sapi']);
      const printed = (): string[] =>
        linesOf(follow.stdout()).map(
          (line) => (JSON.parse(line) as Entry).details.targets[0] ?? '',
        );
      await waitFor('the entry of before', () => printed().length === 1);
      await waitFor('the note', () => follow.stderr().includes('Ctrl-C ends it'));
      await create();
      await create();
      await waitFor('new entries', () => printed().length === 3);
      await leat.kill();
      await waitFor('a failed poll', () => follow.stderr().includes('Trying again'));
      leat = await startLeat(tempStore, settings);
      await create();
      await waitFor('the entry after the restart', () => printed().length >= 4);
      await end(follow.child, 'SIGINT');
      const { code } = await follow.ended();
      assert.equal(code, 130);
      assert.deepEqual(printed(), created);
    },
  );
});
