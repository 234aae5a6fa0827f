import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { withSelection } from '../../../src/core/subscription.ts';
import type { Stream } from '../../../src/core/types.ts';
import type { StreamDecision } from '../../../src/store/port/streams.ts';
import type { Engine } from './engine.ts';
import {
  addTenant,
  claimDue,
  createFixture,
  delivered,
  failed,
  failuresOf,
  newStream,
  parked,
  retry,
  start,
  type Fixture,
  waitRule,
  newEvent,
} from './fixture.ts';

export function streamsContract(engine: Engine): void {
  describe(`${engine.name}: streams.create`, () => createContract(engine));
  describe(`${engine.name}: streams.get and list`, { tags: engine.sharedTags }, () =>
    readContract(engine),
  );
  describe(`${engine.name}: streams.update`, () => updateContract(engine));
  describe(`${engine.name}: a change of subscriptions`, { tags: engine.sharedTags }, () =>
    subscriptionsContract(engine),
  );
  describe(`${engine.name}: disabling by hand`, { tags: engine.sharedTags }, () =>
    disableContract(engine),
  );
  describe(`${engine.name}: enabling`, { tags: engine.sharedTags }, () => enableContract(engine));
  describe(`${engine.name}: disabling for lag`, { tags: engine.sharedTags }, () =>
    lagContract(engine),
  );
  describe(`${engine.name}: streams.delete`, () => deleteContract(engine));
}

const rules = { streamsMax: 1000 };
const later = start + 60_000;

/** Changes fields of a stream, as the API's decide function does. */
function change(
  fixture: Fixture,
  stream: Stream,
  fields: Partial<Stream>,
  resume?: 'latest' | 'held',
) {
  const decide = (before: Stream): StreamDecision<never> => ({
    after: { ...before, ...fields, updatedAt: fixture.now },
    resume,
  });
  return fixture.store.streams.update(fixture.tenant, stream.id, decide);
}

/** Does the same, and returns the changed stream. */
async function changed(fixture: Fixture, stream: Stream, fields: Partial<Stream>): Promise<Stream> {
  const result = await change(fixture, stream, fields);
  assert.ok('updated' in result);
  return result.updated;
}

async function nowOwned(fixture: Fixture, stream: Stream) {
  const refs = [{ tenant: fixture.tenant, stream: stream.id }];
  const [owned] = await fixture.store.ownership.owned(await fixture.node(), refs, waitRule);
  assert.ok(owned);
  return owned;
}

