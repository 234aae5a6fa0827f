import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { generateKeyPairSync, verify } from 'node:crypto';
import { describe, test, type TestContext } from 'node:test';
import { inspect, promisify } from 'node:util';
import type { Worker } from 'node:worker_threads';
import { Webhook } from 'standardwebhooks';
import { systemClock } from '../../../src/clock.ts';
import { limits } from '../../../src/config.ts';
import type { AttemptResult, SendResult } from '../../../src/core/retry.ts';
import type { Stream } from '../../../src/core/types.ts';
import { createEgressRule } from '../../../src/delivery/http/egress.ts';
import { createInspector } from '../../../src/delivery/http/inspector.ts';
import { createNameLookups } from '../../../src/delivery/http/name-lookups.ts';
import { createShortages } from '../../../src/delivery/http/shortages.ts';
import { createTransport, type PendingRequest } from '../../../src/delivery/http/transport.ts';
import { UnaskedOrigins } from '../../../src/delivery/http/unasked-origins.ts';
import { requestTemplateOf } from '../../../src/delivery/request.ts';
import {
  createSigningTransport,
  type SigningTransport,
  type UnsignedRequest,
} from '../../../src/delivery/signing-transport.ts';
import { createSenderThreads } from '../../../src/delivery/threads/sender-threads.ts';
import { authority, trusted } from '../../helpers/certificates.ts';
import { hang, inTurn, raw, rawThenEnd, receiverOf, reply } from '../../helpers/receiver.ts';
import { stallMsDefault, waitFor } from '../../helpers/wait.ts';
import { newEvent, newStream } from '../../store/contract/fixture.ts';
import { secret, settings } from '../fixture.ts';

const sources = new URL('../../../src/', import.meta.url);
const delivered: AttemptResult = { kind: 'response', status: 204, text: '', retryAfter: undefined };
const cancelled: AttemptResult = { kind: 'error', cause: 'cancelled', detail: undefined };
const threadEnded: SendResult = { kind: 'shortage', code: 'ENOTHREAD' };

interface Fixture {
  readonly transport: SigningTransport;
  /** The threads so far, dead ones included. */
  readonly workers: readonly Worker[];
  /** Names that were looked up, with the tenant that each lookup was charged to. */
  readonly lookups: readonly string[];
  /** What was posted on this thread. */
  readonly here: readonly UnsignedRequest[];
  readonly unexpected: readonly unknown[];
  /** Of the transport on this thread. */
  readonly unasked: UnaskedOrigins;
  /** Names without an allowed address, each with one that is blocked. */
  readonly blocked: readonly (readonly [name: string, address: string])[];
  /** Resolves when this many threads can send. */
  ready(count: number): Promise<void>;
  post(
    origin: string,
    options?: Partial<UnsignedRequest> & { stream?: Partial<Stream> },
  ): PendingRequest;
  send(...args: Parameters<Fixture['post']>): Promise<SendResult>;
}

