import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { createStream, freshType, publish } from '../helpers/api-client.ts';
import { startEndpoint } from '../helpers/endpoint.ts';
import { waitFor } from '../helpers/wait.ts';
import { openLoggedInShell, openServer } from './shell.ts';

describe('leat why', { concurrency: 2 }, () => {
  let leat: Awaited<ReturnType<typeof openServer>>;
  before(async () => {
    leat = await openServer({ LEAT_RETRY_DELAYS_MS: '10' });
  });
  after(() => leat.close());

  test('why: a failure at one stream, a success at another, and an event that was filtered', async (t) => {
    const shell = await openLoggedInShell(t, leat);
    const [failing, healthy] = [await startEndpoint(), await startEndpoint()];
    t.after(() => Promise.all([failing.close(), healthy.close()]));
    failing.respondWith(503);
    const type = freshType();
    const broken = await createStream(leat, failing.url, { types: [type] });
    const sound = await createStream(leat, healthy.url, { types: [type] });
    const filter = { 'data.plan': 'pro' };
    const picky = await createStream(leat, healthy.url, { types: [type], delivery: { filter } });
    const event = await publish(leat, type);
    const states = async () => {
      const { stdout } = await shell.leat(['why', event, '--json']);
      const traced = JSON.parse(stdout) as {
        readonly deliveries: readonly { readonly name: string; readonly state: string }[];
      };
      return Object.fromEntries(traced.deliveries.map(({ name, state }) => [name, state]));
    };
    await waitFor('the failure', async () => (await states())[broken.name] === 'failed');
    assert.deepEqual(await states(), {
      [broken.name]: 'failed',
      [sound.name]: 'delivered',
      [picky.name]: 'filtered',
    });
    const shown = await shell.leat(['why', event]);
    assert.equal(shown.code, 0, shown.stderr);
    const lines = shown.stdout.split('\n').map((line) => line.replaceAll(/ +/g, ' '));
    assert.ok(lines.includes('State 1 failed, 1 delivered, 1 filtered'), shown.stdout);
    const row = lines.find((line) => line.startsWith(`${broken.name} failed`));
    assert.match(row ?? '', / failed 2 503$/);
    const times = lines
      .slice(lines.findIndex((line) => line.startsWith('TIME')) + 1)
      .filter((line) => line !== '')
      .map((line) => line.split(' ', 2).join(' '));
    assert.ok(times.length >= 5, shown.stdout);
    assert.deepEqual(times, times.toSorted(), 'the timeline is in order');
    assert.ok(lines.some((line) => line.includes(`${broken.name} attempt 2 failed after`)));
    assert.ok(shown.stderr.includes(`leat redeliver ${broken.name} ${event}`), shown.stderr);
    const noFailure = await shell.leat(['deliveries', 'show', sound.name, event]);
    assert.equal(noFailure.code, 0, noFailure.stderr);
    assert.match(noFailure.stdout, /^State +1 delivered$/m);
    const one = await shell.leat(['why', event, '--stream', sound.name]);
    assert.ok(!one.stdout.includes(broken.name), one.stdout);
  });

  test('why: an idempotency key, an unknown event, and a stream that the event was never for', async (t) => {
    const shell = await openLoggedInShell(t, leat);
    const endpoint = await startEndpoint();
    t.after(() => endpoint.close());
    const [type, otherType] = [freshType(), freshType()];
    const { name } = await createStream(leat, endpoint.url, { types: [otherType] });
    const key = `order 17/${type}`;
    const published = await shell.leat([
      'events',
      'publish',
      '--type',
      type,
      '--id',
      key,
      '--data',
      '{}',
    ]);
    assert.equal(published.code, 0, published.stderr);
    const shown = await shell.leat(['why', key]);
    assert.match(shown.stdout, /^State +no stream that exists now was subscribed to its type$/m);
    assert.match(shown.stdout, /accepted/);
    const unknown = await shell.leat(['why', 'no such key']);
    assert.deepEqual([unknown.code, unknown.stdout], [4, '']);
    assert.match(unknown.stderr, /The event does not exist/);
    const never = await shell.leat(['why', key, '--stream', name]);
    assert.equal(never.code, 4);
    assert.match(never.stderr, /never been for this stream/);
  });

  test('why: an event of which nobody knows whether it was for a stream, and a stream that was deleted', async (t) => {
    const shell = await openLoggedInShell(t, leat);
    const failing = await startEndpoint();
    t.after(() => failing.close());
    failing.respondWith(503);
    const tested = await createStream(leat, failing.url, { types: [freshType()] });
    const other = await createStream(leat, failing.url, { types: ['user.created'] });
    const sent = await shell.leat(['test', tested.id, '--no-wait', '--json']);
    const { id: event } = JSON.parse(sent.stdout) as { readonly id: string };
    await waitFor('the failure', async () => {
      const { stdout } = await shell.leat(['why', event, '--stream', tested.name]);
      return /^State +1 failed$/m.test(stdout);
    });
    const unknown = await shell.leat(['why', event, '--stream', other.name]);
    assert.deepEqual([unknown.code, unknown.stdout], [4, '']);
    assert.match(unknown.stderr, /^It is not known whether the event was for this stream: /);
    assert.doesNotMatch(unknown.stderr, /never/);
    const published = await publish(leat, freshType());
    await leat.send('DELETE', `/api/v2/event-streams/${other.id}`);
    const deleted = await shell.leat(['why', published, '--stream', other.id]);
    assert.equal(deleted.code, 4);
    assert.match(deleted.stderr, /The requested stream does not exist/);
  });

  test(
    'why: counts attempts as requests, and says where only the newest entries are listed',
    { tags: ['long'] },
    async (t) => {
      const shell = await openLoggedInShell(t, leat);
      const failing = await startEndpoint();
      t.after(() => failing.close());
      failing.respondWith(404);
      const type = freshType();
      const stream = await createStream(leat, failing.url, { types: [type] });
      const event = await publish(leat, type);
      const attempts = async (): Promise<string> => {
        const { stdout } = await shell.leat(['why', event]);
        const row = stdout.split('\n').find((line) => line.startsWith(stream.name));
        return /^\S+ +failed +(?<count>\S+)/.exec(row ?? '')?.groups?.['count'] ?? '';
      };
      await waitFor('the failure', async () => (await attempts()) === '1');
      const path = `/api/v2/event-streams/${stream.id}`;
      for (let cycle = 2; cycle <= 12; cycle++) {
        await leat.send('POST', `${path}/redeliver/${event}`);
        await waitFor('the attempt', async () => {
          const failure = await leat.send('GET', `${path}/deliveries/${event}`);
          const { attempts: entries } = (await failure.json()) as {
            attempts: { status: string }[];
          };
          return entries.filter(({ status }) => status === 'failed').length === cycle;
        });
      }
      assert.equal(await attempts(), '10+');
    },
  );

  test('why: the attempts of a redelivery are told from those before it', async (t) => {
    const shell = await openLoggedInShell(t, leat);
    const endpoint = await startEndpoint();
    t.after(() => endpoint.close());
    endpoint.respondWith(404);
    const type = freshType();
    const stream = await createStream(leat, endpoint.url, { types: [type] });
    const event = await publish(leat, type);
    const trace = async (): Promise<string> => (await shell.leat(['why', event])).stdout;
    await waitFor('the failure', async () => /^State +1 failed$/m.test(await trace()));
    endpoint.respondWith(204);
    assert.equal((await shell.leat(['redeliver', stream.id, event])).code, 0);
    const lines = (await trace()).split('\n').filter((line) => line.includes('ttempt '));
    assert.equal(lines.length, 2, lines.join('\n'));
    assert.match(lines[0] ?? '', / {2}attempt 1 failed after /);
    assert.match(lines[1] ?? '', / {2}redelivery, attempt 1 delivered after /);
  });

  test('why: a failure without a request has no attempt', async (t) => {
    const shell = await openLoggedInShell(t, leat);
    const failing = await startEndpoint();
    t.after(() => failing.close());
    failing.respondWith(503);
    const type = freshType();
    const delivery = { retry: 'hours' };
    const stream = await createStream(leat, failing.url, { types: [type], delivery });
    const event = await publish(leat, type);
    const trace = async (): Promise<string> => (await shell.leat(['why', event])).stdout;
    await waitFor('the first attempt', async () => /^State +1 retrying$/m.test(await trace()));
    await leat.send('PATCH', `/api/v2/event-streams/${stream.id}`, { status: 'disabled' });
    await waitFor('the failure', async () => /^State +1 failed$/m.test(await trace()));
    const row = (await trace()).split('\n').find((line) => line.startsWith(stream.name));
    assert.match(row ?? '', /^\S+ +failed +1 +The event stream is disabled/);
  });
});
