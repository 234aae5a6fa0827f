import assert from 'node:assert/strict';
import fs, {
  copyFileSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { dirname, join } from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import { StoreUnavailable } from '../../../src/core/errors.ts';
import type { Store } from '../../../src/store/port/store.ts';
import { openSqliteStore } from '../../../src/store/engine/sqlite/store.ts';
import { createManualClock } from '../../helpers/clock.ts';
import { addTenant, newEvent } from '../contract/fixture.ts';
import { newFolder, storeDeps } from './file.ts';

/** What may happen to the files of a running store. */
const losses: Readonly<Record<string, (file: string) => void>> = {
  'the file is deleted': (file) => rmSync(file),
  'the file is moved away': (file) => renameSync(file, `${file}.old`),
  'another file takes its place': (file) => {
    copyFileSync(file, `${file}.new`);
    renameSync(`${file}.new`, file);
  },
  'the write-ahead log is deleted': (file) => rmSync(`${file}-wal`),
  'the write-ahead log is replaced': (file) => {
    rmSync(`${file}-wal`);
    writeFileSync(`${file}-wal`, '');
  },
};

/** Databases of Leat that may be copied over the open one by mistake. */
const sources: Readonly<
  Record<string, (t: TestContext, store: Store, file: string) => Promise<string>>
> = {
  'another store': async (t) => {
    const other = join(await newFolder(t), 'other.db');
    await (await openSqliteStore({ path: other, file: other }, storeDeps)).close();
    return other;
  },
  'a backup of the store': async (t, store) => {
    const backup = join(await newFolder(t), 'backup.db');
    writeFileSync(backup, '');
    await store.copy?.(backup, { progress: () => {}, signal: new AbortController().signal });
    return backup;
  },
  'a copy from before this start': async (_t, _store, file) => join(dirname(file), 'former.db'),
  'a copy of the file from this start': async (_t, store, file) => {
    const copy = join(dirname(file), 'earlier.db');
    copyFileSync(file, copy);
    await appendUntilCheckpoint(store, file);
    return copy;
  },
};

const secretHash = Buffer.alloc(32, 1);
const session = {
  tenant: 1,
  id: 'session',
  role: 'operator',
  user: 'ada',
  mapping: undefined,
  secretHash,
} as const;

describe('a SQLite file that disappears under the process', () => {
  for (const [what, lose] of Object.entries(losses)) {
    test(`${what}: nothing is acknowledged any more, and it is reported once`, async (t) => {
      const { file, store, clock, errors } = await open(t);
      await store.log.append(1, [newEvent()]);
      lose(file);
      await assert.rejects(store.log.append(1, [newEvent()]), isGone);
      await assert.rejects(store.ping(), isGone);
      await clock.advance(5000);
      assert.equal(errors.length, 1);
      assert.ok(isGone(errors[0]));
      assert.match((errors[0] as Error).message, /leat\.db(?:-wal)? was deleted or replaced while/);
      assert.match((errors[0] as Error).message, /run leat backup/);
    });
  }

  test('a file that is deleted during the sync of an append: the append is refused', async (t) => {
    const { file, store } = await open(t);
    await store.log.append(1, [newEvent()]);
    const appended = store.log.append(1, [newEvent()]);
    // Right after the append is committed, in the same phase: the thread that syncs it is heard later.
    setImmediate(() => rmSync(file));
    await assert.rejects(appended, isGone);
  });

  test('a file that is overwritten in its place is noticed within a second', async (t) => {
    const { file, store, clock, errors } = await open(t);
    truncateSync(file);
    await clock.advance(1000);
    assert.ok(isGone(errors[0]));
    await assert.rejects(store.ping(), isGone);
    await assert.rejects(store.log.append(1, [newEvent()]), isGone);
  });

  for (const [what, sourceOf] of Object.entries(sources)) {
    test(`${what} is written over the file: nothing is read or acknowledged any more`, async (t) => {
      const { file, store, clock, errors } = await open(t);
      await store.log.append(1, [newEvent()]);
      const source = await sourceOf(t, store, file);
      await store.log.append(1, [newEvent()]);
      copyFileSync(source, file);
      await assert.rejects(store.clients.get(1, 'unknown'), isGone);
      await assert.rejects(store.log.page(1, { after: 0, take: 1, bytesMax: 1000 }), isGone);
      await assert.rejects(store.log.append(1, [newEvent()]), isGone);
      await assert.rejects(store.ping(), isGone);
      await clock.advance(1000);
      assert.ok(isGone(errors[0]));
    });
  }

  test('a backup is written over the file right before a checkpoint: that does not hide it', async (t) => {
    const { file, store, clock, errors } = await open(t);
    for (let count = 0; count < 11; count += 1) await store.log.append(1, [largeEvent()]);
    const backup = await sources['a backup of the store']?.(t, store, file);
    assert.ok(backup !== undefined);
    await appendUntilCheckpoint(store, file);
    for (let count = 1; count < 11; count += 1) await store.log.append(1, [largeEvent()]);
    copyFileSync(backup, file);
    await assert.rejects(store.log.append(1, [largeEvent()]), isGone);
    await clock.advance(1000);
    assert.ok(isGone(errors[0]));
    assert.deepEqual(readFileSync(file), readFileSync(backup));
  });

  test('a backup is written over the file before it is to shrink: it stays as it is', async (t) => {
    const { file, store, clock } = await open(t);
    for (let count = 0; count < 80; count += 1) await store.log.append(1, [largeEvent()]);
    await clock.advance(2000);
    await store.log.append(1, [newEvent()]);
    while ((await store.log.prune(1, { olderThanMs: 1000, take: 1000 })) > 0);
    const backup = await sources['a backup of the store']?.(t, store, file);
    assert.ok(backup !== undefined);
    copyFileSync(backup, file);
    await assert.rejects(store.upkeep.shrink(), isGone);
    assert.deepEqual(readFileSync(file), readFileSync(backup));
  });

  test('a file system that does not say whether the file was written is unavailable, not an error of the program', async (t) => {
    const { store } = await open(t);
    const broken = Object.assign(new Error('EIO: i/o error, fstat'), { code: 'EIO' });
    const stat = t.mock.method(fs, 'fstatSync', () => {
      throw broken;
    });
    syncBuiltinESMExports();
    try {
      await assert.rejects(
        store.clients.get(1, 'unknown'),
        (error) => error instanceof StoreUnavailable && error.cause === broken,
      );
    } finally {
      stat.mock.restore();
      syncBuiltinESMExports();
    }
    await store.clients.get(1, 'unknown');
  });

  const commands: Record<string, (store: Store) => Promise<unknown>> = {
    'a read': ({ consoleSessions }) => consoleSessions.get(1, secretHash, false),
    'a change that finds nothing': ({ consoleSessions }) =>
      consoleSessions.redeem(1, Buffer.alloc(32), { ...session, id: 'other' }),
    'a change': ({ consoleSessions }) => consoleSessions.end(1, secretHash),
  };
  for (const [what, run] of Object.entries(commands)) {
    test(`another store is written over the file during ${what}: that is refused as well`, async (t) => {
      const { file, store, clock } = await open(t);
      await store.consoleSessions.begin(session);
      const source = await sources['another store']?.(t, store, file);
      assert.ok(source !== undefined);
      const now = clock.now();
      // The statement reads the time.
      const overwriting = t.mock.method(clock, 'now', () => {
        copyFileSync(source, file);
        return now;
      });
      await assert.rejects(run(store), isGone);
      assert.ok(overwriting.mock.callCount() > 0);
    });
  }

  test('another store is written over the file: no copy of that is made', async (t) => {
    const { file, store } = await open(t);
    const source = await sources['another store']?.(t, store, file);
    assert.ok(source !== undefined);
    copyFileSync(source, file);
    const copy = `${file}.copy`;
    writeFileSync(copy, '');
    const never = new AbortController().signal;
    await assert.rejects(
      async () => store.copy?.(copy, { progress: () => {}, signal: never }),
      isGone,
    );
  });

  test('checkpoints of the store itself are no change of its file', async (t) => {
    const { file, store, clock } = await open(t);
    for (let count = 0; count < 5; count += 1) await appendUntilCheckpoint(store, file);
    await clock.advance(2000);
    await store.log.append(1, [newEvent()]);
  });

  test('a file that comes back is the store again', async (t) => {
    const { file, store, clock, errors } = await open(t);
    await store.log.append(1, [newEvent()]);
    renameSync(file, `${file}.old`);
    await assert.rejects(store.log.append(1, [newEvent()]), isGone);
    renameSync(`${file}.old`, file);
    await clock.advance(1000);
    await store.log.append(1, [newEvent()]);
    await store.ping();
    assert.deepEqual(errors, []);
  });

  test('a copy of what the process still has open can be made', async (t) => {
    const { file, store } = await open(t);
    await store.log.append(1, [newEvent()]);
    rmSync(file);
    const copy = `${file}.copy`;
    writeFileSync(copy, '');
    const never = new AbortController().signal;
    await store.copy?.(copy, { progress: () => {}, signal: never });
    assert.ok(statSync(copy).size > 0);
  });
});

async function open(t: TestContext) {
  const file = join(await newFolder(t), 'leat.db');
  const clock = createManualClock();
  const errors: unknown[] = [];
  const report = (error: unknown): void => void errors.push(error);
  await (await openSqliteStore({ path: file, file }, storeDeps)).close();
  copyFileSync(file, join(dirname(file), 'former.db'));
  const store = await openSqliteStore({ path: file, file }, { ...storeDeps, clock, report });
  t.after(() => store.close());
  await addTenant(store, 'acme');
  return { file, store, clock, errors };
}

function largeEvent() {
  return newEvent({ body: JSON.stringify({ data: 'x'.repeat(100_000) }) });
}

/** The store checkpoints before the commit that follows the first MiB of bodies. */
async function appendUntilCheckpoint(store: Store, file: string): Promise<void> {
  const { mtimeMs } = statSync(file);
  for (let count = 0; count < 100 && statSync(file).mtimeMs === mtimeMs; count += 1) {
    await store.log.append(1, [largeEvent()]);
  }
  assert.notEqual(statSync(file).mtimeMs, mtimeMs);
}

function isGone(error: unknown): boolean {
  return error instanceof StoreUnavailable && error.reason === 'gone';
}
