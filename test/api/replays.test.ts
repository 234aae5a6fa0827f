import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { formatTime } from '../../src/core/date.ts';
import { formatOffset } from '../../src/core/offset.ts';
import type { Stream } from '../../src/core/types.ts';
import {
  claimDue,
  delivered,
  raiseOf,
  fixtureOf,
  type LoggedEvent,
  type Fixture,
} from '../store/contract/fixture.ts';
import {
  assertNotFound,
  assertNeedsScope,
  assertProblem,
  openApiFixture,
  type ApiResponse,
  type ApiFixture,
} from './fixture.ts';

let fixture: ApiFixture;
let storeFixture: Fixture;

before(async () => {
  fixture = await openApiFixture();
  storeFixture = fixtureOf(fixture.auth.store, fixture.auth.tenant.id, fixture.auth.time);
});
after(() => fixture.close());

interface ReplaySource {
  readonly stream: Stream;
  readonly path: string;
  readonly events: readonly LoggedEvent[];
  /** Sends the events that are due for the replay; returns their ids. */
  send(replay: string): Promise<string[]>;
}

let types = 0;

/** Creates a stream with its own event type, and delivers `count` events, accepted one per second. */
async function createSource(count: number): Promise<ReplaySource> {
  types += 1;
  const type = `replay.t${types}`;
  const stream = await storeFixture.addStream({ types: [type, `${type}.more`] });
  const owned = await storeFixture.own(stream);
  const events: LoggedEvent[] = [];
  for (let number = 0; number < count; number += 1) {
    storeFixture.now += 1000;
    events.push(...(await storeFixture.publish(type)));
  }
  const cursor = events.at(-1)?.offset ?? owned.cursor;
  await storeFixture.settle(owned, { cursor, outcomes: events.map((event) => delivered(event)) });
  const send = async (replay: string): Promise<string[]> => {
    const request = { ...raiseOf({ ...owned, cursor }), replay, take: 100, waitingMax: 100 };
    await storeFixture.store.replays.materialize(request);
    const { rows } = await claimDue(storeFixture, owned);
    const outcomes = rows.map(({ event }) => delivered(event, { kind: 'replay', hasRow: true }));
    await storeFixture.settle(owned, { outcomes });
    await storeFixture.store.replays.materialize(request);
    return rows.map(({ event }) => event.id);
  };
  return { stream, path: `/event-streams/${stream.id}/replay`, events, send };
}

const idsOf = (events: readonly LoggedEvent[]) => events.map(({ id }) => id);

const beforeFirst = ({ events: [first] }: ReplaySource): string =>
  formatOffset((first?.offset ?? 1) - 1);

/** Returns the time at which an event was accepted. */
const acceptedAt = ({ events }: ReplaySource, index: number): string =>
  formatTime(storeFixture.now - (events.length - 1 - index) * 1000);

async function begin({ path }: ReplaySource, body: object): Promise<ApiResponse['body']> {
  const response = await fixture.send('POST', path, body);
  assert.equal(response.status, 202, response.text);
  return response.body;
}

async function read({ path }: ReplaySource, id: string): Promise<ApiResponse['body']> {
  const response = await fixture.send('GET', `${path}/${id}`);
  assert.equal(response.status, 200, response.text);
  return response.body;
}

