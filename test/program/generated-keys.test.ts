import assert from 'node:assert/strict';
import { copyFile, readdir, readFile, rename, rm, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import { contentOf } from '../helpers/folder-content.ts';
import { createTempStore, runLeat, startLeat, type TempStore } from '../helpers/leat.ts';

/** A start where the store or its generated key is missing or damaged, as a process. */

const generated = { LEAT_SECRET_KEY: '' };

describe('a start with a store or a key alone', { concurrency: 1 }, () => {
  test('a store without its key: refused, no key is made', { tags: ['long'] }, async (t) => {
    const tempStore = await storeWithKey(t);
    await rm(join(tempStore.folder, 'secret.key'));
    const output = await refusedStart(tempStore);
    assert.match(output, /LEAT_SECRET_KEY: is not set and \S+ has no secret\.key, the key of \S+/m);
    assert.match(output, /put the file back that was there, or set LEAT_SECRET_KEY/);
  });

  test(
    'a key without its store: refused, no store is made, and the ways out work',
    { tags: ['long'] },
    async (t) => {
      const tempStore = await storeWithKey(t);
      const copy = join(tempStore.folder, 'backup.copy');
      await rename(tempStore.file, copy);
      const output = await refusedStart(tempStore);
      assert.match(
        output,
        /LEAT_STORE: \S+leat\.db is missing, but \S+secret\.key is part of a store/m,
      );
      assert.match(
        output,
        /To restore a backup: leat restore <backup>\. To begin with a new store: move/,
      );
      const restored = await runLeat(['restore', copy], settingsOf(tempStore));
      assert.equal(restored.code, 0, restored.output);
      await startedOnce(t, tempStore);
      await rm(tempStore.file);
      await rename(join(tempStore.folder, 'secret.key'), join(tempStore.folder, 'kept.key'));
      await startedOnce(t, tempStore);
    },
  );

  test('a key beside a store file of 0 bytes: refused, the file stays as it is', async (t) => {
    const tempStore = await storeWithKey(t);
    await truncate(tempStore.file);
    assert.match(
      await refusedStart(tempStore),
      /leat\.db is empty, but .+: move \S+ away, then leat/,
    );
  });

  test(
    'a write-ahead log without its store: refused, the log stays',
    { tags: ['long'] },
    async (t) => {
      const tempStore = await storeWithKey(t);
      await rename(tempStore.file, `${tempStore.file}-wal`);
      assert.match(
        await refusedStart(tempStore),
        /LEAT_STORE: \S+ is missing, but \S+-wal and \S+secret\.key are/m,
      );
      await rm(join(tempStore.folder, 'secret.key'));
      assert.match(await refusedStart(tempStore), /has no secret\.key, the key of/);
    },
  );

  test(
    'damaged pages or a damaged key: refused, nothing is replaced',
    { tags: ['long'] },
    async (t) => {
      const tempStore = await storeWithKey(t);
      const kept = join(tempStore.folder, 'kept.copy');
      await copyFile(tempStore.file, kept);
      await writeFile(tempStore.file, Buffer.alloc(8192, 7));
      assert.match(await refusedStart(tempStore), /LEAT_STORE: \S+leat\.db/m);
      await copyFile(kept, tempStore.file);
      await writeFile(join(tempStore.folder, 'secret.key'), '');
      assert.match(await refusedStart(tempStore), /LEAT_SECRET_KEY: \S+secret\.key does not hold/m);
    },
  );

  test(
    'an interrupted first start can be repeated, whatever was written of it',
    { tags: ['long'] },
    async (t) => {
      const tempStore = await storeWithKey(t);
      const [key, prepared] = ['secret.key', 'secret.key.new'].map((name) =>
        join(tempStore.folder, name),
      ) as [string, string];
      const text = await readFile(key, 'utf8');
      const interrupted: (() => Promise<void>)[] = [
        async () => {},
        () => truncate(tempStore.file),
        () => rm(tempStore.file),
      ];
      for (const interrupt of interrupted) {
        await rename(key, prepared);
        await interrupt();
        await startedOnce(t, tempStore);
        assert.equal(await readFile(key, 'utf8'), text);
        assert.ok(!(await readdir(tempStore.folder)).includes('secret.key.new'));
      }
    },
  );
});

function settingsOf({ file }: TempStore): Record<string, string> {
  return { LEAT_STORE: `sqlite:${file}`, ...generated };
}

async function startedOnce(t: TestContext, tempStore: TempStore): Promise<void> {
  const leat = await startLeat(tempStore, generated);
  t.after(() => leat.kill());
  assert.equal(await leat.stop(), 0);
}

async function storeWithKey(t: TestContext): Promise<TempStore> {
  const tempStore = await createTempStore();
  t.after(() => tempStore.remove());
  await startedOnce(t, tempStore);
  return tempStore;
}

/** Returns the output of a start that is refused and leaves every file as it was. */
async function refusedStart(tempStore: TempStore): Promise<string> {
  const before = await contentOf(tempStore.folder);
  const output = await startLeat(tempStore, generated).then(
    (leat) => leat.kill().then(() => assert.fail('the start was not refused')),
    (error: unknown) => String(error),
  );
  assert.deepEqual(await contentOf(tempStore.folder), before);
  return output;
}
