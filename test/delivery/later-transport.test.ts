import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { systemClock } from '../../src/clock.ts';
import { createLaterTransport, type LaterTransport } from '../../src/delivery/later-transport.ts';
import { requestTemplateOf } from '../../src/delivery/request.ts';
import {
  createSigningTransport,
  type UnsignedRequest,
} from '../../src/delivery/signing-transport.ts';
import { receiverOf } from '../helpers/receiver.ts';
import type { ManualClock } from '../helpers/clock.ts';
import { waitFor } from '../helpers/wait.ts';
import { createSender } from '../helpers/sender.ts';
import { newEvent, newStream } from '../store/contract/fixture.ts';
import { secret, settings } from './fixture.ts';

interface Fixture {
  readonly later: LaterTransport;
  readonly clock: ManualClock;
  readonly unexpected: readonly unknown[];
  /** How often the transport was loaded. */
  loads(): number;
  request(origin: string): UnsignedRequest;
}

function createFixture(t: TestContext, { failures = 0 } = {}): Fixture {
  const { transport, clock } = createSender(t);
  const unexpected: unknown[] = [];
  let count = 0;
  const later = createLaterTransport({
    open: async () => {
      count += 1;
      await new Promise(setImmediate);
      if (count <= failures) throw new Error('EMFILE: too many open files');
      return createSigningTransport(transport, (error) => unexpected.push(error));
    },
    clock,
    unexpected: (error) => unexpected.push(error),
  });
  return {
    later,
    clock,
    unexpected,
    loads: () => count,
    request: (origin) => {
      const signingSecrets = [{ secret, createdAt: 0, expiresAt: undefined }];
      const fresh = newStream(7, 0, { signingSecrets });
      const stream = { ...fresh, subscriptions: [], version: 1 };
      const template = { ...requestTemplateOf(stream, settings), origin };
      return { template, event: newEvent(), at: systemClock.now() };
    },
  };
}

test('a transport is loaded by the first attempt that is prepared, once', async (t) => {
  const { later, loads, request } = createFixture(t);
  const { origin, requests } = await receiverOf(t);
  assert.equal(later.isReady(origin), false);
  assert.equal(loads(), 0);
  const [first, second] = [later.prepare(7, origin), later.prepare(7, origin)];
  assert.notEqual(first, true);
  await Promise.all([first, second]);
  assert.equal(loads(), 1);
  assert.equal(later.prepare(7, origin), true);
  assert.equal(later.isReady(origin), true);
  const { kind } = await later.post(request(origin)).ended;
  assert.equal(kind, 'response');
  assert.equal(requests.length, 1);
});

test('an attempt that was not prepared is cancelled, so it is sent later', async (t) => {
  const { later, request } = createFixture(t);
  const { origin, requests } = await receiverOf(t);
  const result = await later.post(request(origin)).ended;
  assert.deepEqual(result, { kind: 'error', cause: 'cancelled', detail: undefined });
  assert.equal(requests.length, 0);
});

test('a transport that was closed while it was loaded sends nothing', async (t) => {
  const { later, request } = createFixture(t);
  const { origin, requests } = await receiverOf(t);
  const prepared = later.prepare(7, origin);
  await later.close();
  await prepared;
  const result = await later.post(request(origin)).ended;
  assert.deepEqual(result, { kind: 'error', cause: 'cancelled', detail: undefined });
  assert.equal(requests.length, 0);
});

test('a transport that could not be loaded is tried again every second', async (t) => {
  const { later, clock, loads, unexpected, request } = createFixture(t, { failures: 2 });
  const { origin } = await receiverOf(t);
  const prepared = later.prepare(7, origin);
  for (const tries of [1, 2]) {
    await waitFor('the failure', () => unexpected.length === tries);
    await clock.advance(999);
    assert.equal(loads(), tries);
    await clock.advance(1);
  }
  await prepared;
  assert.equal(loads(), 3);
  assert.equal(later.isReady(origin), true);
  const { kind } = await later.post(request(origin)).ended;
  assert.equal(kind, 'response');
});

test('a transport that cannot be loaded does not hold the end of the service', async (t) => {
  const { later, unexpected, loads } = createFixture(t, { failures: Infinity });
  const { origin } = await receiverOf(t);
  const prepared = later.prepare(7, origin);
  await waitFor('the failure', () => unexpected.length === 1);
  await later.close();
  await prepared;
  assert.equal(later.isReady(origin), false);
  assert.equal(loads(), 1);
});
