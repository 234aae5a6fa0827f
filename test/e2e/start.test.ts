import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readFile, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import { openShell, type Shell } from '../cli/shell.ts';
import { endWithProcess } from '../helpers/children.ts';
import {
  compileCache,
  createTempStore,
  end,
  fetchToken,
  freePort,
  leatProgram,
  runLeat,
  spawnLeat,
  waitFor,
} from '../helpers/leat.ts';

/** That of util-linux, which takes a command; others do not know the option. */
const hasScript = spawnSync('script', ['--version']).status === 0;

describe('what leat start prints', { concurrency: 2 }, () => {
  test(
    'leat start: three lines of the first start deliver an event, pasted into sh; later starts print addresses alone',
    { tags: ['long'] },
    async (t) => {
      const { start, file, shell } = await fresh(t);
      const first = await start();
      const { id, secret } = await credentialsIn(file);
      const data = `  data             ${dirname(file)}\n`;
      for (const text of [`${first.url}/api/v2`, `${first.url}/docs`, file, data]) {
        assert.ok(first.output.includes(text), `${text} is not in:\n${first.output}`);
      }
      assert.ok(!first.output.includes(secret), 'the secret is in the file only');
      assert.doesNotMatch(first.output, /[<…]|example\.com/);
      const consoleUrl = `http://localhost:${new URL(first.url).port}/console/`;
      assert.match(
        first.output,
        new RegExp(` is up\\.\n  console {10}${consoleUrl}\n.*leat console`),
      );
      assert.ok(!first.output.includes('code='), 'a link that signs in is for terminals only');
      await assertDelivers(shell, linesIn(first.output));
      assert.equal(await first.end(), 0);

      const second = await start();
      assert.ok(!second.output.includes(file), 'the client is printed once');
      assert.deepEqual(linesIn(second.output), []);
      assert.ok(second.output.slice(second.output.indexOf('is up')).split('\n').length <= 13);
      assert.ok((await fetchToken(second.url, { id, secret })).length > 0);
      assert.equal(await second.end(), 0);
    },
  );

  test(
    'leat start: with LEAT_TLS=local the three lines trust the authority of the service',
    { tags: ['long'] },
    async (t) => {
      const { start, shell } = await fresh(t);
      const { output, end: stop } = await start({ LEAT_TLS: 'local' });
      await assertDelivers(shell, linesIn(output));
      assert.equal(await stop(), 0);
    },
  );

  test(
    'leat tenants bootstrap: bootstrap.json has the new client, and a login with the former one names the cause',
    { tags: ['long'] },
    async (t) => {
      const { start, file, shell, env } = await fresh(t);
      const { url } = await start();
      const former = await readFile(file, 'utf8');
      const { LEAT_STORE = '' } = await env();
      const words = ['tenants', 'bootstrap', 'main'];
      const renewed = await runLeat(words, { LEAT_STORE });
      assert.match(
        renewed.output,
        /^The secret of the former bootstrap client of main has stopped/,
      );
      assert.ok(renewed.output.includes(`\n${file} has it, too: log in again`), renewed.output);

      const logIn = ['login', url, '--credentials-file'];
      const { code, stderr } = await shell.leat([...logIn, file]);
      assert.equal(code, 0, stderr);
      const text = await readFile(file, 'utf8');
      assert.ok(renewed.output.includes((await credentialsIn(file)).secret));
      assert.deepEqual(sampleIn(text), sampleIn(former));
      assert.equal((await stat(file)).mode & 0o777, 0o600);

      const old = join(shell.home, 'former.json');
      await writeFile(old, former);
      const refused = await shell.leat([...logIn, old]);
      assert.equal(refused.code, 3);
      assert.match(refused.stderr, /\nThe file may be of a former client: leat tenants bootstrap/);
    },
  );

  test(
    'leat tenants bootstrap: of another tenant leaves bootstrap.json as it is',
    { tags: ['long'] },
    async (t) => {
      const { start, file, env } = await fresh(t);
      await start();
      const former = await readFile(file, 'utf8');
      const { LEAT_STORE = '' } = await env();
      await runLeat(['tenants', 'create', 'two', 'two.test'], { LEAT_STORE });
      const { code, output } = await runLeat(['tenants', 'bootstrap', 'two'], { LEAT_STORE });
      assert.equal(code, 0, output);
      assert.doesNotMatch(output, /bootstrap\.json/);
      assert.equal(await readFile(file, 'utf8'), former);
    },
  );

  test(
    'leat start: a second start on the same file names the running server, also with its ports',
    { tags: ['long'] },
    async (t) => {
      const { start, env } = await fresh(t);
      const ports = await env();
      await start(ports);
      for (const settings of [ports, await env()]) {
        const { code, output } = await runLeat(['start'], settings);
        assert.equal(code, 1);
        assert.match(output, /^LEAT_STORE: Leat is already running on \/.*leat\.db, leat status/);
      }
    },
  );

  test(
    'leat start: the three lines leave a login for another server, and variables of another server have no effect on them',
    { tags: ['long'] },
    async (t) => {
      const { start, shell } = await fresh(t);
      const live = {
        url: 'https://leat.example.com',
        clientId: 'operator',
        clientSecret: 'of production',
        audience: '/api/v2/',
      };
      await mkdir(dirname(shell.credentials), { recursive: true, mode: 0o700 });
      const stored = JSON.stringify({ version: 1, profiles: { default: live } });
      await writeFile(shell.credentials, stored, { mode: 0o600 });
      const env = {
        LEAT_URL: live.url,
        LEAT_CLIENT_ID: live.clientId,
        LEAT_CLIENT_SECRET: live.clientSecret,
      };
      const { output, end: stop } = await start(env);
      await assertDelivers(shell, linesIn(output), env);
      const { profiles } = JSON.parse(await readFile(shell.credentials, 'utf8')) as {
        profiles: Record<string, object>;
      };
      assert.deepEqual(profiles['default'], live);
      assert.deepEqual(Object.keys(profiles), ['default', 'local']);
      assert.equal(await stop(), 0);
    },
  );

  test(
    'leat start: on a terminal the secret is shown once, and the three lines have none',
    { tags: ['long'], skip: !hasScript },
    async (t) => {
      const { shell, file, env } = await fresh(t);
      const command = `exec '${process.execPath}' '${leatProgram}' start`;
      const child = spawn('script', ['-qefc', command, '/dev/null'], {
        cwd: shell.home,
        env: { ...compileCache, PATH: process.env['PATH'] ?? '', ...(await env()) },
      });
      endWithProcess(child);
      let output = '';
      child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString().replaceAll('\r', '')));
      await waitFor('the welcome', () => output.includes('Ctrl-C ends it'), {
        progress: () => output,
      });
      const { secret } = await credentialsIn(file);
      assert.equal(output.split(secret).length, 2, 'the secret is shown once');
      assert.equal((await stat(file)).mode & 0o777, 0o600);
      const lines = linesIn(output);
      assert.ok(!lines.join('\n').includes(secret));
      await assertDelivers(shell, lines);
      const closed = once(child, 'close');
      child.stdin.write('\u0003');
      await closed;
    },
  );
});

