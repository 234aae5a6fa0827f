import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { describe, test, type TestContext } from 'node:test';
import { createAuditRecorder } from '../../src/api/audit-recorder.ts';
import type { Happened } from '../../src/api/audit-minute.ts';
import type { RecordedEntry } from '../../src/core/audit-log.ts';
import { StoreUnavailable } from '../../src/core/errors.ts';
import type { Store } from '../../src/store/port/store.ts';
import { allEntries } from '../helpers/audit-log.ts';
import { createManualClock } from '../helpers/clock.ts';
import { addTenant } from '../store/contract/fixture.ts';
import { sqliteMemory } from '../store/engines.ts';

const nextTurn = () => new Promise((resolve) => setImmediate(resolve));

/** A recorder over a store whose writes can be made to fail. */
async function openFixture(t: TestContext) {
  const { store, time, close } = await sqliteMemory.open();
  t.after(close);
  const clock = createManualClock(time.at - (time.at % 60_000));
  const state = { isDown: false, writes: 0, skewMs: 0 };
  const logged: object[] = [];
  const auditLog: Pick<Store['auditLog'], 'add'> = {
    add: async (entries) => {
      state.writes += 1;
      if (state.isDown) throw new StoreUnavailable('down');
      time.at = clock.now();
      await store.auditLog.add(entries);
    },
  };
  const { id: tenant } = await addTenant(store, 'main');
  const log = { error: (facts: object) => void logged.push(facts) };
  const skewed = { ...clock, now: () => clock.now() + state.skewMs };
  const deps = { store: { auditLog }, clock: skewed, random: randomBytes, log };
  const recorder = createAuditRecorder(deps);
  const entries = (of = tenant): Promise<readonly RecordedEntry[]> => allEntries(store, of);
  /** Lets the time pass, second by second, with turns of the event loop between batches. */
  const pass = async (ms: number): Promise<void> => {
    for (let passed = 0; passed < ms; passed += 1000) {
      await clock.advance(1000);
      for (let turns = 0; turns < 130; turns += 1) await nextTurn();
    }
  };
  return { store, tenant, clock, state, recorder, entries, logged, pass };
}

function refusal(tenant: number, given: Partial<Happened> = {}): Happened {
  const address = given.address ?? '192.0.2.1';
  return {
    tenant,
    type: 'feccft',
    description: 'refused',
    clientId: 'robot',
    ip: address,
    userAgent: 'curl',
    details: { targets: [], error: 'invalid_client' },
    what: 'invalid_client',
    address,
    ...given,
  };
}

