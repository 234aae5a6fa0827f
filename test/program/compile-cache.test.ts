import assert from 'node:assert/strict';
import { chmod, mkdir, readdir, stat, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import packageJson from '../../package.json' with { type: 'json' };
import { createTempStore, startLeat } from '../helpers/leat.ts';

const { version } = packageJson;

test(
  'compiled modules are kept in the data folder, for its owner only and for this version only',
  { tags: ['long'] },
  async (t) => {
    const { folder, start } = await fixture(t);
    const former = join(folder, 'compiled', '0.0.1', 'v26.0.0-x64-310b2ce3-0');
    await mkdir(former, { recursive: true, mode: 0o700 });
    await start();
    assert.deepEqual(await readdir(join(folder, 'compiled')), [version]);
    assert.equal((await stat(join(folder, 'compiled', version))).mode & 0o777, 0o700);
    assert.notEqual(await countFiles(join(folder, 'compiled')), 0);
    // The second start reads them.
    await start();
  },
);

test(
  'compiled modules are not kept in a folder that others can write to',
  { tags: ['long'] },
  async (t) => {
    const { folder, start } = await fixture(t);
    await mkdir(join(folder, 'compiled'), { recursive: true });
    await chmod(join(folder, 'compiled'), 0o777);
    await start();
    assert.equal(await countFiles(join(folder, 'compiled')), 0);
  },
);

test('compiled modules are not kept behind a symbolic link', { tags: ['long'] }, async (t) => {
  const { folder, start } = await fixture(t);
  await mkdir(join(folder, 'elsewhere'));
  await symlink(join(folder, 'elsewhere'), join(folder, 'compiled'));
  await start();
  assert.equal(await countFiles(join(folder, 'elsewhere')), 0);
});

async function fixture(t: TestContext): Promise<{ folder: string; start: () => Promise<void> }> {
  const tempStore = await createTempStore();
  t.after(() => tempStore.remove());
  return {
    folder: tempStore.folder,
    start: async () => {
      const leat = await startLeat(tempStore, { NODE_COMPILE_CACHE: '' });
      t.after(() => leat.kill());
      assert.equal(await leat.stop(), 0);
    },
  };
}

async function countFiles(folder: string): Promise<number> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  return entries.filter((entry) => entry.isFile()).length;
}
