import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { withTypes } from '../../../src/core/subscription.ts';
import type { Stream } from '../../../src/core/types.ts';
import type { StreamDecision } from '../../../src/store/port/streams.ts';
import type { Engine } from './engine.ts';
import {
  addTenant,
  claimDue,
  createScene,
  delivered,
  failed,
  failuresOf,
  newStream,
  parked,
  retry,
  start,
  type Scene,
  waitRule,
} from './fixture.ts';

export function streamsContract(engine: Engine): void {
  describe(`${engine.name}: streams.create`, () => createContract(engine));
  describe(`${engine.name}: streams.get and list`, () => readContract(engine));
  describe(`${engine.name}: streams.update`, () => updateContract(engine));
  describe(`${engine.name}: a change of subscriptions`, () => subscriptionsContract(engine));
  describe(`${engine.name}: disabling by hand`, () => disableContract(engine));
  describe(`${engine.name}: enabling`, () => enableContract(engine));
  describe(`${engine.name}: disabling for lag`, () => lagContract(engine));
  describe(`${engine.name}: streams.delete`, () => deleteContract(engine));
}

const rules = { streamsMax: 1000 };
const later = start + 60_000;

/** Changes members of a stream, as the API's decide function does. */
function change(
  scene: Scene,
  stream: Stream,
  members: Partial<Stream>,
  resume?: 'latest' | 'held',
) {
  const decide = (before: Stream): StreamDecision => ({
    after: { ...before, ...members, updatedAt: scene.now },
    resume,
  });
  return scene.store.streams.update(scene.tenant, stream.id, decide);
}

/** The same, and the stream as it is then. */
async function changed(scene: Scene, stream: Stream, members: Partial<Stream>): Promise<Stream> {
  const answer = await change(scene, stream, members);
  assert.ok('updated' in answer);
  return answer.updated;
}

async function nowOwned(scene: Scene, stream: Stream) {
  const refs = [{ tenant: scene.tenant, stream: stream.id }];
  const [owned] = await scene.store.ownership.owned(await scene.node(), refs, waitRule);
  assert.ok(owned);
  return owned;
}

function createContract(engine: Engine): void {
  test('what was created is read as it was written, version 1', async (t) => {
    const { store, tenant } = await createScene(engine, t);
    const { types, ...given } = newStream(tenant, start, {
      name: 'crm ä𝄞',
      types: ['b.b', 'a.a', 'b.b'],
      destination: {
        type: 'webhook',
        endpoint: 'https://hooks.example.net/leat',
        authorization: { method: 'custom_header', headerKey: 'X-Key', headerValue: 'v"\\ ä' },
      },
      signingSecrets: [
        { secret: 'whsec_new', createdAt: start, expiresAt: undefined },
        { secret: 'whsec_old', createdAt: start - 5, expiresAt: start + 5 },
      ],
    });
    const answer = await store.streams.create({ ...given, types: types ?? [] }, rules);
    const expected = { ...given, subscriptions: [{ after: -1, types }], version: 1 };
    assert.deepEqual(answer, { created: expected });
    assert.deepEqual(await store.streams.get(tenant, given.id), expected);
    assert.deepEqual(await store.streams.health(tenant, given.id), { consecutive: 0, total: 0 });
  });

  test('a stream begins at the head of the log', async (t) => {
    const scene = await createScene(engine, t);
    await scene.publish('user.created', 'user.created');
    const owned = await scene.own(await scene.addStream());
    assert.deepEqual([owned.cursor, owned.run], [2, 1]);
  });

  test('a name is used once in a tenant', async (t) => {
    const scene = await createScene(engine, t);
    const { store, tenant } = scene;
    await scene.addStream({ name: 'crm' });
    const again = await store.streams.create(newStream(tenant, start, { name: 'crm' }), rules);
    assert.deepEqual(again, { refused: 'name_taken' });
    const other = await addTenant(store, 'other');
    const there = await store.streams.create(newStream(other.id, start, { name: 'crm' }), rules);
    assert.ok('created' in there);
  });

  test('a tenant has at most as many streams as allowed', async (t) => {
    const scene = await createScene(engine, t);
    const { store, tenant } = scene;
    const two = { streamsMax: 2 };
    await scene.addStream();
    assert.ok('created' in (await store.streams.create(newStream(tenant, start), two)));
    const third = await store.streams.create(newStream(tenant, start), two);
    assert.deepEqual(third, { refused: 'too_many' });
    const other = await addTenant(store, 'other');
    assert.ok('created' in (await store.streams.create(newStream(other.id, start), two)));
  });

  test('of concurrent creations with one name exactly one succeeds', async (t) => {
    const { store, tenant } = await createScene(engine, t);
    const answers = await Promise.all(
      Array.from({ length: 5 }, () =>
        store.streams.create(newStream(tenant, start, { name: 'crm' }), rules),
      ),
    );
    assert.equal(answers.filter((answer) => 'created' in answer).length, 1);
  });

  test('watchers hear of it', async (t) => {
    const scene = await createScene(engine, t);
    const stream = await scene.addStream();
    assert.deepEqual(scene.hints, [{ kind: 'stream', tenant: scene.tenant, stream: stream.id }]);
  });
}