function createContract(engine: Engine): void {
  test('create: the stream is read as it was written, at version 1', async (t) => {
    const { store, tenant } = await createFixture(engine, t);
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
    const result = await store.streams.create({ ...given, types: types ?? [] }, rules);
    const expected = { ...given, subscriptions: [{ after: -1, types }], version: 1 };
    assert.deepEqual(result, { created: expected });
    assert.deepEqual(await store.streams.get(tenant, given.id), expected);
    assert.deepEqual(await store.streams.health(tenant, given.id), { consecutive: 0, total: 0 });
  });

  test('delivery options are read as they were written, and removed by a change without them', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const delivery = { headers: { 'X-B': 'ä "2"', 'X-A': '1' }, concurrency: 2, timeoutMs: 30_000 };
    const stream = await fixture.addStream({ delivery });
    assert.deepEqual((await store.streams.get(tenant, stream.id))?.delivery, delivery);
    assert.deepEqual((await fixture.own(stream)).stream.delivery, delivery);
    const { items } = await store.streams.list(tenant, { after: undefined, take: 10 });
    assert.deepEqual(
      items.map((item) => item.delivery),
      [delivery],
    );
    const other = { concurrency: 1 };
    await change(fixture, stream, { delivery: other });
    assert.deepEqual((await store.streams.get(tenant, stream.id))?.delivery, other);
    await change(fixture, stream, { delivery: undefined });
    assert.equal((await store.streams.get(tenant, stream.id))?.delivery, undefined);
  });

  test('create: client credentials are read as they were written', async (t) => {
    const { store, tenant } = await createFixture(engine, t);
    const authorization = {
      method: 'oauth2_client_credentials',
      tokenEndpoint: 'https://login.example.net/oauth/token',
      clientId: 'ä𝄞',
      clientSecret: 'v"\\ ä',
      scope: 'a b',
    } as const;
    const destination = {
      type: 'webhook',
      endpoint: 'https://hooks.example.net/leat',
      authorization,
    } as const;
    const { types, ...given } = newStream(tenant, start, { destination });
    const result = await store.streams.create({ ...given, types: types ?? [] }, rules);
    assert.ok('created' in result);
    const read = await store.streams.get(tenant, given.id);
    assert.deepEqual(read?.destination.authorization, authorization);
  });

  test('create: the cursor is at the head of the log', async (t) => {
    const fixture = await createFixture(engine, t);
    await fixture.publish('user.created', 'user.created');
    const owned = await fixture.own(await fixture.addStream());
    assert.deepEqual([owned.cursor, owned.run], [2, 1]);
  });

  test('create: a name is unique in a tenant', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    await fixture.addStream({ name: 'crm' });
    // As an earlier version stored it.
    await fixture.addStream({ name: 'Cafe\u0301' });
    for (const name of ['crm', 'Café']) {
      const again = await store.streams.create(newStream(tenant, start, { name }), rules);
      assert.deepEqual(again, { refused: 'name_taken' });
    }
    const other = await addTenant(store, 'other');
    const there = await store.streams.create(newStream(other.id, start, { name: 'crm' }), rules);
    assert.ok('created' in there);
  });

  test('create: a tenant has at most as many streams as allowed', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const two = { streamsMax: 2 };
    await fixture.addStream();
    assert.ok('created' in (await store.streams.create(newStream(tenant, start), two)));
    const third = await store.streams.create(newStream(tenant, start), two);
    assert.deepEqual(third, { refused: 'too_many' });
    const other = await addTenant(store, 'other');
    assert.ok('created' in (await store.streams.create(newStream(other.id, start), two)));
  });

  test('create: exactly one of several concurrent calls with one name succeeds', async (t) => {
    const { store, tenant } = await createFixture(engine, t);
    const results = await Promise.all(
      Array.from({ length: 5 }, () =>
        store.streams.create(newStream(tenant, start, { name: 'crm' }), rules),
      ),
    );
    assert.equal(results.filter((result) => 'created' in result).length, 1);
  });

  test('create: emits a hint', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream();
    assert.deepEqual(fixture.hints, [
      { kind: 'stream', tenant: fixture.tenant, stream: stream.id },
    ]);
  });
}

function readContract(engine: Engine): void {
  test('get: does not find a stream of another tenant', async (t) => {
    const fixture = await createFixture(engine, t);
    const other = await addTenant(fixture.store, 'other');
    const stream = await fixture.addStream();
    assert.equal(await fixture.store.streams.get(other.id, stream.id), undefined);
    assert.equal(await fixture.store.streams.health(other.id, stream.id), undefined);
    const page = { after: undefined, take: 10 };
    assert.deepEqual((await fixture.store.streams.list(other.id, page)).items, []);
    assert.equal(await fixture.store.streams.delete(other.id, stream.id), false);
    const decide = () => assert.fail('the stream of another tenant must not be seen');
    const update = await fixture.store.streams.update(other.id, stream.id, decide);
    assert.deepEqual(update, { refused: 'unknown' });
  });

  test('list: pages go oldest first and the last has no next', async (t) => {
    const fixture = await createFixture(engine, t);
    const made = [];
    for (let count = 0; count < 5; count += 1) made.push(await fixture.addStream());
    const { list } = fixture.store.streams;
    const first = await list(fixture.tenant, { after: undefined, take: 2 });
    assert.deepEqual(first.items, made.slice(0, 2));
    const second = await list(fixture.tenant, { after: first.next, take: 2 });
    assert.deepEqual(second.items, made.slice(2, 4));
    const third = await list(fixture.tenant, { after: second.next, take: 2 });
    assert.deepEqual([third.items, third.next], [made.slice(4), undefined]);
    const whole = await list(fixture.tenant, { after: undefined, take: 5 });
    assert.deepEqual([whole.items.length, whole.next], [5, undefined]);
  });

  test('list: a page continues after a stream that was deleted since', async (t) => {
    const fixture = await createFixture(engine, t);
    const [one, two, three] = [
      await fixture.addStream(),
      await fixture.addStream(),
      await fixture.addStream(),
    ];
    const page = await fixture.store.streams.list(fixture.tenant, { after: undefined, take: 2 });
    await fixture.store.streams.delete(fixture.tenant, two.id);
    assert.deepEqual(page.items, [one, two]);
    const next = await fixture.store.streams.list(fixture.tenant, { after: page.next, take: 2 });
    assert.deepEqual(next.items, [three]);
  });
}

