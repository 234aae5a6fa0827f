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
import { allScopesBut, openSite, type Received, type Site } from './fixture.ts';

let site: Site;
let scene: Fixture;

before(async () => {
  site = await openSite();
  scene = fixtureOf(site.house.store, site.house.tenant.id, site.house.time);
});
after(() => site.close());

interface Past {
  readonly stream: Stream;
  readonly path: string;
  readonly events: readonly LoggedEvent[];
  /** Sends what the replay may send now, and answers the ids. */
  send(replay: string): Promise<string[]>;
}

let types = 0;

/** A stream with a type of its own, that was sent `count` events, accepted one a second. */
async function past(count: number): Promise<Past> {
  types += 1;
  const type = `replay.t${types}`;
  const stream = await scene.addStream({ types: [type, `${type}.more`] });
  const owned = await scene.own(stream);
  const events: LoggedEvent[] = [];
  for (let number = 0; number < count; number += 1) {
    scene.now += 1000;
    events.push(...(await scene.publish(type)));
  }
  const cursor = events.at(-1)?.offset ?? owned.cursor;
  await scene.settle(owned, { cursor, outcomes: events.map((event) => delivered(event)) });
  const send = async (replay: string): Promise<string[]> => {
    const ask = { ...raiseOf({ ...owned, cursor }), replay, take: 100, waitingMax: 100 };
    await scene.store.replays.materialize(ask);
    const { rows } = await claimDue(scene, owned);
    const outcomes = rows.map(({ event }) => delivered(event, { kind: 'replay', hasRow: true }));
    await scene.settle(owned, { outcomes });
    await scene.store.replays.materialize(ask);
    return rows.map(({ event }) => event.id);
  };
  return { stream, path: `/event-streams/${stream.id}/replay`, events, send };
}

const idsOf = (events: readonly LoggedEvent[]) => events.map(({ id }) => id);

const beforeFirst = ({ events: [first] }: Past): string => formatOffset((first?.offset ?? 1) - 1);

/** The instant at which the so-many-th event was accepted. */
const acceptedAt = ({ events }: Past, index: number): string =>
  formatTime(scene.now - (events.length - 1 - index) * 1000);

async function begin({ path }: Past, body: object): Promise<Received['body']> {
  const answer = await site.send('POST', path, body);
  assert.equal(answer.status, 202, answer.text);
  return answer.body;
}

async function read({ path }: Past, id: string): Promise<Received['body']> {
  const answer = await site.send('GET', `${path}/${id}`);
  assert.equal(answer.status, 200, answer.text);
  return answer.body;
}

function assertRefused(answer: Received, status: number, message: string, code?: string): void {
  assert.equal(answer.status, status, answer.text);
  assert.equal(answer.body.message, message);
  assert.equal(answer.body.errorCode, code);
}

describe('a replay that begins', () => {
  test('after an offset is answered with the check of its event, and read until it is done', async () => {
    const of = await past(3);
    const [first] = of.events as [LoggedEvent];
    const from = formatOffset(first.offset, first.id);
    const body = await begin(of, { from: formatOffset(first.offset) });
    assert.match(body.id, /^rpl_[1-9A-HJ-NP-Za-km-z]{22}$/);
    assert.deepEqual(body, {
      id: body.id,
      status: 'running',
      from,
      matched: 0,
      sent: 0,
      failed: 0,
      created_at: formatTime(scene.now),
    });
    assert.deepEqual(await read(of, body.id), body);
    assert.deepEqual(await of.send(body.id), idsOf(of.events.slice(1)));
    assert.deepEqual(await read(of, body.id), {
      ...body,
      status: 'done',
      matched: 2,
      sent: 2,
      finished_at: formatTime(scene.now),
    });
  });

  test('at a date sends what was accepted then or later', async () => {
    const of = await past(4);
    const body = await begin(of, { date_from: acceptedAt(of, 2) });
    const { offset, id } = of.events[1] as LoggedEvent;
    assert.equal(body.from, formatOffset(offset, id));
    assert.deepEqual(await of.send(body.id), idsOf(of.events.slice(2)));
  });

  test('goes up to date_to, which is not in it any more', async () => {
    const of = await past(4);
    const range = { date_from: acceptedAt(of, 1), date_to: acceptedAt(of, 3) };
    const body = await begin(of, range);
    assert.deepEqual(await of.send(body.id), idsOf(of.events.slice(1, 3)));
    const next = await begin(of, { from: body.from, date_to: acceptedAt(of, 2) });
    assert.deepEqual(await of.send(next.id), idsOf(of.events.slice(1, 2)));
  });

  test('before the log begins at its oldest event', async () => {
    const of = await past(2);
    const whole = await begin(of, { date_from: '1970-01-01T00:00:00Z' });
    assert.equal(whole.from, formatOffset(0));
    assert.deepEqual(await of.send(whole.id), idsOf(of.events));
    const again = await begin(of, { from: formatOffset(0) });
    assert.deepEqual(await of.send(again.id), idsOf(of.events));
  });

  test('takes the types that are asked for alone', async () => {
    const of = await past(2);
    const type = of.events[0]?.type ?? '';
    const none = await begin(of, { from: formatOffset(0), event_types: [`${type}.more`, 'a.b'] });
    assert.deepEqual(await of.send(none.id), []);
    assert.equal((await read(of, none.id)).status, 'done');
    const all = await begin(of, { from: formatOffset(0), event_types: ['a.b', type] });
    assert.deepEqual(await of.send(all.id), idsOf(of.events));
  });

  test('with a range that is empty is done at once', async () => {
    const of = await past(2);
    const head = formatOffset(await scene.store.log.head(scene.tenant));
    const ahead = formatTime(scene.now + 86_400_000);
    const old = { date_from: '1970-01-01T00:00:00Z', date_to: '1970-01-02T00:00:00Z' };
    const empty = { date_from: acceptedAt(of, 1), date_to: acceptedAt(of, 1) };
    for (const body of [{ from: head }, { date_from: ahead }, old, empty]) {
      const answer = await begin(of, body);
      assert.equal(answer.status, 'done', JSON.stringify(body));
      assert.equal(answer.finished_at, answer.created_at);
    }
  });
});

