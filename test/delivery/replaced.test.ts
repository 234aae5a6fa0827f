import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { describe, test, type TestContext } from 'node:test';
import { StoreReplaced } from '../../src/core/errors.ts';
import type { Stream } from '../../src/core/types.ts';
import { openStore } from '../../src/store/open.ts';
import type { Hint } from '../../src/store/port/hints.ts';
import type { JoinedNode } from '../../src/store/port/ownership.ts';
import type { Store } from '../../src/store/port/store.ts';
import { createManualClock } from '../helpers/clock.ts';
import { ok } from '../helpers/transport.ts';
import { addTenant, newEvent } from '../store/contract/fixture.ts';
import { createDeliveryFixture, type DeliveryFixture } from './fixture.ts';

/** A fixture whose store can be replaced by another one, in which the log is shorter. */
interface ReplaceableFixture extends DeliveryFixture {
  readonly stream: Stream;
  /** The store that takes over; it has the tenant and the stream, and no events. */
  readonly other: Store;
  /** Directs all commands to `other`; they fail until the dispatcher has joined it. */
  replace(): void;
  /** Emits the hint of a store that was replaced. */
  hintReplaced(): void;
  joins(): number;
}

async function createReplaceableFixture(t: TestContext): Promise<ReplaceableFixture> {
  const other = await openStore({
    location: { engine: 'sqlite', path: ':memory:' },
    secretKeys: [new Uint8Array(32)],
    random: randomBytes,
    clock: createManualClock(),
    defer: queueMicrotask,
  });
  t.after(() => other.close());
  let state: 'first' | 'replaced' | 'joined' = 'first';
  let joins = 0;
  const listeners = new Set<(hint: Hint) => void>();
  const through = (first: Store): Store => {
    /** Wraps a part of the store: its commands fail unless the node has joined this store. */
    const compared = <P extends 'log' | 'deliveries' | 'replays' | 'ownership'>(
      part: P,
    ): Store[P] =>
      new Proxy(first[part], {
        get:
          (_, name) =>
          async (...args: unknown[]) => {
            if (state === 'replaced') throw new StoreReplaced('another one');
            const target: object = (state === 'first' ? first : other)[part];
            return (Reflect.get(target, name) as (...options: unknown[]) => unknown)(...args);
          },
      });
    const ownership = compared('ownership');
    return {
      ...first,
      log: compared('log'),
      deliveries: compared('deliveries'),
      replays: compared('replays'),
      watch: (listener) => {
        listeners.add(listener);
        const [one, two] = [first.watch(listener), other.watch(listener)];
        return () => [one(), two(), listeners.delete(listener)];
      },
      ownership: new Proxy(ownership, {
        get: (target, name) => {
          if (name !== 'join') return Reflect.get(target, name) as unknown;
          return async (id: string, leaseMs: number): Promise<JoinedNode> => {
            joins += 1;
            if (state === 'first') return first.ownership.join(id, leaseMs);
            state = 'joined';
            const node = await other.ownership.join(id, leaseMs);
            return {
              ...node,
              replaced: { generation: 2, heads: [{ tenant: 1, before: 20, now: 0 }] },
            };
          };
        },
      }),
    };
  };
  const fixture = await createDeliveryFixture(t, { through });
  const { id: tenant } = await addTenant(other, 'main');
  assert.equal(tenant, fixture.tenant);
  const stream = await fixture.addStream();
  const types = stream.subscriptions.flatMap((subscription) => subscription.types);
  assert.ok('created' in (await other.streams.create({ ...stream, types }, { streamsMax: 9 })));
  return {
    ...fixture,
    get dispatcher() {
      return fixture.dispatcher;
    },
    stream,
    other,
    replace: () => {
      state = 'replaced';
    },
    hintReplaced: () => {
      for (const listener of listeners) listener({ kind: 'replaced' });
    },
    joins: () => joins,
  };
}

async function appendTo(store: Store, fixture: DeliveryFixture, count: number): Promise<string[]> {
  const events = Array.from({ length: count }, () => newEvent({ time: fixture.clock.now() }));
  await store.log.append(fixture.tenant, events);
  await fixture.clock.advance(0);
  return events.map(({ id }) => id);
}

describe('a dispatcher whose store was replaced', () => {
  test('a dispatcher sends events of the other store at offsets that it had passed before', async (t) => {
    const fixture = await createReplaceableFixture(t);
    await fixture.start();
    const before = await fixture.publishMany(20);
    await fixture.clock.advance(500);
    fixture.replace();
    await fixture.clock.advance(10_000);
    const after = await appendTo(fixture.other, fixture, 10);
    await fixture.clock.advance(500);
    assert.deepEqual(fixture.sent(), [...before, ...after]);
    assert.equal(fixture.joins(), 2);
    assert.deepEqual(fixture.reported('store_replaced'), [
      {
        kind: 'store_replaced',
        generation: 2,
        heads: [{ tenant: fixture.tenant, before: 20, now: 0 }],
      },
    ]);
    await fixture.dispatcher.idle();
  });

  test('a dispatcher joins the other store at once on a hint', async (t) => {
    const fixture = await createReplaceableFixture(t);
    await fixture.start();
    fixture.replace();
    fixture.hintReplaced();
    await fixture.clock.advance(0);
    assert.equal(fixture.joins(), 2);
    const after = await appendTo(fixture.other, fixture, 3);
    assert.deepEqual(fixture.sent(), after);
  });

  test('a replaced store: attempts under way are cut off and not recorded', async (t) => {
    const fixture = await createReplaceableFixture(t);
    await fixture.start();
    const [hanging] = await fixture.publishHanging('user.created');
    assert.ok(hanging);
    fixture.replace();
    fixture.hintReplaced();
    await fixture.clock.advance(0);
    assert.equal(hanging.cancelled, true);
    fixture.transport.respond = () => ok;
    hanging.end(ok);
    await fixture.clock.advance(500);
    const state = fixture.dispatcher.state();
    assert.deepEqual([state.inFlight, state.unsettled, state.streams], [0, 0, 1]);
    const [id] = await appendTo(fixture.other, fixture, 1);
    await fixture.clock.advance(500);
    assert.equal(fixture.sent().at(-1), id);
  });

  test('a dispatcher can be stopped while it joins the other store, and afterwards', async (t) => {
    const fixture = await createReplaceableFixture(t);
    await fixture.start();
    await fixture.publishMany(3);
    fixture.replace();
    fixture.hintReplaced();
    await fixture.stop();
    assert.deepEqual(await fixture.other.ownership.nodes(), []);
  });
});
