import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';
import { parseOffset } from '../../src/core/offset.ts';
import {
  delivered,
  failed,
  fixtureOf,
  type Fixture,
  newId,
  parked,
  retry,
} from '../store/contract/fixture.ts';
import {
  type ApiFixture,
  assertInvalid,
  assertNeedsScope,
  assertNotFound,
  cursorPages,
  openApiFixture,
} from './fixture.ts';

let fixture: ApiFixture;
let store: Fixture;
let id: string;
let path: string;

const send = (...request: Parameters<ApiFixture['send']>) => fixture.send(...request);

before(async () => {
  fixture = await openApiFixture({ disableConsecutive: 3, disableTotal: 4 });
  store = fixtureOf(fixture.auth.store, 1, fixture.auth.time);
});
after(() => fixture.close());

beforeEach(async () => {
  const { body } = await send('POST', '/event-streams', {
    name: newId('est'),
    subscriptions: [{ event_type: 'user.created' }],
    destination: {
      type: 'webhook',
      configuration: {
        webhook_endpoint: 'https://hooks.example.net:8443/a?b=c',
        webhook_authorization: { method: 'bearer', token: 'geheim' },
      },
    },
  });
  id = body.id;
  path = `/event-streams/${id}`;
});

async function ownedStream() {
  const stream = await fixture.auth.store.streams.get(1, id);
  assert.ok(stream);
  const owned = await store.own(stream);
  // No request waits for a node that reads nothing.
  await store.retire();
  return owned;
}

describe('pause and resume', () => {
  test('a pause is answered with the health, and leaves the event stream as it is', async () => {
    const plain = (await send('GET', path)).body;
    const paused = await send('POST', `${path}/pause`, { reason: 'CRM upgrade' });
    assert.equal(paused.status, 200);
    const { state, status, paused: pause } = paused.body;
    assert.deepEqual([state, status, pause.reason], ['paused', 'enabled', 'CRM upgrade']);
    assert.match(pause.at, /^\d{4}-.*Z$/);
    assert.deepEqual((await send('GET', path)).body, plain);
    assert.deepEqual((await send('GET', `${path}/health`)).body, paused.body);
    const resumed = await send('POST', `${path}/resume`);
    assert.deepEqual([resumed.status, resumed.body.state, resumed.body.paused], [200, 'ok', null]);
    assert.deepEqual((await send('GET', path)).body, plain);
  });

  test('both may be repeated: the first pause stays, with its reason', async () => {
    assert.equal((await send('POST', `${path}/resume`, {})).body.state, 'ok');
    const first = await send('POST', `${path}/pause`, { reason: 'first' });
    const second = await send('POST', `${path}/pause`, { reason: 'second' });
    assert.deepEqual([second.status, second.body], [200, first.body]);
    const third = await send('POST', `${path}/pause`);
    assert.deepEqual(third.body, first.body);
    for (let times = 0; times < 2; times += 1) {
      assert.equal((await send('POST', `${path}/resume`)).body.paused, null);
    }
    assert.deepEqual((await send('POST', `${path}/pause`)).body.paused.reason, null);
  });

  test('a PATCH keeps the pause, also one that disables and enables', async () => {
    await send('POST', `${path}/pause`, {});
    const states: string[] = [];
    for (const patch of [{ name: newId('est') }, { status: 'disabled' }, { status: 'enabled' }]) {
      assert.equal((await send('PATCH', path, patch)).status, 200);
      states.push((await send('GET', `${path}/health`)).body.state);
    }
    assert.deepEqual(states, ['paused', 'disabled', 'paused']);
    assert.equal((await send('DELETE', path)).status, 204);
  });

  test('the body: a reason of at most 256 characters, and nothing else', async () => {
    const longest = 'ü'.repeat(256);
    assert.equal((await send('POST', `${path}/pause`, { reason: longest })).status, 200);
    assertInvalid(await send('POST', `${path}/pause`, { reason: `${longest}x` }), 'reason');
    assertInvalid(await send('POST', `${path}/pause`, { reason: null }), 'reason');
    for (const reason of ['a\u0000b', 'a\nb', '\u001b[31m', '\u0085']) {
      assertInvalid(await send('POST', `${path}/pause`, { reason }), 'reason');
    }
    assert.equal((await send('POST', `${path}/pause`, { because: 'x' })).status, 400);
    assert.equal((await send('POST', `${path}/resume`, { reason: 'x' })).status, 400);
  });

  test('an unknown event stream is 404, and each needs its scope', async () => {
    const unknown = `/event-streams/${'est_'.padEnd(26, 'x')}`;
    for (const [method, rest, scope] of [
      ['POST', 'pause', 'update:event_streams'],
      ['POST', 'resume', 'update:event_streams'],
      ['GET', 'health', 'read:event_streams'],
    ] as const) {
      assertNotFound(await send(method, `${unknown}/${rest}`), 'stream');
      await assertNeedsScope(fixture, [method, `${path}/${rest}`, scope]);
    }
  });
});

