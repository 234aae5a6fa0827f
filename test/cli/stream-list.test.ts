import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { after, before, describe, test } from 'node:test';
import { reasonOf } from '../../src/cli/stream-list.ts';
import type { StreamHealthShown } from '../../src/schemas/stream-health.ts';
import { createStream, eventsOf, freshType, publishAll } from '../helpers/api-client.ts';
import { startEndpoint, text } from '../helpers/endpoint.ts';
import { waitFor } from '../helpers/leat.ts';
import { createStreamNamed, openLoggedInShell, openServer, openShell } from './shell.ts';

describe('leat streams list', { concurrency: 2 }, () => {
  let leat: Awaited<ReturnType<typeof openServer>>;
  before(async () => {
    leat = await openServer({ LEAT_RETRY_DELAYS_MS: '0', LEAT_MAX_STREAMS: '1000' });
  });
  after(() => leat.close());

  test('leat streams list: rejects an unknown state and order with code 2', async (t) => {
    const shell = await openLoggedInShell(t, leat);
    const state = await shell.leat(['streams', 'list', '--status', 'failing,nonsense']);
    assert.deepEqual([state.code, state.stdout], [2, '']);
    assert.match(state.stderr, /States: disabled, paused, failing, lagging, ok\./);
    assert.equal((await shell.leat(['streams', 'list', '--sort', 'age'])).code, 2);
    const none = await shell.leat(['streams', 'list', '--search', 'no-such-stream']);
    assert.deepEqual([none.code, none.stderr], [0, 'No event stream matches.\n']);
  });

  test(
    'leat streams list: shows state and reason, and selects and orders by them',
    { tags: ['long'] },
    async (t) => {
      const shell = await openLoggedInShell(t, leat);
      const endpoint = await startEndpoint(text(404, 'gone'));
      t.after(() => endpoint.close());
      const type = freshType();
      const stream = await createStream(leat, endpoint.url, { types: [type] });
      const name = `a name that is never cut ${type}`;
      await shell.leat(['streams', 'update', stream.id, '--name', name]);
      await publishAll(leat, eventsOf(type, 3));
      const search = ['streams', 'list', '--search', type];
      await waitFor('the failures', async () =>
        (await shell.leat(search)).stdout.includes('3 of 500 in a row, 3 open'),
      );
      const failing = await shell.leat([
        ...search,
        '--status',
        'failing',
        '--sort',
        'open_failures',
      ]);
      assert.match(
        failing.stdout,
        new RegExp(`\n${stream.id}  ${name}  failing  3 of 500 in a row, 3 open `),
      );
      assert.equal(
        failing.stderr,
        '1 stream: 1 failing\nMore about one: leat streams health <stream>\n',
      );
      await shell.leat(['streams', 'pause', stream.id, '--reason', 'upgrade\u202E']);
      await waitFor('the pause', async () =>
        / paused +upgrade\\u\{202e\} \d{4}-/.test((await shell.leat(search)).stdout),
      );
      await shell.leat(['streams', 'disable', stream.id]);
      await waitFor('the disabling', async () =>
        / disabled +by hand [-0-9]{10} [:0-9]{8}Z, last http_404, 0 wait/.test(
          (await shell.leat(search)).stdout,
        ),
      );
    },
  );

  test('leat streams list: a new stream is in the next list, and a deleted one is not', async (t) => {
    const shell = await openLoggedInShell(t, leat);
    const name = freshType();
    const names = async (): Promise<string[]> => {
      const { stdout } = await shell.leat(['streams', 'list', '--search', name, '--json']);
      return (JSON.parse(stdout) as { name: string }[]).map((stream) => stream.name);
    };
    assert.deepEqual(await names(), []);
    await createStreamNamed(shell, name);
    assert.deepEqual(await names(), [name]);
    await shell.leat(['streams', 'delete', name, '--yes']);
    assert.deepEqual(await names(), []);
  });

  test(
    'leat streams list: reads all pages; --json has the streams as the API lists them, with their health',
    { tags: ['long'] },
    async (t) => {
      const shell = await openLoggedInShell(t, leat);
      const part = `page-${freshType()}`;
      for (let number = 0; number < 120; number++) {
        const body = {
          name: `${part}-${String(number).padStart(3, '0')}`,
          destination: {
            type: 'webhook',
            configuration: {
              webhook_endpoint: 'https://example.com/',
              webhook_authorization: { method: 'bearer', token: 'a-token' },
            },
          },
        };
        assert.equal((await leat.send('POST', '/api/v2/event-streams', body)).status, 201);
      }
      const words = ['streams', 'list', '--search', part, '--json'];
      interface Listed {
        readonly id: string;
        readonly name: string;
        readonly health: StreamHealthShown;
      }
      const read = async (...more: string[]): Promise<Listed[]> =>
        JSON.parse((await shell.leat([...words, ...more])).stdout) as Listed[];
      const listed = await read();
      assert.deepEqual(
        listed.map(({ name }) => name),
        listed.map(({ name }) => name).toSorted(),
      );
      assert.equal(new Set(listed.map(({ id }) => id)).size, 120);
      for (const { id, health, ...stream } of listed.slice(0, 2)) {
        const response = await leat.send('GET', `/api/v2/event-streams/${id}`);
        assert.deepEqual({ id, ...stream }, await response.json());
        assert.equal(health.event_stream_id, id);
      }
      assert.equal((await read('--limit', '101')).length, 101);
    },
  );

  test('leat streams list: lists the streams of a server without health, but does not filter there', async (t) => {
    const stream = {
      id: `est_${'1'.repeat(22)}`,
      name: 'crm',
      status: 'enabled',
      subscriptions: [{ event_type: 'a.b' }],
      updated_at: '2026-03-01T09:30:00.000Z',
    };
    const server = createServer((request, response) => {
      const isList = request.url?.startsWith('/api/v2/event-streams?') === true;
      if (request.url === '/oauth/token') response.end('{"access_token":"a","expires_in":3600}');
      else if (isList) response.end(JSON.stringify({ eventStreams: [stream] }));
      else response.writeHead(404).end('{"message":"Not Found"}');
    }).listen(0, '127.0.0.1');
    t.after(() => server.close());
    await once(server, 'listening');
    const { port } = server.address() as { port: number };
    const env = {
      LEAT_URL: `http://127.0.0.1:${port}`,
      LEAT_CLIENT_ID: 'a',
      LEAT_CLIENT_SECRET: 'b',
    };
    const shell = await openShell(t);
    const listed = await shell.leat(['streams', 'list'], { env });
    assert.match(
      listed.stdout,
      /^ID .*\nest_1{22} {2}crm {3}enabled {2}a\.b {5}2026-03-01 09:30:00Z\n$/,
    );
    const json = await shell.leat(['streams', 'list', '--json'], { env });
    assert.deepEqual(JSON.parse(json.stdout), [stream]);
    assert.equal((await shell.leat(['streams', 'list', '--status', 'ok'], { env })).code, 4);
  });
});

