import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { systemClock } from '../../src/clock.ts';
import { StoreContentRefused, StoreUnavailable } from '../../src/core/errors.ts';
import type { Appended, NewEvent } from '../../src/core/types.ts';
import { createAppender, type AppenderDeps } from '../../src/store/appender.ts';
import { newEvent } from './contract/fixture.ts';

/** An engine whose writes end when the test resolves them. */
function createBarrier(given: Partial<AppenderDeps> = {}) {
  const writes: { tenant: number; ids: string[] }[] = [];
  let release: (() => void)[] = [];
  const deferred: (() => void)[] = [];
  const appender = createAppender({
    groupEventsMax: 100,
    groupBodiesMax: 1_000_000,
    answerMs: 9000,
    clock: systemClock,
    late: () => undefined,
    defer: (action) => deferred.push(action),
    write: async (tenant, events) => {
      writes.push({ tenant, ids: events.map(({ id }) => id) });
      await new Promise<void>((resolve) => release.push(resolve));
      return result(events);
    },
    ...given,
  });
  return {
    appender,
    writes,
    /** Ends the current turn of the event loop, and the turns that a deferred commit waits for. */
    turn: async () => {
      while (deferred.length > 0) for (const action of deferred.splice(0)) action();
      await settled();
    },
    /** Ends only the current turn. */
    oneTurn: async () => {
      for (const action of deferred.splice(0)) action();
      await settled();
    },
    /** Ends the writes in progress. */
    commit: async () => {
      for (const resolve of release) resolve();
      release = [];
      await settled();
    },
  };
}

/** A full group yields some turns of the event loop. */
const settled = async () => {
  for (let turn = 0; turn < 6; turn += 1) await new Promise((resolve) => setImmediate(resolve));
};

const result = (events: readonly NewEvent[]): Appended[] =>
  events.map(({ id }, index) => ({ id, offset: index + 1, repeated: false }));

const event = (id: string, body = '{}') => newEvent({ id, body });

describe('group commit', () => {
  test('a single call waits for one turn, a burst until a turn without further calls', async () => {
    const single = createBarrier();
    const lone = single.appender.append(1, [event('a')]);
    await single.oneTurn();
    assert.equal(single.writes.length, 1);
    await single.commit();
    await lone;

    const burst = createBarrier();
    const calls = [burst.appender.append(1, [event('a')])];
    for (const id of ['b', 'c']) {
      calls.push(burst.appender.append(1, [event(id)]));
      await burst.oneTurn();
      assert.deepEqual(burst.writes, []);
    }
    await burst.oneTurn();
    assert.deepEqual(
      burst.writes.map(({ ids }) => ids),
      [['a', 'b', 'c']],
    );
    await burst.commit();
    await Promise.all(calls);
  });

  test('an endless burst is cut after a few turns', async () => {
    const { appender, writes, oneTurn, commit } = createBarrier();
    const calls = [appender.append(1, [event('0')])];
    for (let turn = 1; writes.length === 0; turn++) {
      assert.ok(turn < 50, 'nothing was written in 50 turns');
      calls.push(appender.append(1, [event(String(turn))]));
      await oneTurn();
    }
    await commit();
    await oneTurn();
    await commit();
    await Promise.all(calls);
  });

  test('calls of one turn share one write, in their order, and each gets its own result', async () => {
    const { appender, writes, turn, commit } = createBarrier();
    const one = appender.append(1, [event('a'), event('b')]);
    const two = appender.append(1, [event('c')]);
    await turn();
    assert.deepEqual(writes, [{ tenant: 1, ids: ['a', 'b', 'c'] }]);
    await commit();
    assert.deepEqual(
      (await one).map(({ id }) => id),
      ['a', 'b'],
    );
    assert.deepEqual(await two, [{ id: 'c', offset: 3, repeated: false }]);
  });

  test('calls that arrive during a write join the next, one write at a time', async () => {
    const { appender, writes, turn, commit } = createBarrier();
    const first = appender.append(1, [event('a')]);
    await turn();
    const later = ['b', 'c'].map((id) => appender.append(1, [event(id)]));
    await turn();
    assert.equal(writes.length, 1);
    await commit();
    assert.deepEqual(writes[1]?.ids, ['b', 'c']);
    await commit();
    await Promise.all([first, ...later]);
  });

  test('tenants do not wait for each other', async () => {
    const { appender, writes, turn, commit } = createBarrier();
    const both = [1, 2].map((tenant) => appender.append(tenant, [event('a')]));
    await turn();
    assert.deepEqual(
      writes.map(({ tenant }) => tenant),
      [1, 2],
    );
    await commit();
    await Promise.all(both);
  });

  test('a group is bounded by events and by bodies, one call always fits', async () => {
    for (const limits of [{ groupEventsMax: 2 }, { groupBodiesMax: 20 }]) {
      const { appender, writes, turn, commit } = createBarrier(limits);
      const calls = ['a', 'b', 'c'].map((id) =>
        appender.append(1, [event(id, 'x'.repeat(10)), event(`${id}2`, 'x'.repeat(10))]),
      );
      await turn();
      for (let count = 0; count < calls.length; count += 1) await commit();
      await Promise.all(calls);
      assert.deepEqual(
        writes.map(({ ids }) => ids.length),
        [2, 2, 2],
      );
    }
  });

  test('a group refused for its content is written call by call', async () => {
    const written: string[] = [];
    const { appender, turn } = createBarrier({
      write: (_tenant, events) => {
        const bad = events.find(({ id }) => id === 'bad');
        if (bad !== undefined) throw new StoreContentRefused('bad');
        written.push(...events.map(({ id }) => id));
        return result(events);
      },
    });
    const results = Promise.allSettled(
      ['a', 'bad', 'b'].map((id) => appender.append(1, [event(id)])),
    );
    await turn();
    assert.deepEqual(
      (await results).map(({ status }) => status),
      ['fulfilled', 'rejected', 'fulfilled'],
    );
    assert.deepEqual(written, ['a', 'b']);
  });

  test('when the store fails, every call of the group fails, and the next call is tried again', async () => {
    let failures = 0;
    const { appender, turn } = createBarrier({
      write: (_tenant, events) => {
        failures += 1;
        if (failures === 1) throw new StoreUnavailable('disk full');
        return result(events);
      },
    });
    const results = Promise.allSettled(['a', 'b'].map((id) => appender.append(1, [event(id)])));
    await turn();
    for (const one of await results) {
      assert.ok(one.status === 'rejected' && one.reason instanceof StoreUnavailable);
    }
    const next = appender.append(1, [event('c')]);
    await turn();
    assert.equal((await next).length, 1);
    assert.equal(failures, 2);
  });

  test('idle waits for pending calls and for those that join later', async () => {
    const { appender, turn, commit } = createBarrier();
    const first = appender.append(1, [event('a')]);
    let idle = false;
    const ended = appender.idle().then(() => (idle = true));
    await turn();
    const second = appender.append(1, [event('b')]);
    await commit();
    assert.equal(idle, false);
    await commit();
    await Promise.all([first, second, ended]);
    assert.equal(idle, true);
    await appender.idle();
  });
});
