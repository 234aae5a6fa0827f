import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import packageJson from '../../package.json' with { type: 'json' };
import { fetchToken, freePort, createTempStore, spawnLeat, waitFor } from '../helpers/leat.ts';

const { version } = packageJson;

describe('a signal while the service starts', () => {
  test(
    'a signal during the start ends the process by its own exit, and the next start completes it',
    { tags: ['long'] },
    async (t) => {
      const tempStore = await createTempStore();
      t.after(() => tempStore.remove());
      const port = await freePort();
      const env = { LEAT_STORE: `sqlite:${tempStore.file}`, LEAT_PORT: String(port) };
      const first = spawnLeat(['serve'], env);
      t.after(() => first.child.kill('SIGKILL'));
      // The key is created first; the store, the signing key and the client come later.
      await waitFor('the start to be under way', () =>
        ['secret.key.new', 'secret.key'].some((name) => existsSync(join(tempStore.folder, name))),
      );
      first.child.kill('SIGTERM');
      const [code, signal] = (await once(first.child, 'close')) as [number | null, string | null];
      assert.equal(signal, null);
      // 0 on a machine so fast that the start was complete.
      assert.ok(code === 143 || code === 0, `exit code ${code}: ${first.output()}`);

      const second = spawnLeat(['serve'], env);
      t.after(() => second.child.kill('SIGKILL'));
      const url = `http://127.0.0.1:${port}`;
      await waitFor('the start', async () => (await fetch(`${url}/readyz`).catch(() => null))?.ok);
      const text = await readFile(join(tempStore.folder, 'bootstrap.json'), 'utf8');
      const { client_id: id, client_secret: secret } = JSON.parse(text) as Record<string, string>;
      assert.ok(await fetchToken(url, { id: id ?? '', secret: secret ?? '' }));
    },
  );
});

test('leat serve: a Ctrl-C that npm repeats drains as one does, and the log has start and stop', async (t) => {
  const tempStore = await createTempStore();
  t.after(() => tempStore.remove());
  const port = await freePort();
  const env = { LEAT_STORE: `sqlite:${tempStore.file}`, LEAT_PORT: String(port) };
  const { child, output } = spawnLeat(['serve'], env);
  t.after(() => child.kill('SIGKILL'));
  const url = `http://127.0.0.1:${port}`;
  await waitFor('the start', async () => (await fetch(`${url}/readyz`).catch(() => null))?.ok);
  const closed = once(child, 'close');
  for (let count = 0; count < 5; count++) {
    child.kill('SIGINT');
    await setImmediate();
  }
  assert.deepEqual(await closed, [0, null], output());
  const lines = output()
    .split('\n')
    .filter((line) => line.includes('"management"'))
    .map((line) => JSON.parse(line) as Record<string, unknown>);
  const facts = { version, management: url, store: env.LEAT_STORE };
  assert.deepEqual(
    lines.map(({ level: _level, time: _time, ...fields }) => fields),
    [
      { ...facts, msg: 'Leat is up' },
      { ...facts, signal: 'SIGINT', msg: 'Leat stops: it completes what is in progress' },
      { ...facts, msg: 'Leat has stopped' },
    ],
  );
});
