import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, lstatSync, mkdirSync } from 'node:fs';
import { copyFile, readdir, rm, symlink, writeFile } from 'node:fs/promises';
import { connect, createServer } from 'node:net';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import packageJson from '../../package.json' with { type: 'json' };
import { socketBytesMax, socketLocationOf } from '../../src/operator/socket-location.ts';
import { readToEnd } from '../helpers/exchange.ts';
import {
  createTempStore,
  leatProgram,
  runLeat,
  startLeat,
  type TempStore,
  type Running,
  storeEnvironment,
} from '../helpers/leat.ts';

/** The operator's commands with a running server on SQLite. */

describe("the operator's commands with a running server", () => {
  test('commands run in the server through its socket', { tags: ['long'] }, async (t) => {
    const { tempStore, leat, run } = await running(t);
    assert.match(
      await run('nodes'),
      /^NODE +VERSION +STREAMS +LEASE.*\nleat +\d+\.\d+\.\d+ +0 +\d+\.\d s.*\n$/,
    );
    assert.match(await run('tenants', 'list'), /^main +localhost:\d+\n$/);
    assert.match(await run('tenants', 'create', 'two', 'two.test'), /secret {2}\S{43}\n$/);
    assert.match(await run('tenants', 'list'), /\ntwo +two\.test\n$/);
    assert.match(await run('tenants', 'bootstrap', 'two'), /secret {2}\S{43}\n/);
    const [kid = ''] = (await run('keys', 'list', '--tenant', 'two')).split(' ');
    assert.match(await run('keys', 'rotate', '--now', '--tenant', 'two'), /signs tokens from now/);
    assert.match(await run('keys', 'revoke', '--tenant', 'two', kid), /is gone/);
    for (const unknown of [kid, '-V1', '-h1', '--1']) {
      const again = await runLeat(['keys', 'revoke', unknown], storeEnvironment(tempStore));
      assert.deepEqual(again, {
        code: 1,
        output: `No key is called "${unknown}"; leat keys list shows them.\n`,
      });
    }
    const unreachable = await run('tenants', 'create', 'six', 'six.test:6000');
    assert.match(
      unreachable,
      /\nWarning: browsers and programs with fetch do not connect to port 6000/,
    );
    assert.equal((await leat.send('GET', '/readyz')).status, 200);
  });

  test(
    'keys rotate --now: the running server publishes the new key immediately',
    { tags: ['long'] },
    async (t) => {
      const { leat, run } = await running(t);
      await run('keys', 'rotate', '--now');
      const response = await leat.send('GET', '/.well-known/jwks.json');
      const { keys } = (await response.json()) as { keys: { kid: string }[] };
      const listed = (await run('keys', 'list')).trim().split('\n');
      assert.deepEqual(
        new Set(keys.map(({ kid }) => kid)),
        new Set(listed.map((line) => line.split(' ')[0])),
      );
    },
  );

  test(
    'keys rotate --webhooks: adds a key of webhooks, which the running server publishes',
    { tags: ['long'] },
    async (t) => {
      const { leat, run } = await running(t);
      const publishedKids = async (): Promise<string[]> => {
        const response = await leat.send('GET', '/.well-known/webhook-keys.json');
        return ((await response.json()) as { keys: { kid: string }[] }).keys.map(({ kid }) => kid);
      };
      const kidOf = (text: string): string => /^Key (\S+) is published/.exec(text)?.[1] ?? text;
      const first = await run('keys', 'rotate', '--webhooks');
      assert.match(first, /signs webhooks from now\.\n$/);
      const second = await run('keys', 'rotate', '--webhooks');
      assert.match(
        second,
        /from 10 minutes from now\. The former key stays published for 7 days after/,
      );
      assert.deepEqual(await publishedKids(), [second, first].map(kidOf));
      const lines = (await run('keys', 'list')).trim().split('\n');
      assert.equal(lines.length, 3);
      assert.match(lines[0] ?? '', / signs tokens from \S+$/);
      assert.match(lines[1] ?? '', / signs webhooks from \S+$/);
      assert.match(lines[2] ?? '', / signs webhooks from \S+, published until \S+$/);
      const gone = await run('keys', 'revoke', kidOf(second));
      assert.match(gone, /is gone; webhooks signed with it are rejected from now on\.\n$/);
      assert.deepEqual(await publishedKids(), [kidOf(first)]);
    },
  );

  test(
    'status fits into 80 columns, and prints JSON with --json',
    { tags: ['long'] },
    async (t) => {
      const { run } = await running(t);
      const text = await run('status');
      assert.ok(Math.max(...text.split('\n').map((line) => line.length)) <= 80, text);
      assert.match(text, /^TENANT +EVENTS +ABOUT +OK +FAILING +DISABLED +FAILURES +LAG$/m);
      const body = JSON.parse(await run('status', '--json')) as {
        nodes: { version: string }[];
        tenants: { name: string }[];
      };
      assert.deepEqual(
        body.nodes.map(({ version }) => version),
        [packageJson.version],
      );
      assert.ok(text.includes(packageJson.version), text);
      assert.deepEqual(
        body.tenants.map(({ name }) => name),
        ['main'],
      );
    },
  );

  test('commands open the store after the server has stopped', async (t) => {
    const { tempStore, leat, run } = await running(t);
    assert.equal(await leat.stop(), 0);
    assert.ok(!existsSync(socketOf(tempStore)), 'the stopped server removed its socket');
    assert.match(await run('tenants', 'list'), /^main/);
    assert.equal(await run('nodes'), `No node runs on ${tempStore.file}.\n`);
  });

  test(
    'commands in another folder than that of the service create no store there, and name what they looked for',
    { tags: ['long'] },
    async (t) => {
      const { folder, remove } = await createTempStore();
      t.after(remove);
      const file = join(folder, 'leat', 'leat.db');
      const commands = [
        ['status'],
        ['nodes', '--json'],
        ['console'],
        ['tenants', 'create', 'other', 'other.example'],
        ['backup', join(folder, 'copy.db')],
      ];
      for (const words of commands) {
        const { code, output } = await runLeat(words, {}, { cwd: folder });
        assert.equal(code, 1, words.join(' '));
        assert.ok(
          output.includes(
            `LEAT_STORE: ${file} does not exist: run this command as the user, in the working directory and with the settings of the service`,
          ),
          output,
        );
      }
      const { code, output } = await runLeat(['doctor'], {}, { cwd: folder });
      assert.equal(code, 1);
      assert.match(output, /^bad +store +LEAT_STORE: .+leat\.db does not exist/m);
      assert.doesNotMatch(
        output,
        /no enabled stream|ENOENT/,
        'nothing is said about what was not read',
      );
      assert.deepEqual(await readdir(folder), []);
    },
  );

  test(
    'a user who may not enter the data folder is told so in one line',
    { tags: ['long'], skip: process.getuid?.() !== 0 && 'only root can be another user' },
    async (t) => {
      const { folder, file, remove } = await createTempStore();
      t.after(remove);
      const leat = await startLeat({ folder, file, remove });
      t.after(() => leat.kill());
      const { status, stderr } = spawnSync(process.execPath, [leatProgram, 'status'], {
        uid: 65_534,
        gid: 65_534,
        cwd: tmpdir(),
        env: { HOME: '/nonexistent', LEAT_STORE: `sqlite:${file}` },
        encoding: 'utf8',
      });
      assert.equal(
        stderr,
        `LEAT_STORE: this user cannot reach ${file}: run this command as the user of the server\n`,
      );
      assert.equal(status, 1);
    },
  );

  test(
    'a socket of a killed server is ignored, and replaced by the next server',
    { tags: ['long'] },
    async (t) => {
      const { tempStore, leat, run } = await running(t);
      await leat.kill();
      assert.ok(lstatSync(socketOf(tempStore)).isSocket());
      assert.match(await run('tenants', 'list'), /^main/);
      const next = await startLeat(tempStore);
      t.after(() => next.kill());
      assert.match(await run('nodes'), /^NODE/);
    },
  );

  test('concurrent commands all succeed', { tags: ['long'] }, async (t) => {
    const { run } = await running(t);
    const texts = await Promise.all(
      ['one', 'two', 'three'].map((name) => run('tenants', 'create', name, `${name}.test`)),
    );
    assert.ok(texts.every((text) => text.startsWith('Created')));
    assert.equal((await run('tenants', 'list')).trim().split('\n').length, 4);
  });
});

