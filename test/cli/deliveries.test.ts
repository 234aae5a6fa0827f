import assert from 'node:assert/strict';
import { after, before, describe, test, type TestContext } from 'node:test';
import {
  createStream,
  expectBody,
  freshType,
  publishAll,
  patchStream,
  waitForFailures,
  waitForStats,
  type FailureBody,
  type StreamBody,
} from '../helpers/api-client.ts';
import type { RedeliveryShown } from '../../src/schemas/redeliveries.ts';
import { startEndpoint, text, type Endpoint } from '../helpers/endpoint.ts';
import { waitFor } from '../helpers/wait.ts';
import { openLoggedInShell, openServer, type Shell } from './shell.ts';

/** A stream whose endpoint fails, and the events that failed. */
interface Fixture {
  readonly shell: Shell;
  readonly endpoint: Endpoint;
  readonly stream: string;
  readonly type: string;
  readonly events: readonly string[];
}

describe('failure commands', { concurrency: 2 }, () => {
  let leat: Awaited<ReturnType<typeof openServer>>;
  before(async () => {
    leat = await openServer({ LEAT_RETRY_DELAYS_MS: '10' });
  });
  after(() => leat.close());

  const createFailures = async (t: TestContext, count: number): Promise<Fixture> => {
    const shell = await openLoggedInShell(t, leat);
    const endpoint = await startEndpoint(text(503, 'busy \u001B[31mred'));
    t.after(() => endpoint.close());
    const type = freshType();
    const { id: stream } = await createStream(leat, endpoint.url, { types: [type] });
    const bodies = Array.from({ length: count }, (_, n) => ({ type, data: { object: { n } } }));
    const events = await publishAll(leat, bodies);
    await waitForStats(leat, stream, { delivered: 0, failed: count });
    return { shell, endpoint, stream, type, events };
  };

  test('leat dismiss: closes the named failures, or all, counts with --dry-run, and reopen opens them again', async (t) => {
    const { shell, stream, events } = await createFailures(t, 3);
    const [event = ''] = events;
    // None of these changes anything.
    const [counted, none, refused, unknown] = await Promise.all([
      shell.leat(['dismiss', stream, '--cause', 'http_5xx', '--dry-run']),
      shell.leat(['dismiss', stream]),
      shell.leat(['dismiss', stream, '--all']),
      shell.leat(['reopen', `dsm_${'1'.repeat(22)}`]),
    ]);
    assert.equal(counted.stdout, '3 failures would be dismissed.\n');
    assert.equal(none.code, 2);
    assert.match(none.stderr, /--all/);
    assert.equal(unknown.code, 4);
    const named = await shell.leat(['dismiss', stream, event]);
    assert.equal(named.stdout, '1 failure dismissed.\n');
    assert.deepEqual([refused.code, /add --yes/.test(refused.stderr)], [2, true], refused.stderr);
    const all = await shell.leat(['dismiss', stream, '--all', '--yes']);
    assert.equal(all.stdout, '2 failures dismissed.\n');
    const [, id = ''] =
      /^This opens them again: leat reopen (dsm_\w{22})\n$/.exec(all.stderr) ?? [];
    const reopened = await shell.leat(['reopen', id]);
    assert.deepEqual([reopened.stdout, reopened.stderr], ['2 failures open again.\n', '']);
    const listed = await shell.leat(['deliveries', 'list', stream, '--json']);
    assert.equal((JSON.parse(listed.stdout) as object[]).length, 2);
  });

  test('leat streams retry-now: sends what waits for a retry', async (t) => {
    const shell = await openLoggedInShell(t, leat);
    const endpoint = await startEndpoint(text(503, 'busy'));
    t.after(() => endpoint.close());
    const type = freshType();
    const delivery = { retry: { delays_seconds: [3600] } };
    const { id: stream } = await createStream(leat, endpoint.url, { types: [type], delivery });
    await publishAll(leat, [{ type, data: {} }]);
    await endpoint.arrival(1);
    endpoint.respondWith(204);
    const retryNow = ['streams', 'retry-now', stream];
    await waitFor('a delivery that waits', async () => {
      const { stdout } = await shell.leat(retryNow);
      return stdout === '1 delivery that waited for its retry is due now.\n';
    });
    await waitForStats(leat, stream, { delivered: 1, failed: 0 });
    assert.equal((await shell.leat(retryNow)).stdout, 'No delivery waits for a retry.\n');
    assert.equal((await shell.leat([...retryNow, '--json'])).stdout, '{"due":0}\n');
  });

  test('leat deliveries list: shows the failures of all pages, newest first', async (t) => {
    const { shell, stream, type, events } = await createFailures(t, 130);
    const { code, stdout, stderr } = await shell.leat(['deliveries', 'list', stream]);
    assert.equal(code, 0, stderr);
    const lines = stdout.trimEnd().split('\n');
    assert.equal(lines.length, 131);
    assert.match(lines[0] ?? '', /^EVENT +TYPE +HAPPENED +ATTEMPTS {2}LAST ERROR$/);
    assert.match(lines[1] ?? '', /^evt_\w+ {2}\S+ +\S+ \S+Z +2 {2}503 - busy \\u\{1b\}\[31mred$/);
    const json = await shell.leat(['deliveries', 'list', stream, '--json']);
    const ids = (JSON.parse(json.stdout) as FailureBody[]).map(({ id }) => id);
    assert.deepEqual(new Set(ids), new Set(events));
    assert.ok(!json.stdout.includes('\u001B'));
    const few = await shell.leat(['deliveries', 'list', stream, '--limit', '3', '--json']);
    assert.deepEqual(
      (JSON.parse(few.stdout) as FailureBody[]).map(({ id }) => id),
      ids.slice(0, 3),
    );
    const other = await shell.leat(['deliveries', 'list', stream, '--type', `${type}.other`]);
    assert.match(other.stderr, /^No failures\.\n$/);
    const old = await shell.leat(['deliveries', 'list', stream, '--until', '1h', '--json']);
    assert.equal(old.stdout, '[]\n');
  });

  test('leat deliveries show: prints the attempts and the event of a failure', async (t) => {
    const { shell, stream, events } = await createFailures(t, 1);
    const [event = ''] = events;
    const { code, stdout } = await shell.leat(['deliveries', 'show', stream, event]);
    assert.equal(code, 0);
    assert.match(stdout, new RegExp(`^Event +${event}\n`));
    assert.equal(stdout.match(/failed +\d+ ms {2}503 - busy/g)?.length, 2);
    assert.match(stdout, /"object": \{\n +"n": 0\n/);
    assert.ok(!stdout.includes('\u001B'));
    const missing = await shell.leat(['deliveries', 'show', stream, `evt_${'1'.repeat(22)}`]);
    assert.equal(missing.code, 4);
  });

  test('leat redeliver: waits for the end and counts the deliveries', async (t) => {
    const { shell, endpoint, stream, events } = await createFailures(t, 12);
    endpoint.respondWith(204);
    const { code, stdout, stderr } = await shell.leat(['redeliver', stream]);
    assert.deepEqual([code, stdout], [0, '12 of 12 failures delivered.\n'], stderr);
    for (const event of events) assert.equal(endpoint.of(event).length, 3);
    const again = await shell.leat(['redeliver', stream]);
    assert.deepEqual([again.code, again.stdout], [0, 'No failures; nothing to send again.\n']);
  });

  test('leat redeliver: exits with 1 when some failed again', async (t) => {
    const { shell, endpoint, stream, events } = await createFailures(t, 3);
    const [stubborn] = events;
    endpoint.respondWith((response, { event }) => {
      response.writeHead(event.id === stubborn ? 500 : 204).end();
    });
    const { code, stdout, stderr } = await shell.leat(['redeliver', stream, '--json']);
    assert.equal(code, 1);
    const { total, delivered, failed, remaining } = JSON.parse(stdout) as RedeliveryShown;
    assert.deepEqual(
      { total, delivered, failed, remaining },
      { total: 3, delivered: 2, failed: 1, remaining: 0 },
    );
    const [note, error] = stderr.split('\n');
    assert.match(note ?? '', /^\{"note":"Redelivery rdl_\w+ is running; /);
    const message = '1 failed again: leat failures shows why.';
    assert.deepEqual(JSON.parse(error ?? ''), { error: 'failed', message });
  });

  test(
    'leat redeliver: sends the named events, and does not wait with --no-wait',
    { tags: ['long'] },
    async (t) => {
      const { shell, endpoint, stream, events } = await createFailures(t, 3);
      endpoint.respondWith(204);
      const [first = '', second = '', third = ''] = events;
      const two = await shell.leat(['redeliver', stream, first, second]);
      assert.deepEqual([two.code, two.stdout], [0, '2 of 2 failures delivered.\n'], two.stderr);
      assert.equal(endpoint.of(third).length, 2);
      const counted = await shell.leat(['redeliver', stream, third, '--dry-run']);
      assert.deepEqual(
        [counted.code, counted.stdout.split('\n')[0]],
        [0, '1 failure would be sent again.'],
      );
      const gone = await shell.leat(['redeliver', stream, first]);
      assert.deepEqual([gone.code, gone.stdout], [4, 'No failures; nothing to send again.\n']);
      const message =
        '1 named event is no open failure: leat why <event> shows what became of one.\n';
      assert.equal(gone.stderr, message);
      assert.equal(endpoint.of(first).length, 3);
      const mixed = await shell.leat(['redeliver', stream, third, '--since', '1h']);
      assert.equal(mixed.code, 2);
      const later = await shell.leat(['redeliver', stream, '--no-wait', '--since', '1h']);
      assert.deepEqual([later.code, later.stdout], [0, '1 failure will be sent again.\n']);
      await waitForFailures(leat, stream, 0);
    },
  );

  test(
    'leat test: --inspect shows what the receiver inside Leat got, attempt by attempt',
    { tags: ['long'] },
    async (t) => {
      const shell = await openLoggedInShell(t, leat);
      const words = ['streams', 'create', '--events', 'user.created', '--inspect', '--json'];
      const made = await shell.leat(words);
      const { id, destination } = JSON.parse(made.stdout) as StreamBody;
      const endpoint = `https://${id}.inspector.invalid/`;
      assert.equal(destination.configuration.webhook_endpoint, endpoint, made.stderr);
      const good = await shell.leat(['test', id, '--inspect', '--data', '{"object": {"a": 1}}']);
      assert.equal(good.code, 0, good.stderr);
      assert.match(good.stdout, /^POST \/\nhost: est_/);
      assert.match(good.stdout, /^authorization: \*\*\*$/m);
      assert.match(good.stdout, /^webhook-signature: v1,/m);
      assert.match(good.stdout, /^ {6}"a": 1$/m);
      assert.match(good.stdout, /^Signature +valid\nResponse +204\n\nDelivered\.$/m);

      const path = `/api/v2/event-streams/${id}/received/answer`;
      await expectBody(200, leat.send('PUT', path, { status: 404 }));
      const bad = await shell.leat(['test', id, '--inspect', '--json']);
      assert.equal(bad.code, 1, bad.stderr);
      const requests = JSON.parse(bad.stdout) as { signature: string; status: number }[];
      assert.deepEqual(
        requests.map(({ signature, status }) => [signature, status]),
        [['valid', 404]],
      );
    },
  );

  test('leat test: --inspect names the way for a stream with another endpoint', async (t) => {
    const { shell, stream, endpoint } = await createFailures(t, 0);
    const refused = await shell.leat(['test', stream, '--inspect']);
    assert.equal(refused.code, 2);
    assert.ok(refused.stderr.includes(`the stream sends to ${endpoint.url}`), refused.stderr);
    assert.match(refused.stderr, /after leat streams update est_\w+ --inspect\./);
    const updated = await shell.leat(['streams', 'update', stream, '--inspect']);
    assert.match(updated.stdout, /^Endpoint +https:\/\/est_\w+\.inspector\.invalid\/$/m);
    assert.equal((await shell.leat(['test', stream, '--inspect'])).code, 0);
    const noWait = await shell.leat(['test', stream, '--inspect', '--no-wait']);
    assert.equal(noWait.code, 2);
    const both = ['streams', 'update', stream, '--inspect', '--endpoint', endpoint.url];
    assert.match((await shell.leat(both)).stderr, /Choose one of --endpoint and --inspect/);
  });

  test('leat test: without --type the event has a type that the stream is subscribed to', async (t) => {
    const shell = await openLoggedInShell(t, leat);
    const endpoint = await startEndpoint();
    t.after(() => endpoint.close());
    const sentTo = async (types: string[]): Promise<unknown> => {
      const { name } = await createStream(leat, endpoint.url, { types });
      const { code, stderr } = await shell.leat(['test', name]);
      assert.equal(code, 0, stderr);
      return endpoint.arrivals.at(-1)?.event['type'];
    };
    const [first, second] = [freshType(), freshType()];
    assert.equal(await sentTo([first, second]), first);
    assert.equal(await sentTo([first, 'user.created']), 'user.created');
  });

  test('leat test: waits for the result, delivered or failed', async (t) => {
    const { shell, endpoint, stream, type } = await createFailures(t, 1);
    endpoint.respondWith(204);
    const words = ['test', stream, '--type', type];
    const good = await shell.leat([
      ...words,
      '--data',
      '{"object": {"big": 12345678901234567890}}',
    ]);
    assert.deepEqual([good.code, good.stdout], [0, 'Delivered.\n'], good.stderr);
    assert.match(endpoint.arrivals.at(-1)?.body ?? '', /"big":12345678901234567890/);
    assert.equal(endpoint.arrivals.at(-1)?.event['svcpurpose'], 'test');
    endpoint.respondWith(404);
    const bad = await shell.leat(words);
    assert.equal(bad.code, 1);
    assert.match(bad.stdout, /failed +\d+ ms {2}404/);
    assert.match(bad.stderr, /The event was not delivered\.\n$/);
    await patchStream(leat, stream, { status: 'disabled' });
    const off = await shell.leat(words);
    assert.equal(off.code, 5);
    assert.match(off.stderr, /The event stream is disabled\.\nEnable it first/);
  });

  test('leat stats: draws deliveries and failures', { tags: ['long'] }, async (t) => {
    const { shell, endpoint, stream } = await createFailures(t, 3);
    endpoint.respondWith(204);
    await shell.leat(['redeliver', stream]);
    const { code, stdout } = await shell.leat(['stats', stream, '--since', '5h']);
    assert.equal(code, 0);
    assert.match(stdout, /\d {2}█+▒+\n/);
    assert.match(stdout, /\n3 delivered, 3 failed\n$/);
    const json = await shell.leat(['stats', stream, '--json']);
    const { metrics } = JSON.parse(json.stdout) as { metrics: { window_total: number }[] };
    assert.deepEqual(
      metrics.map((metric) => metric.window_total),
      [3, 3],
    );
  });
});
