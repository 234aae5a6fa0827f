import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock } from '../../src/clock.ts';
import { openStore } from '../../src/store/open.ts';
import type { Store } from '../../src/store/port/store.ts';
import { startPooler } from '../helpers/pooler.ts';
import { throughPort, query, sharedPostgres } from '../helpers/postgres.ts';
import { createFileCopy, openMemoryCopy } from '../helpers/sqlite.ts';
import type { StoreTime } from '../../src/store/port/time.ts';
import { openSqliteStore, type SqliteStoreDeps } from '../../src/store/engine/sqlite/store.ts';
import type { Engine, OpenedStore, TestTime } from './contract/engine.ts';
import { start } from './contract/fixture.ts';
import { createTestTime, plantClock, withClock } from './test-time.ts';

const secretKey = randomBytes(32);
const random = (count: number) => randomBytes(count);

/** What {@link openStore} passes to SQLite, except for the time. */
const sqliteDeps = (time: StoreTime): SqliteStoreDeps => {
  const defer = (action: () => void): void => void setImmediate(action);
  const report = (): void => undefined;
  return { secretKeys: [secretKey], random, clock: systemClock, time, defer, report };
};

/** SQLite without a file: fast, and nothing outlives the store. */
export const sqliteMemory: Engine = {
  name: 'SQLite in memory',
  sharedTags: [],
  open: async () => {
    const time = createTestTime(start);
    const store = await openMemoryCopy(sqliteDeps(time));
    return { store, time, close: () => store.close() };
  },
};

/** SQLite in a file of a temporary folder. */
export const sqliteFile: Engine = {
  name: 'SQLite in a file',
  sharedTags: [],
  keepsData: true,
  open: async () => {
    const folder = mkdtempSync(join(tmpdir(), 'leat-store-'));
    await createFileCopy(join(folder, 'leat.db'));
    return openFile(folder);
  },
};

async function openFile(folder: string): Promise<OpenedStore> {
  const time = createTestTime(start);
  const file = join(folder, 'leat.db');
  const store = await openSqliteStore({ path: file, file }, sqliteDeps(time));
  return {
    store,
    time,
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

/** PostgreSQL, a database for each store. */
export const postgres: Engine = {
  name: 'PostgreSQL',
  sharedTags: ['long'],
  keepsData: true,
  open: async () => {
    return openDatabase(await newDatabase());
  },
};

/**
 * PostgreSQL behind a pooler that uses another connection for each transaction and refuses LISTEN:
 * code that relies on the state of a session breaks.
 */
export const postgresPooled: Engine = {
  name: 'PostgreSQL behind a pooler',
  sharedTags: ['long'],
  open: async () => {
    const server = await sharedPostgres();
    const direct = await newDatabase();
    const pooler = await startPooler({
      port: server.port,
      serverConnections: 3,
      refuseListen: true,
    });
    const url = throughPort(direct, pooler.port);
    const time = createTestTime(start);
    const store = withClock(await openUrl(url, time), direct, time);
    return {
      store,
      time,
      close: async () => {
        await store.close();
        await pooler.close();
        await server.dropDatabase(direct);
      },
    };
  },
};

let ready: Promise<string> | undefined;

/**
 * Returns a copy of a database that has its schema already: the tests of migrations create their
 * own.
 */
export async function newDatabase(): Promise<string> {
  const server = await sharedPostgres();
  ready ??= (async () => {
    const url = await server.createDatabase();
    await (await openUrl(url)).close();
    await plantClock(url);
    return url;
  })();
  return server.createDatabase(await ready);
}

/** Several may be open on one database: all have the same secret key. */
export function openUrl(url: string, time?: TestTime): Promise<Store> {
  const location = { engine: 'postgres', url } as const;
  const report = (): void => undefined;
  // No node of a test is ahead of the clock that the test sets.
  const clock = time === undefined ? systemClock : { ...systemClock, now: () => time.at };
  return openStore({ location, secretKeys: [secretKey], random, clock, report });
}

async function openDatabase(url: string): Promise<OpenedStore> {
  const time = createTestTime(start);
  const store = withClock(await openUrl(url, time), url, time);
  return {
    store,
    time,
    reopen: async () => {
      await store.close();
      // The lease of an ended process ends some time later.
      await query(url, 'update nodes set lease_until = clock_timestamp()');
      return openDatabase(url);
    },
    close: async () => {
      await store.close();
      await (await sharedPostgres()).dropDatabase(url);
    },
  };
}
