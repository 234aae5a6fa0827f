import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { copyFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import {
  bootstrapClient,
  createTempStore,
  fetchToken,
  runLeat,
  startLeat,
  storeEnvironment,
} from '../helpers/leat.ts';

test('another store that is written over the open one answers no request', async (t) => {
  const tempStore = await createTempStore();
  t.after(() => tempStore.remove());
  const other = await createTempStore();
  t.after(() => other.remove());
  for (const store of [other, tempStore]) await (await startLeat(store)).stop();
  const leat = await startLeat(tempStore);
  t.after(() => leat.kill());
  const stream = {
    name: 'orders',
    subscriptions: [{ event_type: 'user.created' }],
    destination: {
      type: 'webhook',
      configuration: {
        webhook_endpoint: 'https://receiver.example.com/',
        webhook_authorization: { method: 'bearer', token: 'secret' },
      },
    },
  };
  const created = await leat.send('POST', '/api/v2/event-streams', stream);
  assert.equal(created.status, 201);
  const { id } = (await created.json()) as { id: string };
  await copyFile(other.file, tempStore.file);
  // At once: the check of each second has not found it yet.
  const requests = [
    ['GET', '/api/v2/event-streams'],
    ['GET', `/api/v2/event-streams/${id}`],
    ['GET', '/api/v2/clients'],
    ['GET', '/api/v2/event-log'],
    ['POST', '/api/v2/event-streams', stream],
    ['DELETE', `/api/v2/event-streams/${id}`],
  ] as const;
  const responses = await Promise.all(
    requests.map(async ([method, path, body]) => {
      const { status } = await leat.send(method, path, body);
      return `${method} ${path.replace(id, 'id')} ${status}`;
    }),
  );
  assert.deepEqual(
    responses,
    requests.map(([method, path]) => `${method} ${path.replace(id, 'id')} 503`),
  );
  await assert.rejects(fetchToken(leat.url, bootstrapClient), /no token: 503 /);
  const backup = join(tempStore.folder, 'backup.db');
  const { code, output } = await runLeat(['backup', backup], storeEnvironment(tempStore));
  assert.notEqual(code, 0);
  assert.match(output, /leat\.db was overwritten while this process uses it/);
  assert.equal(existsSync(backup), false);
});
