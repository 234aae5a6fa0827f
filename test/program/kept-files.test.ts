import assert from 'node:assert/strict';
import {
  mkdir,
  readdir,
  readFile,
  rename,
  rm,
  symlink,
  truncate,
  writeFile,
} from 'node:fs/promises';
import { join } from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import { contentOf } from '../helpers/folder-content.ts';
import { createTempStore, freePort, runLeat, startLeat, type TempStore } from '../helpers/leat.ts';

/** What a start finds in its folder and must not overwrite or remove, as a process. */

describe('a start with LEAT_SECRET_KEY in a folder where a store was', { concurrency: 1 }, () => {
  test('a write-ahead log without its store: refused, the log stays', async (t) => {
    const tempStore = await newStore(t);
    await writeFile(`${tempStore.file}-wal`, 'the last events');
    const output = await refusedStart(tempStore);
    assert.match(output, /LEAT_STORE: \S+leat\.db is missing, but \S+leat\.db-wal is part of a/m);
    assert.match(
      output,
      /restore a backup: move \S+-wal away, then leat restore <backup>\. To begin with a new store: move \S+-wal away/,
    );
  });

  test(
    'credentials without their store, missing or empty: refused, and the way out works',
    { tags: ['long'] },
    async (t) => {
      const tempStore = await newStore(t);
      const settings = { LEAT_BOOTSTRAP_CLIENT_ID: '', LEAT_BOOTSTRAP_CLIENT_SECRET: '' };
      // It has no token: the start is interrupted once it has delivered credentials.
      await startLeat(tempStore, { ...own(tempStore), ...settings }).catch(() => undefined);
      await rm(tempStore.file);
      await rm(`${tempStore.file}-wal`);
      assert.match(await refusedStart(tempStore), /db is missing, but \S+bootstrap\.json is part/m);
      await writeFile(tempStore.file, '');
      assert.match(await refusedStart(tempStore), /db is empty, but \S+bootstrap\.json is part/m);
      const kept = join(tempStore.folder, 'kept.json');
      await rename(join(tempStore.folder, 'bootstrap.json'), kept);
      await startedOnce(t, tempStore);
    },
  );

  test('another store in the folder: refused', { tags: ['long'] }, async (t) => {
    const tempStore = await newStore(t);
    await writeFile(join(tempStore.folder, 'secret.key'), Buffer.alloc(32).toString('base64'));
    const output = await refusedStart({ ...tempStore, file: join(tempStore.folder, 'other.db') });
    assert.match(output, /other\.db is missing, but \S+secret\.key is part of a store/m);
  });

  test('a store that was cut to 0 bytes beside its log: refused', { tags: ['long'] }, async (t) => {
    const tempStore = await newStore(t);
    const leat = await startLeat(tempStore, own(tempStore));
    await leat.kill();
    await truncate(tempStore.file);
    assert.match(await refusedStart(tempStore), /leat\.db is empty, but \S+leat\.db-wal is part/m);
  });
});

test(
  'a start removes only what Leat has left: backups and folders of other names stay',
  { tags: ['long'] },
  async (t) => {
    const tempStore = await newStore(t);
    const { folder } = tempStore;
    await writeFile(`${tempStore.file}.backup-2026-11-28`, 'a backup');
    await writeFile(`${tempStore.file}.backup-0123456789abcdef`, 'a backup');
    await mkdir(join(folder, 'compiled', '1.2.3', 'lib'), { recursive: true, mode: 0o700 });
    await writeFile(join(folder, 'compiled', '1.2.3', 'lib', 'main.js'), 'a program');
    await mkdir(join(folder, 'compiled', 'assets'), { mode: 0o700 });
    const before = await readdir(folder, { recursive: true });
    await startedOnce(t, tempStore, { NODE_COMPILE_CACHE: '' });
    const after = await readdir(folder, { recursive: true });
    assert.deepEqual(
      before.filter((name) => !after.includes(name)),
      [],
    );
  },
);

