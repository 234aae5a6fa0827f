import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync, statSync } from 'node:fs';
import { chown, copyFile, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import {
  createTempStore,
  runLeat,
  secretKey,
  spawnLeat,
  startLeat,
  waitFor,
  type TempStore,
  type Running,
  storeEnvironment,
} from '../helpers/leat.ts';
import { oneTimeLink } from '../helpers/console-page.ts';
import { createQuota } from '../helpers/quota.ts';
import {
  createStream,
  eventType,
  publish,
  publishOn,
  slotSettings,
  startCountingReceiver,
} from '../helpers/traffic.ts';

/** `leat backup` and `leat restore` as processes, on SQLite. */

/** What a browser and the console add to a request of its pages. */
const consoleHeaders = { 'sec-fetch-site': 'same-origin', 'leat-console': '1' } as const;

describe('leat backup with a running server', () => {
  test(
    'every event acknowledged before the backup began is delivered after a restore',
    { tags: ['long'] },
    async (t) => {
      const receiver = await startCountingReceiver(t);
      const tempStore = await tempStoreOf(t);
      const leat = await startLeat(tempStore, slotSettings);
      t.after(() => leat.kill());
      const stream = await createStream(leat, receiver.url, 'orders');
      // The receiver responds to nothing until the backup is complete, so that every event is unsent then.
      receiver.holding = true;
      const acknowledged = new Set<string>();
      const quota = createQuota(3000);
      const ending = new AbortController();
      const publishing = publishOn(leat, acknowledged, { quota, until: ending.signal });
      await waitFor('some events', () => acknowledged.size > 500);

      const before = [...acknowledged];
      const file = join(tempStore.folder, 'backup.db');
      const backup = await runLeat(['backup', file], storeEnvironment(tempStore));
      assert.equal(backup.code, 0, backup.output);
      assert.match(
        backup.output,
        /Wrote \S+backup\.db: .+, checked\.\nKeep LEAT_SECRET_KEY as well/,
      );
      assert.equal(statSync(file).mode & 0o777, 0o600);
      ending.abort();
      await publishing;
      await leat.kill();

      const unsent = /\nmain +orders +\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ +\d/;
      const restored = await restoredStore(t, file, unsent);
      const newReceiver = await startCountingReceiver(t);
      // The former receiver still responds to nothing that is sent before the change.
      const again = await startLeat(restored, { ...slotSettings, LEAT_ATTEMPT_TIMEOUT_MS: '500' });
      t.after(() => again.kill());
      await redirect(again, stream, newReceiver.url);
      await newReceiver.waitForAll('every event from before the backup', ['orders'], before);
    },
  );

  test(
    'the output of restore lists the streams whose events are sent again',
    { tags: ['long'] },
    async (t) => {
      const receiver = await startCountingReceiver(t);
      const tempStore = await tempStoreOf(t);
      const leat = await startLeat(tempStore, slotSettings);
      t.after(() => leat.kill());
      await createStream(leat, receiver.url, 'orders');
      const ids = await publish(leat, 5);
      await receiver.waitForAll('the events', ['orders'], ids);
      // A server writes the positions of its streams when it stops.
      assert.equal(await leat.stop(), 0);
      const file = join(tempStore.folder, 'backup.db');
      assert.equal((await runLeat(['backup', file], storeEnvironment(tempStore))).code, 0);
      const target = await tempStoreOf(t);
      const { output } = await runLeat(['restore', file], storeEnvironment(target));
      assert.match(
        output,
        /The newest event in the backup:\n {2}main: \d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ\n/,
      );
      assert.match(
        output,
        /No stream is sent an event again: all were delivered\.\nNext, after a loss: leat start\nNext, in a drill: leat doctor\. Do not start/,
      );
    },
  );

  const skip = process.getuid?.() === 0 ? false : 'only root can give files to another user';
  test(
    'a store that root restores belongs to the owner of its folder',
    { tags: ['long'], skip },
    async (t) => {
      const tempStore = await tempStoreOf(t);
      const leat = await startLeat(tempStore);
      t.after(() => leat.kill());
      const file = join(tempStore.folder, 'backup.db');
      assert.equal((await runLeat(['backup', file], storeEnvironment(tempStore))).code, 0);
      const target = await tempStoreOf(t);
      await chown(target.folder, 54_321, 54_322);
      const { code, output } = await runLeat(['restore', file], storeEnvironment(target));
      assert.equal(code, 0, output);
      const { uid, gid, mode } = statSync(target.file);
      assert.deepEqual([uid, gid, mode & 0o777], [54_321, 54_322, 0o600]);
    },
  );

  test(
    'a restore brings back neither a session of the console nor a one-time link',
    { tags: ['long'] },
    async (t) => {
      const tempStore = await tempStoreOf(t);
      const leat = await startLeat(tempStore);
      t.after(() => leat.kill());
      const codeOf = async (): Promise<string> => {
        const link = await oneTimeLink('operator', storeEnvironment(tempStore), tempStore);
        return link.slice(link.indexOf('#code=') + '#code='.length);
      };
      const signIn = (at: Running, code: string): Promise<Response> =>
        fetch(`${at.url}/console/session`, {
          method: 'POST',
          headers: { ...consoleHeaders, 'content-type': 'application/json' },
          body: JSON.stringify({ code }),
        });
      const signedIn = await signIn(leat, await codeOf());
      assert.equal(signedIn.status, 201);
      const [cookie = ''] = signedIn.headers.getSetCookie()[0]?.split(';') ?? [];
      const session = async (at: Running, method: string): Promise<number> => {
        const headers = { ...consoleHeaders, cookie };
        return (await fetch(`${at.url}/console/session`, { method, headers })).status;
      };
      const unused = await codeOf();
      const file = join(tempStore.folder, 'backup.db');
      const backup = await runLeat(['backup', file], storeEnvironment(tempStore));
      assert.equal(backup.code, 0, backup.output);
      assert.equal(await session(leat, 'DELETE'), 204);
      assert.equal((await signIn(leat, unused)).status, 201);
      await leat.kill();

      const again = await startLeat(await restoredStore(t, file));
      t.after(() => again.kill());
      assert.equal(await session(again, 'GET'), 401);
      assert.equal((await signIn(again, unused)).status, 401);
    },
  );

  test('an interrupted backup removes its files', { tags: ['long'] }, async (t) => {
    const { tempStore, file } = await filled(t);
    const { child } = spawnLeat(['backup', file], storeEnvironment(tempStore));
    const ended = once(child, 'close') as Promise<[number | null]>;
    await waitFor('the backup to begin', async () => (await parts(tempStore)).length > 0);
    child.kill('SIGINT');
    const [code] = await ended;
    assert.deepEqual(await parts(tempStore), []);
    // On a fast machine the backup may have completed before the signal.
    assert.equal(existsSync(file), code === 0, `exit code ${code}`);
    await waitFor(
      'the server to remove its copy',
      async () => (await drafts(tempStore)).length === 0,
    );
  });

  test(
    'a killed server ends the command, and the next start removes its files',
    { tags: ['long'] },
    async (t) => {
      const { tempStore, leat, file } = await filled(t);
      const { child, output } = spawnLeat(['backup', file], storeEnvironment(tempStore));
      const ended = once(child, 'close') as Promise<[number | null]>;
      await waitFor('the copy to begin', async () => (await drafts(tempStore)).length > 0);
      await leat.kill();
      const [code] = await ended;
      assert.equal(existsSync(file), code === 0, output());
      assert.deepEqual(await parts(tempStore), []);
      const again = await startLeat(tempStore);
      t.after(() => again.kill());
      assert.deepEqual(await drafts(tempStore), []);
    },
  );

  test('leat backup does not overwrite a file', { tags: ['long'] }, async (t) => {
    const { tempStore } = await running(t);
    const file = join(tempStore.folder, 'precious');
    await writeFile(file, 'precious');
    const { code, output } = await runLeat(['backup', file], storeEnvironment(tempStore));
    assert.equal(code, 1);
    assert.equal(output, `${file} exists already: choose another name, or remove it.\n`);
    assert.equal(await readFile(file, 'utf8'), 'precious');
  });

  test(
    'leat backup writes to a file whose name reads as a URI, also without a server',
    { tags: ['long'] },
    async (t) => {
      const { tempStore, leat } = await running(t);
      await leat.stop();
      const cwd = join(tempStore.folder, 'copies');
      await mkdir(cwd);
      const names = ['file:copy.db', 'file:copy?mode=memory'];
      for (const name of names) {
        const { code, output } = await runLeat(['backup', name], storeEnvironment(tempStore), {
          cwd,
        });
        assert.equal(code, 0, output);
      }
      assert.deepEqual((await readdir(cwd)).toSorted(), names);
    },
  );

  test(
    'leat backup rejects a missing folder and a missing store',
    { tags: ['long'] },
    async (t) => {
      const { tempStore } = await running(t);
      const missing = join(tempStore.folder, 'missing', 'backup.db');
      const refused = await runLeat(['backup', missing], storeEnvironment(tempStore));
      assert.equal(refused.code, 1);
      assert.match(refused.output, /cannot be written: ENOENT/);
      const empty = await tempStoreOf(t);
      const withoutStore = await runLeat(
        ['backup', join(empty.folder, 'b.db')],
        storeEnvironment(empty),
      );
      assert.equal(withoutStore.code, 1);
      assert.match(
        withoutStore.output,
        /^LEAT_STORE: .+leat\.db does not exist: run this command as/,
      );
      assert.deepEqual(await readdir(empty.folder), []);
    },
  );

  test('backup and restore of a PostgreSQL store print the commands to run', async () => {
    const env = {
      LEAT_STORE: 'postgres://leat@localhost/leat',
      LEAT_SECRET_KEY: secretKey.toString('base64'),
    };
    const backup = await runLeat(['backup', 'b.dump'], env);
    assert.equal(backup.code, 1);
    assert.match(backup.output, /pg_dump --format=custom/);
    const restore = await runLeat(['restore', 'b.dump'], env);
    assert.equal(restore.code, 1);
    assert.match(restore.output, /pg_restore --no-owner/);
  });
});

describe('leat restore', () => {
  test('leat restore does not replace a store', { tags: ['long'] }, async (t) => {
    const { tempStore, file } = await backedUp(t);
    const before = await readFile(tempStore.file);
    const { code, output } = await runLeat(['restore', file], storeEnvironment(tempStore));
    assert.equal(code, 1);
    assert.match(output, /^LEAT_STORE: \S+leat\.db exists already: stop the server and move/);
    assert.deepEqual(await readFile(tempStore.file), before);
  });

  test(
    'leat restore rejects a backup of another key and creates nothing',
    { tags: ['long'] },
    async (t) => {
      const { file } = await backedUp(t);
      const target = await tempStoreOf(t);
      const { code, output } = await runLeat(['restore', file], {
        ...storeEnvironment(target),
        LEAT_SECRET_KEY: Buffer.alloc(32, 9).toString('base64'),
      });
      assert.equal(code, 1);
      assert.match(output, /LEAT_SECRET_KEY/);
      assert.deepEqual(await readdir(target.folder), []);
    },
  );

  test('leat restore requires the key and creates none', { tags: ['long'] }, async (t) => {
    const { file } = await backedUp(t);
    const target = await tempStoreOf(t);
    const { code, output } = await runLeat(['restore', file], {
      LEAT_STORE: `sqlite:${target.file}`,
    });
    assert.equal(code, 1);
    assert.match(output, /^LEAT_SECRET_KEY: is not set and \S+ has no secret\.key: copy the key/);
    assert.deepEqual(await readdir(target.folder), []);
  });

  test(
    'leat restore: one that is rejected leaves no folder that was not there',
    { tags: ['long'] },
    async (t) => {
      const { file } = await backedUp(t);
      const { folder } = await tempStoreOf(t);
      const LEAT_STORE = `sqlite:${join(folder, 'one', 'two', 'leat.db')}`;
      const wrongKey = { LEAT_SECRET_KEY: Buffer.alloc(32, 9).toString('base64') };
      for (const key of [{}, wrongKey]) {
        const { code, output } = await runLeat(['restore', file], { LEAT_STORE, ...key });
        assert.equal(code, 1);
        assert.match(output, /LEAT_SECRET_KEY/);
        assert.deepEqual(await readdir(folder), []);
      }
    },
  );

  test(
    'leat restore rejects damaged, truncated and foreign files',
    { tags: ['long'] },
    async (t) => {
      const { file } = await backedUp(t);
      const target = await tempStoreOf(t);
      const bytes = await readFile(file);
      const damaged = Buffer.from(bytes);
      damaged.fill(0xff, 3 * 4096, 4 * 4096);
      const wrong: Record<string, Uint8Array> = {
        damaged,
        cut: bytes.subarray(0, bytes.length - 4096),
        short: bytes.subarray(0, 100),
        text: Buffer.from('x'.repeat(5000)),
      };
      for (const [name, content] of Object.entries(wrong)) {
        const source = join(target.folder, name);
        await writeFile(source, content);
        const { code, output } = await runLeat(['restore', source], storeEnvironment(target));
        assert.equal(code, 1, `${name}: ${output}`);
        assert.match(output, new RegExp(`${name} `), name);
        assert.ok(!existsSync(target.file), name);
      }
    },
  );

  test('leat restore rejects a store with a write-ahead log, which has its last events', async (t) => {
    const { tempStore } = await running(t);
    const target = await tempStoreOf(t);
    const source = join(target.folder, 'copied.db');
    await copyFile(tempStore.file, source);
    await copyFile(`${tempStore.file}-wal`, `${source}-wal`);
    const { code, output } = await runLeat(['restore', source], storeEnvironment(target));
    assert.equal(code, 1);
    assert.match(output, /has a write-ahead log: it is a store and not a backup/);
  });
});

async function tempStoreOf(t: TestContext): Promise<TempStore> {
  const tempStore = await createTempStore();
  t.after(() => tempStore.remove());
  return tempStore;
}

async function running(t: TestContext): Promise<{ tempStore: TempStore; leat: Running }> {
  const tempStore = await tempStoreOf(t);
  const leat = await startLeat(tempStore);
  t.after(() => leat.kill());
  return { tempStore, leat };
}

/** Starts a server with a store of some 40 MB, so that a copy takes a moment. */
async function filled(
  t: TestContext,
): Promise<{ tempStore: TempStore; leat: Running; file: string }> {
  const { tempStore, leat } = await running(t);
  const object = { text: 'x'.repeat(200_000) };
  const events = Array.from({ length: 10 }, () => ({ type: eventType, data: { object } }));
  for (let count = 0; count < 20; count += 1) {
    const response = await leat.send('POST', '/api/v2/events', events);
    assert.equal(response.status, 202);
    await response.arrayBuffer();
  }
  const backups = join(tempStore.folder, 'backups');
  await mkdir(backups);
  return { tempStore, leat, file: join(backups, 'backup.db') };
}

/** Returns the unfinished files of the command. */
async function parts(tempStore: TempStore): Promise<string[]> {
  const names = await readdir(join(tempStore.folder, 'backups'));
  return names.filter((name) => name !== 'backup.db');
}

/** Returns the unfinished copies of the server. */
async function drafts(tempStore: TempStore): Promise<string[]> {
  return (await readdir(tempStore.folder)).filter((name) => name.includes('.unfinished-backup-'));
}

async function backedUp(t: TestContext): Promise<{ tempStore: TempStore; file: string }> {
  const { tempStore, leat } = await running(t);
  await publish(leat, 40);
  const file = join(tempStore.folder, 'backup.db');
  const { code, output } = await runLeat(['backup', file], storeEnvironment(tempStore));
  assert.equal(code, 0, output);
  return { tempStore, file };
}

async function restoredStore(
  t: TestContext,
  file: string,
  shown = /\nNext, after a loss: leat start\n/,
): Promise<TempStore> {
  const tempStore = await tempStoreOf(t);
  await rm(tempStore.folder, { recursive: true });
  const { code, output } = await runLeat(['restore', file], storeEnvironment(tempStore));
  assert.equal(code, 0, output);
  assert.match(output, shown);
  return tempStore;
}

/** Changes the URL of a stream, as after a restore on another machine. */
async function redirect(leat: Running, stream: string, url: string): Promise<void> {
  const response = await leat.send('PATCH', `/api/v2/event-streams/${stream}`, {
    destination: {
      type: 'webhook',
      configuration: {
        webhook_endpoint: `${url}/orders`,
        webhook_authorization: { method: 'bearer', token: 'token' },
      },
    },
  });
  assert.equal(response.status, 200, await response.text());
}
