import assert from 'node:assert/strict';
import { once } from 'node:events';
import { describe, test, type TestContext } from 'node:test';
import { query, sharedPostgres } from '../helpers/postgres.ts';
import {
  freePort,
  createTempStore,
  runLeat,
  secretKey,
  spawnLeat,
  startLeat,
  waitFor,
  type Running,
} from '../helpers/leat.ts';
import { createStream, publish, startCountingReceiver } from '../helpers/traffic.ts';

/** `leat tenants delete` as a process, with running servers. */

for (const engine of ['SQLite', 'PostgreSQL'] as const) {
  describe(`leat tenants delete with a server on ${engine}`, () => {
    test(
      'the tenant is removed, and delivery of other tenants continues',
      { tags: ['long'] },
      async (t) => {
        const fixture = await start(t, engine);
        const { leat, run, two } = fixture;
        const receiver = await startCountingReceiver(t);
        await createStream(leat, receiver.url, 'main');
        assert.equal((await two.send('POST', '/api/v2/events', manyEvents)).status, 202);
        const deleting = run('tenants', 'delete', 'two', '--yes', 'two');
        const ids: string[] = [];
        for (let count = 0; count < 20; count += 1) ids.push(...(await publish(leat, 1)));
        const { code, output } = await deleting;
        assert.equal(code, 0, output);
        assert.match(output, /Deleted two: \d[\d,]* rows were removed\.\n$/);
        assert.equal(ids.length, 20);
        await receiver.waitForAll('events published during the deletion', ['main'], ids);
        // The one remaining tenant responds under any host name; it does not know the token.
        const refused = await two.send('POST', '/api/v2/events', manyEvents);
        assert.ok([401, 404].includes(refused.status), `${refused.status}: ${refused.text}`);
        assert.doesNotMatch((await run('tenants', 'list')).output, /two/);
      },
    );

    test(
      'a deletion interrupted by kill -9 resumes at the next start',
      { tags: ['long'] },
      async (t) => {
        const fixture = await start(t, engine);
        const { leat, run, two, spawn, isBeingDeleted } = fixture;
        for (let count = 0; count < 20; count += 1) {
          assert.equal((await two.send('POST', '/api/v2/events', manyEvents)).status, 202);
        }
        const { child } = spawn('tenants', 'delete', 'two', '--yes', 'two');
        const ended = once(child, 'close');
        await waitFor('the deletion to begin', async () => {
          const refused = await two.send('POST', '/api/v2/events', manyEvents);
          return refused.status !== 202;
        });
        await leat.kill();
        child.kill('SIGKILL');
        await ended;
        if (!(await isBeingDeleted()))
          return t.diagnostic('the machine was too fast: the deletion was complete');
        const again = await fixture.restart();
        await waitFor(
          'the next start to complete the deletion',
          async () => !(await isBeingDeleted()),
        );
        assert.equal((await again.send('GET', '/readyz')).status, 200);
        const gone = await run('tenants', 'delete', 'two', '--yes', 'two');
        assert.equal(gone.code, 1);
        assert.match(gone.output, /^No tenant is called "two": leat tenants list shows them\.\n$/);
      },
    );
  });
}

test(
  'leat tenants delete: the name must be confirmed, and the first tenant cannot be deleted',
  { tags: ['long'] },
  async (t) => {
    const { run } = await start(t, 'SQLite');
    for (const [words, code, text] of [
      [['two'], 2, /^This is no terminal to confirm on: leat tenants delete two --yes two/],
      [['two', '--yes', 'main'], 2, /^That is not two: nothing was deleted\.\n$/],
      [['main', '--yes', 'main'], 1, /^"main" is the first tenant/],
      [['three', '--yes', 'three'], 1, /^No tenant is called "three"/],
    ] as const) {
      const result = await run('tenants', 'delete', ...words);
      assert.equal(result.code, code, result.output);
      assert.match(result.output, text);
    }
    assert.match((await run('tenants', 'list')).output, /main.*\ntwo/);
  },
);

const manyEvents = Array.from({ length: 100 }, () => ({
  type: 'order.paid',
  data: { object: { text: 'x'.repeat(2000) } },
}));

async function start(t: TestContext, engine: 'SQLite' | 'PostgreSQL') {
  const tempStore = await createTempStore();
  t.after(() => tempStore.remove());
  const store = engine === 'SQLite' ? `sqlite:${tempStore.file}` : await postgresStore(t);
  const port = await freePort();
  const settings = {
    LEAT_STORE: store,
    LEAT_TRUST_PROXY: '127.0.0.1',
    LEAT_PORT: String(port),
    // With two tenants, each has its own host.
    LEAT_TENANT_DOMAIN: `127.0.0.1:${port}`,
  };
  let leat = await startLeat(tempStore, settings);
  t.after(() => leat.kill());
  const env = { LEAT_STORE: store, LEAT_SECRET_KEY: secretKey.toString('base64') };
  const run = (...words: string[]) => runLeat(words, env);
  const created = await run('tenants', 'create', 'two', 'two.test');
  assert.equal(created.code, 0, created.output);
  return {
    leat,
    run,
    spawn: (...words: string[]) => spawnLeat(words, env),
    two: await clientOf(leat, 'two.test', created.output),
    restart: async () => (leat = await startLeat(tempStore, settings)),
    /** Returns whether the store has a tenant that is being deleted. */
    isBeingDeleted: async () =>
      engine === 'SQLite'
        ? /is being deleted/.test((await run('tenants', 'list')).output)
        : (await query(store, 'select 1 from leaving_tenants')).length > 0,
  };
}

async function postgresStore(t: TestContext): Promise<string> {
  const server = await sharedPostgres();
  const url = await server.createDatabase();
  t.after(() => server.dropDatabase(url));
  return url;
}

/** Creates a client of another tenant, which the service selects by X-Forwarded-Host. */
async function clientOf(leat: Running, host: string, credentials: string) {
  const id = /id {6}(?<id>\S+)/.exec(credentials)?.groups?.['id'] ?? '';
  const secret = /secret {2}(?<secret>\S+)/.exec(credentials)?.groups?.['secret'] ?? '';
  const send = async (
    method: string,
    path: string,
    body: unknown,
    token?: string,
  ): Promise<{ status: number; text: string }> => {
    const response = await fetch(leat.url + path, {
      method,
      headers: {
        'content-type': 'application/json',
        'x-forwarded-host': host,
        'x-forwarded-proto': 'https',
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      },
      body: JSON.stringify(body),
    });
    return { status: response.status, text: await response.text() };
  };
  const tokenResponse = await send('POST', '/oauth/token', {
    grant_type: 'client_credentials',
    audience: '/api/v2/',
    client_id: id,
    client_secret: secret,
  });
  const token = String(Object(JSON.parse(tokenResponse.text))['access_token']);
  return { send: (method: string, path: string, body: unknown) => send(method, path, body, token) };
}
