import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { AttemptResult, SendResult } from '../../../src/core/retry.ts';
import { waitFor } from '../../helpers/leat.ts';
import { hang, inTurn, rawThenEnd, receiverOf, reply } from '../../helpers/receiver.ts';
import { createSender, timeoutMs } from '../../helpers/sender.ts';

const delivered: AttemptResult = {
  kind: 'response',
  status: 204,
  text: '',
  retryAfter: undefined,
};
const cancelled: AttemptResult = { kind: 'error', cause: 'cancelled', detail: undefined };
const never = (): Promise<readonly string[]> => Promise.withResolvers<readonly string[]>().promise;
const timedOut: AttemptResult = { kind: 'error', cause: 'timeout', detail: undefined };

describe('a post', () => {
  test('a post is one POST request with its headers and the length of its body in bytes', async (t) => {
    const receiver = await receiverOf(t);
    const { send } = createSender(t);
    const headers = ['content-type', 'application/json', 'webhook-id', 'evt_1'];
    const body = '{"name":"Zoë 🎈"}';
    assert.deepEqual(await send(receiver.origin, { path: '/a/b?c=d', headers, body }), delivered);
    assert.deepEqual(receiver.requests, [
      {
        method: 'POST',
        path: '/a/b?c=d',
        headers: {
          host: `127.0.0.1:${receiver.port}`,
          connection: 'keep-alive',
          'content-type': 'application/json',
          'webhook-id': 'evt_1',
          'content-length': String(Buffer.byteLength(body)),
        },
        body,
        connection: 1,
      },
    ]);
  });

  test('a post ends with the status, text and Retry-After of the response', async (t) => {
    const receiver = await receiverOf(t);
    receiver.respond = reply(503, 'busy', { 'Retry-After': '7' });
    assert.deepEqual(await createSender(t).send(receiver.origin), {
      kind: 'response',
      status: 503,
      text: 'busy',
      retryAfter: '7',
    });
  });

  test('a post takes the first of several Retry-After headers', async (t) => {
    const answer = reply(429, '', { 'Retry-After': '7\r\nRetry-After: 8' });
    const receiver = await receiverOf(t, { respond: answer });
    const result = await createSender(t).send(receiver.origin);
    assert.equal(result.kind === 'response' && result.retryAfter, '7');
  });

  test('posts reach names and IPv6 addresses', async (t) => {
    const receiver = await receiverOf(t);
    const receiver6 = await receiverOf(t, { host: '::1' });
    const { send } = createSender(t);
    assert.deepEqual(await send(`http://localhost:${receiver.port}`), delivered);
    assert.equal(receiver.requests[0]?.headers['host'], `localhost:${receiver.port}`);
    assert.deepEqual(await send(receiver6.origin), delivered);
  });

  test('a request that cannot be written ends with that error, and the next one is sent', async (t) => {
    const receiver = await receiverOf(t);
    const { send } = createSender(t);
    const broken = { kind: 'error', cause: 'protocol', detail: 'the request cannot be written' };
    const smuggled = { headers: ['x-a', 'b\r\nx-c: d'] };
    assert.deepEqual(await send(receiver.origin, smuggled), broken);
    assert.deepEqual(await send(receiver.origin, { headers: ['x-a', 'b\nc'] }), broken);
    assert.deepEqual(await send(receiver.origin, { headers: ['x a', 'b'] }), broken);
    assert.deepEqual(await send(receiver.origin, { path: '/ HTTP/1.1' }), broken);
    assert.deepEqual(await send(receiver.origin, { headers: ['content-length', '1'] }), broken);
    for (const origin of ['', 'nonsense', 'ftp://127.0.0.1', 'http://', 'http://[::1']) {
      assert.deepEqual((await send(origin)).kind, 'error', origin);
    }
    assert.deepEqual(await send(receiver.origin), delivered);
    assert.equal(receiver.requests.length, 1);
  });
});