describe('a replay is refused', () => {
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
    [{ from: '42' }, "Object didn't pass validation for format offset: 42", 'from'],
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
      "Object didn't pass validation for format date-time: today",
      'date_from',
    ],
    [
      { from: offset, date_to: '2026' },
      "Object didn't pass validation for format date-time: 2026",
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
      "Object didn't pass validation for format event-type: A",
      'event_types.1',
    ],
    [{ from: offset, to: offset }, 'Additional properties not allowed: to', 'to'],
    [[], 'Expected type object but found type array', 'body'],
  ];
  for (const [body, reason, property] of cases) {
    test(`with the body ${JSON.stringify(body)}`, async () => {
      const of = await past(1);
      const answer = await site.send('POST', of.path, body);
      assert.equal(answer.status, 400, answer.text);
      assert.equal(answer.body.errorCode, 'invalid_body');
      const begins = `Payload validation error: '${reason}' on property ${property} (`;
      assert.equal(answer.body.message.slice(0, begins.length), begins);
    });
  }

  test('without a body, and with one of another type', async () => {
    const of = await past(0);
    assert.equal((await site.send('POST', of.path)).body.errorCode, 'invalid_body');
    const headers = { 'content-type': 'text/plain' };
    assert.equal((await site.send('POST', of.path, 'x', headers)).status, 415);
  });

  test('while another of the stream is running, not when that is over', async () => {
    const of = await past(2);
    const from = beforeFirst(of);
    const first = await begin(of, { from });
    const message = 'A replay of this event stream is already running.';
    assertRefused(await site.send('POST', of.path, { from }), 409, message, 'replay_running');
    await of.send(first.id);
    assert.equal((await begin(of, { from })).status, 'running');
  });

  test('of a disabled stream, also when one pauses', async () => {
    const of = await past(2);
    const from = beforeFirst(of);
    const { id } = await begin(of, { from });
    // Nobody is left who would have to see the change.
    await scene.retire();
    await site.send('PATCH', of.path.replace('/replay', ''), { status: 'disabled' });
    const message = 'The event stream is disabled.';
    assertRefused(await site.send('POST', of.path, { from }), 409, message, 'stream_disabled');
    assert.equal((await read(of, id)).status, 'running');
  });

  test('of a stream that is not there, after its body was checked', async () => {
    const path = '/event-streams/est_AAAAAAAAAAAAAAAAAAAAAA/replay';
    assert.equal((await site.send('POST', path, {})).status, 400);
    const message = 'The requested stream does not exist.';
    assertRefused(await site.send('POST', path, { from: offset }), 404, message);
    assertRefused(await site.send('GET', `${path}/rpl_AAAAAAAAAAAAAAAAAAAAAA`), 404, message);
    assertRefused(await site.send('DELETE', `${path}/rpl_AAAAAAAAAAAAAAAAAAAAAA`), 404, message);
  });

  test('to callers without the scope', async () => {
    const of = await past(0);
    const token = await site.tokenWith(...allScopesBut('update:event_deliveries'));
    const headers = { authorization: `Bearer ${token}` };
    const answer = await site.send('POST', of.path, {}, headers);
    const message = 'Insufficient scope; expected any of: update:event_deliveries';
    assertRefused(answer, 403, message, 'insufficient_scope');
  });
});