describe('the health of an event stream', () => {
  test('a new one: all fields, without secrets', async () => {
    const { body } = await send('GET', `${path}/health`);
    const [{ created_at: createdAt }] = body.signing_secrets;
    assert.deepEqual(body, {
      event_stream_id: id,
      name: body.name,
      endpoint_host: 'hooks.example.net:8443',
      state: 'ok',
      status: 'enabled',
      paused: null,
      disabled: null,
      failures: { consecutive: 0, open: 0, limit_consecutive: 3, limit_open: 4 },
      lag: { events: 0, at_least: false, seconds: 0 },
      success_24h: null,
      p95_24h_ms: null,
      retrying: 0,
      in_flight: 0,
      in_flight_seconds: 0,
      next_attempt_at: null,
      results_refused: null,
      last_delivered_at: null,
      last_failed_at: null,
      failing_since: null,
      signing_secrets: [{ created_at: createdAt, expires_at: null }],
      replay: null,
    });
  });

  test('counters, results and what waits; failing while the last cycle failed', async () => {
    const owned = await ownedStream();
    const [one, two, three, four] = await store.publish(...Array<string>(4).fill('user.created'));
    assert.ok(one && two && three && four);
    const outcomes = [delivered(one), failed(two), retry(three, { delayMs: 3_600_000 })];
    const cursor = three.offset;
    await store.settle(owned, { cursor, outcomes });
    const { body } = await send('GET', `${path}/health`);
    assert.deepEqual(
      [body.state, body.failures.consecutive, body.failures.open, body.success_24h],
      ['failing', 1, 1, 0.5],
    );
    assert.deepEqual([body.retrying, body.lag.events], [1, 1]);
    for (const at of [body.next_attempt_at, body.last_delivered_at, body.last_failed_at]) {
      assert.match(at, /^\d{4}-.*Z$/);
    }
    await send('POST', `${path}/pause`);
    const paused = (await send('GET', `${path}/health`)).body;
    assert.deepEqual([paused.state, paused.next_attempt_at], ['paused', null]);
  });

  test('attempts that fail or last: since when, and failing after a minute without a success', async () => {
    const owned = await ownedStream();
    const [slow, waits] = await store.publish('user.created', 'user.created');
    assert.ok(slow && waits);
    const outcomes = [retry(waits, { delayMs: 3_600_000 }), parked(slow, { leaseMs: 15_000 })];
    await store.settle(owned, { cursor: waits.offset, outcomes });
    const since = store.now;
    await fixture.auth.clock.advance(9_999);
    const { body } = await send('GET', `${path}/health`);
    assert.deepEqual([body.state, body.failures.consecutive], ['ok', 0]);
    assert.deepEqual([body.in_flight, body.in_flight_seconds], [1, 9]);
    assert.equal(body.failing_since, new Date(since).toISOString());
    await fixture.auth.clock.advance(50_001);
    assert.equal((await send('GET', `${path}/health`)).body.state, 'failing');
    await store.settle(owned, { outcomes: [delivered(slow, { hasRow: true })] });
    const end = (await send('GET', `${path}/health`)).body;
    assert.deepEqual([end.state, end.in_flight, end.in_flight_seconds], ['ok', 0, 0]);
    assert.equal(end.failing_since, null);
  });

  test('a stream that reached a limit: the reason, the code, and what waits', async () => {
    const owned = await ownedStream();
    const events = await store.publish(...Array<string>(5).fill('user.created'));
    store.limits = { consecutive: 3, total: 4 };
    const [one, two, three] = events;
    assert.ok(one && two && three);
    const timeout = { status: undefined, error: 'timeout' };
    const outcomes = [failed(one), failed(two), failed(three, timeout)];
    await store.settle(owned, { cursor: three.offset, outcomes });
    const { body } = await send('GET', `${path}/health`);
    assert.equal(body.state, 'disabled');
    assert.deepEqual(body.disabled, {
      reason: 'consecutive_failures',
      at: body.disabled.at,
      last_error_code: 'timeout',
      waiting_events: 2,
      at_least: false,
    });
    await send('PATCH', path, { status: 'enabled' });
    assert.deepEqual((await send('GET', `${path}/health`)).body.disabled, null);
    await send('PATCH', path, { status: 'disabled' });
    const byHand = (await send('GET', `${path}/health`)).body.disabled;
    assert.deepEqual([byHand.reason, byHand.waiting_events], ['by_hand', 0]);
  });

  test('lagging from 300 s on, by the age of the oldest event of its types', async () => {
    const lag = async () => {
      const { body } = await send('GET', `${path}/health`);
      return [body.state, body.lag.events, body.lag.seconds];
    };
    await store.publish('user.deleted');
    await fixture.auth.clock.advance(1000);
    assert.deepEqual(await lag(), ['ok', 0, 0]);
    await store.publish('user.created');
    await fixture.auth.clock.advance(299_900);
    await store.publish('user.created');
    assert.deepEqual(await lag(), ['ok', 2, 299]);
    await fixture.auth.clock.advance(100);
    assert.deepEqual(await lag(), ['lagging', 2, 300]);
  });

  test('a previous signing secret is listed until it expires, and a running replay is shown', async () => {
    await send('POST', `${path}/signing-secret/rotate`, { overlap_seconds: 60 });
    await store.publish('user.created');
    const replay = await send('POST', `${path}/replay`, { date_from: '2020-01-01T00:00:00Z' });
    assert.equal(replay.status, 202, replay.text);
    const { body } = await send('GET', `${path}/health`);
    assert.equal(body.signing_secrets.length, 2);
    assert.match(body.signing_secrets[1].expires_at, /^\d{4}-.*Z$/);
    assert.equal(body.replay.id, replay.body.id);
    await fixture.auth.clock.advance(60_000);
    const { body: later } = await send('GET', `${path}/health`);
    assert.deepEqual(later.signing_secrets, body.signing_secrets.slice(0, 1));
  });
});

