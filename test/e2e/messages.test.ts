import assert from 'node:assert/strict';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import { exchange, requestText } from '../helpers/exchange.ts';
import {
  fetchToken,
  freePort,
  createTempStore,
  runLeat,
  spawnLeat,
  waitFor,
} from '../helpers/leat.ts';

const audience = 'https://messages.example.com';

interface Started {
  readonly child: ChildProcess;
  readonly folder: string;
  readonly url: string;
  readonly messages: string;
  output(): string;
}

/** Runs `leat start` in a fresh folder with its ports and `env` only. */
async function start(
  t: TestContext,
  env: Readonly<Record<string, string>> = {},
  folder?: string,
): Promise<Started> {
  const cwd = folder ?? (await freshFolder(t));
  const ports = { LEAT_PORT: String(await freePort()), PORT: String(await freePort()) };
  const { child, output } = spawnLeat(['start'], { ...ports, ...env }, { cwd });
  t.after(() => child.kill('SIGKILL'));
  await waitFor('the welcome', () => {
    assert.equal(child.exitCode, null, output());
    return output().includes('Ctrl-C ends it');
  });
  const url = `http://127.0.0.1:${ports.LEAT_PORT}`;
  return { child, folder: cwd, url, messages: `http://127.0.0.1:${ports.PORT}`, output };
}

async function freshFolder(t: TestContext): Promise<string> {
  const tempStore = await createTempStore();
  t.after(tempStore.remove);
  return tempStore.folder;
}

/** Returns a token of the sample client that the first start created. */
async function sampleToken({ url, folder }: Started): Promise<string> {
  const text = await readFile(join(folder, 'leat', 'bootstrap.json'), 'utf8');
  const { messages_sample: sample } = JSON.parse(text) as Record<string, Record<string, string>>;
  const { client_id: id = '', client_secret: secret = '' } = sample ?? {};
  return fetchToken(url, { id, secret }, audience);
}

async function statuses(messages: string, token?: string): Promise<number[]> {
  const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
  const paths = ['public', 'protected', 'admin'].map((name) => `/api/messages/${name}`);
  const responses = await Promise.all(paths.map((path) => fetch(messages + path, { headers })));
  return responses.map(({ status }) => status);
}

/** Returns the environment of the only child of a process (Linux). */
function childEnvironment({ pid = 0 }: ChildProcess): ReadonlyMap<string, string> {
  const [child = '', ...others] = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8')
    .trim()
    .split(' ');
  assert.deepEqual(others, []);
  const lines = readFileSync(`/proc/${child}/environ`, 'utf8').split('\0');
  return new Map(
    lines.slice(0, -1).map((line) => {
      const at = line.indexOf('=');
      return [line.slice(0, at), line.slice(at + 1)] as const;
    }),
  );
}

