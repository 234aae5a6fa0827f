import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { limits } from '../../../src/config.ts';
import type { AttemptResult } from '../../../src/core/retry.ts';
import { startDns, type Zone } from '../../helpers/dns.ts';
import {
  hang,
  type Receiver,
  rawThenEnd,
  startReceiver,
  type Wire,
} from '../../helpers/receiver.ts';
import {
  advanceUntil,
  createSender,
  firstLookupMs,
  silentLookupMs,
  timeoutMs,
  type Sender,
} from '../../helpers/sender.ts';
import { waitFor } from '../../helpers/wait.ts';

/** Attempts and name lookups together, with the resolver of production. */

const delivered: AttemptResult = { kind: 'response', status: 204, text: '', retryAfter: undefined };
const noAnswer: AttemptResult = { kind: 'error', cause: 'dns', detail: 'ETIMEOUT' };
const closing = rawThenEnd('HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n');

const { usableMs, failureKeptMs } = limits.names;

async function createFixture(
  t: TestContext,
  zone: Zone,
): Promise<
  Sender & {
    readonly port: number;
    readonly receiver: Receiver;
    readonly questions: readonly string[];
  }
> {
  const dns = await startDns(zone);
  t.after(() => dns.close());
  const receiver = await startReceiver({ respond: closing });
  t.after(() => receiver.close());
  const { servers, questions } = dns;
  const sender = createSender(t, { servers });
  return { ...sender, receiver, port: receiver.port, questions };
}

const zone: Zone = (name) => (name.startsWith('silent') ? 'silence' : ['127.0.0.1']);

function silentOrigins(count: number): string[] {
  return Array.from({ length: count }, (_, n) => `http://silent-${n}.test`);
}

describe('preparing an attempt', () => {
  test('an attempt without a name lookup is ready at once', async (t) => {
    const { transport, port, receiver, send, questions } = await createFixture(t, zone);
    for (const host of ['127.0.0.1', '[::1]', '192.0.2.1']) {
      assert.equal(transport.prepare(1, `http://${host}`), true);
      assert.equal(transport.prepare(1, `https://${host}:8443`), true);
    }
    assert.equal(questions.length, 0);
    receiver.respond = (wire) => wire.write('HTTP/1.1 204 No Content\r\n\r\n');
    const origin = `http://kept.test:${port}`;
    assert.deepEqual(await send(origin), delivered);
    assert.equal(transport.count().idle, 1);
    assert.equal(transport.prepare(1, origin), true);
  });

  test('preparing looks the name up; the attempt then begins without another lookup', async (t) => {
    const { transport, port, send, questions, clock } = await createFixture(t, zone);
    const origin = `http://name.test:${port}`;
    await transport.prepare(1, origin);
    assert.deepEqual(questions.toSorted(), ['name.test A', 'name.test AAAA']);
    assert.equal(transport.prepare(1, origin), true);
    assert.deepEqual(await send(origin), delivered);
    await waitFor('the connection to close', () => transport.count().connections === 0);
    await clock.advance(usableMs);
    assert.notEqual(transport.prepare(1, origin), true);
    assert.deepEqual(await send(origin), delivered);
  });

  test('after a failed lookup the attempt begins, and fails with its code', async (t) => {
    const { transport, send, clock, questions } = await createFixture(t, zone);
    await advanceUntil(clock, transport.prepare(1, 'http://silent.test'));
    const before = questions.length;
    assert.equal(transport.prepare(1, 'http://silent.test'), true);
    assert.deepEqual(await send('http://silent.test'), noAnswer);
    assert.equal(questions.length, before);
    await clock.advance(failureKeptMs);
    assert.notEqual(transport.prepare(1, 'http://silent.test'), true);
  });
});

test('connections that are never idle for long are replaced in time, at the present addresses of the name', async (t) => {
  let address = '127.0.0.1';
  const { post, port, receiver, transport, clock } = await createFixture(t, () => [address]);
  const moved = await startReceiver({ host: '127.0.0.2', port });
  t.after(() => moved.close());
  receiver.respond = (wire) => wire.write('HTTP/1.1 204 No Content\r\n\r\n');
  const origin = `http://moving.test:${port}`;
  const atOnce = 20;
  /** Sends on all connections at once. */
  const round = async (): Promise<void> => {
    await transport.prepare(1, origin);
    const sent = Array.from({ length: atOnce }, () => post(origin).ended);
    for (const result of await Promise.all(sent)) assert.deepEqual(result, delivered);
  };
  await round();
  address = '127.0.0.2';
  const perRound: number[] = [];
  for (let second = 2; second <= 62; second += 4) {
    await clock.advance(4000);
    const before = moved.requests.length;
    await round();
    perRound.push(moved.requests.length - before);
  }
  // None in the first 52 s, some at 56 s, and all from 60 s on: the lives differ by a tenth.
  assert.deepEqual(
    perRound.slice(0, 13),
    Array.from({ length: 13 }, () => 0),
  );
  assert.ok((perRound[13] ?? 0) > 0 && (perRound[13] ?? atOnce) < atOnce, perRound.join(' '));
  assert.deepEqual(perRound.slice(14), [atOnce, atOnce]);
  assert.equal(receiver.connections, atOnce);
  assert.equal(moved.connections, atOnce);
});

