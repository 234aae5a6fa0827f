import assert from 'node:assert/strict';
import { once } from 'node:events';
import { describe, test, type TestContext } from 'node:test';
import { query, sharedPostgres } from '../helpers/postgres.ts';
import {
  freePort,
  makePlace,
  runLeat,
  secretKey,
  spawnLeat,
  startLeat,
  waitFor,
  type Running,
} from '../helpers/leat.ts';
import { createStream, publish, startCountingReceiver } from '../helpers/traffic.ts';

/** `leat tenants delete`, of the real program beside running servers. */

for (const engine of ['SQLite', 'PostgreSQL'] as const) {
  describe(`leat tenants delete beside a server on ${engine}`, () => {
    test('removes a tenant, and the others are undisturbed', async (t) => {
      const scene = await start(t, engine);
      const { leat, run, two } = scene;
      const receiver = await startCountingReceiver(t);
      await createStream(leat, receiver.url, 'main');
      assert.equal((await two.ask('POST', '/api/v2/events', manyEvents)).status, 202);
      const deleting = run('tenants', 'delete', 'two', '--yes', 'two');
      const ids: string[] = [];
      for (let count = 0; count < 20; count += 1) ids.push(...(await publish(leat, 1)));
      const { code, output } = await deleting;
      assert.equal(code, 0, output);
      assert.match(output, /Deleted two: \d[\d,]* rows were removed\.\n$/);
      assert.equal(ids.length, 20);
      await receiver.waitForAll('what was published meanwhile', ['main'], ids);
      // One tenant is left, which answers under any name: it does not know the token.
      const refused = await two.ask('POST', '/api/v2/events', manyEvents);
      assert.ok([401, 404].includes(refused.status), `${refused.status}: ${refused.text}`);
      assert.doesNotMatch((await run('tenants', 'list')).output, /two/);
    });

    test('goes on after a kill -9 in the middle', async (t) => {
      const scene = await start(t, engine);
      const { leat, run, two, spawn, begunIn } = scene;
      for (let count = 0; count < 20; count += 1) {
        assert.equal((await two.ask('POST', '/api/v2/events', manyEvents)).status, 202);
      }
      const { child } = spawn('tenants', 'delete', 'two', '--yes', 'two');
      const ended = once(child, 'close');
      await waitFor('the deletion to begin', async () => {
        const refused = await two.ask('POST', '/api/v2/events', manyEvents);
        return refused.status !== 202;
      });
      await leat.kill();
      child.kill('SIGKILL');
      await ended;
      if (!(await begunIn())) return t.diagnostic('the machine was too fast: all was removed');
      const again = await scene.restart();
      await waitFor('the next start to go on', async () => !(await begunIn()));
      assert.equal((await again.send('GET', '/readyz')).status, 200);
      const gone = await run('tenants', 'delete', 'two', '--yes', 'two');
      assert.equal(gone.code, 1);
      assert.match(gone.output, /^No tenant is called "two": leat tenants list shows them\.\n$/);
    });

    test('wants its name, and spares the first tenant', async (t) => {
      const { run } = await start(t, engine);
      for (const [words, code, said] of [
        [['two'], 2, /^Nobody can be asked here: leat tenants delete two --yes two/],
        [['two', '--yes', 'main'], 2, /^That is not two: nothing was deleted\.\n$/],
        [['main', '--yes', 'main'], 1, /^"main" is the first tenant/],
        [['three', '--yes', 'three'], 1, /^No tenant is called "three"/],
      ] as const) {
        const answer = await run('tenants', 'delete', ...words);
        assert.equal(answer.code, code, answer.output);
        assert.match(answer.output, said);
      }
      assert.match((await run('tenants', 'list')).output, /main.*\ntwo/);
    });
  });
}

const manyEvents = Array.from({ length: 100 }, () => ({
  type: 'order.paid',
  data: { object: { text: 'x'.repeat(2000) } },
}));

async function start(t: TestContext, engine: 'SQLite' | 'PostgreSQL') {
  const place = await makePlace();
  t.after(() => place.remove());
  const store = engine === 'SQLite' ? `sqlite:${place.file}` : await postgresStore(t);
  const port = await freePort();
  const settings = {
    LEAT_STORE: store,
    LEAT_TRUST_PROXY: '127.0.0.1',
    LEAT_PORT: String(port),
    // Of two tenants each one has a host of its own.
    LEAT_TENANT_DOMAIN: `127.0.0.1:${port}`,
  };
  let leat = await startLeat(place, settings);
  t.after(() => leat.kill());
  const env = { LEAT_STORE: store, LEAT_SECRET_KEY: secretKey.toString('base64') };
  const run = (...words: string[]) => runLeat(words, env);
  const made = await run('tenants', 'create', 'two', 'two.test');
  assert.equal(made.code, 0, made.output);
  return {
    leat,
    run,
    spawn: (...words: string[]) => spawnLeat(words, env),
    two: await visitor(leat, 'two.test', made.output),
    restart: async () => (leat = await startLeat(place, settings)),
    /** Whether the store has a tenant that is being deleted. */
    begunIn: async () =>
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

/** A client of another tenant, which is chosen by the host that a proxy tells of. */
async function visitor(leat: Running, host: string, credentials: string) {
  const id = /id {6}(?<id>\S+)/.exec(credentials)?.groups?.['id'] ?? '';
  const secret = /secret {2}(?<secret>\S+)/.exec(credentials)?.groups?.['secret'] ?? '';
  const ask = async (
    method: string,
    path: string,
    body: unknown,
    token?: string,
  ): Promise<{ status: number; text: string }> => {
    const answer = await fetch(leat.url + path, {
      method,
      headers: {
        'content-type': 'application/json',
        'x-forwarded-host': host,
        'x-forwarded-proto': 'https',
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      },
      body: JSON.stringify(body),
    });
    return { status: answer.status, text: await answer.text() };
  };
  const answer = await ask('POST', '/oauth/token', {
    grant_type: 'client_credentials',
    audience: '/api/v2/',
    client_id: id,
    client_secret: secret,
  });
  const token = String(Object(JSON.parse(answer.text))['access_token']);
  return { ask: (method: string, path: string, body: unknown) => ask(method, path, body, token) };
}
