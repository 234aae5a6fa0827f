import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { describe, test } from 'node:test';
import { StartRefused, StoreUnavailable } from '../../src/core/errors.ts';
import { systemClock } from '../../src/clock.ts';
import { openStore } from '../../src/store/open.ts';
import { freePort } from '../helpers/ports.ts';
import { addTenant, newEvent } from './contract/fixture.ts';

const clock = systemClock;
const random = (count: number) => randomBytes(count);
const secretKey = randomBytes(32);
const memory = { engine: 'sqlite', path: ':memory:' } as const;

describe('openStore', () => {
  test('openStore: a missing server refuses the start in one line, without the password', async () => {
    const port = await freePort();
    const url = `postgres://leat:secret@127.0.0.1:${port}/leat`;
    const location = { engine: 'postgres', url } as const;
    await assert.rejects(
      openStore({ location, secretKeys: [secretKey], random, clock }),
      (error) => {
        assert.ok(error instanceof StartRefused);
        assert.equal(
          error.message,
          `LEAT_STORE: postgres://127.0.0.1:${port}/leat cannot be reached: nothing listens there, check host and port`,
        );
        return true;
      },
    );
  });

  test('openStore: a listener that throws does not affect an append, and its error is reported', async (t) => {
    const reported: unknown[] = [];
    const report = (error: unknown) => reported.push(error);
    const store = await openStore({
      location: memory,
      secretKeys: [secretKey],
      random,
      clock,
      report,
    });
    t.after(() => store.close());
    const tenant = await addTenant(store, 'main');
    const bug = new Error('a bug in a listener');
    store.watch(() => {
      throw bug;
    });
    const appended = await store.log.append(tenant.id, [newEvent()]);
    assert.equal(appended.length, 1);
    assert.deepEqual(reported, [bug]);
  });

  test('close: resolves after the appends in progress; afterwards the store is unavailable', async () => {
    const store = await openStore({ location: memory, secretKeys: [secretKey], random, clock });
    const tenant = await addTenant(store, 'main');
    await store.ping();
    const appended = store.log.append(tenant.id, [newEvent()]);
    await store.close();
    assert.equal((await appended)[0]?.offset, 1);
    await store.close();
    await assert.rejects(store.ping(), StoreUnavailable);
    await assert.rejects(store.log.append(tenant.id, [newEvent()]), StoreUnavailable);
    await assert.rejects(store.log.head(tenant.id), StoreUnavailable);
  });
});
