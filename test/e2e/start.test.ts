import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { fetchToken, freePort, createTempStore, spawnLeat, waitFor } from '../helpers/leat.ts';

test('leat start shows the addresses, the client once, and four first requests', async (t) => {
  const tempStore = await createTempStore();
  t.after(tempStore.remove);
  const start = async (): Promise<{ url: string; output: string; end: () => Promise<unknown> }> => {
    const port = await freePort();
    const env = {
      LEAT_STORE: `sqlite:${tempStore.file}`,
      LEAT_PORT: String(port),
      PORT: String(await freePort()),
      LEAT_LOG_LEVEL: 'debug',
    };
    const { child, output } = spawnLeat(['start'], env);
    t.after(() => child.kill('SIGKILL'));
    await waitFor('the last line of the welcome', () => output().includes('Ctrl-C ends it'));
    const end = async (): Promise<unknown> => {
      const ended = once(child, 'close');
      child.kill('SIGINT');
      return (await ended)[0];
    };
    return { url: `http://127.0.0.1:${port}`, output: output(), end };
  };

  const first = await start();
  const file = join(tempStore.folder, 'bootstrap.json');
  const credentials = JSON.parse(await readFile(file, 'utf8')) as Record<string, string>;
  const { client_id: id = '', client_secret: secret = '' } = credentials;
  for (const text of [`${first.url}/api/v2`, `${first.url}/oauth/token`, `client_id=${id}`, file]) {
    assert.ok(first.output.includes(text), `${text} is not in:\n${first.output}`);
  }
  assert.equal(first.output.match(/\bcurl /g)?.length, 5);
  assert.ok(!first.output.includes(secret), 'the secret is in the file only');
  const consoleUrl = `http://localhost:${new URL(first.url).port}/console/`;
  assert.match(first.output, new RegExp(` is up\\.\n  console {10}${consoleUrl}\n.*leat console`));
  assert.ok(!first.output.includes('code='), 'a link that signs in is for terminals only');
  const token = await fetchToken(first.url, { id, secret });
  const headers = { authorization: `Bearer ${token}` };
  const listed = await fetch(`${first.url}/api/v2/event-streams`, { headers });
  assert.deepEqual(await listed.json(), { eventStreams: [] });
  assert.equal(await first.end(), 0);

  const second = await start();
  assert.ok(!second.output.includes(file), 'the client is printed once');
  assert.ok((await fetchToken(second.url, { id, secret })).length > 0);
  assert.equal(await second.end(), 0);
});
