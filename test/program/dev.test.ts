import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { Webhook } from 'standardwebhooks';
import { logIn, openServer, openShell, type Shell, type Started } from '../cli/shell.ts';
import { endWithProcess } from '../helpers/children.ts';
import { compileCache, leatProgram, waitFor } from '../helpers/leat.ts';

/** That of util-linux, which takes a command; others do not know the option. */
const hasScript = spawnSync('script', ['--version']).status === 0;

interface DevShell extends Shell {
  /** Where the command makes its folder. */
  readonly temp: string;
  /** Starts `leat dev` and waits for the commands that it prints. */
  dev(words?: readonly string[], env?: Readonly<Record<string, string>>): Promise<Started>;
}

async function openDevShell(t: TestContext): Promise<DevShell> {
  const shell = await openShell(t);
  const temp = await mkdtemp(join(tmpdir(), 'leat-temp-'));
  t.after(() => rm(temp, { recursive: true, force: true }));
  return {
    ...shell,
    temp,
    run: (words, options = {}) => shell.run(words, { ...options, env: { TMPDIR: temp } }),
    dev: async (words = [], env = {}) => {
      const started = shell.start(['dev', ...words], { env: { TMPDIR: temp, ...env } });
      const progress = (): unknown => [started.stdout(), started.stderr()];
      const isReady = (): boolean => {
        assert.equal(started.child.exitCode, null, started.stderr());
        return started.stdout().includes('Ctrl-C ends the service');
      };
      await waitFor('leat dev to be ready', isReady, { progress });
      return started;
    },
  };
}

/** Returns the printed commands. */
function commandsIn({ stdout }: Pick<Started, 'stdout'>): string[] {
  const [, after = ''] = stdout().split('To try in another terminal');
  return [...after.matchAll(/^ {2}(.+)$/gm)].map(([, command = '']) => command);
}

async function stop({ child, ended }: Started, signal: NodeJS.Signals): Promise<number | null> {
  child.kill(signal);
  return (await ended()).code;
}

async function profilesIn({ credentials }: Shell): Promise<Record<string, { url: string }>> {
  const stored = JSON.parse(await readFile(credentials, 'utf8')) as { profiles: object };
  return stored.profiles as Record<string, { url: string }>;
}

/** Returns the headers and the body of the request that is shown in full. */
function requestIn(text: string): { headers: Record<string, string>; body: string } {
  const [, head = '', json = ''] = /^POST \/\n([^]*?)\n\n(\{\n[^]*?\n\})\n/m.exec(text) ?? [];
  const headers = head.split('\n').map((line) => line.split(/: (.*)/) as [string, string]);
  return { headers: Object.fromEntries(headers), body: JSON.stringify(JSON.parse(json)) };
}

