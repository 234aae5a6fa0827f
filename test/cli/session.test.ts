import assert from 'node:assert/strict';
import { once } from 'node:events';
import { chmod, mkdir, readFile, stat, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { dirname, join } from 'node:path';
import { after, before, describe, test, type TestContext } from 'node:test';
import { bootstrapClient, end, freePort, spawnLeat, waitFor } from '../helpers/leat.ts';
import { logIn, openServer, openShell, type Shell } from './shell.ts';

describe('leat login', { concurrency: 2 }, () => {
  let leat: Awaited<ReturnType<typeof openServer>>;
  before(async () => {
    leat = await openServer();
  });
  after(() => leat.close());

  test('leat login: stores the credentials in a file that only their owner can read', async (t) => {
    const shell = await openShell(t);
    const { code, stdout, stderr } = await logIn(shell, leat);
    assert.equal(code, 0, stderr);
    assert.match(stdout, new RegExp(`^Logged in to ${leat.url} as operator; stored in `));
    assert.equal((await stat(shell.credentials)).mode & 0o777, 0o600);
    assert.equal((await stat(dirname(shell.credentials))).mode & 0o777, 0o700);
    assert.ok(!`${stdout}${stderr}`.includes(bootstrapClient.secret));
    const list = await shell.leat(['streams', 'list', '--json']);
    assert.deepEqual([list.code, list.stdout, list.stderr], [0, '[]\n', '']);
  });

  test('leat login: reuses the token until it nearly expires, and requests a new one when it is rejected', async (t) => {
    const shell = await openShell(t);
    await logIn(shell, leat);
    const storedToken = async () => (await storedIn(shell)).profiles['default']?.token.value ?? '';
    const first = await storedToken();
    assert.equal((await shell.leat(['streams', 'list'])).code, 0);
    assert.equal(await storedToken(), first);
    const profiles = await storedIn(shell);
    assert.ok(profiles.profiles['default']);
    profiles.profiles['default'].token.value = `${first.slice(0, -8)}AAAAAAAA`;
    await writeFile(shell.credentials, JSON.stringify(profiles));
    const { code, stderr } = await shell.leat(['streams', 'list']);
    assert.equal(code, 0, stderr);
    assert.notEqual(await storedToken(), `${first.slice(0, -8)}AAAAAAAA`);
  });

  test('leat login: reads the secret from a file or the environment', async (t) => {
    const shell = await openShell(t);
    const file = `${shell.home}/secret.txt`;
    await writeFile(file, `${bootstrapClient.secret}\n`);
    const words = ['login', leat.url, '--client-id', bootstrapClient.id];
    const fromFile = await shell.leat([...words, '--client-secret-file', file]);
    assert.equal(fromFile.code, 0, fromFile.stderr);
    const env = { LEAT_CLIENT_ID: bootstrapClient.id, LEAT_CLIENT_SECRET: bootstrapClient.secret };
    const fromEnv = await shell.leat(['login', `${leat.url}/api/v2/`], { env });
    assert.equal(fromEnv.code, 0, fromEnv.stderr);
    const missing = await shell.leat([...words, '--client-secret-file', '/no/such/file']);
    assert.equal(missing.code, 2);
    assert.equal(missing.stderr, '--client-secret-file: /no/such/file cannot be read (ENOENT).\n');
  });

  test('leat login: takes id and secret from a file as a first start writes it', async (t) => {
    const shell = await openShell(t);
    const file = join(shell.home, 'bootstrap.json');
    const { id, secret } = bootstrapClient;
    const words = ['login', leat.url, '--credentials-file', file];
    await writeFile(file, JSON.stringify({ client_id: id, client_secret: secret }));
    const { code, stdout, stderr } = await shell.leat(words);
    assert.equal(code, 0, stderr);
    assert.match(stdout, new RegExp(`^Logged in to ${leat.url} as ${id};`));

    const both = await shell.leat([...words, '--client-id', id]);
    assert.equal(both.code, 2);
    assert.match(both.stderr, /^Choose one of --credentials-file and --client-id/);
    for (const text of ['{}', '"text"', '{"client_id": "", "client_secret": "s"}', 'secret']) {
      await writeFile(file, text);
      const refused = await shell.leat(words);
      assert.equal(refused.code, 2);
      assert.match(refused.stderr, /^--credentials-file: \S+ has no client_id and client_secret;/);
    }
  });

  test('leat login: stores several logins by name, and removes one or all', async (t) => {
    const shell = await openShell(t);
    const words = ['login', leat.url, '--client-id', bootstrapClient.id, '--profile', 'live'];
    const named = await shell.leat(words, { input: bootstrapClient.secret });
    assert.equal(named.code, 0, named.stderr);
    const other = await shell.leat(['streams', 'list']);
    assert.equal(other.code, 3);
    assert.match(other.stderr, /No login is called "default" \(there is live\)/);
    assert.equal((await shell.leat(['streams', 'list', '--profile', 'live'])).code, 0);
    await logIn(shell, leat);
    const out = await shell.leat(['logout', '--profile', 'live']);
    assert.deepEqual([out.code, out.stdout], [0, 'Logged out (live).\n']);
    assert.deepEqual(Object.keys((await storedIn(shell)).profiles), ['default']);
    assert.equal((await shell.leat(['logout', '--all'])).code, 0);
    assert.deepEqual((await storedIn(shell)).profiles, {});
  });

  test('leat login: says that it replaces a login for another server', async (t) => {
    const shell = await openShell(t);
    const { port } = new URL(leat.url);
    assert.doesNotMatch(
      (await logIn(shell, { url: `http://localhost:${port}` })).stderr,
      /replaces/,
    );
    const { stderr } = await logIn(shell, { url: `http://127.0.0.1:${port}` });
    assert.match(
      stderr,
      new RegExp(
        `^It replaces the login for http://localhost:${port}: --profile <name> keeps several\\.$`,
        'm',
      ),
    );
    assert.doesNotMatch(
      (await logIn(shell, { url: `http://127.0.0.1:${port}` })).stderr,
      /replaces/,
    );
  });

  test('leat login: rejects a wrong secret with code 3 and stores nothing', async (t) => {
    const shell = await openShell(t);
    const words = ['login', leat.url, '--client-id', bootstrapClient.id];
    const { code, stderr } = await shell.leat(words, { input: 'not-the-secret' });
    assert.equal(code, 3);
    assert.match(stderr, /refuses client operator: check its id and secret/);
    assert.equal((await shell.leat(['streams', 'list'])).code, 3);
    await assert.rejects(stat(shell.credentials), { code: 'ENOENT' });
  });

  test('leat login: rejects an empty secret, a missing id and an invalid address with code 2', async (t) => {
    const shell = await openShell(t);
    const empty = await shell.leat(['login', leat.url, '--client-id', 'a']);
    assert.deepEqual([empty.code, empty.stderr.includes('The secret is empty')], [2, true]);
    const nobody = await shell.leat(['login', leat.url]);
    assert.deepEqual([nobody.code, nobody.stderr.includes('--client-id')], [2, true]);
    for (const url of ['localhost:8080', 'ftp://a', 'https://a/b', 'http://u:p@a', 'x']) {
      const { code, stderr } = await shell.leat(['login', url, '--client-id', 'a']);
      assert.equal(code, 2, url);
      assert.match(stderr, /is not the address of a server, for example http:\/\/localhost:8080/);
      assert.ok(!stderr.includes('u:p'), stderr);
    }
  });
});

describe('a command without a usable login', { concurrency: 2 }, () => {
  test('a command without a login: prints how to log in', async (t) => {
    const shell = await openShell(t);
    const { code, stdout, stderr } = await shell.leat(['streams', 'list']);
    assert.deepEqual([code, stdout], [3, '']);
    assert.equal(stderr, 'Not logged in: run `leat login http://localhost:8080`.\n');
  });

  test('a command without a login: rejects a credentials file that others can read or that holds something else', async (t) => {
    const shell = await openShell(t);
    await shell.leat(['login', `http://127.0.0.1:${await freePort()}`, '--client-id', 'a'], {
      input: 'b',
    });
    await mkdir(dirname(shell.credentials), { recursive: true });
    await writeFile(shell.credentials, '{"version": 1, "profiles": {}}', { mode: 0o644 });
    const open = await shell.leat(['streams', 'list']);
    assert.equal(open.code, 3);
    assert.match(open.stderr, /open to others \(mode 0644\): .* run `chmod 600 /);
    await chmod(shell.credentials, 0o600);
    for (const text of ['no json', '{}', '{"version": 2}', '{"version":1,"profiles":{"a":{}}}']) {
      await writeFile(shell.credentials, text);
      const other = await shell.leat(['streams', 'list']);
      assert.equal(other.code, 1, text);
      assert.match(other.stderr, /is not what a login writes: remove it and log in again/);
    }
  });

  test(
    'a command without a login: uses only the environment when that names server, client and secret',
    { tags: ['long'] },
    async (t) => {
      const leat = await openServer();
      t.after(() => leat.close());
      const shell = await openShell(t);
      const env = {
        LEAT_URL: leat.url.replace('127.0.0.1', 'localhost'),
        LEAT_CLIENT_ID: bootstrapClient.id,
        LEAT_CLIENT_SECRET: bootstrapClient.secret,
      };
      const { code, stdout, stderr } = await shell.leat(['streams', 'list', '--json'], { env });
      assert.deepEqual([code, stdout], [0, '[]\n'], stderr);
      await assert.rejects(stat(shell.credentials), { code: 'ENOENT' });
      const half = await shell.leat(['streams', 'list'], { env: { LEAT_CLIENT_ID: 'a' } });
      assert.deepEqual([half.code, half.stderr.includes('together, or none')], [2, true]);
      const elsewhere = await shell.leat(['streams', 'list'], { env: { LEAT_URL: leat.url } });
      assert.equal(elsewhere.code, 3);
      assert.match(elsewhere.stderr, /^Not logged in to http:\/\/127/);
    },
  );

  test(
    'leat login: a name below localhost is this machine, without a resolver and a warning',
    { tags: ['long'] },
    async (t) => {
      const leat = await openServer();
      t.after(() => leat.close());
      const shell = await openShell(t);
      const url = `http://main.localhost:${leat.port}`;
      const login = await logIn(shell, { url });
      assert.equal(login.code, 0, login.stderr);
      assert.ok(!login.stderr.includes('not encrypted'), login.stderr);
      const env = {
        LEAT_URL: `http://a.b.LOCALHOST.:${leat.port}`,
        LEAT_CLIENT_ID: bootstrapClient.id,
        LEAT_CLIENT_SECRET: bootstrapClient.secret,
      };
      const fromEnv = await (await openShell(t)).leat(['streams', 'list', '--json'], { env });
      assert.deepEqual([fromEnv.code, fromEnv.stdout, fromEnv.stderr], [0, '[]\n', '']);
      const other = await shell.leat(['login', `http://localhost.example.invalid`], { input: 'b' });
      assert.match(other.stderr, /not encrypted/);
    },
  );

  test('leat login: names the message API, which has no management API', async (t) => {
    const messages = await openMessageApi(t);
    const shell = await openShell(t);
    const { code, stdout, stderr } = await logIn(shell, messages);
    assert.deepEqual([code, stdout], [4, '']);
    assert.equal(
      stderr,
      `${messages.url} is the message API, which has no management API.\nUse the address of the management API; without LEAT_PORT that is http://127.0.0.1:8080\n`,
    );
    const env = { LEAT_URL: messages.url, LEAT_CLIENT_ID: 'a', LEAT_CLIENT_SECRET: 'b' };
    const listed = await shell.leat(['streams', 'list'], { env });
    assert.match(listed.stderr, /is the message API/);
  });

  test(
    'a server that cannot be reached: the error names the login that has its address',
    { tags: ['long'] },
    async (t) => {
      const shell = await openShell(t);
      const own = await openServer();
      await logIn(shell, own);
      await own.close();
      const { code, stderr } = await shell.leat(['streams', 'list']);
      assert.equal(code, 6);
      assert.match(
        stderr,
        /Is the server running\?\nThe address is that of the login "default": leat login <url> stores/,
      );
      const env = { LEAT_URL: own.url, LEAT_CLIENT_ID: 'a', LEAT_CLIENT_SECRET: 'b' };
      const fromEnv = await shell.leat(['streams', 'list'], { env });
      assert.match(fromEnv.stderr, /\nThe address is that of LEAT_URL\.\n$/);
    },
  );

  test('leat login: reports what is wrong with a connection', async (t) => {
    const shell = await openShell(t);
    const port = await freePort();
    const login = (url: string) => shell.leat(['login', url, '--client-id', 'a'], { input: 'b' });
    const refused = await login(`http://127.0.0.1:${port}`);
    assert.equal(refused.code, 6);
    assert.match(refused.stderr, /cannot be reached: nothing listens there .* running\?/);
    const unknown = await login('http://no-such-host.invalid');
    assert.equal(unknown.code, 6);
    assert.match(unknown.stderr, /cannot be reached/);
    const page = createServer((_request, response) => response.end('<html>')).listen(
      0,
      '127.0.0.1',
    );
    await once(page, 'listening');
    t.after(() => page.close());
    const { port: pagePort } = page.address() as { port: number };
    const noToken = await login(`http://127.0.0.1:${pagePort}`);
    assert.equal(noToken.code, 1);
    assert.match(noToken.stderr, /answered without a token: is it the address of a Leat server\?/);
    const scheme = await login(`https://127.0.0.1:${pagePort}`);
    assert.equal(scheme.code, 1);
    assert.match(scheme.stderr, /does not speak HTTPS: check the scheme and the port/);
  });
});

/** Starts the message API alone. */
async function openMessageApi(t: TestContext): Promise<{ readonly url: string }> {
  const port = await freePort();
  const env = {
    CLIENT_ORIGIN_URL: 'https://app.example.com',
    TOKEN_AUDIENCE: 'https://messages.example.com',
    TOKEN_ISSUER_DOMAIN: '127.0.0.1:1',
    PORT: String(port),
  };
  const { child, output } = spawnLeat(['messages'], env, { cwd: (await openShell(t)).home });
  t.after(() => end(child, 'SIGKILL'));
  const url = `http://127.0.0.1:${port}`;
  await waitFor('the message API', () => output().includes(`${url}/api/messages/public`));
  return { url };
}

interface Stored {
  readonly profiles: Record<string, { token: { value: string } }>;
}

async function storedIn(shell: Shell): Promise<Stored> {
  return JSON.parse(await readFile(shell.credentials, 'utf8')) as Stored;
}