function readContract(engine: Engine): void {
  test('a stream of another tenant is not there', async (t) => {
    const scene = await createScene(engine, t);
    const other = await addTenant(scene.store, 'other');
    const stream = await scene.addStream();
    assert.equal(await scene.store.streams.get(other.id, stream.id), undefined);
    assert.equal(await scene.store.streams.health(other.id, stream.id), undefined);
    const page = { after: undefined, take: 10 };
    assert.deepEqual((await scene.store.streams.list(other.id, page)).items, []);
    assert.equal(await scene.store.streams.delete(other.id, stream.id), false);
    const decide = () => assert.fail('the stream of another tenant must not be seen');
    const update = await scene.store.streams.update(other.id, stream.id, decide);
    assert.deepEqual(update, { refused: 'unknown' });
  });

  test('pages go oldest first and the last has no next', async (t) => {
    const scene = await createScene(engine, t);
    const made = [];
    for (let count = 0; count < 5; count += 1) made.push(await scene.addStream());
    const { list } = scene.store.streams;
    const first = await list(scene.tenant, { after: undefined, take: 2 });
    assert.deepEqual(first.items, made.slice(0, 2));
    const second = await list(scene.tenant, { after: first.next, take: 2 });
    assert.deepEqual(second.items, made.slice(2, 4));
    const third = await list(scene.tenant, { after: second.next, take: 2 });
    assert.deepEqual([third.items, third.next], [made.slice(4), undefined]);
    const whole = await list(scene.tenant, { after: undefined, take: 5 });
    assert.deepEqual([whole.items.length, whole.next], [5, undefined]);
  });

  test('a page goes on after a stream that was deleted meanwhile', async (t) => {
    const scene = await createScene(engine, t);
    const [one, two, three] = [
      await scene.addStream(),
      await scene.addStream(),
      await scene.addStream(),
    ];
    const page = await scene.store.streams.list(scene.tenant, { after: undefined, take: 2 });
    await scene.store.streams.delete(scene.tenant, two.id);
    assert.deepEqual(page.items, [one, two]);
    const next = await scene.store.streams.list(scene.tenant, { after: page.next, take: 2 });
    assert.deepEqual(next.items, [three]);
  });
}

