import assert from 'node:assert/strict';
import { copyFileSync } from 'node:fs';
import { rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { systemClock } from '../../../src/clock.ts';
import { openSqliteStore } from '../../../src/store/engine/sqlite/store.ts';
import {
  createWalSync,
  everyMs,
  settlementsMax,
  walFileOf,
  type WalSync,
} from '../../../src/store/engine/sqlite/wal-sync.ts';
import type { Store } from '../../../src/store/port/store.ts';
import { createManualClock } from '../../helpers/clock.ts';
import { waitFor } from '../../helpers/leat.ts';
import { addTenant, delivered, fixtureOf, start } from '../contract/fixture.ts';
import { newFolder, openWith, storeDeps } from './file.ts';

describe('the sync of the WAL', () => {
  test('sync: begins one second after the first relaxed commit, once for all of them', async () => {
    const { clock, syncs, walSync } = syncOn();
    walSync.committed(1);
    await clock.advance(everyMs - 1);
    walSync.committed(1);
    assert.equal(syncs.length, 0);
    await clock.advance(1);
    assert.equal(syncs.length, 1);
    await syncs[0]?.end();
    await clock.advance(10 * everyMs);
    assert.equal(syncs.length, 1, 'nothing was committed since');
  });

  test('sync: begins at once with the thousandth settlement', () => {
    const { syncs, walSync } = syncOn();
    walSync.committed(settlementsMax - 1);
    assert.equal(syncs.length, 0);
    walSync.committed(1);
    assert.equal(syncs.length, 1);
  });

  test('sync: commits during a sync are covered by another one', async () => {
    const { clock, syncs, walSync } = syncOn();
    walSync.committed(settlementsMax);
    walSync.committed(settlementsMax);
    assert.equal(syncs.length, 1, 'one at a time');
    await syncs[0]?.end();
    assert.equal(syncs.length, 2);
    walSync.committed(1);
    await clock.advance(everyMs);
    await syncs[1]?.end();
    assert.equal(syncs.length, 3);
  });

  test('sync: a failure is reported and repaired', async () => {
    const { clock, syncs, walSync, reported, repairs } = syncOn();
    walSync.committed(settlementsMax);
    await syncs[0]?.end(new Error('I/O error'));
    assert.equal(reported.length, 1);
    assert.equal(walSync.hasFailed, true);
    await clock.advance(everyMs);
    assert.equal(repairs(), 1, 'by another way, as a sync that succeeds proves nothing now');
    assert.equal(walSync.hasFailed, false);
    walSync.committed(settlementsMax);
    assert.equal(syncs.length, 2);
  });

  test('whenSynced: calls back once all earlier commits are on the disk', async () => {
    const { syncs, walSync } = syncOn();
    const called: string[] = [];
    walSync.committed(0);
    walSync.whenSynced(() => called.push('first'));
    walSync.whenSynced(() => called.push('first again'));
    walSync.committed(0);
    walSync.whenSynced(() => called.push('second'));
    await syncs[0]?.end();
    assert.deepEqual(called, ['first', 'first again']);
    await syncs[1]?.end();
    assert.deepEqual(called, ['first', 'first again', 'second']);
    walSync.whenSynced(() => called.push('nothing to wait for'));
    assert.equal(called.length, 4);
    assert.equal(syncs.length, 2);
  });

  test('whenSynced: calls back once a durable commit has covered the earlier ones', async () => {
    const { clock, syncs, walSync } = syncOn();
    const called: string[] = [];
    walSync.committed(0);
    walSync.whenSynced(() => called.push('first'));
    walSync.committed(0);
    walSync.whenSynced(() => called.push('second'));
    walSync.covered();
    assert.deepEqual(called, ['first', 'second']);
    await syncs[0]?.end();
    await syncs[1]?.end();
    await clock.advance(everyMs);
    assert.equal(called.length, 2, 'once');
  });

  test('whenSynced: calls back with a failure, and with the close', async () => {
    const { syncs, walSync } = syncOn();
    const called: unknown[] = [];
    walSync.committed(0);
    walSync.whenSynced((error) => called.push(error?.reason));
    await syncs[0]?.end(Object.assign(new Error('no space'), { code: 'ENOSPC' }));
    assert.equal(called[0], 'full');
    const { syncs: later, walSync: closing } = syncOn();
    closing.committed(0);
    closing.whenSynced((error) => called.push(error?.message));
    const closed = closing.close();
    await later[0]?.end();
    await closed;
    closing.whenSynced((error) => called.push(error?.message));
    assert.deepEqual(called.slice(1), ['The store is closed.', 'The store is closed.']);
  });

  test('whenRepaired: calls back once the failure is repaired, and never when it is closed', async () => {
    const { clock, syncs, walSync } = syncOn();
    const called: string[] = [];
    const wait = (of: WalSync, name: string): void => {
      of.committed(0);
      of.whenSynced((error) => {
        called.push(`${name} ${error?.reason}`);
        of.whenRepaired(() => called.push(`${name} is safe`));
      });
    };
    wait(walSync, 'first');
    await syncs[0]?.end(new Error('I/O error'));
    walSync.committed(0);
    assert.deepEqual(called, ['first away']);
    await clock.advance(everyMs);
    assert.deepEqual(called, ['first away', 'first is safe']);
    wait(walSync, 'second');
    await syncs[1]?.end(new Error('I/O error'));
    await walSync.close();
    assert.deepEqual(called.slice(2), ['second away']);
  });

  test('close: waits for the running sync, and begins none after it', async () => {
    const { clock, syncs, walSync } = syncOn();
    walSync.committed(settlementsMax);
    walSync.committed(settlementsMax);
    const closed = walSync.close();
    await syncs[0]?.end();
    await closed;
    await clock.advance(10 * everyMs);
    assert.equal(syncs.length, 1);
  });
});

describe('the file of the WAL', () => {
  test('WAL file: one descriptor receives every failure from the beginning', async (t) => {
    const folder = await newFolder(t);
    const file = join(folder, 'leat.db');
    await writeFile(file, '');
    // A sync of this one fails.
    await symlink('/dev/null', `${file}-wal`);
    const wal = walFileOf(file);
    await assert.rejects(wal.sync(), { code: 'EINVAL' });
    await rm(`${file}-wal`);
    await writeFile(`${file}-wal`, '');
    await assert.rejects(
      wal.sync(),
      { code: 'EINVAL' },
      'not a new one, to which nothing happened',
    );
    await wal.close();

    const early = walFileOf(file);
    await rm(`${file}-wal`);
    await symlink('/dev/null', `${file}-wal`);
    await early.sync();
    await early.close();
  });

  test('WAL file: is opened again while it is missing', async (t) => {
    const file = join(await newFolder(t), 'leat.db');
    await writeFile(file, '');
    const wal = walFileOf(file);
    await wal.sync();
    await symlink('/dev/null', `${file}-wal`);
    await assert.rejects(wal.sync(), { code: 'EINVAL' });
    await wal.close();
  });
});

describe('settlements on SQLite', () => {
  test('settlements: a power cut after a sync loses only later ones', async (t) => {
    const folder = await newFolder(t);
    const file = join(folder, 'leat.db');
    const copies: string[] = [];
    const wal = walFileOf(file);
    const walSync = createWalSync({
      clock: systemClock,
      report: (error) => assert.fail(String(error)),
      repair: () => assert.fail('no sync fails'),
      // After a power cut at the end of a sync the files hold at least their state at its start.
      sync: async () => {
        const copy = join(folder, `copy-${copies.length}.db`);
        copyFileSync(file, copy);
        copyFileSync(`${file}-wal`, `${copy}-wal`);
        await wal.sync();
        copies.push(copy);
      },
    });
    const { store } = await openWith(file, walSync);
    t.after(() => store.close().then(() => wal.close()));

    const { tenant, stream, settle } = await readyStream(store);
    await settle(5);
    const ofEvents = copies.length;
    await waitFor('the sync', () => copies.length > ofEvents);
    assert.equal(await deliveredIn(copies.at(-1) ?? '', tenant, stream), 5);
    await settle(3);
    assert.equal(await deliveredIn(copies.at(-1) ?? '', tenant, stream), 5, 'with its events');
    const before = copies.length;
    await waitFor('the next sync', () => copies.length > before);
    assert.equal(await deliveredIn(copies.at(-1) ?? '', tenant, stream), 8);
  });

  test('settlements: the store that the program opens syncs them', async (t) => {
    const file = join(await newFolder(t), 'leat.db');
    const clock = createManualClock(start);
    const store = await openSqliteStore({ path: file, file }, { ...storeDeps, clock });
    t.after(() => store.close());
    const { settle } = await readyStream(store);
    await clock.advance(everyMs);
    // The next look at the file.
    assert.equal(clock.pending, 1);
    await settle(1);
    assert.equal(clock.pending, 2);
    await clock.advance(everyMs);
    assert.equal(clock.pending, 1);
  });
});

function syncOn() {
  const clock = createManualClock();
  const syncs: { end(error?: Error): Promise<void> }[] = [];
  const reported: unknown[] = [];
  let repairs = 0;
  const walSync = createWalSync({
    clock,
    report: (error) => reported.push(error),
    repair: () => {
      repairs += 1;
    },
    sync: () =>
      new Promise((resolve, reject) => {
        syncs.push({
          end: async (error) => {
            if (error === undefined) resolve();
            else reject(error);
            await clock.advance(0);
          },
        });
      }),
  });
  return { clock, syncs, walSync, reported, repairs: () => repairs };
}

/** Creates a stream that this process owns, and a way to record deliveries of it. */
async function readyStream(store: Store) {
  const tenant = (await addTenant(store, 'main')).id;
  const fixture = fixtureOf(store, tenant);
  const owned = await fixture.own(await fixture.addStream());
  const settle = async (count: number): Promise<void> => {
    const events = await fixture.publish(...Array.from({ length: count }, () => 'user.created'));
    const outcomes = events.map((event) => delivered(event));
    await fixture.settle(owned, { cursor: events.at(-1)?.offset ?? 0, outcomes });
  };
  return { tenant, stream: owned.stream.id, settle };
}

async function deliveredIn(file: string, tenant: number, stream: string): Promise<number> {
  const store = await openSqliteStore({ path: file, file }, storeDeps);
  try {
    const hours = await store.streams.stats(tenant, stream, {
      from: 0,
      to: systemClock.now() + 7_200_000,
    });
    return hours.reduce((sum, hour) => sum + hour.delivered, 0);
  } finally {
    await store.close();
  }
}