test('an origin is ready when it has an idle connection, an address or a valid lookup result', async (t) => {
  const { transport, port, receiver, post, questions, clock } = await createFixture(t, zone);
  assert.equal(transport.isReady('http://192.0.2.1:8080'), true);
  assert.equal(transport.isReady('https://[::1]'), true);
  const origin = `http://kept.test:${port}`;
  assert.equal(transport.isReady(origin), false);
  assert.equal(questions.length, 0, 'no lookup is started');
  await transport.prepare(1, origin);
  assert.equal(transport.isReady(origin), true);
  const wires: Wire[] = [];
  receiver.respond = (wire) => void wires.push(wire);
  const first = post(origin);
  await waitFor('the request', () => wires.length === 1);
  void wires.shift()?.write('HTTP/1.1 204 No Content\r\n\r\n');
  await first.ended;
  await clock.advance(usableMs);
  assert.equal(transport.isReady(origin), true, 'over the idle connection');
  const sent = post(origin);
  assert.equal(transport.isReady(origin), false);
  await waitFor('the request', () => wires.length === 1);
  void wires[0]?.write('HTTP/1.1 204 No Content\r\n\r\n');
  assert.deepEqual(await sent.ended, delivered);
  assert.equal(transport.isReady(origin), true);
});

describe('an attempt that waits for the lookups of others', () => {
  test('the wait for lookups of others does not count as time of the attempt', async (t) => {
    const { transport, post, port, clock } = await createFixture(t, zone);
    for (const origin of silentOrigins(30)) void transport.prepare(1, origin);
    const waiting = post(`http://name.test:${port}`);
    await clock.advance(firstLookupMs);
    assert.deepEqual(await waiting.ended, delivered);
    assert.equal(waiting.waitedMs, firstLookupMs);
  });

  test('an attempt fails when its lookup does not begin in time, before the lease of its row ends', async (t) => {
    const { transport, post, clock } = await createFixture(t, zone);
    const slow = [...silentOrigins(2), 'http://silent.test'];
    for (const origin of slow) void transport.prepare(1, origin);
    await clock.advance(2 * silentLookupMs + usableMs);
    for (const origin of silentOrigins(2)) void transport.prepare(1, origin);
    const waiting = post('http://silent.test');
    const startedMs = clock.elapsedMs();
    await clock.advance(limits.names.timeoutMs - 1);
    assert.deepEqual(await waiting.ended, noAnswer);
    assert.ok(waiting.waitedMs > 0 && waiting.waitedMs < clock.elapsedMs() - startedMs);
  });

  test('an attempt fails at once with a lookup failure that was valid when it was prepared', async (t) => {
    const { transport, post, clock, questions } = await createFixture(t, zone);
    await advanceUntil(clock, transport.prepare(1, 'http://silent.test'));
    assert.equal(transport.prepare(1, 'http://silent.test'), true);
    await clock.advance(usableMs - 2);
    const before = questions.length;
    const late = post('http://silent.test');
    assert.deepEqual(await late.ended, noAnswer);
    assert.equal(late.waitedMs, 0);
    assert.equal(questions.length, before);
  });

  test('an attempt has all of its time when its lookup begins', async (t) => {
    const { transport, post, port, receiver, clock } = await createFixture(t, zone);
    receiver.respond = hang;
    for (const origin of silentOrigins(30)) void transport.prepare(1, origin);
    const waiting = post(`http://name.test:${port}`);
    await clock.advance(firstLookupMs);
    await waitFor('the request', () => receiver.requests.length === 1);
    let isOver = false;
    void waiting.ended.then(() => (isOver = true));
    await clock.advance(timeoutMs - 1);
    assert.equal(isOver, false);
    await clock.advance(1);
    assert.deepEqual(await waiting.ended, { kind: 'error', cause: 'timeout', detail: undefined });
  });

  test('an attempt that waits for a lookup can be cancelled, and ends when the transport is closed', async (t) => {
    const { transport, post } = await createFixture(t, zone);
    for (const origin of silentOrigins(30)) void transport.prepare(1, origin);
    const cancelled: AttemptResult = { kind: 'error', cause: 'cancelled', detail: undefined };
    const one = post('http://name.test');
    one.cancel();
    assert.deepEqual(await one.ended, cancelled);
    const other = post('http://other.test');
    await transport.close();
    assert.deepEqual(await other.ended, cancelled);
    assert.equal(transport.count().connections, 0);
  });

  test('an attempt waits for no lookup while there is a recent result', async (t) => {
    const { transport, send, post, port, clock, questions } = await createFixture(t, zone);
    const origin = `http://name.test:${port}`;
    assert.deepEqual(await send(origin), delivered);
    await clock.advance(usableMs - 1);
    for (const silent of silentOrigins(30)) void transport.prepare(1, silent);
    const before = questions.filter((question) => question.startsWith('name')).length;
    const sent = post(origin);
    assert.deepEqual(await sent.ended, delivered);
    assert.equal(sent.waitedMs, 0);
    assert.equal(questions.filter((question) => question.startsWith('name')).length, before);
  });
});

test('silent names of one tenant delay no attempt of another one', async (t) => {
  const { transport, post, send, port } = await createFixture(t, zone);
  const silent = silentOrigins(30).map((origin) => post(origin, { tenant: 1 }));
  for (const origin of silentOrigins(30)) void transport.prepare(1, origin);
  for (let n = 0; n < 20; n += 1) {
    assert.deepEqual(await send(`http://name-${n}.test:${port}`, { tenant: 2 }), delivered);
  }
  for (const each of silent) each.cancel();
});
