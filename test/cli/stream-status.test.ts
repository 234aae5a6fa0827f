import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { CommandFailed } from '../../src/cli/errors.ts';
import { leatCommand } from '../../src/cli/leat-command.ts';
import { chosenResume, replayCommand } from '../../src/cli/stream-status.ts';
import { createStream, freshType, publish, readStream } from '../helpers/api-client.ts';
import { startEndpoint } from '../helpers/endpoint.ts';
import { waitFor } from '../helpers/wait.ts';
import { openLoggedInShell, openServer } from './shell.ts';
import { openTerminal } from './terminal/fixture.ts';

describe('leat streams: status', { concurrency: 2 }, () => {
  let leat: Awaited<ReturnType<typeof openServer>>;
  before(async () => {
    leat = await openServer({ LEAT_RETRY_DELAYS_MS: '10', LEAT_DISABLE_CONSECUTIVE: '1' });
  });
  after(() => leat.close());

  /** Creates a stream that a failure has disabled, and publishes events that wait. */
  async function openDisabled(t: Parameters<typeof openLoggedInShell>[0], waiting: number) {
    const shell = await openLoggedInShell(t, leat);
    const endpoint = await startEndpoint();
    t.after(() => endpoint.close());
    const type = freshType();
    const stream = await createStream(leat, endpoint.url, { types: [type] });
    endpoint.respondWith(503);
    await publish(leat, type);
    const isDisabled = async () => (await readStream(leat, stream.id)).status === 'disabled';
    await waitFor('the disabling of the stream', isDisabled);
    endpoint.respondWith(204);
    const events: string[] = [];
    for (let count = 0; count < waiting; count += 1) events.push(await publish(leat, type));
    return { shell, endpoint, stream, type, events };
  }

  test('pause and resume: what waits is sent after resume', async (t) => {
    const shell = await openLoggedInShell(t, leat);
    const endpoint = await startEndpoint();
    t.after(() => endpoint.close());
    const type = freshType();
    const { name } = await createStream(leat, endpoint.url, { types: [type] });
    const paused = await shell.leat(['streams', 'pause', name, '--reason', 'CRM upgrade']);
    assert.equal(paused.code, 0, paused.stderr);
    assert.match(paused.stdout, /^State +paused\nPaused +\d{4}-.*\nReason +CRM upgrade$/m);
    const event = await publish(leat, type);
    const health = await shell.leat(['streams', 'health', name]);
    assert.match(health.stdout, /^Waiting +1 event waits$/m);
    const resumed = await shell.leat(['streams', 'resume', name, '--json']);
    assert.equal((JSON.parse(resumed.stdout) as { paused: null }).paused, null);
    await waitFor('the event', () => endpoint.of(event).length === 1);
    const unknown = await shell.leat(['streams', 'pause', `est_${'1'.repeat(22)}`]);
    assert.equal(unknown.code, 4);
  });

  test(
    'enable: after an automatic disabling it wants --resume, and shows how many events wait',
    { tags: ['long'] },
    async (t) => {
      const { shell, stream, endpoint, events } = await openDisabled(t, 2);
      const refused = await shell.leat(['streams', 'enable', stream.name]);
      assert.deepEqual(
        [refused.code, refused.stderr],
        [
          2,
          'The stream was disabled automatically (consecutive_failures, last error http_503), and 2 events wait.\n' +
            'Add --resume held to send what waits, or --resume latest to skip it.\n',
        ],
      );
      assert.equal((await readStream(leat, stream.id)).status, 'disabled');
      const held = await shell.leat(['streams', 'enable', stream.name, '--resume', 'held']);
      assert.deepEqual([held.code, held.stderr], [0, '']);
      await waitFor('the events', () => events.every((event) => endpoint.of(event).length === 1));
    },
  );

  test(
    'enable: after latest it prints the command that sends exactly what was skipped',
    { tags: ['long'] },
    async (t) => {
      const { shell, stream, endpoint, type, events } = await openDisabled(t, 3);
      const enabled = await shell.leat(['streams', 'enable', stream.name, '--resume', 'latest']);
      assert.equal(enabled.code, 0, enabled.stderr);
      const [text, command = '', ...rest] = enabled.stderr.split('\n');
      assert.equal(
        text,
        '3 events published while it was disabled will not be sent. This sends them:',
      );
      assert.deepEqual(rest, ['']);
      const later = await publish(leat, type);
      await waitFor('the event after', () => endpoint.of(later).length === 1);
      for (const event of events) assert.equal(endpoint.of(event).length, 0);
      const [program, ...words] = command.split(' ');
      assert.equal(program, 'leat');
      const replayed = await shell.leat(words);
      assert.equal(replayed.code, 0, replayed.stderr);
      assert.match(replayed.stdout, /^Status +done\nFound +3\nDelivered +3\nFailed +0$/m);
      for (const event of events) assert.equal(endpoint.of(event).length, 1);
      assert.equal(endpoint.of(later).length, 1, 'nothing else is sent again');
    },
  );
});

describe('chosenResume', () => {
  const disabled = {
    reason: 'lag',
    at: '2026-03-01T09:30:00.000Z',
    last_error_code: null,
    waiting_events: 10_000,
    at_least: true,
  } as const;

  for (const [answer, chosen] of [
    ['held', 'held'],
    [' Latest ', 'latest'],
    ['', undefined],
    ['yes', undefined],
  ] as const) {
    test(`chosenResume: takes "${answer}" as ${chosen ?? 'no change'}`, async () => {
      const { terminal, stdin, written } = openTerminal();
      const reply = chosenResume({ terminal }, disabled);
      await setImmediate();
      stdin.write(`${answer}\n`);
      assert.equal(await reply, chosen);
      assert.match(written.error, /disabled automatically \(lag\), and at least 10000 events wait/);
    });
  }

  test('chosenResume: a stream that was disabled by hand, or is enabled, resumes with latest', async () => {
    const { terminal } = openTerminal({ isTTY: false });
    for (const known of [{ ...disabled, reason: 'by_hand' } as const, null, undefined]) {
      assert.equal(await chosenResume({ terminal }, known), 'latest');
    }
  });

  test('chosenResume: throws a usage error without a terminal', async () => {
    const { terminal } = openTerminal({ isTTY: false });
    await assert.rejects(
      chosenResume({ terminal }, disabled),
      (error) => error instanceof CommandFailed && error.exitCode === 2,
    );
  });
});

test('replayCommand: ends one millisecond after the range, and reaches the installation of the command', () => {
  const range = { from: 'MDAw', date: '2026-03-01T09:30:00.999Z' };
  assert.equal(
    replayCommand('est_1', range, leatCommand({ profile: "it's", ca: '/etc/ca.pem' })),
    String.raw`leat replay start est_1 --from MDAw --until 2026-03-01T09:30:01.000Z --profile 'it'\''s' --ca /etc/ca.pem`,
  );
});