function updateContract(engine: Engine): void {
  test('update: the change is written and the version rises', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream();
    fixture.now = later;
    const destination = {
      type: 'webhook',
      endpoint: 'https://other.example.net/',
      authorization: { method: 'basic', username: 'u', password: 'p' },
    } as const;
    const updated = await changed(fixture, stream, { name: 'new', destination });
    const expected = { ...stream, name: 'new', destination, version: 2, updatedAt: later };
    assert.deepEqual(updated, expected);
    assert.deepEqual(await fixture.store.streams.get(fixture.tenant, stream.id), expected);
  });

  test('update: decide receives the stream, its health and the head', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream();
    const [event] = await fixture.publish('user.created', 'user.created');
    assert.ok(event);
    await fixture.settle(await fixture.own(stream), { outcomes: [failed(event)] });
    const seen: unknown[] = [];
    await fixture.store.streams.update(fixture.tenant, stream.id, (before, state) => {
      seen.push(before, state);
      return { after: before };
    });
    assert.deepEqual(seen, [stream, { health: { consecutive: 1, total: 1 }, head: 2 }]);
  });

  test('update: the same object means that nothing changes', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream();
    const result = await fixture.store.streams.update(fixture.tenant, stream.id, (before) => ({
      after: before,
    }));
    assert.deepEqual(result, { updated: stream, skipped: 0, held: undefined });
    assert.deepEqual(await fixture.store.streams.get(fixture.tenant, stream.id), stream);
  });

  test('update: refuses the name of another stream and changes nothing', async (t) => {
    const fixture = await createFixture(engine, t);
    await fixture.addStream({ name: 'taken' });
    const stream = await fixture.addStream({ name: 'mine' });
    const result = await change(fixture, stream, { name: 'taken', status: 'disabled' });
    assert.deepEqual(result, { refused: 'name_taken' });
    assert.deepEqual(await fixture.store.streams.get(fixture.tenant, stream.id), stream);
    assert.ok('updated' in (await change(fixture, stream, { name: 'mine' })));
  });

  test('update: passes a refusal through with the health', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream();
    const result = await fixture.store.streams.update(fixture.tenant, stream.id, () => ({
      refused: 'too_many_failures',
    }));
    const health = { consecutive: 0, total: 0 };
    assert.deepEqual(result, { refused: 'too_many_failures', health });
  });

  test('update: a decide that throws changes nothing', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream();
    const update = fixture.store.streams.update(fixture.tenant, stream.id, () => {
      throw new Error('a bug in the rule');
    });
    await assert.rejects(update, /a bug in the rule/);
    assert.deepEqual(await fixture.store.streams.get(fixture.tenant, stream.id), stream);
    await fixture.publish('user.created');
    assert.equal(await fixture.store.log.head(fixture.tenant), 1);
  });

  test('update: id, tenant and time of creation cannot be changed', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream();
    const updated = await changed(fixture, stream, { id: 'est_x', tenant: 99, createdAt: 1 });
    assert.deepEqual(updated, { ...stream, version: 2 });
  });

  test('update: emits a hint for a change, not for a refusal', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream();
    fixture.hints.length = 0;
    await fixture.store.streams.update(fixture.tenant, stream.id, () => ({
      refused: 'too_many_failures',
    }));
    assert.deepEqual(fixture.hints, []);
    await change(fixture, stream, { name: 'other' });
    assert.deepEqual(fixture.hints, [
      { kind: 'stream', tenant: fixture.tenant, stream: stream.id },
    ]);
  });
}