async function createFixture(
  t: TestContext,
  options: {
    readonly count?: number;
    readonly timeoutMs?: number;
    readonly allow?: readonly string[];
    readonly resolve?: (name: string) => Promise<readonly string[]>;
    /** Makes the start of each thread throw. */
    readonly cannotStart?: boolean;
  } = {},
): Promise<Fixture> {
  const { count = 1, timeoutMs = 10_000, allow = ['127.0.0.0/8'] } = options;
  const workers: Worker[] = [];
  let readyThreads = 0;
  const watch = (worker: Worker): void => {
    workers.push(worker);
    worker.once('message', () => {
      readyThreads += 1;
    });
  };
  process.on('worker', watch);
  t.after(() => process.off('worker', watch));
  const lookups: string[] = [];
  const names = createNameLookups({
    clock: systemClock,
    resolve: options.resolve ?? (() => Promise.resolve(['127.0.0.1'])),
    limits: limits.names,
  });
  const inspector = createInspector({ clock: systemClock, settings: limits.inspector });
  t.after(() => inspector.close());
  const data = {
    allow,
    timeoutMs,
    connectionMs: 60_000,
    ...limits.response,
    tls: { ca: authority },
  };
  const egress = createEgressRule({ allow });
  const unasked = new UnaskedOrigins(systemClock);
  const deps = { ...data, clock: systemClock, egress, names, inspector, unasked };
  const http = createTransport(deps);
  const unexpected: unknown[] = [];
  const blocked: [name: string, address: string][] = [];
  const shortages = createShortages({ clock: systemClock });
  const signing = createSigningTransport(http, (error) => unexpected.push(error));
  const here: UnsignedRequest[] = [];
  const transport = createSenderThreads({
    count,
    data: options.cannotStart === true ? { ...data, timeoutMs: (() => 0) as never } : data,
    here: {
      ...signing,
      post: (request) => {
        here.push(request);
        return signing.post(request);
      },
    },
    names: {
      last: names.last.bind(names),
      find: (owner, name, request) => {
        lookups.push(`${owner} ${name}`);
        names.find(owner, name, request);
      },
    },
    clock: systemClock,
    shortages,
    blockedFound: (...each) => void blocked.push(each),
    unasked,
    unexpected: (error) => unexpected.push(error),
  });
  t.after(async () => {
    await transport.close();
    shortages.close();
  });
  const post: Fixture['post'] = (origin, { stream, ...request } = {}) => {
    const signingSecrets = [{ secret, createdAt: 0, expiresAt: undefined }];
    const fresh = newStream(7, 0, { signingSecrets, ...stream });
    const template = requestTemplateOf({ ...fresh, subscriptions: [], version: 1 }, settings);
    return transport.post({
      template: { ...template, origin },
      event: newEvent(),
      at: systemClock.now(),
      ...request,
    });
  };
  const send: Fixture['send'] = (...args) => post(...args).ended;
  const starter = await receiverOf(t);
  return {
    transport,
    workers,
    lookups,
    here,
    unexpected,
    unasked,
    blocked,
    post,
    send,
    ready: async (wanted) => {
      // The first one starts with a request, the next ones once all others are busy.
      await waitFor('the threads', async () => {
        await send(starter.origin);
        return readyThreads >= wanted;
      });
    },
  };
}