describe('connections', () => {
  test('connections are reused, and as many are open as there are posts at once', async (t) => {
    const receiver = await receiverOf(t);
    const { send, transport } = createSender(t);
    for (let round = 0; round < 5; round++) await send(receiver.origin);
    assert.equal(receiver.connections, 1);
    for (let round = 0; round < 5; round++) {
      const results = await Promise.all(Array.from({ length: 20 }, () => send(receiver.origin)));
      assert.deepEqual(new Set(results.map(({ kind }) => kind)), new Set(['response']));
    }
    assert.equal(receiver.connections, 20);
    assert.equal(receiver.requests.length, 105);
    assert.deepEqual(transport.count(), { routes: 1, connections: 20, idle: 20 });
  });

  test('a connection carries one request at a time', async (t) => {
    const receiver = await receiverOf(t, { respond: hang });
    const { post } = createSender(t);
    for (let count = 0; count < 3; count++) post(receiver.origin);
    await waitFor('the requests', () => receiver.requests.length === 3);
    assert.deepEqual(new Set(receiver.requests.map(({ connection }) => connection)).size, 3);
  });

  test('a connection that the receiver closes after each response is replaced', async (t) => {
    const close = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok';
    const receiver = await receiverOf(t, { respond: rawThenEnd(close) });
    const { send, transport } = createSender(t);
    for (let round = 0; round < 10; round++) {
      const result = await send(receiver.origin);
      assert.deepEqual(result.kind === 'response' && result.text, 'ok');
    }
    assert.equal(receiver.connections, 10);
    await waitFor('no connection to be left', () => transport.count().connections === 0);
    assert.equal(transport.count().routes, 0);
  });

  test('an idle connection that the receiver closed costs no attempt', async (t) => {
    const receiver = await receiverOf(t, {
      respond: async (wire) => {
        await wire.write('HTTP/1.1 204 No Content\r\n\r\n');
        wire.end();
      },
    });
    const { send } = createSender(t);
    for (let round = 0; round < 20; round++) {
      assert.deepEqual(await send(receiver.origin), delivered, `round ${round}`);
    }
    assert.equal(receiver.requests.length, 20, 'nothing is sent twice');
  });

  test('a connection that breaks within a response is not reused', async (t) => {
    const broken = rawThenEnd('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf');
    const receiver = await receiverOf(t, { respond: inTurn(broken, reply(204)) });
    const { send } = createSender(t);
    assert.deepEqual(await send(receiver.origin), {
      kind: 'error',
      cause: 'reset',
      detail: 'closed before the end of the answer',
    });
    assert.deepEqual(await send(receiver.origin), delivered);
    assert.equal(receiver.connections, 2);
  });

  test('closed connections of 2,000 routes leave nothing behind', { tags: ['long'] }, async (t) => {
    const receiver = await receiverOf(t, { host: '0.0.0.0' });
    const { send, transport } = createSender(t, { idleConnectionsMax: 50 });
    const originOf = (n: number): string =>
      `http://127.1.${Math.floor(n / 250)}.${(n % 250) + 1}:${receiver.port}`;
    for (let first = 0; first < 2000; first += 50) {
      const posts = Array.from({ length: 50 }, (_, n) => send(originOf(first + n)));
      assert.ok((await Promise.all(posts)).every(({ kind }) => kind === 'response'));
      const { routes, idle } = transport.count();
      assert.ok(idle <= 50 && routes <= 50, `${idle} idle connections of ${routes} routes`);
    }
    assert.equal(receiver.requests.length, 2000);
    await transport.close();
    assert.deepEqual(transport.count(), { routes: 0, connections: 0, idle: 0 });
    await waitFor('the connections to be closed', () => receiver.open === 0);
  });
});

