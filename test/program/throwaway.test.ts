import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { test } from 'node:test';
import { systemClock, systemRandom } from '../../src/clock.ts';
import { createFolder, removeFolder, startThrowaway } from '../../src/program/dev/throwaway.ts';
import { freePort } from '../helpers/ports.ts';

test('startThrowaway: takes another port when the free one was taken meanwhile, and gives up after five', async (t) => {
  const folder = await createFolder();
  t.after(() => removeFolder(folder));
  const taken = createServer().listen(0, '127.0.0.1');
  await once(taken, 'listening');
  t.after(() => taken.close());
  const { port: takenPort } = taken.address() as { port: number };
  const context = {
    clock: systemClock,
    random: systemRandom,
    stderr: process.stderr,
    version: '0',
  };

  let searches = 0;
  const findPort = async (): Promise<number> => (searches++ < 2 ? takenPort : freePort());
  const { service } = await startThrowaway(context, { folder, findPort });
  assert.equal((await fetch(`${service.url}/healthz`)).status, 200);
  assert.equal(searches, 3);
  await service.stop();

  searches = -100;
  await assert.rejects(startThrowaway(context, { folder, findPort }), /is in use/);
  assert.equal(searches, -95);
  await assert.rejects(startThrowaway(context, { folder, port: takenPort }), /is in use/);
});