function updateContract(engine: Engine): void {
  test('the change is written and the version rises', async (t) => {
    const scene = await createScene(engine, t);
    const stream = await scene.addStream();
    scene.now = later;
    const destination = {
      type: 'webhook',
      endpoint: 'https://other.example.net/',
      authorization: { method: 'basic', username: 'u', password: 'p' },
    } as const;
    const updated = await changed(scene, stream, { name: 'new', destination });
    const expected = { ...stream, name: 'new', destination, version: 2, updatedAt: later };
    assert.deepEqual(updated, expected);
    assert.deepEqual(await scene.store.streams.get(scene.tenant, stream.id), expected);
  });

  test('decide sees the stream, its health and the head', async (t) => {
    const scene = await createScene(engine, t);
    const stream = await scene.addStream();
    const [event] = await scene.publish('user.created', 'user.created');
    assert.ok(event);
    await scene.settle(await scene.own(stream), { outcomes: [failed(event)] });
    const seen: unknown[] = [];
    await scene.store.streams.update(scene.tenant, stream.id, (before, state) => {
      seen.push(before, state);
      return { after: before };
    });
    assert.deepEqual(seen, [stream, { health: { consecutive: 1, total: 1 }, head: 2 }]);
  });

  test('the same object back means that nothing changes', async (t) => {
    const scene = await createScene(engine, t);
    const stream = await scene.addStream();
    const answer = await scene.store.streams.update(scene.tenant, stream.id, (before) => ({
      after: before,
    }));
    assert.deepEqual(answer, { updated: stream, skipped: 0, held: undefined });
    assert.deepEqual(await scene.store.streams.get(scene.tenant, stream.id), stream);
  });

  test('a name that another stream has is refused and nothing is applied', async (t) => {
    const scene = await createScene(engine, t);
    await scene.addStream({ name: 'taken' });
    const stream = await scene.addStream({ name: 'mine' });
    const answer = await change(scene, stream, { name: 'taken', status: 'disabled' });
    assert.deepEqual(answer, { refused: 'name_taken' });
    assert.deepEqual(await scene.store.streams.get(scene.tenant, stream.id), stream);
    assert.ok('updated' in (await change(scene, stream, { name: 'mine' })));
  });

  test('a refusal of decide is handed through with the health', async (t) => {
    const scene = await createScene(engine, t);
    const stream = await scene.addStream();
    const answer = await scene.store.streams.update(scene.tenant, stream.id, () => ({
      refused: 'too_many_failures',
    }));
    const health = { consecutive: 0, total: 0 };
    assert.deepEqual(answer, { refused: 'too_many_failures', health });
  });

  test('a decide that throws leaves everything as it was', async (t) => {
    const scene = await createScene(engine, t);
    const stream = await scene.addStream();
    const update = scene.store.streams.update(scene.tenant, stream.id, () => {
      throw new Error('a bug in the rule');
    });
    await assert.rejects(update, /a bug in the rule/);
    assert.deepEqual(await scene.store.streams.get(scene.tenant, stream.id), stream);
    await scene.publish('user.created');
    assert.equal(await scene.store.log.head(scene.tenant), 1);
  });

  test('id, tenant and creation stay whatever decide says', async (t) => {
    const scene = await createScene(engine, t);
    const stream = await scene.addStream();
    const updated = await changed(scene, stream, { id: 'est_x', tenant: 99, createdAt: 1 });
    assert.deepEqual(updated, { ...stream, version: 2 });
  });

  test('watchers hear of a change, not of a refusal', async (t) => {
    const scene = await createScene(engine, t);
    const stream = await scene.addStream();
    scene.hints.length = 0;
    await scene.store.streams.update(scene.tenant, stream.id, () => ({
      refused: 'too_many_failures',
    }));
    assert.deepEqual(scene.hints, []);
    await change(scene, stream, { name: 'other' });
    assert.deepEqual(scene.hints, [{ kind: 'stream', tenant: scene.tenant, stream: stream.id }]);
  });
}

