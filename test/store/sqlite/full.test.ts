import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import { systemClock } from '../../../src/clock.ts';
import { StoreUnavailable } from '../../../src/core/errors.ts';
import type { User } from '../../../src/core/types.ts';
import { createSeal } from '../../../src/store/seal.ts';
import { openConnection } from '../../../src/store/engine/sqlite/connection.ts';
import { prepareSchema } from '../../../src/store/engine/sqlite/schema.ts';
import { createSqliteStore } from '../../../src/store/engine/sqlite/store.ts';
import { createTestTime } from '../test-time.ts';
import { addTenant, newEvent, start } from '../contract/fixture.ts';

const page = { after: 0, take: 100_000, bytesMax: Infinity };

describe('a SQLite database without room', () => {
  test('log.append: refuses while the disk is full, keeps its events, and continues when there is room', async (t) => {
    const { log, limitPages, integrity } = await openSmall(t);
    const append = () => log.append(1, [newEvent(), newEvent()]);
    limitPages(60);
    const appended = await untilRefused(append);
    assert.equal(await log.head(1), appended * 2, 'all of a call or nothing');
    assert.equal((await log.page(1, page)).events.length, appended * 2);
    await assert.rejects(append, StoreUnavailable, 'still full');
    limitPages(1000);
    const [first] = await append();
    assert.equal(first?.offset, appended * 2 + 1, 'refused calls took no offsets');
    assert.equal(integrity(), 'ok');
  });

  test('users.create: the user and its event are both there or neither', async (t) => {
    const { log, users, limitPages, integrity } = await openSmall(t);
    limitPages(60);
    let attempts = 0;
    const create = () => users.create(newUser((attempts += 1)), newEvent());
    const created = await untilRefused(create);
    const { items } = await users.listFrom(1, { after: undefined, take: 10_000 });
    assert.equal(items.length, created);
    assert.equal(await log.head(1), created);
    limitPages(1000);
    assert.ok('created' in (await create()));
    assert.equal(integrity(), 'ok');
  });

  test('reads work on a full disk', async (t) => {
    const { log, users, limitPages } = await openSmall(t);
    await users.create(newUser(1), newEvent());
    limitPages(1);
    const large = newEvent({ body: 'x'.repeat(100_000) });
    await assert.rejects(log.append(1, [large]), StoreUnavailable);
    assert.equal((await users.get(1, 'leat|1'))?.email, '1@example.com');
  });
});

/** Returns how many calls passed before one was refused for lack of space. */
async function untilRefused(call: () => Promise<unknown>): Promise<number> {
  for (let passed = 0; passed < 10_000; passed++) {
    try {
      await call();
    } catch (error) {
      assert.ok(error instanceof StoreUnavailable, String(error));
      assert.ok(passed > 0, 'there was room at first');
      return passed;
    }
  }
  throw new Error('there was always room');
}

/** Opens stores on a file whose number of pages can be limited, as a full disk would. */
async function openSmall(t: TestContext) {
  const folder = mkdtempSync(join(tmpdir(), 'leat-full-'));
  const path = join(folder, 'leat.db');
  const connection = openConnection({ path, file: path });
  const secretKeys = [randomBytes(32)];
  await prepareSchema(connection, { path, file: path }, createSeal(secretKeys, randomBytes));
  const store = createSqliteStore(connection, {
    secretKeys,
    random: randomBytes,
    clock: systemClock,
    time: createTestTime(start),
    defer: setImmediate,
    report: ignore,
  });
  t.after(async () => {
    await store.close();
    rmSync(folder, { recursive: true });
  });
  await addTenant(store, 'main');
  return {
    log: store.log,
    users: store.users,
    limitPages: (count: number) => connection.exec(`pragma max_page_count = ${count}`),
    integrity: () => connection.prepare('pragma integrity_check').get()?.['integrity_check'],
  };
}

function ignore(): void {}

function newUser(number: number): User {
  return {
    tenant: 1,
    id: `leat|${number}`,
    connection: 'c',
    email: `${number}@example.com`,
    username: undefined,
    passwordHash: 'hash',
    profileJson: JSON.stringify({ about: 'x'.repeat(1000) }),
    createdAt: start,
    updatedAt: start,
  };
}