function subscriptionsContract(engine: Engine): void {
  /** Returns the subscriptions as the rule of a PATCH makes them. */
  const changeTypes = async (
    fixture: Fixture,
    stream: Stream,
    ...types: string[]
  ): Promise<Stream> => {
    const head = await fixture.store.log.head(fixture.tenant);
    return changed(fixture, stream, {
      subscriptions: withSelection(stream.subscriptions, { types }, head),
    });
  };

  test('subscriptions: the former types stay along with the new ones until the cursor has passed them', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream({ types: ['a.a'] });
    await fixture.publish('a.a', 'a.a');
    const updated = await changeTypes(fixture, stream, 'b.b');
    assert.deepEqual(updated.subscriptions, [
      { after: -1, types: ['a.a'] },
      { after: 2, types: ['b.b'] },
    ]);
    await fixture.publish('a.a');
    const again = await changeTypes(fixture, updated, 'c.c');
    assert.deepEqual(again.subscriptions, [...updated.subscriptions, { after: 3, types: ['c.c'] }]);
    assert.deepEqual(await fixture.store.streams.get(fixture.tenant, stream.id), again);
  });

  test('subscriptions: types that the cursor has passed are dropped with the next change', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream({ types: ['a.a'] });
    await fixture.publish('a.a', 'a.a');
    const updated = await changeTypes(fixture, stream, 'b.b');
    const owned = await fixture.own(stream);
    await fixture.settle(owned, { cursor: 2 });
    const again = await changed(fixture, updated, { name: 'other' });
    assert.deepEqual(again.subscriptions, [{ after: 2, types: ['b.b'] }]);
  });

  test('subscriptions: a stream may have no types', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream({ types: ['a.a'] });
    const updated = await changeTypes(fixture, stream);
    assert.deepEqual(updated.subscriptions, [{ after: 0, types: [] }]);
  });
}

function disableContract(engine: Engine): void {
  test('disabling: waiting retries and untried tests become failures, attempts in progress do not', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream();
    const [waits, inFlight] = await fixture.publish('user.created', 'user.created');
    assert.ok(waits && inFlight);
    const owned = await fixture.own(stream);
    await fixture.settle(owned, { outcomes: [retry(waits), parked(inFlight)] });
    const testEvent = { id: 'evt_test', type: 'a.b', time: start, body: '{"a":1}' };
    await fixture.store.deliveries.addTest(fixture.tenant, stream.id, testEvent);
    fixture.now = later;
    await change(fixture, stream, { status: 'disabled' });
    const failures = await failuresOf(fixture, stream);
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
    assert.deepEqual(await fixture.health(stream), { consecutive: 2, total: 2 });
    const window = { from: 0, to: later + 3_600_000 };
    const [stats] = await fixture.store.streams.stats(fixture.tenant, stream.id, window);
    assert.equal(stats?.failed, 2);
  });

  test('disabling: an attempt that ends retryably afterwards is a failure with its own message', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream();
    const [event] = await fixture.publish('user.created');
    assert.ok(event);
    const owned = await fixture.own(stream);
    await fixture.settle(owned, { outcomes: [parked(event)] });
    await change(fixture, stream, { status: 'disabled' });
    await fixture.settle(owned, { cursor: 1, outcomes: [retry(event, { hasRow: true })] });
    const [failure] = await failuresOf(fixture, stream);
    assert.deepEqual(
      failure?.attempts.map(({ error }) => error),
      ['503 - busy'],
    );
    assert.deepEqual(await fixture.health(stream), { consecutive: 1, total: 1 });
    assert.equal((await nowOwned(fixture, stream)).cursor, 1);
  });

  test('disabling: leaves cursor and run alone', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream();
    const owned = await fixture.own(stream);
    await fixture.publish('user.created');
    await change(fixture, stream, { status: 'disabled' });
    const { cursor, run, epoch } = await nowOwned(fixture, stream);
    assert.deepEqual([cursor, run, epoch], [owned.cursor, owned.run, owned.epoch]);
  });
}