function subscriptionsContract(engine: Engine): void {
  /** The subscriptions as the rule of a PATCH makes them. */
  const changeTypes = async (scene: Scene, stream: Stream, ...types: string[]): Promise<Stream> => {
    const head = await scene.store.log.head(scene.tenant);
    return changed(scene, stream, { subscriptions: withTypes(stream.subscriptions, types, head) });
  };

  test('the former types stay beside the new ones until the cursor has passed them', async (t) => {
    const scene = await createScene(engine, t);
    const stream = await scene.addStream({ types: ['a.a'] });
    await scene.publish('a.a', 'a.a');
    const updated = await changeTypes(scene, stream, 'b.b');
    assert.deepEqual(updated.subscriptions, [
      { after: -1, types: ['a.a'] },
      { after: 2, types: ['b.b'] },
    ]);
    await scene.publish('a.a');
    const again = await changeTypes(scene, updated, 'c.c');
    assert.deepEqual(again.subscriptions, [...updated.subscriptions, { after: 3, types: ['c.c'] }]);
    assert.deepEqual(await scene.store.streams.get(scene.tenant, stream.id), again);
  });

  test('types that the cursor has passed are dropped with the next change', async (t) => {
    const scene = await createScene(engine, t);
    const stream = await scene.addStream({ types: ['a.a'] });
    await scene.publish('a.a', 'a.a');
    const updated = await changeTypes(scene, stream, 'b.b');
    const owned = await scene.own(stream);
    await scene.settle(owned, { cursor: 2 });
    const again = await changed(scene, updated, { name: 'other' });
    assert.deepEqual(again.subscriptions, [{ after: 2, types: ['b.b'] }]);
  });

  test('a stream may want nothing', async (t) => {
    const scene = await createScene(engine, t);
    const stream = await scene.addStream({ types: ['a.a'] });
    const updated = await changeTypes(scene, stream);
    assert.deepEqual(updated.subscriptions, [{ after: 0, types: [] }]);
  });
}

function disableContract(engine: Engine): void {
  test('waiting retries and untried tests become failures, attempts under way do not', async (t) => {
    const scene = await createScene(engine, t);
    const stream = await scene.addStream();
    const [waits, inFlight] = await scene.publish('user.created', 'user.created');
    assert.ok(waits && inFlight);
    const owned = await scene.own(stream);
    await scene.settle(owned, { outcomes: [retry(waits), parked(inFlight)] });
    const testEvent = { id: 'evt_test', type: 'a.b', time: start, body: '{"a":1}' };
    await scene.store.deliveries.addTest(scene.tenant, stream.id, testEvent);
    scene.now = later;
    await change(scene, stream, { status: 'disabled' });
    const failures = await failuresOf(scene, stream);
    assert.deepEqual(
      failures.map(({ event, failedAt, attempts }) => [
        event.id,
        failedAt,
        attempts.at(-1)?.error,
        attempts.length,
      ]),
      [
        ['evt_test', later, 'The event stream is disabled', 1],
        [waits.id, later, 'The event stream is disabled', 2],
      ],
    );
    assert.deepEqual(await scene.health(stream), { consecutive: 2, total: 2 });
    const window = { from: 0, to: later + 3_600_000 };
    const [stats] = await scene.store.streams.stats(scene.tenant, stream.id, window);
    assert.equal(stats?.failed, 2);
  });

  test('an attempt that ends retryably afterwards is a failure with its own message', async (t) => {
    const scene = await createScene(engine, t);
    const stream = await scene.addStream();
    const [event] = await scene.publish('user.created');
    assert.ok(event);
    const owned = await scene.own(stream);
    await scene.settle(owned, { outcomes: [parked(event)] });
    await change(scene, stream, { status: 'disabled' });
    await scene.settle(owned, { cursor: 1, outcomes: [retry(event, { hasRow: true })] });
    const [failure] = await failuresOf(scene, stream);
    assert.deepEqual(
      failure?.attempts.map(({ error }) => error),
      ['503 - busy'],
    );
    assert.deepEqual(await scene.health(stream), { consecutive: 1, total: 1 });
    assert.equal((await nowOwned(scene, stream)).cursor, 1);
  });

  test('it leaves cursor and run alone', async (t) => {
    const scene = await createScene(engine, t);
    const stream = await scene.addStream();
    const owned = await scene.own(stream);
    await scene.publish('user.created');
    await change(scene, stream, { status: 'disabled' });
    const { cursor, run, epoch } = await nowOwned(scene, stream);
    assert.deepEqual([cursor, run, epoch], [owned.cursor, owned.run, owned.epoch]);
  });
}

