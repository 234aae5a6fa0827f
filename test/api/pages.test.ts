import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { after, before, describe, test, type TestContext } from 'node:test';
import type { User } from '../../src/core/types.ts';
import { waitFor } from '../helpers/wait.ts';
import {
  cursorPages,
  limits,
  openApiFixture,
  type ApiResponse,
  type ApiFixture,
} from './fixture.ts';

const MIB = 1_048_576;
const total = 12;
let fixture: ApiFixture;

before(async () => {
  fixture = await openApiFixture({ limits: { ...limits, unreadOfAllBytesMax: 64 * MIB } });
  for (let index = 0; index < total; index += 1) await addUser(index);
});
after(() => fixture.close());

/** A user with metadata of nearly 1 MiB. */
async function addUser(index: number): Promise<void> {
  const { store, tenant } = fixture.auth;
  const user: User = {
    tenant: tenant.id,
    id: `leat|${String(index).padStart(2, '0')}`,
    connection: 'Username-Password-Authentication',
    email: `user-${index}@example.com`,
    username: undefined,
    passwordHash: '',
    profileJson: JSON.stringify({ user_metadata: { text: 'x'.repeat(MIB - 2000) } }),
    createdAt: index,
    updatedAt: index,
  };
  const id = `evt_${String(index).padStart(22, '0')}`;
  await store.users.create(user, { id, chosen: false, type: 'a.b', time: 0, body: '{}' });
}

function assertTooLarge(response: ApiResponse, message: string): void {
  assert.equal(response.status, 400);
  assert.deepEqual(response.body, {
    statusCode: 400,
    error: 'Bad Request',
    message,
    errorCode: 'invalid_paging',
  });
}

describe('a page of more than 8 MiB', () => {
  test('pages by number: a page above the limit is 400, a smaller one 200', async () => {
    const message = 'The page would be larger than 8 MiB. Use a smaller per_page or take.';
    assertTooLarge(await fixture.send('GET', '/users'), message);
    assertTooLarge(await fixture.send('GET', '/users?sort=created_at:-1&per_page=9'), message);
    const small = await fixture.send('GET', '/users?per_page=7&page=1&include_totals=true');
    assert.equal(small.status, 200);
    assert.equal(small.body.users.length, total - 7);
    assert.equal(small.body.total, total);
  });

  test('pages by key: a page ends early with next, until every user was returned once', async () => {
    const ids: string[] = [];
    for await (const { text, body } of cursorPages(fixture, '/users?take=100')) {
      assert.ok(Buffer.byteLength(text) <= 8 * MIB);
      ids.push(...body.users.map((user: { user_id: string }) => user.user_id));
    }
    assert.equal(ids.length, total);
    assert.deepEqual(ids, [...new Set(ids)].toSorted());
  });
});

describe('responses that a client does not read', () => {
  /** Opens a connection that requests 7 MiB several times and reads nothing. */
  async function request(t: TestContext, times: number, token = fixture.token): Promise<Socket> {
    const socket = connect(fixture.port, '127.0.0.1');
    socket.pause();
    socket.on('error', () => {});
    t.after(() => socket.destroy());
    const head = `GET /api/v2/users?take=7 HTTP/1.1\r\nhost: localhost:8080\r\n`;
    socket.write(`${head}authorization: Bearer ${token}\r\n\r\n`.repeat(times));
    return socket;
  }
  const open = (): Promise<number> =>
    new Promise((resolve) => {
      fixture.app.server.getConnections((_error, count) => resolve(count));
    });
  const others = async (): Promise<number> => {
    fixture.app.server.closeIdleConnections();
    return open();
  };

  test('of pipelined requests one response alone is held, and others are served', async (t) => {
    const accepted = once(fixture.app.server, 'connection') as Promise<[Socket]>;
    await request(t, 10);
    const [socket] = await accepted;
    await waitFor('the first response', () => socket.writableLength > 0);
    assert.equal((await fixture.send('GET', '/users?take=1')).status, 200);
    assert.ok(socket.bytesWritten < 8 * MIB, `${socket.bytesWritten} bytes`);
    socket.destroy();
    await waitFor('it to be released', async () => (await others()) === 0);
  });

  test('unread bytes are counted over all connections of a client, not of others', async (t) => {
    const sockets = [await request(t, 1), await request(t, 1)];
    for (const socket of sockets) {
      // The response has begun; the rest of it stays unread.
      socket.resume();
      await once(socket, 'data');
      socket.pause();
    }
    const third = await request(t, 1);
    third.resume();
    const ended = once(third, 'close');
    await ended;
    assert.equal(third.bytesRead, 0);
    const authorization = `Bearer ${await fixture.tokenWith('read:users')}`;
    const response = await fixture.send('GET', '/users?take=7', undefined, { authorization });
    assert.equal(response.status, 200);
    for (const socket of sockets) socket.destroy();
    await waitFor('both to be released', async () => (await others()) === 0);
    assert.equal((await fixture.send('GET', '/users?take=7')).status, 200);
  });

  test('unread bytes are limited for all clients of a tenant together', async (t) => {
    const tokens = [fixture.token, await fixture.tokenWith('read:users')];
    const sockets: Socket[] = [];
    for (const token of [...tokens, ...tokens]) {
      const socket = (await request(t, 1, token)).resume();
      await once(socket, 'data');
      sockets.push(socket.pause());
    }
    const fifth = (await request(t, 1, await fixture.tokenWith('read:users'))).resume();
    await once(fifth, 'close');
    assert.equal(fifth.bytesRead, 0);
    for (const socket of sockets) socket.destroy();
    await waitFor('all to be released', async () => (await others()) === 0);
    const authorization = `Bearer ${await fixture.tokenWith('read:users')}`;
    const response = await fixture.send('GET', '/users?take=7', undefined, { authorization });
    assert.equal(response.status, 200);
  });

  test('responses that are read late arrive whole', async (t) => {
    const socket = await request(t, 2);
    let bytes = 0;
    socket.on('data', (chunk) => {
      bytes += chunk.length;
    });
    socket.resume();
    await waitFor('both responses', () => bytes > 2 * 7 * (MIB - 2000), { progress: () => bytes });
    for (let i = 0; i < 5; i += 1) {
      assert.equal((await fixture.send('GET', '/users?take=7')).status, 200);
    }
  });
});

describe('a stream', () => {
  const types = (count: number): object[] =>
    Array.from({ length: count }, (_, n) => ({ event_type: `user.t${n}` }));
  const destination = {
    type: 'webhook',
    configuration: {
      webhook_endpoint: 'https://hooks.example.net/',
      webhook_authorization: { method: 'bearer', token: 'a-token-of-the-test' },
    },
  };

  test('a stream has at most 1000 subscriptions', async () => {
    const create = (count: number): Promise<ApiResponse> =>
      fixture.send('POST', '/event-streams', { destination, subscriptions: types(count) });
    const rejected = await create(1001);
    assert.equal(rejected.status, 400);
    assert.equal(
      rejected.body.message,
      "Payload validation error: 'Array is too long (1001), maximum 1000' on property subscriptions (Event types that are sent).",
    );
    const created = await create(1000);
    assert.equal(created.status, 201, created.text);
    const path = `/event-streams/${created.body.id}`;
    assert.equal((await fixture.send('PATCH', path, { subscriptions: types(1001) })).status, 400);
    assert.equal((await fixture.send('PATCH', path, { subscriptions: types(1000) })).status, 200);
  });
});
