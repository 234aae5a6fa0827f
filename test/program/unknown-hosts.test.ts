import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  bootstrapClient,
  createTempStore,
  freePort,
  runLeat,
  startLeat,
  storeEnvironment,
  waitFor,
} from '../helpers/leat.ts';

test('a second tenant takes the API away from nobody, and its command names the hosts that clients use', async (t) => {
  const tempStore = await createTempStore();
  t.after(() => tempStore.remove());
  const port = await freePort();
  const settings = { LEAT_PORT: String(port), LEAT_TENANT_DOMAIN: 'leat.example.com' };
  const leat = await startLeat(tempStore, settings);
  t.after(() => leat.kill());
  const env = { ...storeEnvironment(tempStore), ...settings };
  const run = async (...words: string[]): Promise<string> => (await runLeat(words, env)).output;
  const publish = async (): Promise<number> =>
    (await leat.send('POST', '/api/v2/events', { type: 'a.b', data: {} })).status;

  assert.equal(await publish(), 202);
  assert.match(await run('doctor'), /^ok +hosts +any may be used while there is one tenant$/m);
  const created = await run('tenants', 'create', 'acme', 'acme.example.com');
  assert.match(
    created,
    new RegExp(
      `In the last hour clients used 127\\.0\\.0\\.1:${port}, the domain of no tenant\\. Leat still serves them for main, and LEAT_UNKNOWN_HOST=refuse would refuse them\\.`,
    ),
  );
  await waitFor('the server to know of the new tenant', async () => {
    const { status } = await fetch(`${leat.url}/console/session`);
    return status === 404;
  });
  assert.equal(await publish(), 202);
  assert.match(
    await run('doctor'),
    new RegExp(
      `^warn +hosts +clients use 127\\.0\\.0\\.1:${port}, the domain of no tenant: main serves them\\n +→ let them use the domain of their tenant: leat\\.example\\.com, acme\\.example\\.com$`,
      'm',
    ),
  );

  await leat.stop();
  const strict = await startLeat(tempStore, { ...settings, LEAT_UNKNOWN_HOST: 'refuse' }).then(
    async (started) => {
      await started.kill();
      return undefined;
    },
    (error: unknown) => String(error),
  );
  assert.match(strict ?? '', /no tenant has the host 127\.0\.0\.1/);
});

test('the command line says of an unknown host that a domain of a tenant is needed', async (t) => {
  const tempStore = await createTempStore();
  t.after(() => tempStore.remove());
  const port = await freePort();
  const settings = {
    LEAT_PORT: String(port),
    LEAT_TENANT_DOMAIN: `127.0.0.1:${port}`,
    LEAT_UNKNOWN_HOST: 'refuse',
  };
  const leat = await startLeat(tempStore, settings);
  t.after(() => leat.kill());
  const env = { ...storeEnvironment(tempStore), ...settings };
  const added = await runLeat(['tenants', 'create', 'acme', 'acme.example.com'], env);
  assert.equal(added.code, 0, added.output);
  const client = { LEAT_CLIENT_ID: bootstrapClient.id, LEAT_CLIENT_SECRET: bootstrapClient.secret };
  const list = (): ReturnType<typeof runLeat> =>
    runLeat(['streams', 'list'], { LEAT_URL: `http://localhost:${port}`, ...client });
  const refused = await waitFor('the directory to have the tenant', async () => {
    const ended = await list();
    return ended.code === 0 ? undefined : ended;
  });
  assert.equal(refused.code, 4);
  assert.match(refused.output, new RegExp(`no tenant has the host localhost:${port}`));
  assert.match(refused.output, /leat login https:\/\/<domain>/);
  assert.doesNotMatch(refused.output, /older Leat/);
});
