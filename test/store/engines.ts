import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock } from '../../src/clock.ts';
import { openStore } from '../../src/store/open.ts';
import type { Engine, OpenedStore } from './contract/engine.ts';

const secretKey = randomBytes(32);
const random = (count: number) => randomBytes(count);

const open = (path: string) =>
  openStore({ location: { engine: 'sqlite', path }, secretKey, random, clock: systemClock });

/** SQLite without a file: fast, and nothing outlives the store. */
export const sqliteMemory: Engine = {
  name: 'SQLite in memory',
  open: async () => {
    const store = await open(':memory:');
    return { store, close: () => store.close() };
  },
};

/** SQLite in a file of a temporary folder. */
export const sqliteFile: Engine = {
  name: 'SQLite in a file',
  keepsData: true,
  open: () => openFile(mkdtempSync(join(tmpdir(), 'leat-store-'))),
};

async function openFile(folder: string): Promise<OpenedStore> {
  const store = await open(join(folder, 'leat.db'));
  return {
    store,
    reopen: async () => {
      await store.close();
      return openFile(folder);
    },
    close: async () => {
      await store.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
