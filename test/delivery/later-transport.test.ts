import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { systemClock } from '../../src/clock.ts';
import { createLaterTransport } from '../../src/delivery/later-transport.ts';
import { requestTemplateOf } from '../../src/delivery/request.ts';
import {
  createSigningTransport,
  type SigningTransport,
  type UnsignedRequest,
} from '../../src/delivery/signing-transport.ts';
import { receiverOf } from '../helpers/receiver.ts';
import { createSender } from '../helpers/sender.ts';
import { newEvent, newStream } from '../store/contract/fixture.ts';
import { secret, settings } from './fixture.ts';

interface Fixture {
  readonly later: SigningTransport;
  /** How often the transport was loaded. */
  loads(): number;
  request(origin: string): UnsignedRequest;
}

function createFixture(t: TestContext): Fixture {
  const { transport } = createSender(t);
  let count = 0;
  const later = createLaterTransport(async () => {
    count += 1;
    await new Promise(setImmediate);
    return createSigningTransport(transport, (error) => assert.fail(String(error)));
  });
  return {
    later,
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