function enableContract(engine: Engine): void {
  /** Disabled with failures, and then `types` happen. */
  const disabledWith = async (scene: Scene, ...types: string[]): Promise<Stream> => {
    const stream = await scene.addStream({ types: ['user.created', 'user.deleted'] });
    const [one, two] = await scene.publish('user.created', 'user.created');
    assert.ok(one && two);
    const owned = await scene.own(stream);
    await scene.settle(owned, { cursor: 2, outcomes: [failed(one), failed(two)] });
    await change(scene, stream, { status: 'disabled' });
    await scene.publish(...types);
    return stream;
  };

  test('consecutive becomes 0, the total stays, the run rises', async (t) => {
    const scene = await createScene(engine, t);
    const stream = await disabledWith(scene);
    await change(scene, stream, { status: 'enabled' });
    assert.deepEqual(await scene.health(stream), { consecutive: 0, total: 2 });
    assert.equal((await nowOwned(scene, stream)).run, 2);
  });

  test('latest moves the cursor to the head and says how much it passed over', async (t) => {
    const scene = await createScene(engine, t);
    const stream = await disabledWith(scene, 'user.created', 'order.paid', 'user.deleted');
    const answer = await change(scene, stream, { status: 'enabled' });
    assert.ok('updated' in answer);
    assert.deepEqual([answer.skipped, answer.held], [2, undefined]);
    assert.equal((await nowOwned(scene, stream)).cursor, 5);
  });

  test('what has a row already is not passed over', async (t) => {
    const scene = await createScene(engine, t);
    const stream = await scene.addStream();
    const owned = await scene.own(stream);
    const [one, two, three] = await scene.publish('user.created', 'user.created', 'user.created');
    assert.ok(one && two && three);
    await scene.settle(owned, { outcomes: [failed(two)] });
    await change(scene, stream, { status: 'disabled' });
    const answer = await change(scene, stream, { status: 'enabled' }, 'latest');
    assert.ok('updated' in answer);
    assert.equal(answer.skipped, 2);
  });

  test('what was passed over is counted by the subscriptions in force at its time', async (t) => {
    const scene = await createScene(engine, t);
    const stream = await disabledWith(scene, 'user.created', 'order.paid');
    const subscriptions = withTypes(stream.subscriptions, ['order.paid'], 4);
    await change(scene, stream, { subscriptions });
    await scene.publish('user.created', 'order.paid', 'order.paid');
    const answer = await change(scene, stream, { status: 'enabled' });
    assert.ok('updated' in answer);
    assert.equal(answer.skipped, 3);
    assert.deepEqual(answer.updated.subscriptions, [{ after: 4, types: ['order.paid'] }]);
  });

  test('pruned events are not among what was passed over', async (t) => {
    const scene = await createScene(engine, t);
    const stream = await disabledWith(scene, 'user.created');
    scene.now = later;
    await scene.publish('user.created');
    await scene.store.log.prune(scene.tenant, { olderThanMs: 0, take: 100 });
    const answer = await change(scene, stream, { status: 'enabled' });
    assert.ok('updated' in answer);
    assert.equal(answer.skipped, 1);
  });

  test('held keeps the cursor', async (t) => {
    const scene = await createScene(engine, t);
    const stream = await disabledWith(scene, 'user.created');
    const answer = await change(scene, stream, { status: 'enabled' }, 'held');
    assert.ok('updated' in answer);
    assert.deepEqual([answer.skipped, answer.held], [0, 'complete']);
    const { cursor, run } = await nowOwned(scene, stream);
    assert.deepEqual([cursor, run], [2, 2]);
  });

  test('held says when a part of the disabled time was pruned', async (t) => {
    const scene = await createScene(engine, t);
    const stream = await disabledWith(scene, 'user.created');
    scene.now = later;
    await scene.publish('user.created');
    await scene.store.log.prune(scene.tenant, { olderThanMs: 0, take: 100 });
    const answer = await change(scene, stream, { status: 'enabled' }, 'held');
    assert.ok('updated' in answer);
    assert.equal(answer.held, 'pruned');
  });

  test('held does not say so when only events before the cursor were pruned', async (t) => {
    const scene = await createScene(engine, t);
    const stream = await disabledWith(scene);
    scene.now = later;
    await scene.publish('user.created');
    await scene.store.log.prune(scene.tenant, { olderThanMs: 0, take: 100 });
    const answer = await change(scene, stream, { status: 'enabled' }, 'held');
    assert.ok('updated' in answer);
    assert.equal(answer.held, 'complete');
  });

  test('held with nothing new after everything was pruned is complete', async (t) => {
    const scene = await createScene(engine, t);
    const stream = await disabledWith(scene);
    await scene.store.log.prune(scene.tenant, { olderThanMs: -1, take: 100 });
    const answer = await change(scene, stream, { status: 'enabled' }, 'held');
    assert.ok('updated' in answer);
    assert.equal(answer.held, 'complete');
  });

  test('enabling what is enabled changes neither run nor counters', async (t) => {
    const scene = await createScene(engine, t);
    const stream = await scene.addStream();
    const owned = await scene.own(stream);
    const [event] = await scene.publish('user.created');
    assert.ok(event);
    await scene.settle(owned, { outcomes: [failed(event)] });
    const answer = await change(scene, stream, { status: 'enabled' });
    assert.ok('updated' in answer);
    assert.equal(answer.skipped, 0);
    const { cursor, run } = await nowOwned(scene, stream);
    assert.deepEqual([cursor, run], [0, 1]);
    assert.deepEqual(await scene.health(stream), { consecutive: 1, total: 1 });
  });

  test('a redelivery under way goes on through disabling and enabling', async (t) => {
    const scene = await createScene(engine, t);
    const stream = await disabledWith(scene);
    const [open] = await failuresOf(scene, stream);
    assert.ok(open);
    await scene.store.deliveries.redeliver(scene.tenant, stream.id, open.event.id);
    await change(scene, stream, { status: 'enabled' });
    const owned = await nowOwned(scene, stream);
    const { rows } = await claimDue(scene, owned);
    assert.deepEqual(
      rows.map((row) => row.event.id),
      [open.event.id],
    );
  });
}

