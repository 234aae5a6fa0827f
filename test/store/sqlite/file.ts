import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { systemClock, systemRandom } from '../../../src/clock.ts';
import type { Store } from '../../../src/store/port/store.ts';
import { createSeal } from '../../../src/store/seal.ts';
import { openConnection } from '../../../src/store/engine/sqlite/connection.ts';
import { prepareSchema } from '../../../src/store/engine/sqlite/schema.ts';
import { createSqliteStore } from '../../../src/store/engine/sqlite/store.ts';
import type { WalSync } from '../../../src/store/engine/sqlite/wal-sync.ts';

const secretKeys = [Buffer.alloc(32, 7)];

/** Dependencies of the stores of these tests: the machine's clock, and no error goes unnoticed. */
export const storeDeps = {
  secretKeys,
  random: systemRandom,
  clock: systemClock,
  defer: (action: () => void) => setImmediate(action),
  report: (error: unknown) => assert.fail(String(error)),
};

/** Creates a folder, removed after the test. */
export async function newFolder(t: TestContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'leat-sqlite-'));
  t.after(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

/** Opens the store on a file, with a sync of the WAL of the test's own; the test closes it. */
export async function openWith(file: string, walSync: WalSync) {
  const connection = openConnection({ path: file, file });
  await prepareSchema(connection, { path: file, file }, createSeal(secretKeys, systemRandom));
  const store: Store = createSqliteStore(connection, storeDeps, walSync);
  return { connection, store };
}