describe('the range of a replay', () => {
  test('a replay from an offset returns it with the check of its event, and reports its progress', async () => {
    const source = await createSource(3);
    const [first] = source.events as [LoggedEvent];
    const from = formatOffset(first.offset, first.id);
    const body = await begin(source, { from: formatOffset(first.offset) });
    assert.match(body.id, /^rpl_[1-9A-HJ-NP-Za-km-z]{22}$/);
    assert.deepEqual(body, {
      id: body.id,
      status: 'running',
      from,
      matched: 0,
      sent: 0,
      failed: 0,
      created_at: formatTime(storeFixture.now),
    });
    assert.deepEqual(await read(source, body.id), body);
    assert.deepEqual(await source.send(body.id), idsOf(source.events.slice(1)));
    assert.deepEqual(await read(source, body.id), {
      ...body,
      status: 'done',
      matched: 2,
      sent: 2,
      finished_at: formatTime(storeFixture.now),
    });
  });

  test('a replay from a date sends events accepted then or later', async () => {
    const source = await createSource(4);
    const body = await begin(source, { date_from: acceptedAt(source, 2) });
    const { offset, id } = source.events[1] as LoggedEvent;
    assert.equal(body.from, formatOffset(offset, id));
    assert.deepEqual(await source.send(body.id), idsOf(source.events.slice(2)));
  });

  test('a replay ends before date_to', async () => {
    const source = await createSource(4);
    const range = { date_from: acceptedAt(source, 1), date_to: acceptedAt(source, 3) };
    const body = await begin(source, range);
    assert.deepEqual(await source.send(body.id), idsOf(source.events.slice(1, 3)));
    const next = await begin(source, { from: body.from, date_to: acceptedAt(source, 2) });
    assert.deepEqual(await source.send(next.id), idsOf(source.events.slice(1, 2)));
  });

  test('a replay from before the log begins at its oldest event', async () => {
    const source = await createSource(2);
    const whole = await begin(source, { date_from: '1970-01-01T00:00:00Z' });
    assert.equal(whole.from, formatOffset(0));
    assert.deepEqual(await source.send(whole.id), idsOf(source.events));
    const again = await begin(source, { from: formatOffset(0) });
    assert.deepEqual(await source.send(again.id), idsOf(source.events));
  });

  test('a replay sends the requested types only', async () => {
    const source = await createSource(2);
    const type = source.events[0]?.type ?? '';
    const none = await begin(source, {
      from: formatOffset(0),
      event_types: [`${type}.more`, 'a.b'],
    });
    assert.deepEqual(await source.send(none.id), []);
    assert.equal((await read(source, none.id)).status, 'done');
    const all = await begin(source, { from: formatOffset(0), event_types: ['a.b', type] });
    assert.deepEqual(await source.send(all.id), idsOf(source.events));
  });

  test('a replay of chosen events sends them alone, and is listed', async () => {
    const { stream, path, events, send } = await createSource(4);
    const [one, , three] = events;
    assert.ok(one && three);
    const response = await fixture.send('POST', path, { event_ids: [three.id, one.id] });
    assert.equal(response.status, 202, response.text);
    assert.deepEqual(await send(response.body.id), [one.id, three.id]);
    const list = await fixture.send('GET', `/event-streams/${stream.id}/replays`);
    assert.deepEqual(
      list.body.replays.map(({ id, matched }: { id: string; matched: number }) => [id, matched]),
      [[response.body.id, 2]],
    );
    const unknown = `evt_${'1'.repeat(22)}`;
    const refused = await fixture.send('POST', path, { event_ids: [one.id, unknown] });
    assert.equal(refused.status, 400);
    assert.ok(refused.body.message.includes(`The event log does not have ${unknown}`));
    for (const range of [{ from: 'MDAw' }, { date_to: '2026-03-01T00:00:00Z' }, { date_to: '' }]) {
      const both = await fixture.send('POST', path, { event_ids: [one.id], ...range });
      assert.equal(both.status, 400);
      assert.match(both.body.message, /event_ids does not go with/);
    }
  });

  test('a replay of an empty range is done immediately', async () => {
    const source = await createSource(2);
    const head = formatOffset(await storeFixture.store.log.head(storeFixture.tenant));
    const ahead = formatTime(storeFixture.now + 86_400_000);
    const old = { date_from: '1970-01-01T00:00:00Z', date_to: '1970-01-02T00:00:00Z' };
    const empty = { date_from: acceptedAt(source, 1), date_to: acceptedAt(source, 1) };
    for (const body of [{ from: head }, { date_from: ahead }, old, empty]) {
      const response = await begin(source, body);
      assert.equal(response.status, 'done', JSON.stringify(body));
      assert.equal(response.finished_at, response.created_at);
    }
  });
});