describe('sender threads', () => {
  test('send signed requests, which one connection carries one after the other', async (t) => {
    const receiver = await receiverOf(t);
    const { ready, send, here } = await createFixture(t);
    await ready(1);
    const before = here.length;
    const event = newEvent({ body: '{"name":"Zoë 🎈"}' });
    for (let n = 0; n < 3; n += 1) {
      assert.deepEqual(await send(receiver.origin, { event }), delivered);
    }
    assert.equal(here.length, before);
    assert.equal(receiver.connections, 1);
    const [request] = receiver.requests;
    assert.ok(request);
    assert.equal(request.headers['authorization'], 'Bearer kept-secret');
    assert.ok(new Webhook(secret).verify(request.body, request.headers));
    assert.match(request.body, /Zoë 🎈/);
  });

  test('accept a 100 Continue before each response', async (t) => {
    const go = 'HTTP/1.1 100 Continue\r\n\r\n';
    const receiver = await receiverOf(t);
    const { ready, send, here } = await createFixture(t);
    await ready(1);
    const before = here.length;
    receiver.respond = raw(`${go}${go}HTTP/1.1 204 No Content\r\n\r\n`);
    for (let n = 0; n < 3; n += 1) assert.deepEqual(await send(receiver.origin), delivered);
    assert.equal(here.length, before);
  });

  test('send one request a connection to an origin that one of them found to respond unasked', async (t) => {
    const receiver = await receiverOf(t, { respond: hang });
    const { ready, post, send, here } = await createFixture(t, { count: 2 });
    await ready(1);
    for (let n = 0; n < 65; n += 1) post(receiver.origin);
    await ready(2);
    const liar = await receiverOf(t);
    const before = here.length;
    // One connection of each thread…
    await Promise.all([send(liar.origin), send(liar.origin)]);
    assert.equal(liar.connections, 2);
    // …of which one gets an unasked response.
    const second = 'HTTP/1.1 204 No Content\r\n\r\n';
    liar.respond = inTurn(raw(`${second}${second}`), reply(204));
    await send(liar.origin);
    await waitFor('both threads to know it', async () => {
      const { connections } = liar;
      await Promise.all([send(liar.origin), send(liar.origin)]);
      return liar.connections - connections === 2;
    });
    assert.equal(here.length, before);
  });

  test('send one request a connection to an origin that was found before they were ready', async (t) => {
    const { ready, send, here } = await createFixture(t);
    const second = 'HTTP/1.1 204 No Content\r\n\r\n';
    const liar = await receiverOf(t, { respond: inTurn(raw(`${second}${second}`), reply(204)) });
    await send(liar.origin);
    await waitFor('the end of the connection', () => liar.open === 0);
    const before = here.length;
    assert.ok(before > 0);
    await ready(1);
    const { connections } = liar;
    for (let n = 0; n < 3; n += 1) await send(liar.origin);
    assert.equal(liar.connections - connections, 3);
  });

  test('tell this thread of an origin that responds unasked', async (t) => {
    const { ready, send, unasked } = await createFixture(t);
    await ready(1);
    const second = 'HTTP/1.1 204 No Content\r\n\r\n';
    const liar = await receiverOf(t, { respond: raw(`${second}${second}`) });
    await send(liar.origin);
    await waitFor('the origin to be known here', () => unasked.has(liar.origin));
  });

  test('show the alert of a receiver that wants a client certificate', async (t) => {
    const tls = { ...trusted, ca: authority, requestCert: true };
    const receiver = await receiverOf(t, { tls });
    const { ready, send, here } = await createFixture(t);
    await ready(1);
    const before = here.length;
    const detail = 'ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED';
    assert.deepEqual(await send(receiver.origin), { kind: 'error', cause: 'tls', detail });
    assert.equal(here.length, before);
  });

  test('sign with the key of the tenant, and send the trace and the access token', async (t) => {
    const receiver = await receiverOf(t);
    const { ready, send, unexpected } = await createFixture(t);
    await ready(1);
    const { privateKey, publicKey } = generateKeyPairSync('ed25519');
    const key = { kid: 'key_1', key: privateKey };
    const stream: Partial<Stream> = { delivery: { signature: 'v1a' } };
    const trace = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
    const event = { ...newEvent(), trace };
    const request = { key, stream, event, accessToken: 'token-1' };
    assert.deepEqual(await send(receiver.origin, request), delivered);
    assert.deepEqual(unexpected, []);
    const { headers, body } = receiver.requests[0] ?? assert.fail();
    assert.equal(headers['webhook-key-id'], 'key_1');
    assert.equal(headers['traceparent'], trace);
    assert.match(headers['authorization'] ?? '', /Bearer token-1$/);
    const signature = headers['webhook-signature']?.replace('v1a,', '') ?? '';
    const text = `${headers['webhook-id']}.${headers['webhook-timestamp']}.${body}`;
    assert.ok(verify(null, Buffer.from(text), publicKey, Buffer.from(signature, 'base64')));
  });

  test('return the same results as this thread', async (t) => {
    const text = 'x'.repeat(5000);
    const answers = {
      busy: reply(503, 'busy', { 'Retry-After': '7' }),
      long: reply(500, text),
      closed: rawThenEnd(''),
      broken: rawThenEnd('nonsense\r\n\r\n'),
    };
    const { ready, send, here } = await createFixture(t);
    await ready(1);
    for (const [name, respond] of Object.entries(answers)) {
      const receiver = await receiverOf(t, { respond });
      const before = here.length;
      const fromThread = await send(receiver.origin);
      assert.equal(here.length, before, name);
      const plain = await createFixture(t, { count: 0 });
      assert.deepEqual(fromThread, await plain.send(receiver.origin), name);
    }
    const secure = await receiverOf(t, { tls: trusted });
    assert.deepEqual(await send(secure.origin), delivered);
    const refused = { kind: 'error', cause: 'refused', detail: 'ECONNREFUSED' };
    assert.deepEqual(await send('http://127.0.0.1:1'), refused);
  });

  test('end attempts that take too long, and those that are cancelled', async (t) => {
    const receiver = await receiverOf(t, { respond: hang });
    const { ready, post, send } = await createFixture(t, { timeoutMs: 300 });
    await ready(1);
    const late: AttemptResult = { kind: 'error', cause: 'timeout', detail: undefined };
    assert.deepEqual(await send(receiver.origin), late);
    const pending = post(receiver.origin, { stream: { delivery: { timeoutMs: 60_000 } } });
    await waitFor('the request', () => receiver.requests.length === 2);
    pending.cancel();
    assert.deepEqual(await pending.ended, cancelled);
    await waitFor('the end of both connections', () => receiver.open === 0);
  });

  test('connect to no blocked address', async (t) => {
    const receiver = await receiverOf(t);
    const { ready, send, here, blocked } = await createFixture(t, {
      resolve: (name) => Promise.resolve(name === 'inside.test' ? ['10.0.0.1'] : ['127.0.0.1']),
    });
    await ready(1);
    const before = here.length;
    for (const [origin, shown] of [
      ['http://10.0.0.1:8080', '10.0.0.1'],
      [`http://inside.test:${receiver.port}`, 'no allowed address'],
    ] as const) {
      const detail = `${shown} (LEAT_EGRESS_ALLOW)`;
      assert.deepEqual(await send(origin), { kind: 'error', cause: 'blocked address', detail });
    }
    assert.deepEqual(blocked, [['inside.test', '10.0.0.1']]);
    assert.equal(here.length, before);
  });

  test('have names looked up by this thread, charged to the tenant', async (t) => {
    const receiver = await receiverOf(t);
    const asked: string[] = [];
    const { ready, send, lookups, transport } = await createFixture(t, {
      resolve: (name) => {
        asked.push(name);
        return name === 'gone.test'
          ? Promise.reject(Object.assign(new Error(name), { code: 'ENOTFOUND' }))
          : Promise.resolve(['127.0.0.1']);
      },
    });
    await ready(1);
    const origin = `http://hooks.test:${receiver.port}`;
    assert.deepEqual(await send(origin), delivered);
    assert.deepEqual(await send('http://gone.test'), {
      kind: 'error',
      cause: 'dns',
      detail: 'ENOTFOUND',
    });
    assert.deepEqual(lookups, ['7 hooks.test', '7 gone.test']);
    assert.deepEqual(asked, ['hooks.test', 'gone.test']);
    // An idle connection of the thread makes the next attempt ready, whatever is known of the name.
    await waitFor('the idle connection', () => transport.isReady(origin));
    assert.equal(transport.prepare(7, origin), true);
  });

  test('leave the requests to inspectors to this thread', async (t) => {
    const { ready, send, here } = await createFixture(t);
    await ready(1);
    const before = here.length;
    const result = await send('https://est_1.inspector.invalid', { stream: { id: 'est_1' } });
    assert.equal(result.kind, 'response');
    assert.equal(here.length, before + 1);
  });

  test('share the requests once one has many under way', async (t) => {
    const busy = await receiverOf(t, { respond: hang });
    const receiver = await receiverOf(t, { respond: hang });
    const { post, ready, workers } = await createFixture(t, { count: 2 });
    await ready(1);
    for (let n = 0; n < 63; n += 1) post(busy.origin);
    post(busy.origin);
    assert.equal(workers.length, 1);
    post(busy.origin);
    await ready(2);
    const results: SendResult[] = [];
    for (let n = 0; n < 4; n += 1) {
      void post(receiver.origin).ended.then((result) => results.push(result));
    }
    await waitFor('the requests', () => receiver.requests.length === 4);
    const [, other] = workers;
    await other?.terminate();
    await waitFor('the end of its attempts', () => results.length > 0);
    assert.deepEqual(results, [threadEnded, threadEnded, threadEnded, threadEnded]);
  });

  test('receive no secret that only this thread needs', async (t) => {
    const receiver = await receiverOf(t);
    const { ready, send, workers } = await createFixture(t);
    await ready(1);
    const [worker] = workers;
    assert.ok(worker);
    const messages: unknown[] = [];
    const postMessage = worker.postMessage.bind(worker);
    t.mock.method(worker, 'postMessage', (message: unknown) => {
      messages.push(message);
      postMessage(message);
    });
    const authorization = {
      method: 'oauth2_client_credentials',
      tokenEndpoint: 'https://id.example.net/token',
      clientId: 'leat',
      clientSecret: 'client-secret',
      scope: undefined,
      clientAuthentication: 'basic',
    } as const;
    const endpoint = 'https://hooks.example.net/in';
    const stream: Partial<Stream> = { destination: { type: 'webhook', endpoint, authorization } };
    assert.deepEqual(await send(receiver.origin, { stream, accessToken: 'token-1' }), delivered);
    const sent = inspect(messages, { depth: Infinity });
    assert.match(sent, /token-1/);
    assert.doesNotMatch(sent, /client-secret/);
    assert.ok(!sent.includes(secret));
  });

  test('start one after the other', async (t) => {
    const busy = await receiverOf(t, { respond: hang });
    const { ready, post, workers } = await createFixture(t, { count: 3 });
    await ready(1);
    for (let n = 0; n < 300; n += 1) post(busy.origin);
    await new Promise(setImmediate);
    assert.equal(workers.length, 2);
    await ready(2);
    for (let n = 0; n < 300; n += 1) post(busy.origin);
    await ready(3);
    assert.equal(workers.length, 3);
  });

  test('do not keep the process from its end', async () => {
    const source = (path: string): string => JSON.stringify(new URL(path, sources).href);
    const program = `
      const { createSenderThreads } = await import(${source('delivery/threads/sender-threads.ts')});
      const { UnaskedOrigins } = await import(${source('delivery/http/unasked-origins.ts')});
      const { systemClock } = await import(${source('clock.ts')});
      const transport = createSenderThreads({
        count: 1,
        data: { allow: [], timeoutMs: 1000, bodyBytesMax: 1000, textBytesMax: 100 },
        here: { post: () => undefined },
        names: {},
        clock: systemClock,
        unasked: new UnaskedOrigins(systemClock),
        unexpected: console.error,
      });
      transport.post({ template: { origin: 'http://127.0.0.1' } });
      const held = setInterval(() => undefined, 60_000);
      process.once('worker', (worker) => {
        worker.once('message', () => {
          console.log('ready');
          clearInterval(held);
        });
      });
    `;
    const run = promisify(execFile);
    const { stdout } = await run(process.execPath, ['-e', program], { timeout: stallMsDefault });
    assert.equal(stdout, 'ready\n');
  });

  test('that cannot be started leave the requests to this thread', async (t) => {
    const receiver = await receiverOf(t);
    const { send, unexpected } = await createFixture(t, { cannotStart: true });
    assert.deepEqual(await send(receiver.origin), delivered);
    assert.equal(unexpected.length, 1);
    assert.match(String(unexpected[0]), /DataCloneError/);
  });

  test('know the streams of thousands of requests', async (t) => {
    const receiver = await receiverOf(t);
    const { ready, send } = await createFixture(t);
    await ready(1);
    const streams = Array.from({ length: 4500 }, (_, n) => `https://hooks.example.net/${n}`);
    for (let from = 0; from < streams.length; from += 100) {
      const sent = streams.slice(from, from + 100).map((endpoint) => {
        const authorization = { method: 'bearer', token: 'kept-secret' } as const;
        return send(receiver.origin, {
          stream: { destination: { type: 'webhook', endpoint, authorization } },
        });
      });
      for (const result of await Promise.all(sent)) assert.deepEqual(result, delivered);
    }
    assert.equal(new Set(receiver.requests.map(({ path }) => path)).size, streams.length);
  });
});