describe('reading and cancelling a replay', () => {
  test('needs the scope of each, and is not a matter of who began it', async () => {
    const of = await past(1);
    const { id } = await begin(of, { from: beforeFirst(of) });
    await scene.retire();
    const needed = { GET: 'read:event_deliveries', DELETE: 'update:event_deliveries' };
    for (const [method, scope] of Object.entries(needed)) {
      const send = async (...scopes: string[]) => {
        const headers = { authorization: `Bearer ${await site.tokenWith(...scopes)}` };
        return site.send(method, `${of.path}/${id}`, undefined, headers);
      };
      const message = `Insufficient scope; expected any of: ${scope}`;
      assertRefused(await send(...allScopesBut(scope)), 403, message, 'insufficient_scope');
      assert.ok((await send(scope)).status < 300);
    }
    assert.equal((await read(of, id)).status, 'cancelled');
  });

  test('of an id that is none is 400, of one that is not there 404', async () => {
    const of = await past(0);
    const bad = await site.send('GET', `${of.path}/rpl_short`);
    const message =
      "Path validation error: 'Object didn't pass validation for format replay-id: rpl_short' on property replay_id (Unique identifier for the replay).";
    assertRefused(bad, 400, message, 'invalid_uri');
    for (const method of ['GET', 'DELETE']) {
      const answer = await site.send(method, `${of.path}/rpl_AAAAAAAAAAAAAAAAAAAAAA`);
      assertRefused(answer, 404, 'The replay does not exist.');
    }
  });

  test('of another stream finds none', async () => {
    const of = await past(1);
    const other = await past(0);
    const { id } = await begin(of, { from: beforeFirst(of) });
    for (const method of ['GET', 'DELETE']) {
      assert.equal((await site.send(method, `${other.path}/${id}`)).status, 404);
    }
    assert.equal((await read(of, id)).status, 'running');
  });

  test('ends it; again changes nothing, and the next may begin', async () => {
    const of = await past(2);
    const from = beforeFirst(of);
    const { id } = await begin(of, { from });
    await scene.retire();
    const answer = await site.send('DELETE', `${of.path}/${id}`);
    assert.deepEqual([answer.status, answer.text], [204, '']);
    const cancelled = await read(of, id);
    assert.equal(cancelled.status, 'cancelled');
    assert.equal(cancelled.finished_at, formatTime(scene.now));
    assert.equal((await site.send('DELETE', `${of.path}/${id}`)).status, 204);
    assert.deepEqual(await read(of, id), cancelled);
    assert.equal((await begin(of, { from })).status, 'running');
  });

  test('goes with the stream', async () => {
    const of = await past(1);
    const { id } = await begin(of, { from: beforeFirst(of) });
    await scene.retire();
    await site.send('DELETE', of.path.replace('/replay', ''));
    const answer = await site.send('GET', `${of.path}/${id}`);
    assertRefused(answer, 404, 'The requested stream does not exist.');
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

  /** The cursor that a stream which is created so has. */
  async function cursorOf(startFrom: string): Promise<number> {
    const body = { destination, start_from: startFrom };
    const answer = await site.send('POST', '/event-streams', body);
    assert.equal(answer.status, 201, answer.text);
    assert.equal(answer.body.start_from, undefined);
    const stream = await scene.store.streams.get(scene.tenant, answer.body.id);
    assert.ok(stream);
    return (await scene.own(stream)).cursor;
  }

  test('is now, an offset or a date', async () => {
    const of = await past(3);
    const [first, second] = of.events;
    assert.ok(first && second);
    const head = await scene.store.log.head(scene.tenant);
    assert.equal(await cursorOf('now'), head);
    assert.equal(await cursorOf(formatOffset(first.offset)), first.offset);
    assert.equal(await cursorOf(formatOffset(head)), head);
    assert.equal(await cursorOf(acceptedAt(of, 1)), first.offset);
    assert.equal(await cursorOf(formatTime(scene.now + 60_000)), head);
    assert.equal(await cursorOf('1970-01-01T00:00:00Z'), 0);
  });

  test('before the log is its oldest event', async () => {
    const pruning = await openSite();
    try {
      const own = fixtureOf(pruning.house.store, pruning.house.tenant.id, pruning.house.time);
      await own.publish('a.b', 'a.b', 'a.b');
      await own.store.log.prune(own.tenant, { olderThanMs: -1, take: 2 });
      for (const startFrom of [formatOffset(0), formatOffset(1), '1970-01-01T00:00:00Z']) {
        const body = { destination, start_from: startFrom };
        const answer = await pruning.send('POST', '/event-streams', body);
        const stream = await own.store.streams.get(own.tenant, answer.body.id);
        assert.ok(stream);
        assert.equal((await own.own(stream)).cursor, 2);
      }
    } finally {
      await pruning.close();
    }
  });

  test('does not lift the rule that a name is taken once', async () => {
    const body = { destination, name: 'begins twice', start_from: formatOffset(0) };
    assert.equal((await site.send('POST', '/event-streams', body)).status, 201);
    const answer = await site.send('POST', '/event-streams', body);
    const message = 'Event stream name already in use.';
    assertRefused(answer, 409, message, 'stream_name_in_use');
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
    test(`is not ${JSON.stringify(startFrom)}, and no stream is made`, async () => {
      // Whatever test came before, the log has a first event.
      await scene.publish('a.a');
      const body = { destination, name: 'bad start', start_from: startFrom };
      const answer = await site.send('POST', '/event-streams', body);
      const text =
        'Where the event stream begins in the event log: now, an offset or a date (RFC 3339)';
      const message = `Payload validation error: '${reason}' on property start_from (${text}).`;
      assertRefused(answer, 400, message, 'invalid_body');
      const { items } = await scene.store.streams.list(scene.tenant, {
        after: undefined,
        take: 1000,
      });
      assert.ok(items.every(({ name }) => name !== 'bad start'));
    });
  }
});