async function take(t: TestContext): Promise<{ server: Server; port: number }> {
  const port = await freePort();
  const server = createServer().listen(port, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  return { server, port };
}

async function isGone(url: string): Promise<void> {
  await waitFor(`${url} to be gone`, async () => {
    const response = await fetch(url).catch(() => undefined);
    return response === undefined;
  });
}

test(
  'the message process gets no secret and no setting of the service in its environment',
  { tags: ['long'], skip: process.platform === 'linux' ? false : 'reads /proc' },
  async (t) => {
    const secrets = {
      LEAT_SECRET_KEY: Buffer.alloc(32, 9).toString('base64'),
      LEAT_BOOTSTRAP_CLIENT_ID: 'operator',
      LEAT_BOOTSTRAP_CLIENT_SECRET: 'a-secret-of-the-operator',
      LEAT_STORE: 'sqlite:./leat.db',
      LEAT_SMTP_URL: 'smtp://user:password@localhost',
      LEAT_ALERT_EMAIL: 'ops@example.com',
      LEAT_ALERT_WEBHOOK_URL: 'http://localhost/secret-path',
      TOKEN_AUDIENCE: audience,
      CLIENT_ORIGIN_URL: 'http://localhost:4040',
      DATABASE_URL: 'postgres://user:password@localhost/leat',
      PGPASSWORD: 'password',
      AWS_SECRET_ACCESS_KEY: 'secret',
      NODE_AUTH_TOKEN: 'npm_secret',
      HOME: '/root',
    };
    const needed = {
      NODE_OPTIONS: '--no-deprecation',
      NODE_EXTRA_CA_CERTS: '/dev/null',
      NODE_USE_ENV_PROXY: '0',
      https_proxy: 'http://127.0.0.1:1',
      TZ: 'Asia/Tokyo',
    };
    const started = await start(t, { ...secrets, ...needed });
    const environment = childEnvironment(started.child);
    const { NODE_CHANNEL_FD, NODE_CHANNEL_SERIALIZATION_MODE, NODE_COMPILE_CACHE, ...rest } =
      Object.fromEntries(environment);
    assert.ok(
      [NODE_CHANNEL_FD, NODE_CHANNEL_SERIALIZATION_MODE, NODE_COMPILE_CACHE].every(Boolean),
    );
    assert.deepEqual(rest, needed);
    const token = await fetchToken(
      started.url,
      { id: secrets.LEAT_BOOTSTRAP_CLIENT_ID, secret: secrets.LEAT_BOOTSTRAP_CLIENT_SECRET },
      '/api/v2/',
    );
    assert.deepEqual(await statuses(started.messages, token), [200, 401, 401]);
  },
);

describe('leat start without settings', () => {
  test(
    'leat start without settings runs both APIs, and the sample client reads all three messages',
    { tags: ['long'] },
    async (t) => {
      const leat = await start(t);
      const token = await sampleToken(leat);
      assert.deepEqual(await statuses(leat.messages, token), [200, 200, 200]);
      assert.deepEqual(await statuses(leat.messages), [200, 401, 401]);
      assert.ok(leat.output().includes(`${leat.messages}/api/messages/public`));

      const page = await fetch(`${leat.messages}/api/messages/public`);
      assert.equal(page.headers.get('access-control-allow-origin'), 'http://localhost:4040');

      const text = await readFile(join(leat.folder, 'leat', 'bootstrap.json'), 'utf8');
      const { client_id: id = '', client_secret: secret = '' } = JSON.parse(text) as Record<
        string,
        string
      >;
      const management = await fetchToken(leat.url, { id, secret });
      assert.deepEqual(await statuses(leat.messages, management), [200, 401, 401]);
    },
  );

  test(
    'leat start without settings: a client without the role reads the protected message only',
    { tags: ['long'] },
    async (t) => {
      const leat = await start(t);
      const text = await readFile(join(leat.folder, 'leat', 'bootstrap.json'), 'utf8');
      const created = JSON.parse(text) as { client_id: string; client_secret: string };
      const manager = await fetchToken(leat.url, {
        id: created.client_id,
        secret: created.client_secret,
      });
      const post = async (path: string, body: object): Promise<Record<string, string>> => {
        const response = await fetch(`${leat.url}/api/v2${path}`, {
          method: 'POST',
          headers: { authorization: `Bearer ${manager}`, 'content-type': 'application/json' },
          body: JSON.stringify(body),
        });
        assert.equal(response.status, 201, path);
        return (await response.json()) as Record<string, string>;
      };
      const { client_id: id = '', client_secret: secret = '' } = await post('/clients', {
        name: 'x',
      });
      await post('/client-grants', { client_id: id, audience, scope: [] });
      const token = await fetchToken(leat.url, { id, secret }, audience);
      assert.deepEqual(await statuses(leat.messages, token), [200, 200, 403]);
    },
  );

  test(
    'leat start with several tenants uses the keys of the first one',
    { tags: ['long'] },
    async (t) => {
      const folder = await freshFolder(t);
      const domain = { LEAT_TENANT_DOMAIN: 'leat.example.com', LEAT_TRUST_PROXY: '127.0.0.1' };
      const first = await start(t, domain, folder);
      const ended = once(first.child, 'close');
      first.child.kill('SIGINT');
      await ended;
      const created = await runLeat(['tenants', 'create', 'other', 'other.example.com'], domain, {
        cwd: folder,
      });
      assert.equal(created.code, 0, created.output);

      const leat = await start(t, domain, folder);
      const text = await readFile(join(folder, 'leat', 'bootstrap.json'), 'utf8');
      const { messages_sample: sample } = JSON.parse(text) as Record<
        string,
        Record<string, string>
      >;
      const body = JSON.stringify({ grant_type: 'client_credentials', audience, ...sample });
      const headers = ['Content-Type: application/json', `Content-Length: ${body.length}`];
      const request = requestText('POST /oauth/token', headers, body);
      const response = await exchange(
        Number(new URL(leat.url).port),
        request.replace('Host: 127.0.0.1', 'Host: leat.example.com'),
      );
      const { access_token: token } = JSON.parse(response.body) as { access_token: string };
      assert.deepEqual(await statuses(leat.messages, token), [200, 200, 200]);
    },
  );

  test('leat start accepts tokens of another authorization server when it is configured', async (t) => {
    const { port } = await take(t);
    const leat = await start(t, { TOKEN_ISSUER_DOMAIN: `127.0.0.1:${port}` });
    assert.deepEqual(await statuses(leat.messages, await sampleToken(leat)), [200, 401, 401]);
  });
});

describe('leat start when a port is taken', () => {
  test('leat start when a port is taken runs no API, names the variable to change, and creates nothing', async (t) => {
    const folder = await freshFolder(t);
    const { port: taken } = await take(t);
    const free = await freePort();
    const env = { LEAT_PORT: String(free), PORT: String(taken) };
    const { code, output } = await runLeat(['start'], env, { cwd: folder });
    assert.equal(code, 1);
    const next = taken === 65_535 ? 8080 : taken + 1;
    assert.equal(
      output,
      `PORT: ${taken} on 127.0.0.1 is in use, choose another, for example PORT=${next}\n`,
    );
    assert.deepEqual(readdirSync(folder), []);
    await isGone(`http://127.0.0.1:${free}/readyz`);
  });

  test('leat start ends the message API when the management API cannot start', async (t) => {
    const folder = await freshFolder(t);
    const { port: taken } = await take(t);
    const free = await freePort();
    const env = { LEAT_PORT: String(taken), PORT: String(free) };
    const { code, output } = await runLeat(['start'], env, { cwd: folder });
    assert.equal(code, 1);
    assert.match(output, new RegExp(`^LEAT_PORT: ${taken} on 127\\.0\\.0\\.1 is in use`, 'm'));
    await isGone(`http://127.0.0.1:${free}/api/messages/public`);
  });

  test('leat start refuses the same port for both APIs', async (t) => {
    const folder = await freshFolder(t);
    const env = { LEAT_PORT: '6060', APP_PORT: '6060' };
    const { code, output } = await runLeat(['start'], env, { cwd: folder });
    assert.equal(code, 1);
    const line = 'APP_PORT: 6060 is LEAT_PORT too, choose another, for example APP_PORT=6061\n';
    assert.equal(output, line);
  });
});

/** Only Linux lists the children of a process in a file. */
const onLinux = { skip: process.platform !== 'linux' && 'needs /proc' };

function secondOf({ child }: Started): number {
  const pid = String(child.pid);
  return Number(readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim());
}

describe('the two processes of leat start', () => {
  test('both processes end on a signal, with exit code 0', { tags: ['long'] }, async (t) => {
    for (const signal of ['SIGINT', 'SIGTERM'] as const) {
      const leat = await start(t);
      const ended = once(leat.child, 'close');
      leat.child.kill(signal);
      assert.deepEqual(await ended, [0, null], leat.output());
      await isGone(`${leat.messages}/api/messages/public`);
    }
  });

  test(
    'both processes end when a terminal sends its signal to both',
    { ...onLinux, tags: ['long'] },
    async (t) => {
      const leat = await start(t);
      const ended = once(leat.child, 'close');
      process.kill(secondOf(leat), 'SIGINT');
      process.kill(secondOf(leat), 'SIGTERM');
      assert.deepEqual(await statuses(leat.messages), [200, 401, 401]);
      leat.child.kill('SIGINT');
      assert.deepEqual(await ended, [0, null], leat.output());
    },
  );

  test(
    'the second process ends with the first, even after kill -9',
    { tags: ['long'] },
    async (t) => {
      const leat = await start(t);
      leat.child.kill('SIGKILL');
      await isGone(`${leat.messages}/api/messages/public`);
    },
  );

  test(
    'the first process ends with one line when the second has ended',
    { ...onLinux, tags: ['long'] },
    async (t) => {
      const leat = await start(t);
      const ended = once(leat.child, 'close');
      process.kill(secondOf(leat), 'SIGKILL');
      assert.deepEqual(await ended, [1, null]);
      assert.match(leat.output(), /the message API has ended unexpectedly: SIGKILL/);
    },
  );
});

describe('leat messages', () => {
  const whole = {
    CLIENT_ORIGIN_URL: 'https://app.example.com',
    TOKEN_AUDIENCE: audience,
    TOKEN_ISSUER_DOMAIN: '127.0.0.1:1',
  };

  test('leat messages runs alone, with a .env file that the environment overrides', async (t) => {
    const folder = await freshFolder(t);
    const port = await freePort();
    const lines = Object.entries({ ...whole, PORT: '1' }).map(([name, text]) => `${name}=${text}`);
    await writeFile(join(folder, '.env'), lines.join('\n'));
    const { child, output } = spawnLeat(['messages'], { PORT: String(port) }, { cwd: folder });
    t.after(() => child.kill('SIGKILL'));
    const url = `http://127.0.0.1:${port}/api/messages/public`;
    await waitFor('the message API', () => output().includes(url));
    const response = await fetch(url);
    assert.equal(response.status, 200);
    assert.equal(response.headers.get('access-control-allow-origin'), whole.CLIENT_ORIGIN_URL);
    assert.deepEqual(readdirSync(folder), ['.env'], 'it keeps nothing');
    const ended = once(child, 'close');
    child.kill('SIGTERM');
    assert.deepEqual(await ended, [0, null]);
  });

  test('leat messages fails with a line for each missing or wrong variable', async (t) => {
    const folder = await freshFolder(t);
    const bare = await runLeat(['messages'], {}, { cwd: folder });
    assert.equal(bare.code, 1);
    assert.deepEqual(
      bare.output
        .trim()
        .split('\n')
        .map((line) => line.replace(/ is required.*/, '')),
      ['PORT:', 'CLIENT_ORIGIN_URL:', 'TOKEN_AUDIENCE:', 'TOKEN_ISSUER_DOMAIN:'],
    );
    const wrong = await runLeat(['messages'], { ...whole, PORT: '80a' }, { cwd: folder });
    assert.equal(wrong.code, 1);
    const line = 'PORT: "80a" is not a whole number from 1 to 65535, for example PORT=6060\n';
    assert.equal(wrong.output, line);
  });

  test('leat messages fails with a line when its port is taken', async (t) => {
    const folder = await freshFolder(t);
    const { port } = await take(t);
    const env = { ...whole, APP_PORT: String(port) };
    const { code, output } = await runLeat(['messages'], env, { cwd: folder });
    assert.equal(code, 1);
    assert.match(output, new RegExp(`^APP_PORT: ${port} on 127\\.0\\.0\\.1 is in use, .*\n$`));
  });

  test('leat messages does not read the settings of the service', async (t) => {
    const folder = await freshFolder(t);
    const port = await freePort();
    const env = { ...whole, PORT: String(port), LEAT_STORE: 'nonsense', LEAT_PORT: 'nonsense' };
    const { child, output } = spawnLeat(['messages'], env, { cwd: folder });
    t.after(() => child.kill('SIGKILL'));
    await waitFor('the message API', () => output().includes(`:${port}/api/messages/public`));
    assert.equal(child.exitCode, null);
  });
});
