import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import { after, before, describe, test } from 'node:test';
import { createStream, freshType, publish } from '../helpers/api-client.ts';
import { startEndpoint } from '../helpers/endpoint.ts';
import { waitFor } from '../helpers/wait.ts';
import { openLoggedInShell, openServer } from './shell.ts';

describe('failures over all streams', () => {
  let leat: Awaited<ReturnType<typeof openServer>>;
  before(async () => {
    leat = await openServer({ LEAT_RETRY_DELAYS_MS: '10' });
  });
  after(() => leat.close());

  test('failures: by stream and cause; listed, redelivered and dismissed by cause', async (t) => {
    const shell = await openLoggedInShell(t, leat);
    const [busy, gone] = [await startEndpoint(), await startEndpoint()];
    t.after(() => Promise.all([busy.close(), gone.close()]));
    busy.respondWith(503);
    gone.respondWith(404);
    const type = freshType();
    const one = await createStream(leat, busy.url, { types: [type] });
    const two = await createStream(leat, gone.url, { types: [type] });
    const events = [await publish(leat, type), await publish(leat, type)];
    const counts = async () => {
      const { stdout } = await shell.leat(['failures', '--json']);
      const groups = JSON.parse(stdout) as { name: string; error_code: string; count: number }[];
      return groups
        .map(({ name, error_code: code, count }) => `${name} ${code} ${count}`)
        .toSorted();
    };
    const all = [`${one.name} http_503 2`, `${two.name} http_404 2`].toSorted();
    await waitFor('the failures', async () => (await counts()).join() === all.join());
    const shown = await shell.leat(['failures']);
    assert.match(shown.stdout, new RegExp(`^${one.name} +http_503 +2 `, 'm'));
    const byCause = await shell.leat(['failures', '--by', 'cause']);
    assert.match(byCause.stdout, /^http_404 +2 .* 1$/m);
    const byStream = await shell.leat(['failures', '--by', 'stream', '--cause', '5xx']);
    assert.match(byStream.stdout, new RegExp(`^${one.name} +2 .*http_503 2$`, 'm'));
    assert.ok(!byStream.stdout.includes(two.name));

    const list = ['deliveries', 'list', '--all', '--status', '503', '--failed-since', '1h'];
    const listed = await shell.leat(list);
    assert.equal(listed.stdout.split('\n').filter((line) => line.startsWith('evt_')).length, 2);
    for (const event of events)
      assert.match(listed.stdout, new RegExp(`^${event} +${one.name} `, 'm'));
    const none = await shell.leat(['deliveries', 'list', two.name, '--status', '503']);
    assert.match(none.stderr, /No failures/);
    assert.equal((await shell.leat(['deliveries', 'list'])).code, 2);

    const dry = await shell.leat(['redeliver', '--cause', 'http_503', '--dry-run']);
    assert.equal(dry.stdout, `2 failures would be sent again.\n  ${one.name}: 2 http_503\n`);
    busy.respondWith(204);
    const redelivered = await shell.leat(['redeliver', '--cause', '503']);
    assert.deepEqual([redelivered.code, redelivered.stdout], [0, '2 of 2 failures delivered.\n']);
    assert.deepEqual(await counts(), [`${two.name} http_404 2`]);
    assert.equal((await shell.leat(['redeliver'])).code, 2);
    const dismissed = await shell.leat(['dismiss', '--cause', '4xx']);
    assert.equal(dismissed.stdout, '2 failures dismissed.\n');
    assert.match((await shell.leat(['failures'])).stderr, /No failures/);
  });

  test('redeliveries: listed, shown and cancelled while they go on without their command', async (t) => {
    const shell = await openLoggedInShell(t, leat);
    const endpoint = await startEndpoint();
    t.after(() => endpoint.close());
    endpoint.respondWith(404);
    const type = freshType();
    const { name } = await createStream(leat, endpoint.url, { types: [type] });
    await publish(leat, type);
    await waitFor('the failure', async () =>
      (await shell.leat(['failures', '--stream', name])).stdout.includes('http_404'),
    );
    const none = await shell.leat(['redeliveries', 'show', `rdl_${'1'.repeat(22)}`]);
    assert.equal(none.code, 4, none.stderr);
    // Its attempt is under way until the test ends it.
    const held: ServerResponse[] = [];
    endpoint.respondWith((response) => held.push(response));
    const started = await shell.leat(['redeliver', '--type', type, '--no-wait', '--json']);
    const { id } = JSON.parse(started.stdout) as { readonly id: string };
    const listed = await shell.leat(['redeliveries', 'list']);
    assert.match(listed.stdout, new RegExp(`^${id} +running +1 +0 +0 +0 `, 'm'));
    const shown = await shell.leat(['redeliveries', 'show', id]);
    assert.match(shown.stdout, /^Status +running\nFailures +1\nDelivered +0\n/m);
    const cancelled = await shell.leat(['redeliveries', 'cancel', id]);
    assert.deepEqual([cancelled.code, cancelled.stdout], [0, 'Cancelled the redelivery.\n']);
    const end = await shell.leat(['redeliveries', 'show', id, '--json']);
    assert.equal((JSON.parse(end.stdout) as { status: string }).status, 'cancelled');
    // Another test counts all failures, so this one has to end.
    endpoint.respondWith(204);
    for (const response of held) response.writeHead(204).end();
    await waitFor('the end of the failure', async () =>
      (await shell.leat(['failures', '--stream', name])).stderr.startsWith('No failures'),
    );
  });

  test('failures: what fails again ends the command with an error; a cause that is none is refused', async (t) => {
    const shell = await openLoggedInShell(t, leat);
    const endpoint = await startEndpoint();
    t.after(() => endpoint.close());
    endpoint.respondWith(500);
    const type = freshType();
    const { name } = await createStream(leat, endpoint.url, { types: [type] });
    const event = await publish(leat, type);
    await waitFor('the failure', async () =>
      (await shell.leat(['failures', '--stream', name])).stdout.includes('http_500'),
    );
    const again = await shell.leat(['redeliver', name, '--cause', '500', '--json']);
    assert.equal(again.code, 1);
    assert.equal((JSON.parse(again.stdout) as { failed: number }).failed, 1);
    assert.match(again.stderr, /1 failed again: leat failures shows why/);
    const wrong = await shell.leat(['redeliver', name, '--cause', 'http_9']);
    assert.equal(wrong.code, 2);
    assert.match(wrong.stderr, /Statuses or codes/);
    const dismissed = await shell.leat(['dismiss', name, event]);
    assert.equal(dismissed.code, 0, dismissed.stderr);
  });

  test('failures: where none match, nothing is said to be running', async (t) => {
    const shell = await openLoggedInShell(t, leat);
    const endpoint = await startEndpoint();
    t.after(() => endpoint.close());
    const { name } = await createStream(leat, endpoint.url);
    const none = ['--cause', '418'];
    for (const words of [none, [name], [name, '--all'], [name, ...none], ['--all', ...none]]) {
      for (const wait of [[], ['--no-wait']]) {
        const ended = await shell.leat(['redeliver', ...words, ...wait]);
        const stdout = 'No failures; nothing to send again.\n';
        assert.deepEqual(ended, { code: 0, stdout, stderr: '' }, words.join(' '));
      }
    }
    for (const words of [none, [name, '--all', '--yes'], [name, 'evt_1pAnEkMv7kQ65FqHehLVLY']]) {
      const ended = await shell.leat(['dismiss', ...words]);
      const stdout = 'No failures; nothing to dismiss.\n';
      assert.deepEqual(ended, { code: 0, stdout, stderr: '' }, words.join(' '));
    }
  });

  test('failures: the next commands take each name of a stream as one word, and keep the selection', async (t) => {
    const shell = await openLoggedInShell(t, leat);
    const endpoint = await startEndpoint();
    t.after(() => endpoint.close());
    endpoint.respondWith(404);
    const type = freshType();
    const { id, name } = await createStream(leat, endpoint.url, {
      name: `my $(reboot); 'stream' ${freshType()}`,
      types: [type],
    });
    const event = await publish(leat, type);
    const hints = async (...words: string[]): Promise<string> => {
      const { code, stderr } = await shell.leat(words);
      assert.ok(code === 0 || code === 1, stderr);
      return stderr;
    };
    await waitFor('the failure', async () =>
      (await shell.leat(['failures', '--stream', name])).stdout.includes('http_404'),
    );
    assert.equal(
      await hints('failures', '--stream', name),
      `What they are: leat deliveries list ${id} --status http_404\n` +
        `Send them again: leat redeliver ${id} --cause http_404 --dry-run\n`,
    );
    const shown = await hints('deliveries', 'list', name, '--type', type, '--since', '2000-01-01');
    assert.equal(
      shown,
      `Send them again: leat redeliver ${id} --type ${type} --since 2000-01-01T00:00:00.000Z\n`,
    );
    assert.equal(await hints('why', event), `Send it again: leat redeliver ${id} ${event}\n`);
    assert.match(
      await hints('redeliver', name),
      /^Redelivery rdl_\w+ is running; .*\n1 failed again: leat failures shows why\.\n$/,
    );
    const { stderr } = await shell.leat(['failures', '--profile', "it's; reboot"]);
    assert.match(stderr, /leat login <url> --profile 'it'\\''s; reboot'/);
    await leat.send('DELETE', `/api/v2/event-streams/${id}`);
  });
});
