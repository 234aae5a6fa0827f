import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import {
  fetchToken,
  freePort,
  createTempStore,
  runLeat,
  spawnLeat,
  waitFor,
} from '../helpers/leat.ts';

describe('a first start that cannot listen', () => {
  test(
    'a first start that cannot listen creates nothing, and the next one delivers valid credentials',
    { tags: ['long'] },
    async (t) => {
      const tempStore = await createTempStore();
      t.after(() => tempStore.remove());
      const port = await freePort();
      const taken = createServer().listen(port, '127.0.0.1');
      await once(taken, 'listening');
      t.after(() => taken.close());
      const env = { LEAT_STORE: `sqlite:${tempStore.file}` };

      const refused = await runLeat(['serve'], { ...env, LEAT_PORT: String(port) });
      assert.equal(refused.code, 1);
      assert.match(
        refused.output,
        new RegExp(`^LEAT_PORT: ${port} on 127\\.0\\.0\\.1 is in use`, 'm'),
      );

      const free = await freePort();
      const { child, output } = spawnLeat(['serve'], { ...env, LEAT_PORT: String(free) });
      t.after(() => child.kill('SIGKILL'));
      const url = `http://127.0.0.1:${free}`;
      await waitFor('the start', async () => (await fetch(`${url}/readyz`).catch(() => null))?.ok);
      const text = await readFile(join(tempStore.folder, 'bootstrap.json'), 'utf8');
      const { client_id: id, client_secret: secret } = JSON.parse(text) as Record<string, string>;
      assert.ok(await fetchToken(url, { id: id ?? '', secret: secret ?? '' }), output());
    },
  );
});
