import assert from 'node:assert/strict';
import { copyFileSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import { systemClock } from '../../../src/clock.ts';
import { StoreContentRefused, StoreUnavailable } from '../../../src/core/errors.ts';
import type { NewEvent, User } from '../../../src/core/types.ts';
import type { Hint } from '../../../src/store/port/hints.ts';
import { openSqliteStore } from '../../../src/store/engine/sqlite/store.ts';
import { createWalSync } from '../../../src/store/engine/sqlite/wal-sync.ts';
import { waitFor } from '../../helpers/leat.ts';
import { addTenant, newEvent, fixtureOf, start } from '../contract/fixture.ts';
import { newFolder, openWith, storeDeps } from './file.ts';

const all = { after: 0, take: 1000, bytesMax: Infinity };
/** A quarter of a mebibyte: as much as one commit takes. */
const large = (text: string): NewEvent =>
  newEvent({ body: JSON.stringify({ text: text.repeat(250 * 1024) }) });

describe('an append on SQLite', () => {
  test('append: resolves, is visible and emits its hint once it is on the disk', async (t) => {
    const { store, tenant, disk, hints } = await openOn(t);
    disk.isHeld = true;
    const result = store.log.append(tenant, [newEvent()]);
    await waitFor('the sync', () => disk.held.length > 0);
    assert.equal(await isSettled(result), false);
    assert.equal(await store.log.head(tenant), 0);
    assert.deepEqual(await store.log.heads([tenant]), [0]);
    const marks = await store.log.headMarks();
    assert.deepEqual(await store.log.page(tenant, all), { events: [], scannedTo: 0 });
    assert.deepEqual(hints, []);
    disk.release();
    await result;
    assert.equal(await store.log.head(tenant), 1);
    assert.deepEqual(await store.log.heads([tenant]), [1]);
    assert.notDeepEqual(await store.log.headMarks(), marks, 'or a poll would not look');
    assert.equal((await store.log.page(tenant, all)).events.length, 1);
    assert.deepEqual(offsetsOf(hints), [1]);
  });

  test('append: is covered by a durable commit, and its hint comes before that of the commit', async (t) => {
    const { store, tenant, disk, hints } = await openOn(t);
    disk.isHeld = true;
    const result = store.log.append(tenant, [newEvent(), newEvent()]);
    await waitFor('the sync', () => disk.held.length > 0);
    await store.users.create(newUser(tenant), newEvent());
    assert.deepEqual(offsetsOf(hints), [1, 2, 3]);
    assert.equal((await result).length, 2);
    disk.release();
  });

  test('close: waits for a large user that is being created', async (t) => {
    const { store, tenant } = await openOn(t);
    const user = { ...newUser(tenant), profileJson: JSON.stringify({ text: 'a'.repeat(2 ** 17) }) };
    const [created] = await Promise.all([store.users.create(user, newEvent()), store.close()]);
    assert.deepEqual(created, { created: user });
  });

  test('append: events of large changes of a user are in the file when the changes resolve', async (t) => {
    const { store, tenant, file } = await openOn(t);
    const hasText = (text: string) => readFileSync(file).includes(text.repeat(1000));
    await store.users.create(newUser(tenant), large('a'));
    for (const text of 'bcde') {
      await store.users.update(tenant, 'leat|1', (after) => ({ after, event: large(text) }));
    }
    assert.deepEqual(Array.from('abcde', hasText), Array(5).fill(true));
  });

  test('append: shares a sync with appends that were committed before the sync began', async (t) => {
    const { store, tenant, disk } = await openOn(t);
    const other = (await addTenant(store, 'other')).id;
    disk.isHeld = true;
    const first = store.log.append(tenant, [newEvent()]);
    await waitFor('the sync', () => disk.held.length > 0);
    const second = store.log.append(other, [newEvent()]);
    disk.releaseOne();
    await first;
    await waitFor('the next sync', () => disk.held.length > 0);
    assert.equal(await isSettled(second), false, 'committed after that sync began');
    disk.release();
    await second;
  });

  test('append: is refused when the disk fails, and the next one resolves once everything before it is safe', async (t) => {
    const { store, tenant, disk, hints } = await openOn(t);
    disk.error = new Error('EIO');
    disk.canRepair = false;
    await assert.rejects(store.log.append(tenant, [newEvent()]), { mayBeStored: true });
    await assert.rejects(store.log.append(tenant, [newEvent()]), { mayBeStored: false });
    await assert.rejects(store.users.create(newUser(tenant), newEvent()));
    assert.equal(await store.users.get(tenant, newUser(tenant).id), undefined, 'not even written');

    disk.error = undefined;
    await assert.rejects(store.log.append(tenant, [newEvent()]), StoreUnavailable);
    assert.equal(disk.syncs, 1, 'another sync would prove nothing');
    assert.equal(await store.log.head(tenant), 0, 'the disk may not have the first one');
    assert.deepEqual(await store.log.page(tenant, all), { events: [], scannedTo: 0 });
    const marks = await store.log.headMarks();
    assert.deepEqual(hints, []);
    disk.canRepair = true;
    const [appended] = await store.log.append(tenant, [newEvent()]);
    assert.equal(appended?.offset, 2, 'the first one was all that was written');
    assert.ok(disk.repairs > 1);
    assert.deepEqual(offsetsOf(hints), [1, 2]);
    assert.notDeepEqual(await store.log.headMarks(), marks);
    assert.equal((await store.log.page(tenant, all)).events.length, 2);
  });

  test('append: the hint of a refused append comes before that of the commit that repairs it', async (t) => {
    const { store, tenant, disk, hints } = await openOn(t);
    disk.error = new Error('EIO');
    await assert.rejects(store.log.append(tenant, [newEvent()]), StoreUnavailable);
    await store.users.create(newUser(tenant), newEvent());
    assert.deepEqual(offsetsOf(hints), [1, 2]);
    assert.equal(await store.log.head(tenant), 2);
  });

  test('append: firstSince does not skip an append that is not on the disk yet', async (t) => {
    const { store, tenant, disk } = await openOn(t);
    disk.isHeld = true;
    const result = store.log.append(tenant, [newEvent()]);
    await waitFor('the sync', () => disk.held.length > 0);
    assert.equal(await store.log.firstSince(tenant, Number.MAX_SAFE_INTEGER), 1);
    disk.release();
    await result;
    assert.equal(await store.log.firstSince(tenant, Number.MAX_SAFE_INTEGER), 2);
  });

  test('append: several commits let smaller ones run in between', async (t) => {
    const { store, tenant } = await openOn(t);
    const other = (await addTenant(store, 'other')).id;
    const whole = store.log.append(tenant, Array.from('abcdefgh', large));
    let between = 0;
    for (;;) {
      await store.log.append(other, [newEvent()]);
      if (await isSettled(whole)) break;
      between += 1;
      assert.equal(await store.log.head(tenant), 0, 'all of it or nothing');
      assert.equal((await store.log.page(tenant, all)).events.length, 0);
    }
    assert.ok(between >= 4, `${between} commits in between`);
    const offsets = (await whole).map(({ offset }) => offset);
    assert.deepEqual(offsets, [1, 2, 3, 4, 5, 6, 7, 8]);
    assert.equal((await store.log.page(tenant, all)).events.length, 8);
  });

  test('append: a part that a process wrote is not there after its end', async (t) => {
    const { store, tenant, disk, file, folder } = await openOn(t);
    await store.log.append(tenant, [newEvent({ id: 'evt_before' })]);
    const events = ['a', 'b', 'c'].map((text) => ({ ...large(text), chosen: true }));
    disk.isHeld = true;
    const result = store.log.append(tenant, events);
    await waitFor('the sync of a part', () => disk.held.length > 0);
    const copy = join(folder, 'copy.db');
    copyFileSync(file, copy);
    copyFileSync(`${file}-wal`, `${copy}-wal`);
    disk.release();
    await result;

    const reopened = await openSqliteStore({ path: copy, file: copy }, storeDeps);
    t.after(() => reopened.close());
    // Its syncs may have failed, and the disk may never get the WAL.
    const alone = join(folder, 'alone.db');
    copyFileSync(copy, alone);
    const withoutWal = await openSqliteStore({ path: alone, file: alone }, storeDeps);
    t.after(() => withoutWal.close());
    assert.equal(await withoutWal.log.head(tenant), 1);
    assert.equal(await reopened.log.head(tenant), 1);
    assert.equal((await reopened.log.page(tenant, all)).events.length, 1);
    const again = await reopened.log.append(tenant, events);
    assert.deepEqual(
      again.map(({ offset, repeated }) => [offset, repeated]),
      [
        [2, false],
        [3, false],
        [4, false],
      ],
    );
    const { events: read } = await reopened.log.page(tenant, all);
    assert.deepEqual(
      read.slice(1).map(({ id, body }) => [id, body]),
      events.map(({ id, body }) => [id, body]),
    );
  });

  for (const part of [1, 2, 3]) {
    test(`append: another change of the tenant at part ${part} comes before it`, async (t) => {
      const { store, tenant, disk, hints } = await openOn(t);
      disk.isHeld = true;
      const result = store.log.append(tenant, ['a', 'b', 'c'].map(large));
      for (let before = 1; before < part; before += 1) {
        await waitFor('the sync of a part', () => disk.held.length > 0);
        disk.releaseOne();
      }
      await waitFor('the sync of that part', () => disk.held.length > 0);
      await store.users.create(newUser(tenant), newEvent());
      disk.release();
      const offsets = (await result).map(({ offset }) => offset);
      assert.deepEqual(offsets, [2, 3, 4]);
      assert.deepEqual(offsetsOf(hints), [1, 2, 3, 4]);
      const { events } = await store.log.page(tenant, all);
      assert.deepEqual(
        events.map(({ offset }) => offset),
        [1, 2, 3, 4],
      );
    });
  }

  test('append: a refused last part leaves nothing', async (t) => {
    const { store, tenant } = await openOn(t);
    const events = ['a', 'b', 'c'].map(large);
    const clash = { ...large('d'), id: events[0]?.id ?? '' };
    await assert.rejects(store.log.append(tenant, [...events, clash]), StoreContentRefused);
    assert.equal(await store.log.head(tenant), 0);
    const [next] = await store.log.append(tenant, [newEvent()]);
    assert.equal(next?.offset, 1);
    assert.equal((await store.log.page(tenant, all)).events.length, 1);
  });

  test('append: a leftover part is no lag of a stream', async (t) => {
    const { store, tenant } = await openOn(t);
    const fixture = fixtureOf(store, tenant);
    const { id: other } = await addTenant(store, 'other');
    await fixture.addStream();
    const events = ['a', 'b', 'c'].map(large);
    const clash = { ...large('d'), id: events[0]?.id ?? '' };
    await assert.rejects(store.log.append(tenant, [...events, clash]), StoreContentRefused);
    await store.log.append(other, [newEvent()]);
    const lagging = async () =>
      (await store.upkeep.lagging({ olderThanMs: -1, after: tenant - 1 })).streams;
    assert.deepEqual(await lagging(), []);
    assert.deepEqual((await store.overview.tenant(tenant))?.lag, { events: 0, since: undefined });
    await store.log.append(tenant, [newEvent()]);
    assert.equal((await lagging()).length, 1, 'the event itself is one');
  });

  for (const part of [1, 2]) {
    test(`append: is refused and leaves nothing when its tenant is removed at part ${part}`, async (t) => {
      const { store, tenant, disk, read } = await openOn(t);
      disk.isHeld = true;
      const result = store.log.append(tenant, ['a', 'b', 'c'].map(large));
      result.catch(() => undefined);
      for (let before = 1; before < part; before += 1) {
        await waitFor('the sync of a part', () => disk.held.length > 0);
        disk.releaseOne();
      }
      await waitFor('the sync of that part', () => disk.held.length > 0);
      await store.tenants.leave(tenant);
      while (!(await store.tenants.removeStep(tenant, { take: 100 })).isDone);
      disk.release();
      await assert.rejects(result, StoreContentRefused);
      assert.equal(read('select count(*) as count from events'), 0);
    });
  }

  test('append: detects repeats within its parts', async (t) => {
    const { store, tenant } = await openOn(t);
    const events = ['a', 'b', 'c'].map((text) => ({ ...large(text), chosen: true }));
    const result = await store.log.append(tenant, [...events, ...events]);
    assert.deepEqual(
      result.map(({ offset, repeated }) => [offset, repeated]),
      [
        [1, false],
        [2, false],
        [3, false],
        [1, true],
        [2, true],
        [3, true],
      ],
    );
    assert.equal(await store.log.head(tenant), 3);
  });
});

/** The disk below the WAL: its syncs can be delayed, or fail. */
class TestDisk {
  isHeld = false;
  held: (() => void)[] = [];
  error: Error | undefined;
  canRepair = true;
  syncs = 0;
  repairs = 0;

  async sync(): Promise<void> {
    this.syncs += 1;
    if (this.error !== undefined) throw this.error;
    if (this.isHeld) await new Promise<void>((resolve) => this.held.push(resolve));
  }

  repair(): void {
    this.repairs += 1;
    if (!this.canRepair) throw new Error('EIO');
  }

  releaseOne(): void {
    this.held.shift()?.();
  }

  release(): void {
    this.isHeld = false;
    for (const resolve of this.held.splice(0)) resolve();
  }
}

async function openOn(t: TestContext) {
  const folder = await newFolder(t);
  const file = join(folder, 'leat.db');
  const disk = new TestDisk();
  const walSync = createWalSync({
    clock: systemClock,
    sync: () => disk.sync(),
    repair: () => disk.repair(),
    report: () => undefined,
  });
  const { connection, store } = await openWith(file, walSync);
  t.after(async () => {
    disk.release();
    await store.close();
  });
  const tenant = (await addTenant(store, 'main')).id;
  const hints: Hint[] = [];
  store.watch((hint) => hints.push(hint));
  const read = (sql: string): unknown => connection.prepare(sql).get()?.['count'];
  return { store, tenant, disk, hints, file, folder, read };
}

async function isSettled(promise: Promise<unknown>): Promise<boolean> {
  const pending = Symbol('pending');
  return (await Promise.race([promise, Promise.resolve(pending)])) !== pending;
}

function offsetsOf(hints: readonly Hint[]): number[] {
  return hints.flatMap((hint) =>
    hint.kind === 'appended' ? hint.events.map(({ offset }) => offset) : [],
  );
}

function newUser(tenant: number): User {
  return {
    tenant,
    id: 'leat|1',
    connection: 'c',
    email: 'ada@example.com',
    username: undefined,
    passwordHash: 'hash',
    profileJson: '{}',
    createdAt: start,
    updatedAt: start,
  };
}
