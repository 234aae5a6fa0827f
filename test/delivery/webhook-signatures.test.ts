import assert from 'node:assert/strict';
import { createPublicKey, verify } from 'node:crypto';
import { describe, test, type TestContext } from 'node:test';
import { Webhook } from 'standardwebhooks';
import { webhookKeys } from '../../src/auth/key-use.ts';
import { createKeyringOf, revokeKey, rotateKey } from '../../src/auth/keys.ts';
import type { AttemptResult } from '../../src/core/retry.ts';
import type { DeliveryOptions } from '../../src/core/types.ts';
import type { WebhookRequest } from '../../src/delivery/http/transport.ts';
import { postSigned } from '../../src/delivery/signing-transport.ts';
import { createScriptedTransport, headerOf } from '../helpers/transport.ts';
import { waitFor } from '../helpers/wait.ts';
import { createDeliveryFixture, type DeliveryFixture, secret } from './fixture.ts';

const minuteMs = 60_000;

async function open(
  t: TestContext,
  signature: DeliveryOptions['signature'],
  options?: Parameters<typeof createDeliveryFixture>[1],
): Promise<DeliveryFixture> {
  const fixture = await createDeliveryFixture(t, options);
  await fixture.addStream({ delivery: { signature } });
  await fixture.start();
  return fixture;
}

/** Publishes an event and returns its request. */
async function sent({ publish, transport }: DeliveryFixture): Promise<WebhookRequest> {
  const [id] = await publish('user.created');
  const found = () => transport.posts.find(({ eventId }) => eventId === id);
  await waitFor('the request', () => found() !== undefined);
  return found()?.request ?? assert.fail();
}

function signaturesOf(request: WebhookRequest): string[] {
  return (headerOf(request, 'webhook-signature') ?? '').split(' ');
}

/** Verifies the only `v1a` signature with the published key that the request names. */
async function isVerified({ store, tenant, clock }: DeliveryFixture, request: WebhookRequest) {
  const watch = store.watch.bind(store);
  const keyring = createKeyringOf(webhookKeys, { keys: store.webhookKeys, watch, clock });
  const { keys } = await keyring.jwks(tenant, clock.now());
  keyring.close();
  const jwk = keys.find(({ kid }) => kid === headerOf(request, 'webhook-key-id'));
  assert.ok(jwk, 'the key is published');
  const [signature = '', ...others] = signaturesOf(request).filter((one) => one.startsWith('v1a,'));
  assert.deepEqual(others, []);
  const [id, seconds] = [headerOf(request, 'webhook-id'), headerOf(request, 'webhook-timestamp')];
  const text = Buffer.from(`${id}.${seconds}.${request.body}`);
  const key = createPublicKey({ key: { ...jwk }, format: 'jwk' });
  return verify(null, text, key, Buffer.from(signature.slice('v1a,'.length), 'base64'));
}