describe('the operator socket', () => {
  test('only its own user can open the socket', async (t) => {
    const { tempStore } = await running(t);
    assert.equal(lstatSync(socketOf(tempStore)).mode & 0o777, 0o600);
  });

  test(
    'a socket path that is too long is replaced by one in a private folder',
    { tags: ['long'] },
    async (t) => {
      const tempStore = await deepTempStore(t);
      const leat = await startLeat(tempStore);
      t.after(() => leat.kill());
      const { isTooLong, pointer } = socketLocationOf(tempStore.file);
      assert.ok(isTooLong);
      assert.equal(lstatSync(pointer).mode & 0o777, 0o600);
      const listed = await runLeat(['tenants', 'list'], storeEnvironment(tempStore));
      assert.match(listed.output, /^main/);
      await leat.kill();
      const again = await startLeat(tempStore);
      assert.equal(await again.stop(), 0);
      assert.ok(!existsSync(pointer));
    },
  );

  test(
    'a server on a copied data folder leaves the socket of the one on the original',
    { tags: ['long'] },
    async (t) => {
      const [original, copied] = [await deepTempStore(t), await deepTempStore(t)];
      const leat = await startLeat(original);
      t.after(() => leat.kill());
      const { pointer } = socketLocationOf(original.file);
      await copyFile(pointer, socketLocationOf(copied.file).pointer);
      const other = await startLeat(copied);
      t.after(() => other.kill());
      const listed = await runLeat(['tenants', 'list'], storeEnvironment(original));
      assert.match(listed.output, /^main/);
    },
  );

  for (const kind of ['file', 'symbolic link'] as const) {
    test(
      `a ${kind} at the path of the socket is not touched, and the server runs without a socket`,
      { tags: ['long'] },
      async (t) => {
        const tempStore = await tempStoreOf(t);
        const other = join(tempStore.folder, 'other');
        await writeFile(other, 'precious');
        if (kind === 'file') await writeFile(socketOf(tempStore), 'precious');
        else await symlink(other, socketOf(tempStore));
        const leat = await startLeat(tempStore);
        t.after(() => leat.kill());
        assert.match(leat.output(), /is in the way of the operator's socket/);
        const { code, output } = await runLeat(['tenants', 'list'], storeEnvironment(tempStore));
        assert.equal(code, 1);
        assert.match(output, /is not a socket: remove it and restart the server\.\n$/);
        assert.ok(existsSync(other));
      },
    );
  }

  test('a command that gets an invalid response on the socket fails with one line', async (t) => {
    const tempStore = await tempStoreOf(t);
    mkdirSync(dirname(socketOf(tempStore)), { recursive: true });
    const server = createServer((socket) => socket.end('HTTP/1.1 200 OK\r\n\r\nwhat?'));
    server.listen(socketOf(tempStore));
    await once(server, 'listening');
    t.after(() => server.close());
    const { code, output } = await runLeat(['tenants', 'list'], storeEnvironment(tempStore));
    assert.equal(code, 1);
    assert.match(output, /^The server ended before the command did[^\n]+\n$/);
  });

  test(
    'the socket runs commands of POST /command only, and refuses anything else',
    { tags: ['long'] },
    async (t) => {
      const { tempStore } = await running(t);
      const body = JSON.stringify({
        command: 'tenants create',
        args: { name: 'x', domain: 'x.test' },
      });
      const textOf = (line: string, headers = '', content = body): string =>
        `${line}\r\nHost: localhost\r\n${headers}Content-Length: ${content.length}\r\n\r\n${content}`;
      for (const [request, status] of [
        [textOf('GET /command HTTP/1.1'), 404],
        [textOf('PUT /command HTTP/1.1'), 404],
        [textOf('POST / HTTP/1.1'), 404],
        [textOf('POST /command?x HTTP/1.1'), 404],
        [textOf('POST /command HTTP/2.0'), 505],
        [textOf('POST /command HTTP/1.1', 'Host: x\r\n'), 400],
        [textOf('POST /command HTTP/1.1', '', '{'), 400],
        [textOf('POST /command HTTP/1.1', '', 'null'), 400],
        [textOf('POST /command HTTP/1.1', '', 'x'.repeat(70_000)), 400],
      ] as const) {
        const { statuses, text } = await readToEnd(connect(socketOf(tempStore)), [request]);
        assert.deepEqual(statuses, [status], request.slice(0, 60));
        assert.match(text, /\{"refused":"[^"]+"\}\n/);
      }
      const listed = await runLeat(['tenants', 'list'], storeEnvironment(tempStore));
      assert.match(listed.output, /^main +\S+\n$/);
    },
  );

  test(
    'the server stops although the client of a command has disconnected',
    { tags: ['long'] },
    async (t) => {
      const { tempStore, leat } = await running(t);
      const body = JSON.stringify({ command: 'keys rotate', args: {} });
      // Making a key takes longer than one turn of the event loop; one of ten would be enough.
      const sockets = Array.from({ length: 10 }, () => connect(socketOf(tempStore)));
      for (const socket of sockets) {
        socket.write(
          `POST /command HTTP/1.1\r\nHost: x\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
        );
        await setTimeout(5);
        socket.destroy();
      }
      assert.equal(await leat.stop(), 0);
    },
  );

  test('a store in memory has no socket', { tags: ['long'] }, async (t) => {
    const tempStore = await tempStoreOf(t);
    const leat = await startLeat(tempStore, { LEAT_STORE: 'sqlite::memory:' });
    t.after(() => leat.kill());
    assert.deepEqual(
      (await readdir(tempStore.folder)).filter((name) => name.includes('sock')),
      [],
    );
  });
});

function socketOf(tempStore: TempStore): string {
  return socketLocationOf(tempStore.file).socket;
}

async function tempStoreOf(t: TestContext): Promise<TempStore> {
  const tempStore = await createTempStore();
  t.after(() => tempStore.remove());
  return tempStore;
}

/** Creates a store in a folder whose path alone is too long for a socket. */
async function deepTempStore(t: TestContext): Promise<TempStore> {
  const { folder } = await tempStoreOf(t);
  const deep = join(folder, 'd'.repeat(socketBytesMax));
  mkdirSync(deep);
  return { folder: deep, file: join(deep, 'leat.db'), remove: () => rm(deep, { recursive: true }) };
}

async function running(
  t: TestContext,
): Promise<{ tempStore: TempStore; leat: Running; run(...words: string[]): Promise<string> }> {
  const tempStore = await tempStoreOf(t);
  const leat = await startLeat(tempStore);
  t.after(() => leat.kill());
  return {
    tempStore,
    leat,
    run: async (...words) => {
      const { code, output } = await runLeat(words, storeEnvironment(tempStore));
      assert.equal(code, 0, output);
      return output;
    },
  };
}
