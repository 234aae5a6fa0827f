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
import { createDeliveryScene, type DeliveryScene } from './fixture.ts';

/** A scene whose store can be replaced by another one, in which the log is shorter. */
interface ReplaceableScene extends DeliveryScene {
  readonly stream: Stream;
  /** The store that takes over; it has the tenant and the stream, and no events. */
  readonly other: Store;
  /** From now on commands reach `other`; they fail until the dispatcher has joined it. */
  replace(): void;
  /** Emits what the store emits when it finds out that it was replaced. */
  hintReplaced(): void;
  joins(): number;
}

async function replaceableScene(t: TestContext): Promise<ReplaceableScene> {
  const other = await openStore({
    location: { engine: 'sqlite', path: ':memory:' },
    secretKey: new Uint8Array(32),
    random: randomBytes,
    clock: createManualClock(),
    defer: queueMicrotask,
  });
  t.after(() => other.close());
  let state: 'first' | 'replaced' | 'joined' = 'first';
  let joins = 0;
  const listeners = new Set<(hint: Hint) => void>();
  const through = (first: Store): Store => {
    /** A part of the store whose commands compare the store with the one that was joined. */
    const compared = <P extends 'log' | 'deliveries' | 'replays' | 'ownership'>(
      part: P,
    ): Store[P] =>
      new Proxy(first[part], {
        get:
          (_, name) =>
          async (...args: unknown[]) => {
            if (state === 'replaced') throw new StoreReplaced('another one');
            const target: object = (state === 'first' ? first : other)[part];
            return (Reflect.get(target, name) as (...given: unknown[]) => unknown)(...args);
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
  const scene = await createDeliveryScene(t, { through });
  const { id: tenant } = await addTenant(other, 'main');
  assert.equal(tenant, scene.tenant);
  const stream = await scene.addStream();
  const types = stream.subscriptions.flatMap((subscription) => subscription.types);
  assert.ok('created' in (await other.streams.create({ ...stream, types }, { streamsMax: 9 })));
  return {
    ...scene,
    get dispatcher() {
      return scene.dispatcher;
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

async function appendTo(store: Store, scene: DeliveryScene, count: number): Promise<string[]> {
  const events = Array.from({ length: count }, () => newEvent({ time: scene.clock.now() }));
  await store.log.append(scene.tenant, events);
  await scene.clock.advance(0);
  return events.map(({ id }) => id);
}

describe('a dispatcher whose store was replaced', () => {
  test('sends what the other store takes at offsets that it has passed before', async (t) => {
    const scene = await replaceableScene(t);
    await scene.start();
    const before = await scene.publishMany(20);
    await scene.clock.advance(500);
    scene.replace();
    await scene.clock.advance(10_000);
    const after = await appendTo(scene.other, scene, 10);
    await scene.clock.advance(500);
    assert.deepEqual(scene.sent(), [...before, ...after]);
    assert.equal(scene.joins(), 2);
    assert.deepEqual(scene.reported('store_replaced'), [
      {
        kind: 'store_replaced',
        generation: 2,
        heads: [{ tenant: scene.tenant, before: 20, now: 0 }],
      },
    ]);
    await scene.dispatcher.idle();
  });

  test('joins it at once when the store says so', async (t) => {
    const scene = await replaceableScene(t);
    await scene.start();
    scene.replace();
    scene.hintReplaced();
    await scene.clock.advance(0);
    assert.equal(scene.joins(), 2);
    const after = await appendTo(scene.other, scene, 3);
    assert.deepEqual(scene.sent(), after);
  });

  test('cuts off attempts under way and records nothing of them', async (t) => {
    const scene = await replaceableScene(t);
    await scene.start();
    const [hanging] = await scene.publishHanging('user.created');
    assert.ok(hanging);
    scene.replace();
    scene.hintReplaced();
    await scene.clock.advance(0);
    assert.equal(hanging.cancelled, true);
    scene.transport.respond = () => ok;
    hanging.end(ok);
    await scene.clock.advance(500);
    const state = scene.dispatcher.state();
    assert.deepEqual([state.inFlight, state.unsettled, state.streams], [0, 0, 1]);
    const [id] = await appendTo(scene.other, scene, 1);
    await scene.clock.advance(500);
    assert.equal(scene.sent().at(-1), id);
  });

  test('can be stopped while it joins, and afterwards', async (t) => {
    const scene = await replaceableScene(t);
    await scene.start();
    await scene.publishMany(3);
    scene.replace();
    scene.hintReplaced();
    await scene.stop();
    assert.deepEqual(await scene.other.ownership.nodes(), []);
  });
});