describe('the time of an attempt', () => {
  test('an attempt ends at the timeout and not before', async (t) => {
    const receiver = await receiverOf(t, { respond: hang });
    const { post, clock } = createSender(t);
    let result: SendResult | undefined;
    void post(receiver.origin).ended.then((ended) => (result = ended));
    await waitFor('the request', () => receiver.requests.length === 1);
    await clock.advance(timeoutMs - 1);
    assert.equal(result, undefined);
    await clock.advance(1);
    assert.deepEqual(result, timedOut);
    await waitFor('the connection to be closed', () => receiver.open === 0);
  });

  test('each attempt has a timeout of its own', async (t) => {
    const receiver = await receiverOf(t, { respond: hang });
    const { post, clock } = createSender(t);
    const ended: number[] = [];
    for (const start of [0, 1, 2]) {
      void post(receiver.origin).ended.then(() => ended.push(start));
      await clock.advance(1000);
    }
    await clock.advance(timeoutMs - 3000);
    assert.deepEqual(ended, [0]);
    await clock.advance(1000);
    assert.deepEqual(ended, [0, 1]);
    await clock.advance(1000);
    assert.deepEqual(ended, [0, 1, 2]);
    assert.equal(clock.pending, 0, 'no timer is left');
  });

  test('one timer serves all attempts', async (t) => {
    const receiver = await receiverOf(t);
    const { send, clock } = createSender(t);
    await Promise.all(Array.from({ length: 50 }, () => send(receiver.origin)));
    assert.equal(clock.pending, 1);
    await clock.advance(timeoutMs);
    assert.equal(clock.pending, 0);
  });

  test('an attempt that ends has no deadline any more', async (t) => {
    const receiver = await receiverOf(t);
    const { send, clock } = createSender(t);
    await send(receiver.origin);
    await clock.advance(timeoutMs / 2);
    await send(receiver.origin);
    await clock.advance(timeoutMs / 2);
    assert.equal(clock.pending, 0, 'nothing is kept of the second one');
  });

  test('the time of an attempt begins with the name lookup', async (t) => {
    const { send, clock, transport } = createSender(t, { resolve: never });
    const result = send('http://slow.example');
    await clock.advance(timeoutMs);
    assert.deepEqual(await result, timedOut);
    assert.equal(transport.count().connections, 0);
  });

  test('the timeout covers a connection that is never accepted', async (t) => {
    const receiver = await receiverOf(t);
    const { send, clock, transport } = createSender(t, { resolve: never });
    const results = [1, 2, 3].map((n) => send(`http://n${n}.example:${receiver.port}`));
    await clock.advance(timeoutMs);
    assert.deepEqual(await Promise.all(results), [timedOut, timedOut, timedOut]);
    assert.deepEqual(transport.count(), { routes: 0, connections: 0, idle: 0 });
  });
});

describe('cancelling', () => {
  test('cancel ends an attempt that was sent', async (t) => {
    const receiver = await receiverOf(t, { respond: hang });
    const { post } = createSender(t);
    const sent = post(receiver.origin);
    await waitFor('the request', () => receiver.requests.length === 1);
    sent.cancel();
    assert.deepEqual(await sent.ended, cancelled);
    await waitFor('the connection to be closed', () => receiver.open === 0);
  });

  test('cancel ends an attempt before it is sent', async (t) => {
    const receiver = await receiverOf(t);
    const { post, send } = createSender(t);
    const early = post(receiver.origin);
    early.cancel();
    early.cancel();
    assert.deepEqual(await early.ended, cancelled);
    await send(receiver.origin, { path: '/marker' });
    assert.deepEqual(
      receiver.requests.map(({ path }) => path),
      ['/marker'],
    );
  });

  test('cancel ends an attempt on a reused connection', async (t) => {
    const receiver = await receiverOf(t);
    const { post, send } = createSender(t);
    await send(receiver.origin);
    const early = post(receiver.origin, { path: '/cancelled' });
    early.cancel();
    assert.deepEqual(await early.ended, cancelled);
    await send(receiver.origin, { path: '/marker' });
    assert.deepEqual(
      receiver.requests.map(({ path }) => path),
      ['/hook', '/marker'],
    );
  });

  test('cancel has no effect once the attempt has ended', async (t) => {
    const receiver = await receiverOf(t);
    const { post, send } = createSender(t);
    const done = post(receiver.origin);
    assert.deepEqual(await done.ended, delivered);
    done.cancel();
    assert.deepEqual(await done.ended, delivered);
    assert.deepEqual(await send(receiver.origin), delivered);
    assert.equal(receiver.connections, 1, 'the connection was not touched');
  });
});

describe('closing', () => {
  test('close cancels all attempts, ends every connection and accepts no more posts', async (t) => {
    const receiver = await receiverOf(t, { respond: inTurn(reply(204), hang) });
    const { post, send, transport, clock } = createSender(t);
    await send(receiver.origin);
    const open = [post(receiver.origin), post(receiver.origin)];
    await waitFor('the requests', () => receiver.requests.length === 3);
    const connecting = post(receiver.origin);
    await transport.close();
    for (const each of [...open, connecting]) assert.deepEqual(await each.ended, cancelled);
    await waitFor('the connections to be closed', () => receiver.open === 0);
    assert.deepEqual(await send(receiver.origin), cancelled);
    assert.equal(clock.pending, 0);
    assert.deepEqual(transport.count(), { routes: 0, connections: 0, idle: 0 });
    await transport.close();
  });
});