describe('createAuditRecorder', () => {
  test('note: a refusal is in the store within 5 s, with the time at which it happened', async (t) => {
    const { tenant, clock, recorder, entries } = await openFixture(t);
    const at = clock.now();
    recorder.note(refusal(tenant));
    assert.deepEqual(await entries(), []);
    await clock.advance(5000);
    const [entry, ...more] = await entries();
    assert.deepEqual(more, []);
    assert.equal(entry?.at, at);
    assert.equal(entry.count, 1);
  });

  test('note: equal refusals of one address within a minute are one entry with their count', async (t) => {
    const { tenant, clock, recorder, entries, state } = await openFixture(t);
    for (let count = 0; count < 50; count += 1) {
      recorder.note(refusal(tenant, { userAgent: `agent ${count}` }));
      await clock.advance(1000);
    }
    await clock.advance(5000);
    const found = await entries();
    assert.deepEqual(
      found.map(({ count, userAgent }) => [count, userAgent]),
      [[50, 'agent 0']],
    );
    assert.ok(state.writes <= 12, `${state.writes} writes`);
    await clock.advance(60_000);
    recorder.note(refusal(tenant));
    await clock.advance(5000);
    assert.deepEqual(
      (await entries()).map(({ count }) => count),
      [1, 50],
    );
  });

  test('note: equal refusals on two nodes are one entry, and counts of both add up', async (t) => {
    const { store, tenant, clock, recorder, entries } = await openFixture(t);
    const log = { error: () => undefined };
    const other = createAuditRecorder({ store, clock, random: randomBytes, log });
    for (let count = 0; count < 5; count += 1) {
      recorder.note(refusal(tenant));
      other.note(refusal(tenant));
      await clock.advance(4000);
    }
    await Promise.all([recorder.close(), other.close()]);
    assert.deepEqual(
      (await entries()).map(({ count }) => count),
      [10],
    );
  });

  test('note: refusals of other clients, reasons and addresses are told apart', async (t) => {
    const { tenant, clock, recorder, entries } = await openFixture(t);
    const others: Partial<Happened>[] = [
      {},
      { clientId: 'other' },
      { clientId: undefined },
      { what: 'access_denied' },
      { type: 'fapi' },
      { address: '192.0.2.2' },
      { address: '2001:db8::1' },
      { address: '2001:db8:0:1::1' },
    ];
    for (const other of others) recorder.note(refusal(tenant, other));
    // The same customer, and the same address in another notation.
    recorder.note(refusal(tenant, { address: '2001:db8::ffff:1' }));
    recorder.note(refusal(tenant, { address: '::ffff:192.0.2.2' }));
    await clock.advance(5000);
    const counts = (await entries()).map(({ count }) => count).toSorted((a, b) => a - b);
    assert.deepEqual(counts, [1, 1, 1, 1, 1, 1, 2, 2]);
  });

  test('note: tokens of one client and address are an entry each up to 60 a minute', async (t) => {
    const { tenant, pass, recorder, entries } = await openFixture(t);
    const issued = refusal(tenant, { type: 'seccft', what: 'https://api.example' });
    for (let count = 0; count < 100; count += 1) recorder.note(issued);
    await pass(5000);
    const counts = (await entries()).map(({ count }) => count).toSorted((a, b) => a - b);
    assert.equal(counts.length, 61);
    assert.equal(counts.at(-1), 40);
    assert.equal(counts.at(-2), 1);
  });

  test(
    'note: 50,000 refusals from 5,000 addresses are 301 entries of a tenant, and none is lost',
    { tags: ['long'] },
    async (t) => {
      const { store, tenant, pass, recorder, entries } = await openFixture(t);
      const { id: other } = await addTenant(store, 'other');
      for (let count = 0; count < 50_000; count += 1) {
        const network = (count % 5000).toString(16);
        const host = count.toString(16);
        recorder.note(refusal(tenant, { address: `2001:db8:${network}::${host}` }));
      }
      recorder.note(refusal(other));
      await pass(7000);
      const found = await entries();
      assert.equal(found.length, 301);
      assert.equal(
        found.reduce((sum, { count }) => sum + count, 0),
        50_000,
      );
      const merged = found.filter(({ details }) => details['merged'] === true);
      assert.deepEqual(
        merged.map(({ count, ip, clientId }) => [count, ip, clientId]),
        [[50_000 - 300 * 10, undefined, undefined]],
      );
      assert.equal((await entries(other)).length, 1, 'the entry of another tenant');
    },
  );

  test('note: one network or client uses up a part of a bound, and entries of others stay apart', async (t) => {
    const { tenant, pass, recorder, entries } = await openFixture(t);
    for (let count = 0; count < 2000; count += 1) {
      const number = count.toString(16);
      recorder.note(refusal(tenant, { address: `2001:db8:0:${number}::1` }));
      recorder.note(refusal(tenant, { type: 'fapi', what: number, clientId: 'attacker' }));
      const issued = { type: 'seccft', what: number, clientId: 'attacker' } as const;
      recorder.note(refusal(tenant, issued));
    }
    for (const type of ['feccft', 'fapi', 'seccft'] as const) {
      recorder.note(refusal(tenant, { type, address: '198.51.100.7' }));
    }
    await pass(7000);
    const found = await entries();
    assert.deepEqual(
      found.filter(({ ip }) => ip === '198.51.100.7').map(({ clientId }) => clientId),
      ['robot', 'robot', 'robot'],
    );
    const merged = found.filter(({ details }) => details['merged'] === true);
    assert.deepEqual(Object.fromEntries(merged.map(({ type, count }) => [type, count])), {
      fapi: 1900,
      feccft: 1940,
      seccft: 1400,
    });
  });

  test('note: while the store does not respond a tenant leaves room for entries of others', async (t) => {
    const { store, tenant, clock, pass, recorder, entries, state } = await openFixture(t);
    const { id: other } = await addTenant(store, 'other');
    state.isDown = true;
    for (let minute = 0; minute < 20; minute += 1) {
      for (let count = 0; count < 400; count += 1) {
        recorder.note(refusal(tenant, { address: `2001:db8:${count.toString(16)}::1` }));
      }
      await clock.advance(60_000);
    }
    recorder.note(refusal(other));
    state.isDown = false;
    await pass(7000);
    assert.deepEqual(
      (await entries(other)).map(({ ip, count }) => [ip, count]),
      [['192.0.2.1', 1]],
    );
    const found = await entries();
    assert.ok(found.length <= 2001, `${found.length} entries`);
    assert.equal(
      found.reduce((sum, { count }) => sum + count, 0),
      8000,
    );
  });

  test('note: while the store does not respond memory is bounded, and counts are written later', async (t) => {
    const { tenant, clock, pass, recorder, entries, state } = await openFixture(t);
    state.isDown = true;
    for (let minute = 0; minute < 30; minute += 1) {
      for (let count = 0; count < 400; count += 1) {
        const [high, low] = [minute.toString(16), count.toString(16)];
        recorder.note(refusal(tenant, { address: `2001:db8:${high}:${low}::1` }));
      }
      await clock.advance(60_000);
    }
    assert.deepEqual(await entries(), []);
    state.isDown = false;
    await pass(7000);
    const found = await entries();
    assert.equal(
      found.reduce((sum, { count }) => sum + count, 0),
      12_000,
    );
    assert.ok(found.length <= 5001, `${found.length} entries`);
    assert.ok(state.writes < 3000, `${state.writes} writes`);
  });

  test('close: writes what waits, also counts that are not due', async (t) => {
    const { tenant, clock, recorder, entries } = await openFixture(t);
    recorder.note(refusal(tenant));
    await clock.advance(2000);
    recorder.note(refusal(tenant));
    await recorder.close();
    assert.deepEqual(
      (await entries()).map(({ count }) => count),
      [2],
    );
  });

  test('close: ends while the store does not respond', async (t) => {
    const { tenant, recorder, state } = await openFixture(t);
    state.isDown = true;
    recorder.note(refusal(tenant));
    await recorder.close();
    assert.equal(state.writes, 1);
  });

  test('note: an entry that the store refuses is logged and does not block others', async (t) => {
    const { tenant, clock, recorder, entries, logged } = await openFixture(t);
    recorder.note(refusal(tenant, { description: undefined as never }));
    await clock.advance(2000);
    assert.equal(logged.length, 1);
    recorder.note(refusal(tenant, { what: 'other' }));
    await clock.advance(2000);
    assert.equal((await entries()).length, 1);
  });

  test('note: a clock that goes back writes no entry twice and loses none', async (t) => {
    const { tenant, clock, recorder, entries, state } = await openFixture(t);
    recorder.note(refusal(tenant));
    await clock.advance(30_000);
    state.skewMs = -3_600_000;
    recorder.note(refusal(tenant));
    await clock.advance(5000);
    state.skewMs = 0;
    recorder.note(refusal(tenant));
    await clock.advance(5000);
    const counts = (await entries()).map(({ count }) => count);
    assert.equal(
      counts.reduce((sum, count) => sum + count, 0),
      3,
    );
  });
});