describe('a sender thread that dies', () => {
  test('costs its attempts under way no retry, and is started again', async (t) => {
    const receiver = await receiverOf(t, { respond: hang });
    const healthy = await receiverOf(t);
    const { ready, post, send, workers, here } = await createFixture(t);
    await ready(1);
    const underWay = Array.from({ length: 5 }, () => post(receiver.origin));
    await waitFor('the requests', () => receiver.requests.length === 5);
    const [worker] = workers;
    await worker?.terminate();
    for (const { ended } of underWay) assert.deepEqual(await ended, threadEnded);
    const before = here.length;
    assert.deepEqual(await send(healthy.origin), delivered);
    assert.equal(here.length, before + 1);
    // A dead thread starts again with a request at least a second after its last start.
    await waitFor('the new thread', async () => {
      await send(healthy.origin);
      return workers.length === 2;
    });
    await ready(2);
    const beforeLast = here.length;
    assert.deepEqual(await send(healthy.origin), delivered);
    assert.equal(here.length, beforeLast);
  });

  test('does not answer a lookup of the thread that replaces it', async (t) => {
    const receiver = await receiverOf(t);
    const healthy = await receiverOf(t);
    const answers = new Map<string, PromiseWithResolvers<readonly string[]>>();
    const { ready, post, send, workers, lookups } = await createFixture(t, {
      resolve: (name) => {
        const answer = Promise.withResolvers<readonly string[]>();
        answers.set(name, answer);
        return answer.promise;
      },
    });
    await ready(1);
    const first = post(`http://one.test:${receiver.port}`);
    await waitFor('the lookup', () => lookups.length === 1);
    const [worker] = workers;
    await worker?.terminate();
    assert.deepEqual(await first.ended, threadEnded);
    await ready(2);
    const second = post(`http://two.test:${receiver.port}`);
    await waitFor('the other lookup', () => lookups.length === 2);
    answers.get('one.test')?.resolve(['127.0.0.1']);
    assert.deepEqual(await send(healthy.origin), delivered);
    answers.get('two.test')?.reject(Object.assign(new Error('two.test'), { code: 'ENOTFOUND' }));
    const none = { kind: 'error', cause: 'dns', detail: 'ENOTFOUND' };
    assert.deepEqual(await second.ended, none);
    assert.equal(receiver.requests.length, 0);
  });

  test('is reported with its error', async (t) => {
    const { ready, workers, unexpected } = await createFixture(t);
    await ready(1);
    const [worker] = workers;
    assert.ok(worker);
    const ended = new Promise((resolve) => worker.once('exit', resolve));
    // False positive: this is a thread, not a browser window.
    // oxlint-disable-next-line unicorn/require-post-message-target-origin
    worker.postMessage('nonsense');
    await ended;
    assert.equal(unexpected.length, 1);
    assert.match(String(unexpected[0]), /TypeError/);
  });

  test('ends its attempts when the transport closes', async (t) => {
    const receiver = await receiverOf(t, { respond: hang });
    const { ready, post, transport } = await createFixture(t);
    await ready(1);
    const pending = post(receiver.origin);
    await waitFor('the request', () => receiver.requests.length === 1);
    await transport.close();
    assert.deepEqual(await pending.ended, cancelled);
    assert.deepEqual(await post(receiver.origin).ended, cancelled);
  });
});