function enableContract(engine: Engine): void {
  /** Disables a stream with failures, then publishes `types`. */
  const disabledWith = async (fixture: Fixture, ...types: string[]): Promise<Stream> => {
    const stream = await fixture.addStream({ types: ['user.created', 'user.deleted'] });
    const [one, two] = await fixture.publish('user.created', 'user.created');
    assert.ok(one && two);
    const owned = await fixture.own(stream);
    await fixture.settle(owned, { cursor: 2, outcomes: [failed(one), failed(two)] });
    await change(fixture, stream, { status: 'disabled' });
    await fixture.publish(...types);
    return stream;
  };

  test('enabling: consecutive becomes 0, the total stays, the run rises', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await disabledWith(fixture);
    await change(fixture, stream, { status: 'enabled' });
    assert.deepEqual(await fixture.health(stream), { consecutive: 0, total: 2 });
    assert.equal((await nowOwned(fixture, stream)).run, 2);
  });

  test('enabling: latest moves the cursor to the head and returns how much it passed over', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await disabledWith(fixture, 'user.created', 'order.paid', 'user.deleted');
    const result = await change(fixture, stream, { status: 'enabled' });
    assert.ok('updated' in result);
    assert.deepEqual([result.skipped, result.held], [2, undefined]);
    assert.equal((await nowOwned(fixture, stream)).cursor, 5);
  });

  test('enabling: events that have a row already are not passed over', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream();
    const owned = await fixture.own(stream);
    const [one, two, three] = await fixture.publish('user.created', 'user.created', 'user.created');
    assert.ok(one && two && three);
    await fixture.settle(owned, { outcomes: [failed(two)] });
    await change(fixture, stream, { status: 'disabled' });
    const result = await change(fixture, stream, { status: 'enabled' }, 'latest');
    assert.ok('updated' in result);
    assert.equal(result.skipped, 2);
  });

  test('enabling: passed-over events are counted by the subscriptions in force at their time', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await disabledWith(fixture, 'user.created', 'order.paid');
    const subscriptions = withSelection(stream.subscriptions, { types: ['order.paid'] }, 4);
    await change(fixture, stream, { subscriptions });
    await fixture.publish('user.created', 'order.paid', 'order.paid');
    const result = await change(fixture, stream, { status: 'enabled' });
    assert.ok('updated' in result);
    assert.equal(result.skipped, 3);
    assert.deepEqual(result.updated.subscriptions, [{ after: 4, types: ['order.paid'] }]);
  });

  test('enabling: passed-over events are counted by the filters in force at their time', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream({ filter: '{"data.n":{"$gte":250}}' });
    await change(fixture, stream, { status: 'disabled' });
    const append = (count: number): Promise<unknown> =>
      fixture.store.log.append(
        fixture.tenant,
        Array.from({ length: count }, (_, n) => {
          const type = n % 100 === 0 ? 'order.paid' : 'user.created';
          return newEvent({ type, body: JSON.stringify({ data: { n } }) });
        }),
      );
    await append(300);
    const selection = { types: ['user.created'], filter: '{"data.n":{"$lt":3}}' };
    const subscriptions = withSelection(stream.subscriptions, selection, 300);
    await change(fixture, stream, { subscriptions });
    await append(10);
    const result = await change(fixture, stream, { status: 'enabled' });
    assert.ok('updated' in result);
    assert.equal(result.skipped, 50 + 2);
    assert.deepEqual(result.updated.subscriptions, [{ after: 300, ...selection }]);
  });

  test('enabling: pruned events do not count as passed over', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await disabledWith(fixture, 'user.created');
    fixture.now = later;
    await fixture.publish('user.created');
    await fixture.store.log.prune(fixture.tenant, { olderThanMs: 0, take: 100 });
    const result = await change(fixture, stream, { status: 'enabled' });
    assert.ok('updated' in result);
    assert.equal(result.skipped, 1);
  });

  test('enabling: held keeps the cursor', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await disabledWith(fixture, 'user.created');
    const result = await change(fixture, stream, { status: 'enabled' }, 'held');
    assert.ok('updated' in result);
    assert.deepEqual([result.skipped, result.held], [0, 'complete']);
    const { cursor, run } = await nowOwned(fixture, stream);
    assert.deepEqual([cursor, run], [2, 2]);
  });

  test('enabling: held returns pruned when a part of the disabled time was pruned', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await disabledWith(fixture, 'user.created');
    fixture.now = later;
    await fixture.publish('user.created');
    await fixture.store.log.prune(fixture.tenant, { olderThanMs: 0, take: 100 });
    const result = await change(fixture, stream, { status: 'enabled' }, 'held');
    assert.ok('updated' in result);
    assert.equal(result.held, 'pruned');
  });

  test('enabling: held returns complete when only events before the cursor were pruned', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await disabledWith(fixture);
    fixture.now = later;
    await fixture.publish('user.created');
    await fixture.store.log.prune(fixture.tenant, { olderThanMs: 0, take: 100 });
    const result = await change(fixture, stream, { status: 'enabled' }, 'held');
    assert.ok('updated' in result);
    assert.equal(result.held, 'complete');
  });

  test('enabling: held returns complete when there is nothing new after everything was pruned', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await disabledWith(fixture);
    await fixture.store.log.prune(fixture.tenant, { olderThanMs: -1, take: 100 });
    const result = await change(fixture, stream, { status: 'enabled' }, 'held');
    assert.ok('updated' in result);
    assert.equal(result.held, 'complete');
  });

  test('enabling: changes neither run nor counters of an enabled stream', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream();
    const owned = await fixture.own(stream);
    const [event] = await fixture.publish('user.created');
    assert.ok(event);
    await fixture.settle(owned, { outcomes: [failed(event)] });
    const result = await change(fixture, stream, { status: 'enabled' });
    assert.ok('updated' in result);
    assert.equal(result.skipped, 0);
    const { cursor, run } = await nowOwned(fixture, stream);
    assert.deepEqual([cursor, run], [0, 1]);
    assert.deepEqual(await fixture.health(stream), { consecutive: 1, total: 1 });
  });

  test('enabling: a redelivery in progress continues through disabling and enabling', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await disabledWith(fixture);
    const [open] = await failuresOf(fixture, stream);
    assert.ok(open);
    await fixture.store.deliveries.redeliver(fixture.tenant, stream.id, open.event.id);
    await change(fixture, stream, { status: 'enabled' });
    const owned = await nowOwned(fixture, stream);
    const { rows } = await claimDue(fixture, owned);
    assert.deepEqual(
      rows.map((row) => row.event.id),
      [open.event.id],
    );
  });
}