const refusals: readonly (readonly [what: string, prepare: (folder: string) => Promise<string>])[] =
  [
    [
      'a link to nothing',
      async (folder) => {
        await symlink(join(folder, 'nowhere', 'leat.db'), join(folder, 'leat.db'));
        return join(folder, 'leat.db');
      },
    ],
    [
      'a file of another program',
      async (folder) => {
        await writeFile(join(folder, 'leat.db'), 'text '.repeat(1000));
        await writeFile(join(folder, 'secret.key'), Buffer.alloc(32).toString('base64'));
        return join(folder, 'leat.db');
      },
    ],
    [
      'a secret.key of another program',
      async (folder) => {
        await writeFile(join(folder, 'secret.key'), 'no key');
        return join(folder, 'leat.db');
      },
    ],
    [
      'a name that is too long in new folders',
      async (folder) => join(folder, 'a/b', 'x'.repeat(300)),
    ],
  ];
for (const command of ['serve', 'start']) {
  for (const [what, prepare] of refusals) {
    test(
      `leat ${command}: a start that ${what} refuses writes nothing`,
      { tags: command === 'start' ? ['long'] : [] },
      async (t) => {
        const { folder } = await newStore(t);
        const settings = {
          LEAT_STORE: `sqlite:${await prepare(folder)}`,
          LEAT_SECRET_KEY: '',
          LEAT_PORT: String(await freePort()),
          PORT: String(await freePort()),
          NODE_COMPILE_CACHE: '',
        };
        const before = [await readdir(folder, { recursive: true }), await contentOf(folder)];
        const { code, output } = await runLeat([command], settings);
        assert.equal(code, 1, output);
        assert.match(output, /^LEAT_(?:STORE|SECRET_KEY): /m);
        const after = [await readdir(folder, { recursive: true }), await contentOf(folder)];
        assert.deepEqual(after, before);
      },
    );
  }
}

test(
  'LEAT_TLS=local: a start without the key of its authority is refused, and keeps the certificate',
  { tags: ['long'] },
  async (t) => {
    const tempStore = await newStore(t);
    const { folder } = tempStore;
    const authority = 'the certificate that clients trust';
    await writeFile(join(folder, 'tls-ca.pem'), authority);
    const output = await refusedStart(tempStore, { LEAT_TLS: 'local' }, ['tls-ca.pem']);
    assert.match(output, /LEAT_TLS: \S+tls-ca-key\.pem is missing, but \S+tls-ca\.pem is the/m);
    assert.equal(await readFile(join(folder, 'tls-ca.pem'), 'utf8'), authority);
  },
);

/** The tables of a test run are copied to the store of `startLeat` unless this names it. */
function own({ file }: TempStore): Record<string, string> {
  return { LEAT_STORE: `sqlite:${file}` };
}

async function newStore(t: TestContext): Promise<TempStore> {
  const tempStore = await createTempStore();
  t.after(() => tempStore.remove());
  return tempStore;
}

async function startedOnce(
  t: TestContext,
  tempStore: TempStore,
  settings: Readonly<Record<string, string>> = {},
): Promise<void> {
  const leat = await startLeat(tempStore, { ...own(tempStore), ...settings });
  t.after(() => leat.kill());
  assert.equal(await leat.stop(), 0);
}

/** Returns the output of a start that is refused and leaves these files as they were: all, unless named. */
async function refusedStart(
  tempStore: TempStore,
  settings: Readonly<Record<string, string>> = {},
  names?: readonly string[],
): Promise<string> {
  const kept = async (): Promise<string[]> =>
    (await contentOf(tempStore.folder)).filter(
      (line) => names === undefined || names.some((name) => line.startsWith(`${name} `)),
    );
  const before = await kept();
  const output = await startLeat(tempStore, { ...own(tempStore), ...settings }).then(
    (leat) => leat.kill().then(() => assert.fail('the start was not refused')),
    (error: unknown) => String(error),
  );
  assert.deepEqual(await kept(), before);
  return output;
}
