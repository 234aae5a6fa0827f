import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { test } from 'node:test';
import { createStream, freshType, publish, waitForFailures } from '../helpers/api-client.ts';
import { startEndpoint } from '../helpers/endpoint.ts';
import { bootstrapClient, end, type Running, waitFor } from '../helpers/leat.ts';
import { runServer } from './fixture.ts';

/** The program of docs/monitoring.md#from-outside, run on a real Leat. */

let leat: Running;
runServer({ LEAT_RETRY_DELAYS_MS: '0' }, (running) => {
  leat = running;
});

test('the example prints streams that are failing or disabled, on all pages, and no others', async (t) => {
  const endpoint = await startEndpoint();
  t.after(() => endpoint.close());
  const type = freshType();
  await createStream(leat, endpoint.url);
  const failing = await createStream(leat, endpoint.url, { types: [type] });
  const disabled = await Promise.all(
    Array.from({ length: 100 }, () => createStream(leat, endpoint.url, { status: 'disabled' })),
  );
  endpoint.respondWith(400);
  await publish(leat, type);
  await waitForFailures(leat, failing.id, 1);

  const program = new URL('../../examples/failing-streams.mjs', import.meta.url).pathname;
  const child = spawn(process.execPath, [program], {
    env: {
      LEAT_URL: leat.url,
      LEAT_CLIENT_ID: bootstrapClient.id,
      LEAT_CLIENT_SECRET: bootstrapClient.secret,
    },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  t.after(() => end(child, 'SIGKILL'));
  let output = '';
  child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
  const lines = (): string[] => output.trim().split('\n');
  await waitFor('all lines', () => lines().length > disabled.length, { progress: () => output });
  const printed = lines().map((line) => line.replace(/^\S+ /, ''));
  const expected = [
    `${failing.name}: failing, 1 open failures`,
    ...disabled.map(({ name }) => `${name}: disabled, 0 open failures`),
  ];
  assert.deepEqual(printed.toSorted(), expected.toSorted());
});
