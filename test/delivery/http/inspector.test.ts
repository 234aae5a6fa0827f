import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import type { AttemptResult } from '../../../src/core/retry.ts';
import { createSender } from '../../helpers/sender.ts';

const ref = { tenant: 1, stream: 'est_A' };
const origin = 'https://est_a.inspector.invalid';
const dropped: AttemptResult = { kind: 'error', cause: 'cancelled', detail: undefined };
const answered = (status: number): AttemptResult => ({
  kind: 'response',
  status,
  text: '',
  retryAfter: undefined,
});

/** A transport whose inspector has a manual clock, and that fails the test when it looks up a name. */
function open(t: TestContext, timeoutMs = 10_000) {
  const lookups: string[] = [];
  const sender = createSender(t, {
    timeoutMs,
    resolve: (name) => {
      lookups.push(name);
      return Promise.reject(new Error('no name is looked up'));
    },
  });
  t.after(() => assert.deepEqual(lookups, []));
  const { clock, inspector, transport } = sender;
  const post = (headers: string[] = [], body = '{}') =>
    sender.post(origin, { stream: ref.stream, headers, body });
  const results = (): (AttemptResult | undefined)[] =>
    inspector
      .read(ref)
      .requests.map(({ result }) => result)
      .toReversed();
  return { clock, inspector, sender, transport, post, results };
}

/** Lets callbacks of `setImmediate` run. */
function turn(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}

describe('the inspector', () => {
  test('the inspector receives a request without a lookup and responds with 204', async (t) => {
    const { inspector, transport, sender, clock } = open(t);
    assert.equal(transport.prepare(1, origin), true);
    assert.equal(transport.isReady(origin), true);
    const head = ['host', 'est_a.inspector.invalid', 'content-length', '8'];
    const headers = ['content-type', 'application/json', 'Authorization', 'Bearer geheim'];
    const request = { stream: ref.stream, path: '/hook?a=1', headers, body: '{"ü":1}' };
    assert.deepEqual(await sender.send(origin, request), answered(204));
    assert.deepEqual(
      inspector.read(ref).requests.map((received) => ({ ...received })),
      [
        {
          receivedAt: clock.now(),
          path: '/hook?a=1',
          headers: [...head, 'content-type', 'application/json', 'Authorization', '***'],
          body: '{"ü":1}',
          result: answered(204),
        },
      ],
    );
    assert.deepEqual(transport.count(), { routes: 0, connections: 0, idle: 0 });
  });

  test('the inspector hides the header of a custom authorization and reads others as UTF-8', async (t) => {
    const { inspector, sender } = open(t);
    const utf8 = Buffer.from('grün').toString('latin1');
    const headers = ['X-Api-Key', 'short', 'X-Colour', utf8];
    await sender.send(origin, { stream: ref.stream, headers, secretHeader: 'x-api-key' });
    const [received] = inspector.read(ref).requests;
    assert.deepEqual(received?.headers.slice(4), ['X-Api-Key', '***', 'X-Colour', 'grün']);
  });

  test('the inspector gives the next requests the answer that was set, then 204', async (t) => {
    const { inspector, post, results } = open(t);
    inspector.setAnswer(ref, { status: 503, delayMs: 0, times: 2 });
    for (const status of [503, 503, 204]) {
      assert.deepEqual(await post().ended, answered(status));
    }
    assert.deepEqual(results(), [answered(503), answered(503), answered(204)]);
  });

  test('the inspector responds after the delay of its answer', async (t) => {
    const { clock, inspector, post, results } = open(t);
    inspector.setAnswer(ref, { status: 200, delayMs: 3000, times: 1 });
    const { ended } = post();
    await clock.advance(2999);
    assert.deepEqual(results(), [undefined]);
    await clock.advance(1);
    assert.deepEqual(await ended, answered(200));
  });

  test('the inspector: an answer that takes longer than an attempt is a timeout', async (t) => {
    const { clock, inspector, post, results } = open(t);
    inspector.setAnswer(ref, { status: 200, delayMs: 30_000, times: 1 });
    const { ended } = post();
    await clock.advance(10_000);
    const timeout: AttemptResult = { kind: 'error', cause: 'timeout', detail: undefined };
    assert.deepEqual([await ended, results()], [timeout, [timeout]]);
    await clock.advance(30_000);
    assert.deepEqual(results(), [timeout]);
  });

  test('the inspector: a request can be cancelled during the delay, and closing does so', async (t) => {
    const { inspector, transport, post, results } = open(t);
    inspector.setAnswer(ref, { status: 200, delayMs: 1000, times: 2 });
    const [first, second] = [post(), post()];
    first.cancel();
    assert.deepEqual(await first.ended, dropped);
    await transport.close();
    assert.deepEqual(await second.ended, dropped);
    assert.deepEqual(results(), [dropped, dropped]);
    assert.deepEqual(await post().ended, dropped);
    assert.equal(results().length, 2);
  });

  test('the inspector receives 10 requests at once and then 10 per second; the others wait', async (t) => {
    const { clock, post, results } = open(t);
    const posts = Array.from({ length: 30 }, () => post());
    assert.equal(results().length, 10);
    await clock.advance(1000);
    assert.equal(results().length, 20);
    await clock.advance(1000);
    await turn();
    const ended = await Promise.all(posts.map(({ ended: result }) => result));
    assert.deepEqual(
      ended,
      posts.map(() => answered(204)),
    );
  });

  test('the inspector responds with 429 and Retry-After to requests that would wait too long', async (t) => {
    const { clock, post, results } = open(t);
    const posts = Array.from({ length: 70 }, () => post());
    const refused = await posts.at(-1)?.ended;
    assert.deepEqual(refused, {
      kind: 'response',
      status: 429,
      text: 'The inspector receives 10 requests per second of a stream.',
      retryAfter: '6',
    });
    await clock.advance(10_000);
    await turn();
    const ended = await Promise.all(posts.map(({ ended: result }) => result));
    const count = (status: number) =>
      ended.filter((result) => result.kind === 'response' && result.status === status).length;
    assert.deepEqual([count(204), count(429)], [60, 10]);
    assert.equal(results().length, 50, 'of 60');
  });

  test('the inspector: a request waits no longer for its turn than half of its time', async (t) => {
    const { post } = open(t, 1000);
    const posts = Array.from({ length: 16 }, () => post());
    const last = await posts.at(-1)?.ended;
    assert.ok(last?.kind === 'response' && last.status === 429);
  });

  test('the inspector: a request that is cancelled before its turn is not received', async (t) => {
    const { clock, post, results } = open(t);
    for (let n = 0; n < 10; n += 1) post();
    const waiting = post();
    waiting.cancel();
    assert.deepEqual(await waiting.ended, dropped);
    await clock.advance(5000);
    assert.equal(results().length, 10);
  });

  test('the inspector of a stream receives nothing of another one', async (t) => {
    const { inspector, sender } = open(t);
    const result = await sender.send(origin, { stream: 'est_B' });
    assert.deepEqual(result, { kind: 'error', cause: 'dns', detail: 'ENOTFOUND' });
    assert.deepEqual(inspector.streams(), []);
  });

  test('the inspector drops requests after a day without any other request', async (t) => {
    const { clock, inspector, post } = open(t);
    await post().ended;
    await clock.advance(86_400_000 - 1);
    assert.equal(inspector.read(ref).requests.length, 1);
    await clock.advance(600_000);
    assert.deepEqual([inspector.streams(), inspector.bytes(), clock.pending], [[], 0, 0]);
  });
});