function deleteContract(engine: Engine): void {
  test('delete: nothing of the stream is left', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const stream = await fixture.addStream({ name: 'crm' });
    const [one, two, three] = await fixture.publish('user.created', 'user.created', 'user.created');
    assert.ok(one && two && three);
    const owned = await fixture.own(stream);
    await fixture.settle(owned, { outcomes: [failed(one), retry(two), delivered(three)] });
    assert.equal(await store.streams.delete(tenant, stream.id), true);
    assert.equal(await store.streams.get(tenant, stream.id), undefined);
    assert.equal(await store.streams.health(tenant, stream.id), undefined);
    assert.deepEqual(await failuresOf(fixture, stream), []);
    assert.equal(await store.deliveries.failure(tenant, stream.id, one.id), undefined);
    assert.equal(await store.deliveries.redeliver(tenant, stream.id, three.id), 'unknown');
    assert.equal(await store.deliveries.redeliverMany(tenant, stream.id, {}), 0);
    const window = { from: 0, to: later };
    assert.deepEqual(await store.streams.stats(tenant, stream.id, window), []);
    assert.deepEqual((await claimDue(fixture, owned)).rows, []);
    const refs = [{ tenant, stream: stream.id }];
    assert.deepEqual(await store.ownership.owned(await fixture.node(), refs, waitRule), []);
  });

  test('delete: returns false for an unknown stream and emits no hint', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream();
    await fixture.store.streams.delete(fixture.tenant, stream.id);
    fixture.hints.length = 0;
    assert.equal(await fixture.store.streams.delete(fixture.tenant, stream.id), false);
    assert.deepEqual(fixture.hints, []);
  });

  test('delete: the name is free again, and a new stream of the same id has no history', async (t) => {
    const fixture = await createFixture(engine, t);
    const { store, tenant } = fixture;
    const stream = await fixture.addStream({ name: 'crm' });
    const [event] = await fixture.publish('user.created');
    assert.ok(event);
    await fixture.settle(await fixture.own(stream), { outcomes: [delivered(event)] });
    await store.streams.delete(tenant, stream.id);
    const again = await fixture.addStream({ name: 'crm', id: stream.id });
    assert.equal(again.version, 1);
    assert.equal(await store.deliveries.redeliver(tenant, stream.id, event.id), 'unknown');
  });

  test('delete: its events stay in the log, and pruning no longer waits for it', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await fixture.addStream();
    await fixture.publish('user.created');
    await fixture.store.streams.delete(fixture.tenant, stream.id);
    const page = await fixture.store.log.page(fixture.tenant, { after: 0, take: 9, bytesMax: 99 });
    assert.equal(page.events.length, 1);
    assert.equal(await fixture.store.log.prune(fixture.tenant, { olderThanMs: -1, take: 9 }), 1);
  });
}

