import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import {
  createStream,
  freshType,
  patchStream,
  publish,
  waitForStats,
} from '../helpers/api-client.ts';
import { startEndpoint } from '../helpers/endpoint.ts';
import { openLoggedInShell, openServer } from './shell.ts';

describe('leat replay', { concurrency: 2 }, () => {
  let leat: Awaited<ReturnType<typeof openServer>>;
  before(async () => {
    leat = await openServer({ LEAT_RETRY_DELAYS_MS: '10' });
  });
  after(() => leat.close());

  test(
    'leat replay: start sends retained events again and waits for the end',
    { tags: ['long'] },
    async (t) => {
      const shell = await openLoggedInShell(t, leat);
      const endpoint = await startEndpoint();
      t.after(() => endpoint.close());
      const type = freshType();
      const { id: stream, name } = await createStream(leat, endpoint.url, { types: [type] });
      const events = [await publish(leat, type), await publish(leat, type)];
      await waitForStats(leat, stream, { delivered: 2 });
      const { code, stdout, stderr } = await shell.leat(['replay', 'start', name, '--since', '1h']);
      assert.equal(code, 0, stderr);
      assert.match(stdout, /^Status +done\nFound +2\nDelivered +2\nFailed +0$/m);
      for (const event of events) assert.equal(endpoint.of(event).length, 2);
      const id = /^Replay +(?<id>rpl_\w+)$/m.exec(stdout)?.groups?.['id'] ?? '';
      const shown = await shell.leat(['replay', 'show', stream, id, '--json']);
      assert.equal((JSON.parse(shown.stdout) as { sent: number }).sent, 2);
      const absent = `rpl_${'1'.repeat(22)}`;
      const gone = await shell.leat(['replay', 'show', stream, absent]);
      assert.deepEqual([gone.code, gone.stderr], [4, `The replay does not exist: ${absent}\n`]);
    },
  );

  test('leat replay: start sends the named events again, also delivered ones, and list shows it', async (t) => {
    const shell = await openLoggedInShell(t, leat);
    const endpoint = await startEndpoint();
    t.after(() => endpoint.close());
    const type = freshType();
    const { id: stream, name } = await createStream(leat, endpoint.url, { types: [type] });
    const [first, second] = [await publish(leat, type), await publish(leat, type)];
    await waitForStats(leat, stream, { delivered: 2 });
    const none = await shell.leat(['replay', 'list', name]);
    assert.deepEqual([none.code, none.stderr], [0, 'No replays.\n']);
    const both = await shell.leat(['replay', 'start', name, first, '--since', '1h']);
    assert.equal(both.code, 2);
    assert.match(both.stderr, /Name events, or add --since, --from and --until: not both\./);
    const unknown = await shell.leat(['replay', 'start', name, first, `evt_${'1'.repeat(22)}`]);
    assert.equal(unknown.code, 1);
    assert.match(unknown.stderr, /The event log does not have evt_1{22}/);
    const { code, stdout, stderr } = await shell.leat(['replay', 'start', name, first]);
    assert.equal(code, 0, stderr);
    assert.match(stdout, /^Status +done\nFound +1\nDelivered +1\nFailed +0$/m);
    assert.equal(endpoint.of(first).length, 2);
    assert.equal(endpoint.of(second).length, 1);
    const { stdout: list } = await shell.leat(['replay', 'list', name]);
    assert.match(
      list,
      /^REPLAY +STATUS +FOUND +DELIVERED +FAILED +STARTED\nrpl_\w+ +done +1 +1 +0 /,
    );
    const why = await shell.leat(['why', first]);
    assert.match(
      why.stderr,
      new RegExp(`^Send it once more: leat replay start ${name} ${first}$`, 'm'),
    );
  });

  test(
    'leat replay: start exits with 1 when an event fails again',
    { tags: ['long'] },
    async (t) => {
      const shell = await openLoggedInShell(t, leat);
      const endpoint = await startEndpoint();
      t.after(() => endpoint.close());
      const type = freshType();
      const { id: stream } = await createStream(leat, endpoint.url, { types: [type] });
      await publish(leat, type);
      await waitForStats(leat, stream, { delivered: 1 });
      endpoint.respondWith(500);
      const { code, stdout, stderr } = await shell.leat([
        'replay',
        'start',
        stream,
        '--since',
        '1h',
      ]);
      assert.equal(code, 1);
      assert.match(stdout, /^Failed +1$/m);
      assert.match(stderr, /1 became failures: leat redeliver sends them again\.\n$/);
    },
  );

  test(
    'leat replay: start conflicts with a disabled stream and with a running replay, which cancel ends',
    { tags: ['long'] },
    async (t) => {
      const shell = await openLoggedInShell(t, leat);
      const endpoint = await startEndpoint();
      t.after(() => endpoint.close());
      const type = freshType();
      const { id: stream } = await createStream(leat, endpoint.url, { types: [type] });
      const event = await publish(leat, type);
      await waitForStats(leat, stream, { delivered: 1 });
      // Without a response the replay runs until it is cancelled.
      endpoint.respondWith(() => undefined);
      const words = ['replay', 'start', stream, '--since', '1h', '--no-wait', '--json'];
      const started = await shell.leat(words);
      assert.equal(started.code, 0, started.stderr);
      const { id } = JSON.parse(started.stdout) as { id: string };
      const second = await shell.leat(words);
      assert.equal(second.code, 5);
      assert.match(
        second.stderr,
        /already running\.".*"nextStep":"See how far it is: leat replay show/,
      );
      const cancelled = await shell.leat(['replay', 'cancel', stream, id]);
      assert.deepEqual([cancelled.code, cancelled.stdout], [0, 'Cancelled the replay.\n']);
      const shown = await shell.leat(['replay', 'show', stream, id, '--wait']);
      assert.match(shown.stdout, /^Status +cancelled$/m);
      await patchStream(leat, stream, { status: 'disabled' });
      const off = await shell.leat(words);
      assert.equal(off.code, 5);
      assert.match(off.stderr, /The event stream is disabled/);
      assert.ok(endpoint.of(event).length >= 1);
      assert.equal((await shell.leat(['replay', 'start', stream])).code, 2);
    },
  );
});
