import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { AttemptResult } from '../../src/core/retry.ts';
import { waitFor } from '../helpers/leat.ts';
import { hang, inTurn, receiverOf, type Reply, reply } from '../helpers/receiver.ts';
import { createTokenFixture, ownerOf, tokenBody } from './http/token-fixture.ts';

const delivered: AttemptResult = {
  kind: 'response',
  status: 204,
  text: '',
  retryAfter: undefined,
};
const unauthorized: AttemptResult = { ...delivered, status: 401, text: 'who?' };
const failed = (detail: string): AttemptResult => ({
  kind: 'error',
  cause: 'authorization',
  detail,
});

/** Gives `token-1`, then `token-2`, and so on. */
function counting(): Reply {
  let count = 0;
  return (wire, request) => reply(200, tokenBody(`token-${(count += 1)}`))(wire, request);
}

const tokensAt = (requests: readonly { readonly headers: Readonly<Record<string, string>> }[]) =>
  requests.map(({ headers }) => headers['authorization']);

test('attempts with an access token share one that was fetched once', async (t) => {
  const server = await receiverOf(t, { respond: counting() });
  const receiver = await receiverOf(t);
  const { send, transport } = createTokenFixture(t);
  const owner = ownerOf(server.origin);
  const needs = { token: owner };
  assert.equal(transport.isReady(receiver.origin, needs), false);
  await transport.prepare(1, receiver.origin, needs);
  assert.equal(transport.isReady(receiver.origin, needs), true);
  const results = await Promise.all(Array.from({ length: 8 }, () => send(receiver.origin, owner)));
  assert.deepEqual(
    results,
    results.map(() => delivered),
  );
  assert.deepEqual(new Set(tokensAt(receiver.requests)), new Set(['Bearer token-1']));
  assert.equal(server.requests.length, 1);
});

describe('a receiver that responds with 401', () => {
  const first = reply(401, 'who?');

  test('gets the request once more in the same attempt, with another token', async (t) => {
    const server = await receiverOf(t, { respond: counting() });
    const receiver = await receiverOf(t, { respond: inTurn(first, reply(204)) });
    const { post } = createTokenFixture(t);
    const pending = post(receiver.origin, ownerOf(server.origin));
    assert.deepEqual(await pending.ended, delivered);
    assert.deepEqual(tokensAt(receiver.requests), ['Bearer token-1', 'Bearer token-2']);
    assert.deepEqual(pending.tokens, ['token-2', 'token-1']);
  });

  test('and again is not asked a third time, nor a new token fetched within a minute', async (t) => {
    const server = await receiverOf(t, { respond: counting() });
    const receiver = await receiverOf(t, { respond: first });
    const { clock, send } = createTokenFixture(t);
    const owner = ownerOf(server.origin);
    assert.deepEqual(await send(receiver.origin, owner), unauthorized);
    assert.equal(receiver.requests.length, 2);
    assert.deepEqual(await send(receiver.origin, owner), unauthorized);
    assert.equal(receiver.requests.length, 3);
    assert.equal(server.requests.length, 2);
    await clock.advance(60_000);
    assert.deepEqual(await send(receiver.origin, owner), unauthorized);
    assert.equal(server.requests.length, 3);
  });

  test('ends the attempt as authorization when no other token can be fetched', async (t) => {
    const respond = inTurn(reply(200, tokenBody('token-1')), reply(503, 'a secret'));
    const server = await receiverOf(t, { respond });
    const receiver = await receiverOf(t, { respond: first });
    const { send } = createTokenFixture(t);
    const owner = ownerOf(server.origin);
    assert.deepEqual(await send(receiver.origin, owner), failed('token endpoint: 503'));
    assert.equal(receiver.requests.length, 1);
    assert.deepEqual(await send(receiver.origin, owner), failed('token endpoint: 503'));
    assert.equal(receiver.requests.length, 1, 'the refused token is not sent again');
  });

  test('and a token endpoint that hangs then end with the time of the attempt', async (t) => {
    const respond = inTurn(reply(200, tokenBody('token-1')), hang);
    const server = await receiverOf(t, { respond });
    const receiver = await receiverOf(t, { respond: first });
    const { clock, post } = createTokenFixture(t);
    const pending = post(receiver.origin, ownerOf(server.origin));
    await waitFor('the second fetch', () => server.requests.length === 2);
    await clock.advance(10_000);
    const result = await pending.ended;
    assert.equal(result.kind === 'error' && result.cause, 'authorization');
  });

  test('and then never responds ends with the time of the attempt, not twice that', async (t) => {
    const server = await receiverOf(t, { respond: counting() });
    const { clock, post } = createTokenFixture(t);
    const late: Reply = async (wire, request) => {
      await clock.advance(6000);
      await reply(401)(wire, request);
    };
    const receiver = await receiverOf(t, { respond: inTurn(late, hang) });
    const pending = post(receiver.origin, ownerOf(server.origin));
    await waitFor('the second request', () => receiver.requests.length === 2);
    await clock.advance(3999);
    assert.equal(receiver.open, 1);
    await clock.advance(1);
    assert.deepEqual(await pending.ended, { kind: 'error', cause: 'timeout', detail: undefined });
    await waitFor('the end of the connection', () => receiver.open === 0);
  });
});

test('an attempt without a token fails as authorization, and nothing reaches the receiver', async (t) => {
  const server = await receiverOf(t, { respond: reply(400, '{"error":"invalid_client"}') });
  const receiver = await receiverOf(t);
  const { send, transport } = createTokenFixture(t);
  const owner = ownerOf(server.origin);
  await transport.prepare(1, receiver.origin, { token: owner });
  assert.equal(transport.prepare(1, receiver.origin, { token: owner }), true);
  const result = await send(receiver.origin, owner);
  assert.deepEqual(result, failed('token endpoint: 400 invalid_client'));
  assert.equal(receiver.connections, 0);
});

test('an attempt that was not prepared waits for its token for 2 s', async (t) => {
  const server = await receiverOf(t, { respond: hang });
  const receiver = await receiverOf(t);
  const { clock, post } = createTokenFixture(t);
  const pending = post(receiver.origin, ownerOf(server.origin));
  await waitFor('the fetch', () => server.requests.length === 1);
  await clock.advance(2000);
  assert.deepEqual(await pending.ended, failed('token endpoint: no token in time'));
});

test('a cancelled attempt ends at once and sends nothing more, before and between its requests', async (t) => {
  const cancelled: AttemptResult = { kind: 'error', cause: 'cancelled', detail: undefined };
  const respond = inTurn(reply(200, tokenBody('token-1')), hang);
  const server = await receiverOf(t, { respond });
  const receiver = await receiverOf(t, { respond: reply(401) });
  const { post } = createTokenFixture(t);
  const between = post(receiver.origin, ownerOf(server.origin));
  await waitFor('the second fetch', () => server.requests.length === 2);
  between.cancel();
  assert.deepEqual(await between.ended, cancelled);
  const before = post(receiver.origin, ownerOf(server.origin, { clientId: 'other' }));
  before.cancel();
  assert.deepEqual(await before.ended, cancelled);
  assert.equal(receiver.requests.length, 1);
});

test('closing the transport cancels attempts that wait for a token', async (t) => {
  const server = await receiverOf(t, { respond: hang });
  const receiver = await receiverOf(t);
  const { post, transport } = createTokenFixture(t);
  const pending = post(receiver.origin, ownerOf(server.origin));
  await waitFor('the fetch', () => server.requests.length === 1);
  await transport.close();
  assert.equal((await pending.ended).kind, 'error');
  await waitFor('the end of the connection', () => server.open === 0);
});