describe('a rejected replay', () => {
  const date = '2026-03-01T09:30:00Z';
  const offset = formatOffset(0);
  const cases: [body: unknown, reason: string, property: string][] = [
    [{}, 'Missing required property: date_from (or from, an offset)', 'date_from'],
    [{ date_to: date }, 'Missing required property: date_from (or from, an offset)', 'date_from'],
    [
      { from: offset, date_from: date },
      'from does not go with date_from, send one of them',
      'from',
    ],
    [
      { from: '42' },
      "Object didn't pass validation for format offset: 42; send one of a response, such as MDAwMDAwMDAwMDQyLmNmZDhiMDRh",
      'from',
    ],
    [
      { from: formatOffset(999_999_999) },
      'No event has this offset yet, send an offset of this tenant',
      'from',
    ],
    [
      { from: formatOffset(1, 'evt_of_another_log') },
      'Another event has this offset since the store was restored, send a date instead',
      'from',
    ],
    [{ from: null }, 'Expected type string but found type null', 'from'],
    [{ from: offset, date_to: null }, 'Expected type string but found type null', 'date_to'],
    [{ from: 42 }, 'Expected type string but found type integer', 'from'],
    [{ from: '' }, 'String is too short (0 chars), minimum 1', 'from'],
    [
      { date_from: 'today' },
      "Object didn't pass validation for format date-time: today; write it such as 2026-03-01T09:30:00Z",
      'date_from',
    ],
    [
      { from: offset, date_to: '2026' },
      "Object didn't pass validation for format date-time: 2026; write it such as 2026-03-01T09:30:00Z",
      'date_to',
    ],
    [
      { date_from: date, date_to: '2026-03-01T09:29:59Z' },
      'date_from is later than date_to',
      'date_from',
    ],
    [{ from: offset, event_types: [] }, 'Array is too short (0), minimum 1', 'event_types'],
    [
      { from: offset, event_types: ['a.b', 'A'] },
      "Object didn't pass validation for format event-type: A; write it such as order.paid",
      'event_types.1',
    ],
    [{ from: offset, to: offset }, 'Additional properties not allowed: to', 'to'],
    [[], 'Expected type object but found type array', 'body'],
  ];
  for (const [body, reason, property] of cases) {
    test(`rejects the body ${JSON.stringify(body)}`, async () => {
      const source = await createSource(1);
      const response = await fixture.send('POST', source.path, body);
      assert.equal(response.status, 400, response.text);
      assert.equal(response.body.errorCode, 'invalid_body');
      const begins = `Payload validation error: '${reason}' on property ${property} (`;
      assert.equal(response.body.message.slice(0, begins.length), begins);
    });
  }

  test('rejects a missing body, and one of another media type', async () => {
    const source = await createSource(0);
    assert.equal((await fixture.send('POST', source.path)).body.errorCode, 'invalid_body');
    const headers = { 'content-type': 'text/plain' };
    assert.equal((await fixture.send('POST', source.path, 'x', headers)).status, 415);
  });

  test('rejects a second replay of a stream until the first is done', async () => {
    const source = await createSource(2);
    const from = beforeFirst(source);
    const first = await begin(source, { from });
    const message = 'A replay of this event stream is already running.';
    assertProblem(
      await fixture.send('POST', source.path, { from }),
      409,
      message,
      'replay_running',
    );
    await source.send(first.id);
    assert.equal((await begin(source, { from })).status, 'running');
  });

  test('rejects a replay of a disabled stream, also while one pauses', async () => {
    const source = await createSource(2);
    const from = beforeFirst(source);
    const { id } = await begin(source, { from });
    // Without an owner the PATCH does not wait.
    await storeFixture.retire();
    await fixture.send('PATCH', source.path.replace('/replay', ''), { status: 'disabled' });
    const message = 'The event stream is disabled.';
    assertProblem(
      await fixture.send('POST', source.path, { from }),
      409,
      message,
      'stream_disabled',
    );
    assert.equal((await read(source, id)).status, 'running');
  });

  test('returns 404 for an unknown stream, after checking the body', async () => {
    const path = '/event-streams/est_AAAAAAAAAAAAAAAAAAAAAA/replay';
    assert.equal((await fixture.send('POST', path, {})).status, 400);
    const message = 'The requested stream does not exist: est_AAAAAAAAAAAAAAAAAAAAAA';
    assertProblem(await fixture.send('POST', path, { from: offset }), 404, message);
    assertProblem(await fixture.send('GET', `${path}/rpl_AAAAAAAAAAAAAAAAAAAAAA`), 404, message);
    assertProblem(await fixture.send('DELETE', `${path}/rpl_AAAAAAAAAAAAAAAAAAAAAA`), 404, message);
  });

  test('rejects callers without the scope', async () => {
    const source = await createSource(0);
    await assertNeedsScope(fixture, ['POST', source.path, 'update:event_deliveries', {}]);
  });
});