/** Returns a folder whose name a shell must quote, and what starts `leat start` on a store in it. */
async function fresh(t: TestContext): Promise<{
  readonly file: string;
  readonly shell: Shell;
  env(settings?: Readonly<Record<string, string>>): Promise<Record<string, string>>;
  start(settings?: Readonly<Record<string, string>>): Promise<{
    url: string;
    output: string;
    end: () => Promise<number | null>;
  }>;
}> {
  const tempStore = await createTempStore();
  t.after(tempStore.remove);
  const folder = join(tempStore.folder, "Ada's data");
  await mkdir(folder);
  const shell = await openShell(t);
  const env = async (settings = {}): Promise<Record<string, string>> => ({
    XDG_CONFIG_HOME: join(shell.home, 'x'),
    LEAT_STORE: `sqlite:${join(folder, 'leat.db')}`,
    LEAT_PORT: String(await freePort()),
    PORT: String(await freePort()),
    LEAT_LOG_LEVEL: 'warn',
    ...settings,
  });
  return {
    file: join(folder, 'bootstrap.json'),
    shell,
    env,
    start: async (settings) => {
      const variables = await env(settings);
      const { child, output } = spawnLeat(['start'], variables, { cwd: tempStore.folder });
      t.after(() => end(child, 'SIGKILL'));
      await waitFor('the last line of the welcome', () => output().includes('Ctrl-C ends it'), {
        progress: output,
      });
      const url = `http://127.0.0.1:${variables['LEAT_PORT']}`;
      return { url, output: output(), end: () => end(child, 'SIGINT') };
    },
  };
}

async function credentialsIn(file: string): Promise<{ id: string; secret: string }> {
  const text = await readFile(file, 'utf8');
  const { client_id: id = '', client_secret: secret = '' } = JSON.parse(text) as Record<
    string,
    string
  >;
  return { id, secret };
}

/** Returns the client of the message API. */
function sampleIn(text: string): unknown {
  return (JSON.parse(text) as Record<string, unknown>)['messages_sample'];
}

/** Returns the lines to paste. */
function linesIn(output: string): string[] {
  const [, after = ''] = output.split(/^Three lines for another terminal[^]*?:\n\n/m);
  return (
    after
      .split('\n\n')[0]
      ?.split('\n')
      .filter((line) => line !== '') ?? []
  );
}

/** Pastes the lines into one shell, as they are. */
async function assertDelivers(
  shell: Shell,
  lines: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<void> {
  assert.equal(lines.length, 3, lines.join('\n'));
  const { code, stdout, stderr } = await shell.sh(lines.join('\n'), { env });
  assert.equal(code, 0, stderr);
  assert.match(stdout, /^Logged in to /m);
  assert.match(stdout, /^POST \/\n(?:.*\n)*webhook-id: evt_/m);
  assert.match(stdout, /"type": "user\.created"/);
  assert.match(stdout, /^Signature {2}valid$/m);
  assert.match(stdout, /^Delivered\.$/m);
}