describe('leat dev', { concurrency: 2 }, () => {
  test(
    'leat dev: shows a webhook whose signature is valid, logs other terminals in, and removes everything at Ctrl-C',
    { tags: ['long'] },
    async (t) => {
      const shell = await openDevShell(t);
      const started = await shell.dev(['order.paid', '--data', '{"id": 7}']);
      assert.equal((await readdir(shell.temp)).length, 1);
      const { headers, body } = requestIn(started.stdout());
      assert.deepEqual((JSON.parse(body) as { data: unknown }).data, { id: 7 });
      assert.match(started.stdout(), /^Signature {2}valid$/m);
      assert.doesNotMatch(started.stdout(), /#code=/, 'a link that signs in is for terminals only');
      const secret = await shell.leat(['streams', 'secret', 'dev']);
      assert.equal(secret.code, 0, secret.stderr);
      // Throws when the library does not accept the signature.
      new Webhook(secret.stdout.trim()).verify(body, headers);
      assert.equal(await stop(started, 'SIGINT'), 0);
      assert.deepEqual(await readdir(shell.temp), []);
      assert.deepEqual(await profilesIn(shell), {});
    },
  );

  test(
    'leat dev: its printed commands work pasted into sh, and it shows what arrives by them',
    { tags: ['long'] },
    async (t) => {
      const shell = await openDevShell(t);
      const started = await shell.dev();
      const { headers } = requestIn(started.stdout());
      assert.match(started.stdout(), /^A user was created\./m);
      const commands = commandsIn(started);
      assert.equal(commands.length, 6, commands.join('\n'));
      const [publish = '', ...others] = commands;
      assert.match((await shell.sh(publish)).stdout, /^Published evt_/);
      const { stdout, stderr } = await shell.sh(others.join('\n'));
      assert.match(stdout, /responds to webhooks with 503 from now on\.$/m);
      assert.match(stderr, /^The event was not delivered\.$/m);
      assert.match(stdout, /responds to webhooks with 204 from now on\.$/m);
      assert.match(stdout, /^1 of 1 failure delivered\.$/m);
      assert.ok(stdout.includes(String(headers['webhook-id'])), stdout);
      const line = (status: number): RegExp =>
        new RegExp(`user\\.created +evt_\\w+ {2}signature valid {2}→ ${status}$`, 'gm');
      await waitFor(
        'the redelivered event',
        () => started.stdout().match(line(204))?.length === 2,
        {
          progress: started.stdout,
        },
      );
      assert.equal(started.stdout().match(line(503))?.length, 4);
      // As a terminal does that closes.
      assert.equal(await stop(started, 'SIGHUP'), 0);
      assert.deepEqual(await readdir(shell.temp), []);
    },
  );

  test(
    'leat dev: one that was killed leaves no login that blocks the next, and no folder',
    { tags: ['long'] },
    async (t) => {
      const shell = await openDevShell(t);
      const killed = await shell.dev();
      await stop(killed, 'SIGKILL');
      const { default: left } = await profilesIn(shell);
      assert.ok(left);
      const [folder = ''] = await readdir(shell.temp);

      const next = await shell.dev();
      const { default: present, ...others } = await profilesIn(shell);
      assert.deepEqual(others, {});
      assert.notEqual(present?.url, left.url);
      assert.ok(
        !(await readdir(shell.temp)).includes(folder),
        'the folder of the former one is removed',
      );
      assert.equal((await shell.leat(['streams', 'list'])).code, 0);
      // Npm repeats the Ctrl-C that the terminal has sent to its program already.
      for (let count = 0; count < 5; count++) {
        next.child.kill('SIGINT');
        await setImmediate();
      }
      assert.equal((await next.ended()).code, 0);
      assert.deepEqual(await profilesIn(shell), {});
      assert.deepEqual(await readdir(shell.temp), []);
    },
  );

  test(
    'leat dev: never replaces a login for another server, nor that of a run that goes on',
    { tags: ['long'] },
    async (t) => {
      const shell = await openDevShell(t);
      const server = await openServer();
      t.after(() => server.close());
      assert.equal((await logIn(shell, server)).code, 0);
      const before = await profilesIn(shell);

      const first = await shell.dev();
      const second = await shell.dev();
      assert.deepEqual(Object.keys(await profilesIn(shell)), ['default', 'dev', 'dev-2']);
      const list = await shell.leat(['streams', 'list', '--json', '--profile', 'dev']);
      assert.match(list.stdout, /"name":"dev"/);
      const published = commandsIn(second)[0] ?? '';
      assert.match(published, / --profile dev-2$/);
      assert.equal((await shell.sh(published)).code, 0);

      assert.equal(await stop(first, 'SIGINT'), 0);
      assert.deepEqual(Object.keys(await profilesIn(shell)), ['default', 'dev-2']);
      assert.equal(await stop(second, 'SIGINT'), 0);
      assert.deepEqual(await profilesIn(shell), before);
    },
  );

  test(
    'leat dev: on a terminal prints a link that signs in, and Ctrl-C there removes everything',
    { skip: !hasScript },
    async (t) => {
      const shell = await openDevShell(t);
      const command = `exec '${process.execPath}' '${leatProgram}' dev`;
      const env = { ...compileCache, PATH: process.env['PATH'] ?? '', TMPDIR: shell.temp };
      const child = spawn('script', ['-qefc', command, '/dev/null'], {
        cwd: shell.home,
        env: { ...env, XDG_CONFIG_HOME: join(shell.home, 'x') },
      });
      endWithProcess(child);
      let output = '';
      child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
      await waitFor('leat dev to be ready', () => output.includes('Ctrl-C ends the service'), {
        progress: () => output,
      });
      assert.match(output, /Starting a service in a temporary folder/);
      const [, page = '', code = ''] =
        /(http:\/\/localhost:\d+\/console\/)#code=(\S+)/.exec(output) ?? [];
      const text = (await fetch(page)).ok ? code : '';
      assert.equal(Buffer.from(text, 'base64url').length, 32, output);
      const closed = once(child, 'close');
      child.stdin.write('\u0003');
      await closed;
      assert.deepEqual(await readdir(shell.temp), []);
      assert.deepEqual(await profilesIn(shell), {});
    },
  );

  test(
    'leat dev: ends and removes everything when nobody reads its output any more',
    { tags: ['long'] },
    async (t) => {
      const shell = await openDevShell(t);
      const started = await shell.dev();
      const [, url = ''] = /(http:\/\/127\.0\.0\.1:\d+)\/break/.exec(started.stdout()) ?? [];
      started.child.stdout?.destroy();
      await waitFor('the end of the command', async () => {
        await fetch(url, { method: 'POST' }).catch(() => undefined);
        return started.child.exitCode !== null;
      });
      assert.equal(started.child.exitCode, 0, started.stderr());
      assert.deepEqual(await readdir(shell.temp), []);
      assert.deepEqual(await profilesIn(shell), {});
    },
  );

  test(
    'leat dev --once: ends after the first delivery, without a login, also as JSON',
    { tags: ['long'] },
    async (t) => {
      const shell = await openDevShell(t);
      // A login could not be stored.
      await mkdir(shell.credentials, { recursive: true });
      const text = await shell.run(['dev', '--once']);
      assert.equal(text.code, 0, text.stderr);
      assert.equal(requestIn(text.stdout).headers['content-type'], 'application/json');
      assert.match(text.stdout, /^Response {3}204\n$/m);
      const json = await shell.run(['dev', 'user.deleted', '--once', '--json']);
      assert.equal(json.code, 0, json.stderr);
      const { signature, status, event } = JSON.parse(json.stdout) as Record<string, unknown>;
      assert.deepEqual([signature, status], ['valid', 204]);
      assert.match(JSON.stringify(event), /"type":"user\.deleted".*"deleted_at"/);
      assert.deepEqual(await readdir(shell.temp), []);
    },
  );

  test(
    'leat dev: names the limit of an event that is too large, and leaves nothing',
    { tags: ['long'] },
    async (t) => {
      const shell = await openDevShell(t);
      const file = join(shell.home, 'large.json');
      await writeFile(file, JSON.stringify({ text: 'x'.repeat(300_000) }));
      const { code, stdout, stderr } = await shell.run(['dev', 'order.paid', '--data', `@${file}`]);
      assert.equal(stderr, 'Payload Too Large: the limit of an event is 262144 bytes\n');
      assert.deepEqual([code, stdout], [1, '']);
      assert.deepEqual(await readdir(shell.temp), []);
    },
  );

  test(
    'leat dev: says in one line what is wrong with its arguments, and makes nothing',
    { tags: ['long'] },
    async (t) => {
      const shell = await openDevShell(t);
      const taken = createServer().listen(0, '127.0.0.1');
      await once(taken, 'listening');
      t.after(() => taken.close());
      const address = taken.address();
      const port = String(typeof address === 'object' && address !== null ? address.port : 0);
      const cases: [string[], number, RegExp][] = [
        [['order'], 2, /^"order" is no event type: .+ for example order\.paid\n$/],
        [['Order.Paid'], 2, /^"Order\.Paid" is no event type: .+\n$/],
        [['order.paid', '--data', '{"id": 7'], 2, /^--data is not JSON: .+\n$/],
        [['order.paid', '--data', '[7]'], 2, /^--data is no JSON object, for example .+\n$/],
        [['--port', '0'], 2, /^error: option '--port <port>' .+\n$/],
        [
          ['--port', port],
          1,
          new RegExp(
            `^--port: ${port} on 127\\.0\\.0\\.1 is in use, choose another, .+--port=\\d+\n$`,
          ),
        ],
      ];
      for (const [words, code, problem] of cases) {
        const ended = await shell.run(['dev', ...words]);
        assert.match(ended.stderr, problem);
        assert.equal(ended.code, code);
        assert.equal(ended.stdout, '');
      }
      assert.deepEqual(await readdir(shell.temp), []);
    },
  );

  test(
    'leat dev: several that start and end at the same moment leave each other their logins, and none afterwards',
    { tags: ['long'] },
    async (t) => {
      const shell = await openDevShell(t);
      const started = await Promise.all([shell.dev(), shell.dev(), shell.dev(), shell.dev()]);
      assert.deepEqual(Object.keys(await profilesIn(shell)).toSorted(), [
        'default',
        'dev',
        'dev-2',
        'dev-3',
      ]);
      assert.deepEqual(
        await Promise.all(started.map((each) => stop(each, 'SIGINT'))),
        [0, 0, 0, 0],
      );
      assert.deepEqual(await profilesIn(shell), {});
      assert.deepEqual(await readdir(join(shell.credentials, '..')), ['credentials.json']);
      assert.deepEqual(await readdir(shell.temp), []);
    },
  );

  test(
    'leat dev: removes its folder also where TMPDIR has a relative path or two slashes, or is long',
    { tags: ['long'] },
    async (t) => {
      const shell = await openDevShell(t);
      await mkdir(join(shell.home, 'temp'));
      for (const folder of ['./temp', `${shell.home}//temp/`]) {
        const { code, stderr } = await shell
          .start(['dev', '--once'], { env: { TMPDIR: folder } })
          .ended();
        assert.equal(code, 0, stderr);
        assert.deepEqual(await readdir(join(shell.home, 'temp')), [], folder);
      }
      // Longer than the path of a socket may be.
      const long = join(shell.temp, 'long'.repeat(20));
      await mkdir(long);
      const { code, stderr } = await shell
        .start(['dev', '--once'], { env: { TMPDIR: long } })
        .ended();
      assert.deepEqual([code, stderr], [0, '']);
      const missing = await shell.start(['dev'], { env: { TMPDIR: '/nonexistent' } }).ended();
      assert.equal(
        missing.stderr,
        'TMPDIR: no folder can be created in /nonexistent (ENOENT): set it to a folder that this user can write to\n',
      );
      assert.equal(missing.code, 1);
    },
  );

  test(
    'leat dev: its printed commands reach its service in a terminal with variables for another server',
    { tags: ['long'] },
    async (t) => {
      const shell = await openDevShell(t);
      const env = {
        LEAT_URL: 'http://127.0.0.1:1',
        LEAT_CLIENT_ID: 'production',
        LEAT_CLIENT_SECRET: 'of production',
      };
      const started = await shell.dev([], env);
      assert.match(started.stderr(), /unset LEAT_URL LEAT_CLIENT_ID LEAT_CLIENT_SECRET$/m);
      for (const command of commandsIn(started).filter((line) => !line.startsWith('curl '))) {
        const { stderr } = await shell.sh(command, { env });
        assert.doesNotMatch(stderr, /cannot be reached/, command);
      }
      assert.equal(await stop(started, 'SIGINT'), 0);
    },
  );

  test(
    'leat dev: settings and proxies of production in the environment and in .env have no effect',
    { tags: ['long'] },
    async (t) => {
      const shell = await openDevShell(t);
      const contacted: string[] = [];
      const production = createServer((socket) => {
        socket.once('data', (chunk) => contacted.push(chunk.toString()));
        socket.on('error', () => undefined).end('HTTP/1.1 502 Bad Gateway\r\n\r\n');
      }).listen(0, '127.0.0.1');
      await once(production, 'listening');
      t.after(() => production.close());
      const address = production.address();
      const port = typeof address === 'object' && address !== null ? address.port : 0;
      const settings = {
        LEAT_STORE: `postgres://leat@127.0.0.1:${port}/leat`,
        LEAT_SECRET_KEY: Buffer.alloc(32).toString('base64'),
        LEAT_PORT: String(port),
        LEAT_TENANT_DOMAIN: 'events.example.com',
        LEAT_ALERT_WEBHOOK_URL: `http://127.0.0.1:${port}/`,
        LEAT_URL: `http://127.0.0.1:${port}`,
        LEAT_CLIENT_ID: 'production',
        LEAT_CLIENT_SECRET: 'of production',
      };
      const lines = Object.entries(settings).map(([name, value]) => `${name}=${value}`);
      await writeFile(join(shell.home, '.env'), lines.join('\n'));
      const env = {
        NODE_USE_ENV_PROXY: '1',
        HTTP_PROXY: `http://127.0.0.1:${port}`,
        TMPDIR: shell.temp,
      };
      const { code, stderr } = await shell
        .start(['dev', '--once'], { env: { ...settings, ...env } })
        .ended();
      assert.equal(code, 0, stderr);
      assert.deepEqual(contacted, []);
    },
  );
});