describe('the reason of a state', () => {
  const health = {
    state: 'lagging',
    paused: null,
    disabled: null,
    failures: { consecutive: 0, open: 2, limit_consecutive: 500, limit_open: 5000 },
    lag: { events: 1, at_least: false, seconds: 300 },
    in_flight: 0,
    in_flight_seconds: 0,
  } as unknown as StreamHealthShown;
  const of = (fields: object): string =>
    reasonOf({ ...health, ...fields }, (time) => ` at ${time}`);

  test('reasonOf: says how far a lagging stream is behind', () => {
    assert.equal(of({}), '5 min behind, 1 event');
    const lag = { events: 10_000, at_least: true, seconds: 90_000 };
    assert.equal(of({ lag }), '25 h behind, 10000 events or more');
  });

  test('reasonOf: names why and when a stream was disabled, its last error and what waits', () => {
    const disabled = {
      reason: 'open_failures',
      at: 'T',
      last_error_code: 'timeout',
      waiting_events: 10_000,
      at_least: true,
    };
    assert.equal(
      of({ state: 'disabled', disabled }),
      'open failures at T, last timeout, 10000+ wait',
    );
    const byHand = {
      ...disabled,
      reason: 'by_hand',
      last_error_code: null,
      waiting_events: 0,
      at_least: false,
    };
    assert.equal(of({ state: 'disabled', disabled: byHand }), 'by hand at T, 0 wait');
  });

  test('reasonOf: says why a stream fails, and how long its attempts are under way', () => {
    const failing = { state: 'failing', failing_since: null, results_refused: null };
    const since = { ...failing, failing_since: 'T' };
    assert.equal(of(since), 'first failed attempt at T');
    assert.equal(of(failing), 'an attempt is overdue');
    const refused = { since: 'T', code: '23514' };
    assert.equal(of({ ...failing, results_refused: refused }), 'results not recorded at T');
    const failures = { consecutive: 3, open: 4, limit_consecutive: 500 };
    const inFlight = { in_flight: 64, in_flight_seconds: 9 };
    assert.equal(
      of({ ...since, ...inFlight, failures }),
      '3 of 500 in a row, 4 open, 64 in flight for up to 9 s',
    );
    assert.equal(
      of({ state: 'ok', failures: { open: 0 }, ...inFlight }),
      '64 in flight for up to 9 s',
    );
  });

  test('reasonOf: a pause may have no reason, an ok stream open failures', () => {
    assert.equal(of({ state: 'paused', paused: { at: 'T', reason: null } }), 'at T');
    assert.equal(of({ state: 'ok' }), '2 open failures');
  });
});