describe('webhook signatures', () => {
  test('webhook signatures: v1a has one signature, which the published key verifies', async (t) => {
    const fixture = await open(t, 'v1a');
    const request = await sent(fixture);
    assert.match(headerOf(request, 'webhook-signature') ?? '', /^v1a,[A-Za-z0-9+/]{86}==$/);
    assert.equal(await isVerified(fixture, request), true);
    assert.equal(await isVerified(fixture, { ...request, body: `${request.body} ` }), false);
  });

  test('webhook signatures: v1 v1a has both signatures over the same text', async (t) => {
    const fixture = await open(t, 'v1 v1a');
    const request = await sent(fixture);
    assert.deepEqual(
      signaturesOf(request).map((one) => one.split(',')[0]),
      ['v1', 'v1a'],
    );
    assert.equal(await isVerified(fixture, request), true);
    const names = ['webhook-id', 'webhook-timestamp', 'webhook-signature'];
    const headers = Object.fromEntries(names.map((name) => [name, headerOf(request, name) ?? '']));
    // The library has the time of the machine; that of the fixture is another one.
    const seconds = Number(headers['webhook-timestamp']);
    t.mock.timers.enable({ apis: ['Date'], now: seconds * 1000 });
    assert.ok(new Webhook(secret).verify(request.body, headers));
  });

  for (const signature of [undefined, 'v1'] as const) {
    test(`webhook signatures: ${signature ?? 'none given'} is v1 alone, and makes no key`, async (t) => {
      const fixture = await open(t, signature);
      const request = await sent(fixture);
      assert.match(headerOf(request, 'webhook-signature') ?? '', /^v1,[A-Za-z0-9+/]{43}=$/);
      assert.equal(headerOf(request, 'webhook-key-id'), undefined);
      const { store, tenant, clock } = fixture;
      assert.deepEqual(await store.webhookKeys.list(tenant, clock.now()), []);
    });
  }

  test('webhook signatures: a new key signs 10 minutes after its rotation, a revoked one no more', async (t) => {
    const fixture = await open(t, 'v1a');
    const { store, tenant, clock } = fixture;
    const kid = async (): Promise<string | undefined> => {
      const request = await sent(fixture);
      assert.equal(await isVerified(fixture, request), true);
      return headerOf(request, 'webhook-key-id');
    };
    const first = await kid();
    const change = { now: clock.now(), immediately: false, use: webhookKeys };
    const rotated = await rotateKey(store, tenant, change);
    await clock.advance(9 * minuteMs);
    assert.equal(await kid(), first);
    await clock.advance(2 * minuteMs);
    assert.equal(await kid(), rotated.kid);
    await revokeKey(store, tenant, rotated.kid, { now: clock.now(), use: webhookKeys });
    assert.equal(await kid(), first);
  });

  test('webhook signatures: an attempt begins when the key can be read again, and does not fail', async (t) => {
    let isAway = true;
    let asked = 0;
    const fixture: DeliveryFixture = await createDeliveryFixture(t, {
      through: (store) => ({
        ...store,
        webhookKeys: {
          ...store.webhookKeys,
          list: (...args) => {
            asked += 1;
            return isAway ? fixture.unavailable() : store.webhookKeys.list(...args);
          },
        },
      }),
    });
    await fixture.addStream({ delivery: { signature: 'v1a' } });
    await fixture.start();
    const [id] = await fixture.publish('user.created');
    await fixture.clock.advance(minuteMs);
    assert.ok(asked > 1);
    assert.deepEqual(fixture.transport.posts, []);
    assert.equal(fixture.dispatcher.state().inFlight, 0);
    isAway = false;
    await fixture.clock.advance(5000);
    await waitFor('the request', () => fixture.transport.posts.length === 1);
    assert.deepEqual(fixture.sent(), [id]);
    assert.equal(fixture.reported('attempt').length, 1);
  });

  test('webhook signatures: an attempt that is cancelled while it is signed is not sent', async () => {
    const transport = createScriptedTransport();
    const signing = Promise.withResolvers<WebhookRequest>();
    const request = postSigned(transport, signing.promise, () => assert.fail());
    request.cancel();
    const target = { tenant: 1, stream: 'est_1', origin: '', path: '', secretHeader: '' };
    signing.resolve({ ...target, headers: [], body: '', timeoutMs: undefined });
    const cancelled: AttemptResult = { kind: 'error', cause: 'cancelled', detail: undefined };
    assert.deepEqual(await request.ended, cancelled);
    assert.deepEqual(transport.posts, []);
  });

  test('webhook signatures: an attempt that cannot be signed ends with the result of its caller', async () => {
    const failed: AttemptResult = { kind: 'error', cause: 'protocol', detail: 'no request' };
    const signing = Promise.reject(new Error('planted'));
    const request = postSigned(createScriptedTransport(), signing, (error) => {
      assert.match(String(error), /planted/);
      return failed;
    });
    assert.deepEqual(await request.ended, failed);
  });
});