describe('skipped ranges', () => {
  test('enabling with latest leaves one, and a replay of it sends exactly what was skipped', async () => {
    const last = await store.publish('user.created');
    await send('PATCH', path, { status: 'disabled' });
    const skipped = await store.publish('user.created', 'user.deleted', 'user.created');
    const enabled = await send('PATCH', path, { status: 'enabled', resume: 'latest' });
    // The first one was not sent before the event stream was disabled.
    assert.equal(enabled.headers.get('leat-skipped-events'), '3');
    const { status, body } = await send('GET', `${path}/skipped`);
    assert.equal(status, 200);
    const [range] = body.ranges;
    const { from, to, date } = range;
    assert.deepEqual(body, {
      ranges: [{ from, to, events: 3, at_least: false, reason: 'resumed_latest', date }],
    });
    assert.deepEqual(parseOffset(to)?.offset, skipped.at(-1)?.offset);
    assert.deepEqual(parseOffset(from)?.offset, (last[0]?.offset ?? 0) - 1);
    assert.match(date, /^\d{4}-.*Z$/);
    const until = new Date(Date.parse(date) + 1).toISOString();
    const replay = await send('POST', `${path}/replay`, { from, date_to: until });
    assert.equal(replay.status, 202, replay.text);
    assert.equal(replay.body.from, from);
  });

  test('held leaves none', async () => {
    await send('PATCH', path, { status: 'disabled' });
    await store.publish('user.created');
    await send('PATCH', path, { status: 'enabled', resume: 'held' });
    assert.deepEqual((await send('GET', `${path}/skipped`)).body, { ranges: [] });
  });

  test('pages, an unknown event stream, a cursor of another list, and the scope', async () => {
    for (let round = 0; round < 3; round += 1) {
      await send('PATCH', path, { status: 'disabled' });
      await store.publish('user.created');
      await send('PATCH', path, { status: 'enabled' });
    }
    const seen: string[] = [];
    for await (const page of cursorPages(fixture, `${path}/skipped?take=1`)) {
      assert.equal(page.body.ranges.length, 1);
      seen.push(page.body.ranges[0].to);
    }
    const offsets = seen.map((text) => parseOffset(text)?.offset ?? 0);
    assert.equal(offsets.length, 3);
    assert.deepEqual(
      offsets,
      offsets.toSorted((one, other) => other - one),
    );
    assertNotFound(await send('GET', `/event-streams/${'est_'.padEnd(26, 'x')}/skipped`), 'stream');
    assert.equal((await send('GET', `${path}/skipped?from=Zm9v`)).status, 400);
    assert.equal((await send('GET', `${path}/skipped?take=101`)).status, 400);
    await assertNeedsScope(fixture, ['GET', `${path}/skipped`, 'read:event_streams']);
  });
});