describe('reading and cancelling a replay', () => {
  test('reading and cancelling need only their scopes, for any caller', async () => {
    const source = await createSource(1);
    const { id } = await begin(source, { from: beforeFirst(source) });
    await storeFixture.retire();
    const needed = { GET: 'read:event_deliveries', DELETE: 'update:event_deliveries' };
    for (const [method, scope] of Object.entries(needed)) {
      const path = `${source.path}/${id}`;
      await assertNeedsScope(fixture, [method, path, scope]);
      const headers = await fixture.headersWith(scope);
      assert.ok((await fixture.send(method, path, undefined, headers)).status < 300);
    }
    assert.equal((await read(source, id)).status, 'cancelled');
  });

  test('a malformed replay id is 400, an unknown one 404', async () => {
    const source = await createSource(0);
    const bad = await fixture.send('GET', `${source.path}/rpl_short`);
    const message =
      "Path validation error: 'Object didn't pass validation for format replay-id: rpl_short' on property replay_id (Unique identifier for the replay).";
    assertProblem(bad, 400, message, 'invalid_uri');
    for (const method of ['GET', 'DELETE']) {
      const response = await fixture.send(method, `${source.path}/rpl_AAAAAAAAAAAAAAAAAAAAAA`);
      assertNotFound(response, 'replay');
    }
  });

  test('a replay cannot be read or cancelled through another stream', async () => {
    const source = await createSource(1);
    const other = await createSource(0);
    const { id } = await begin(source, { from: beforeFirst(source) });
    for (const method of ['GET', 'DELETE']) {
      assert.equal((await fixture.send(method, `${other.path}/${id}`)).status, 404);
    }
    assert.equal((await read(source, id)).status, 'running');
  });

  test('a cancelled replay can be cancelled again, and another can begin', async () => {
    const source = await createSource(2);
    const from = beforeFirst(source);
    const { id } = await begin(source, { from });
    await storeFixture.retire();
    const response = await fixture.send('DELETE', `${source.path}/${id}`);
    assert.deepEqual([response.status, response.text], [204, '']);
    const cancelled = await read(source, id);
    assert.equal(cancelled.status, 'cancelled');
    assert.equal(cancelled.finished_at, formatTime(storeFixture.now));
    assert.equal((await fixture.send('DELETE', `${source.path}/${id}`)).status, 204);
    assert.deepEqual(await read(source, id), cancelled);
    assert.equal((await begin(source, { from })).status, 'running');
  });

  test('deleting a stream deletes its replays', async () => {
    const source = await createSource(1);
    const { id } = await begin(source, { from: beforeFirst(source) });
    await storeFixture.retire();
    await fixture.send('DELETE', source.path.replace('/replay', ''));
    const response = await fixture.send('GET', `${source.path}/${id}`);
    assertNotFound(response, 'stream');
  });
});