function deleteContract(engine: Engine): void {
  test('nothing of the stream is left', async (t) => {
    const scene = await createScene(engine, t);
    const { store, tenant } = scene;
    const stream = await scene.addStream({ name: 'crm' });
    const [one, two, three] = await scene.publish('user.created', 'user.created', 'user.created');
    assert.ok(one && two && three);
    const owned = await scene.own(stream);
    await scene.settle(owned, { outcomes: [failed(one), retry(two), delivered(three)] });
    assert.equal(await store.streams.delete(tenant, stream.id), true);
    assert.equal(await store.streams.get(tenant, stream.id), undefined);
    assert.equal(await store.streams.health(tenant, stream.id), undefined);
    assert.deepEqual(await failuresOf(scene, stream), []);
    assert.equal(await store.deliveries.failure(tenant, stream.id, one.id), undefined);
    assert.equal(await store.deliveries.redeliver(tenant, stream.id, three.id), 'unknown');
    assert.equal(await store.deliveries.redeliverMany(tenant, stream.id, {}), 0);
    const window = { from: 0, to: later };
    assert.deepEqual(await store.streams.stats(tenant, stream.id, window), []);
    assert.deepEqual((await claimDue(scene, owned)).rows, []);
    const refs = [{ tenant, stream: stream.id }];
    assert.deepEqual(await store.ownership.owned(await scene.node(), refs, waitRule), []);
  });

  test('deleting what is not there answers false and tells nobody', async (t) => {
    const scene = await createScene(engine, t);
    const stream = await scene.addStream();
    await scene.store.streams.delete(scene.tenant, stream.id);
    scene.hints.length = 0;
    assert.equal(await scene.store.streams.delete(scene.tenant, stream.id), false);
    assert.deepEqual(scene.hints, []);
  });

  test('the name is free again, and a stream of the same id has no past', async (t) => {
    const scene = await createScene(engine, t);
    const { store, tenant } = scene;
    const stream = await scene.addStream({ name: 'crm' });
    const [event] = await scene.publish('user.created');
    assert.ok(event);
    await scene.settle(await scene.own(stream), { outcomes: [delivered(event)] });
    await store.streams.delete(tenant, stream.id);
    const again = await scene.addStream({ name: 'crm', id: stream.id });
    assert.equal(again.version, 1);
    assert.equal(await store.deliveries.redeliver(tenant, stream.id, event.id), 'unknown');
  });

  test('its events stay in the log, and pruning no longer waits for it', async (t) => {
    const scene = await createScene(engine, t);
    const stream = await scene.addStream();
    await scene.publish('user.created');
    await scene.store.streams.delete(scene.tenant, stream.id);
    const page = await scene.store.log.page(scene.tenant, { after: 0, take: 9, bytesMax: 99 });
    assert.equal(page.events.length, 1);
    assert.equal(await scene.store.log.prune(scene.tenant, { olderThanMs: -1, take: 9 }), 1);
  });
}

