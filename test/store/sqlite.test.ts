import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openStore } from '../../src/store/open.ts';
import type { Engine, OpenedStore } from './contract/engine.ts';
import { deliveriesContract } from './contract/deliveries.ts';
import { logContract } from './contract/log.ts';
import { ownershipContract } from './contract/ownership.ts';
import { settleContract } from './contract/settle.ts';
import { streamsContract } from './contract/streams.ts';

const secretKey = randomBytes(32);
const random = (count: number) => randomBytes(count);

const open = (path: string) =>
  openStore({ location: { engine: 'sqlite', path }, secretKey, random });

const memory: Engine = {
  name: 'SQLite in memory',
  open: async () => {
    const store = await open(':memory:');
    return { store, close: () => store.close() };
  },
};

const file: Engine = {
  name: 'SQLite in a file',
  keepsData: true,
  open: async () => {
    const folder = mkdtempSync(join(tmpdir(), 'leat-store-'));
    return openFile(folder);
  },
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

for (const engine of [memory, file]) {
  logContract(engine);
  streamsContract(engine);
  deliveriesContract(engine);
  ownershipContract(engine);
  settleContract(engine);
}