describe('start_from of a new stream', () => {
  const destination = {
    type: 'webhook',
    configuration: {
      webhook_endpoint: 'https://hooks.example.net/leat',
      webhook_authorization: { method: 'bearer', token: 'kept-secret' },
    },
  };

  /** Creates a stream with `start_from`, and returns its cursor. */
  async function cursorOf(startFrom: string): Promise<number> {
    const body = { destination, start_from: startFrom };
    const response = await fixture.send('POST', '/event-streams', body);
    assert.equal(response.status, 201, response.text);
    assert.equal(response.body.start_from, undefined);
    const stream = await storeFixture.store.streams.get(storeFixture.tenant, response.body.id);
    assert.ok(stream);
    return (await storeFixture.own(stream)).cursor;
  }

  test('start_from accepts now, an offset or a date', async () => {
    const source = await createSource(3);
    const [first, second] = source.events;
    assert.ok(first && second);
    const head = await storeFixture.store.log.head(storeFixture.tenant);
    assert.equal(await cursorOf('now'), head);
    assert.equal(await cursorOf(formatOffset(first.offset)), first.offset);
    assert.equal(await cursorOf(formatOffset(head)), head);
    assert.equal(await cursorOf(acceptedAt(source, 1)), first.offset);
    assert.equal(await cursorOf(formatTime(storeFixture.now + 60_000)), head);
    assert.equal(await cursorOf('1970-01-01T00:00:00Z'), 0);
  });

  test('start_from before the log begins at the oldest event', async () => {
    const pruning = await openApiFixture();
    try {
      const own = fixtureOf(pruning.auth.store, pruning.auth.tenant.id, pruning.auth.time);
      await own.publish('a.b', 'a.b', 'a.b');
      await own.store.log.prune(own.tenant, { olderThanMs: -1, take: 2 });
      for (const startFrom of [formatOffset(0), formatOffset(1), '1970-01-01T00:00:00Z']) {
        const body = { destination, start_from: startFrom };
        const response = await pruning.send('POST', '/event-streams', body);
        const stream = await own.store.streams.get(own.tenant, response.body.id);
        assert.ok(stream);
        assert.equal((await own.own(stream)).cursor, 2);
      }
    } finally {
      await pruning.close();
    }
  });

  test('a stream with start_from needs a unique name too', async () => {
    const body = { destination, name: 'begins twice', start_from: formatOffset(0) };
    assert.equal((await fixture.send('POST', '/event-streams', body)).status, 201);
    const response = await fixture.send('POST', '/event-streams', body);
    const message = 'Event stream name already in use.';
    assertProblem(response, 409, message, 'stream_name_in_use');
  });

  const bad: [startFrom: unknown, reason: string][] = [
    ['yesterday', 'Neither now, an offset nor a date: yesterday'],
    ['', 'String is too short (0 chars), minimum 1'],
    ['2026-02-30T00:00:00Z', 'Neither now, an offset nor a date: 2026-02-30T00:00:00Z'],
    [formatOffset(999_999_999), 'No event has this offset yet, send an offset of this tenant'],
    [
      formatOffset(1, 'evt_of_another_log'),
      'Another event has this offset since the store was restored, send a date instead',
    ],
    [42, 'Expected type string but found type integer'],
  ];
  for (const [startFrom, reason] of bad) {
    test(`start_from rejects ${JSON.stringify(startFrom)}, and creates no stream`, async () => {
      // The log needs an event at offset 1.
      await storeFixture.publish('a.a');
      const body = { destination, name: 'bad start', start_from: startFrom };
      const response = await fixture.send('POST', '/event-streams', body);
      const text =
        'Where the event stream begins in the event log: now, an offset or a date (RFC 3339)';
      const message = `Payload validation error: '${reason}' on property start_from (${text}).`;
      assertProblem(response, 400, message, 'invalid_body');
      const { items } = await storeFixture.store.streams.list(storeFixture.tenant, {
        after: undefined,
        take: 1000,
      });
      assert.ok(items.every(({ name }) => name !== 'bad start'));
    });
  }
});