function lagContract(engine: Engine): void {
  const dayMs = 86_400_000;
  const lagging = async ({ store, tenant }: Scene) =>
    (await store.upkeep.lagging({ olderThanMs: dayMs, after: tenant - 1 })).streams;

  /** The only stream that is listed. */
  const listed = async (scene: Scene) => {
    const [lag, ...others] = await lagging(scene);
    assert.ok(lag);
    assert.deepEqual(others, []);
    return lag;
  };

  /** A stream that was reported to be two days behind. */
  const reported = async (scene: Scene): Promise<Stream> => {
    const stream = await scene.addStream();
    await scene.publish('user.created');
    scene.now = start + 2 * dayMs;
    await scene.publish('user.created');
    await scene.store.upkeep.noteLag(await listed(scene), 90);
    return stream;
  };

  test('a stream disabled for its lag is listed until its alert is noted as stored', async (t) => {
    const scene = await createScene(engine, t);
    const { upkeep } = scene.store;
    const stream = await reported(scene);
    assert.ok(await upkeep.disableLagging(await listed(scene)));
    await change(scene, stream, { name: 'renamed' });
    const disabled = await listed(scene);
    assert.deepEqual(
      [disabled.stream, disabled.name, disabled.status],
      [stream.id, 'renamed', 'disabled'],
    );
    await upkeep.noteLag(disabled, 0);
    assert.deepEqual(await lagging(scene), []);
  });

  test('a stream disabled for its lag is listed after its events have left the log', async (t) => {
    const scene = await createScene(engine, t);
    await reported(scene);
    assert.ok(await scene.store.upkeep.disableLagging(await listed(scene)));
    await scene.store.log.prune(scene.tenant, { olderThanMs: -1, take: 100 });
    const { status, lagMs } = await listed(scene);
    assert.deepEqual([status, lagMs], ['disabled', 0]);
  });

  test('a stream whose lag was reported is not listed while it is disabled by hand', async (t) => {
    const scene = await createScene(engine, t);
    await change(scene, await reported(scene), { status: 'disabled' });
    assert.deepEqual(await lagging(scene), []);
  });

  test('nothing counts as reported of a stream that is enabled again', async (t) => {
    const scene = await createScene(engine, t);
    const { upkeep } = scene.store;
    const stream = await reported(scene);
    assert.ok(await upkeep.disableLagging(await listed(scene)));
    await change(scene, stream, { status: 'enabled' }, 'held');
    const { status, told } = await listed(scene);
    assert.deepEqual([status, told], ['enabled', 0]);
  });

  test('what was reported is not noted when something else was noted meanwhile', async (t) => {
    const scene = await createScene(engine, t);
    const { upkeep } = scene.store;
    await reported(scene);
    const before = await listed(scene);
    await upkeep.noteLag(before, 75);
    await upkeep.noteLag(before, 50);
    assert.equal((await listed(scene)).told, 75);
  });
}