function lagContract(engine: Engine): void {
  const dayMs = 86_400_000;
  const lagging = async ({ store, tenant }: Fixture) =>
    (await store.upkeep.lagging({ olderThanMs: dayMs, after: tenant - 1 })).streams;

  /** The only stream that is listed. */
  const listed = async (fixture: Fixture) => {
    const [lag, ...others] = await lagging(fixture);
    assert.ok(lag);
    assert.deepEqual(others, []);
    return lag;
  };

  /** A stream that was reported to be lagging by two days. */
  const reported = async (fixture: Fixture): Promise<Stream> => {
    const stream = await fixture.addStream();
    await fixture.publish('user.created');
    fixture.now = start + 2 * dayMs;
    await fixture.publish('user.created');
    await fixture.store.upkeep.noteLag(await listed(fixture), 90);
    return stream;
  };

  test('a stream disabled for its lag is listed until its alert is recorded as stored', async (t) => {
    const fixture = await createFixture(engine, t);
    const { upkeep } = fixture.store;
    const stream = await reported(fixture);
    assert.ok(await upkeep.disableLagging(await listed(fixture)));
    await change(fixture, stream, { name: 'renamed' });
    const disabled = await listed(fixture);
    assert.deepEqual(
      [disabled.stream, disabled.name, disabled.status],
      [stream.id, 'renamed', 'disabled'],
    );
    await upkeep.noteLag(disabled, 0);
    assert.deepEqual(await lagging(fixture), []);
  });

  test('a stream disabled for its lag keeps its cursor, and its facts say why and when', async (t) => {
    const fixture = await createFixture(engine, t);
    const stream = await reported(fixture);
    assert.ok(await fixture.store.upkeep.disableLagging(await listed(fixture)));
    const facts = await fixture.store.streams.facts(fixture.tenant, stream.id);
    assert.deepEqual(
      [facts?.disabled, facts?.waiting.count],
      [{ reason: 'lag', since: start + 2 * dayMs, code: undefined }, 2],
    );
  });

  test('a stream disabled for its lag is listed after its events were pruned', async (t) => {
    const fixture = await createFixture(engine, t);
    await reported(fixture);
    assert.ok(await fixture.store.upkeep.disableLagging(await listed(fixture)));
    await fixture.store.log.prune(fixture.tenant, { olderThanMs: -1, take: 100 });
    const { status, lagMs } = await listed(fixture);
    assert.deepEqual([status, lagMs], ['disabled', 0]);
  });

  test('a stream whose lag was reported is not listed while it is disabled by hand', async (t) => {
    const fixture = await createFixture(engine, t);
    await change(fixture, await reported(fixture), { status: 'disabled' });
    assert.deepEqual(await lagging(fixture), []);
  });

  test('a stream that is enabled again has no reported percentage', async (t) => {
    const fixture = await createFixture(engine, t);
    const { upkeep } = fixture.store;
    const stream = await reported(fixture);
    assert.ok(await upkeep.disableLagging(await listed(fixture)));
    await change(fixture, stream, { status: 'enabled' }, 'held');
    const { status, reportedPercent } = await listed(fixture);
    assert.deepEqual([status, reportedPercent], ['enabled', 0]);
  });

  test('noteLag: does nothing when another percentage was recorded since', async (t) => {
    const fixture = await createFixture(engine, t);
    const { upkeep } = fixture.store;
    await reported(fixture);
    const before = await listed(fixture);
    await upkeep.noteLag(before, 75);
    await upkeep.noteLag(before, 50);
    assert.equal((await listed(fixture)).reportedPercent, 75);
  });
}
