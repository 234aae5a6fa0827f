import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { requestLine, statusOf } from '../../src/cli/listen.ts';
import { plain } from '../../src/cli/terminal/terminal.ts';
import { makeSecret, sign } from '../../src/core/sign.ts';
import { createStream, freshType, patchStream, publish } from '../helpers/api-client.ts';
import { end, waitFor } from '../helpers/leat.ts';
import { openLoggedInShell, openServer, openShell, type Started } from './shell.ts';

const secret = makeSecret(() => new Uint8Array(32).fill(9));

describe('leat listen', { concurrency: 2 }, () => {
  let leat: Awaited<ReturnType<typeof openServer>>;
  before(async () => {
    leat = await openServer({ LEAT_RETRY_DELAYS_MS: '10,10,10' });
  });
  after(() => leat.close());

  test('leat listen: receives events, checks their signatures, and fails as --fail says', async (t) => {
    const shell = await openLoggedInShell(t, leat);
    const type = freshType();
    const { id: stream } = await createStream(leat, 'http://127.0.0.1:9/', { types: [type] });
    const words = [
      'listen',
      '--port',
      '0',
      '--stream',
      stream,
      '--fail',
      '2',
      '--count',
      '3',
      '--body',
    ];
    const listening = shell.start(words);
    const url = await urlOf(listening);
    assert.match(
      listening.stderr(),
      /LEAT_EGRESS_ALLOW=127\.0\.0\.1 and LEAT_ALLOW_HTTP_ENDPOINTS=true/,
    );
    const configuration = {
      webhook_endpoint: url,
      webhook_authorization: { method: 'bearer', token: 'a' },
    };
    await patchStream(leat, stream, { destination: { type: 'webhook', configuration } });
    const event = await publish(leat, type, { text: '\u009B' });
    const { code, stdout } = await listening.ended();
    assert.equal(code, 0);
    const line = (status: number) => `${type}\\s+${event}  signature valid  → ${status}\n`;
    assert.match(stdout, new RegExp(`${line(503)}[^]*${line(503)}[^]*${line(204)}`));
    assert.match(stdout, /"text": "\\u009b"/);
  });

  test(
    'leat listen: checks v1a of a stream with the published keys of the tenant',
    { tags: ['long'] },
    async (t) => {
      const shell = await openLoggedInShell(t, leat);
      const type = freshType();
      const { id: stream } = await createStream(leat, 'http://127.0.0.1:9/', { types: [type] });
      const words = ['listen', '--port', '0', '--stream', stream, '--count', '4', '--json'];
      const listening = shell.start(words);
      const url = await urlOf(listening);
      const configuration = {
        webhook_endpoint: url,
        webhook_authorization: { method: 'bearer', token: 'a' },
      };
      const destination = { type: 'webhook', configuration };
      for (const [index, signature] of ['v1a', 'v1 v1a'].entries()) {
        await patchStream(leat, stream, { destination, delivery: { signature } });
        await publish(leat, type);
        await waitFor('the request', () => linesOf(listening.stdout()).length > index);
      }
      assert.deepEqual(await postSigned(url, { 'webhook-key-id': 'of-a-stranger' }), 401);
      assert.deepEqual(await postSigned(url, {}), 401);
      const { code, stdout } = await listening.ended();
      assert.equal(code, 0);
      assert.deepEqual(
        linesOf(stdout).map(({ signature, status }) => [signature, status]),
        [
          ['valid', 204],
          ['valid', 204],
          ['unknown key', 401],
          ['unknown key', 401],
        ],
      );
    },
  );

  test('leat listen: says why it cannot check v1a', async (t) => {
    const shell = await openShell(t);
    const listening = shell.start(['listen', '--port', '0', '--secret', secret, '--count', '2']);
    const url = await urlOf(listening);
    assert.equal(await postSigned(url, { 'webhook-key-id': 'a' }), 401);
    assert.equal(await postSigned(url, { 'webhook-key-id': 'a' }), 401);
    const { stdout, stderr } = await listening.ended();
    assert.match(stdout, /signature unchecked {2}→ 401\n.*signature unchecked {2}→ 401\n$/);
    assert.equal(stderr.split('Only --stream checks v1a').length, 2, 'said once');
  });

  test(
    'leat listen: says that the keys of the tenant cannot be read',
    { tags: ['long'] },
    async (t) => {
      const server = await openServer();
      t.after(() => server.close());
      const shell = await openLoggedInShell(t, server);
      const { id: stream } = await createStream(server, 'http://127.0.0.1:9/');
      const listening = shell.start(['listen', '--port', '0', '--stream', stream, '--count', '1']);
      const url = await urlOf(listening);
      await server.stop();
      assert.equal(await postSigned(url, { 'webhook-key-id': 'a' }), 401);
      const { stdout, stderr } = await listening.ended();
      assert.match(stdout, /signature unchecked {2}→ 401\n$/);
      assert.match(
        stderr,
        /The keys at http:\S+\/\.well-known\/webhook-keys\.json cannot be read, so v1a is not checked: /,
      );
    },
  );

  test('leat listen: rejects wrong signatures, and prints one JSON per line with --json', async (t) => {
    const shell = await openShell(t);
    await writeFile(join(shell.home, 'secret'), `${secret}\n`);
    const listening = shell.start(['listen', '--port', '0', '--secret-file', 'secret', '--json']);
    const url = await urlOf(listening);
    const now = Math.floor(Date.now() / 1000);
    const body = '{"id":"evt_1","type":"a.b"}';
    const post = async (signature: string, timestamp = now) => {
      const headers = {
        'webhook-id': 'evt_1',
        'webhook-timestamp': String(timestamp),
        'webhook-signature': signature,
      };
      return (await fetch(url, { method: 'POST', body, headers })).status;
    };
    assert.equal(await post(sign([secret], 'evt_1', now, body)), 204);
    assert.equal(await post(sign([secret], 'evt_2', now, body)), 401);
    assert.equal(await post(sign([secret], 'evt_1', now - 400, body), now - 400), 401);
    assert.equal((await fetch(url, { method: 'POST', body: 'no json' })).status, 401);
    assert.equal((await fetch(url, { method: 'POST', body: 'x'.repeat(2_000_000) })).status, 413);
    await end(listening.child, 'SIGINT');
    const { code, stdout } = await listening.ended();
    assert.equal(code, 130);
    const lines = stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as Line);
    assert.deepEqual(
      lines.map(({ signature, status }) => [signature, status]),
      [
        ['valid', 204],
        ['wrong', 401],
        ['too old', 401],
        ['missing', 401],
      ],
    );
    assert.deepEqual([lines[0]?.event, lines[3]?.event], [JSON.parse(body), 'no json']);
  });

  test('leat listen: reports a port in use and an invalid secret', async (t) => {
    const shell = await openShell(t);
    const taken = await shell.leat(['listen', '--port', String(leat.port)]);
    assert.equal(taken.code, 1);
    assert.match(taken.stderr, /is in use: choose another with --port, or --port 0\./);
    const none = await shell.leat(['listen', '--secret', 'whsec_x']);
    assert.equal(none.code, 2);
    assert.ok(!none.stderr.includes('whsec_x '), none.stderr);
    const port = await shell.leat(['listen', '--port', '80a']);
    assert.equal(port.code, 2);
  });
});

test('leat listen keeps running when a sender disconnects within a request', async (t) => {
  const shell = await openShell(t);
  const listening = shell.start(['listen', '--port', '0', '--count', '2']);
  await waitFor('an address', () => listening.stderr().includes('Listening'));
  const port = Number(/:(\d+)\//.exec(listening.stderr())?.[1]);
  const sender = connect(port, '127.0.0.1');
  sender.write('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nabc', () =>
    sender.destroy(),
  );
  await waitFor('the abort', () => listening.stderr().includes('The sender aborted a request.'));
  const { status } = await fetch(`http://127.0.0.1:${port}/`, { method: 'POST', body: '{}' });
  assert.equal(status, 204);
  const { code, stdout } = await listening.ended();
  assert.equal(code, 0);
  assert.match(stdout, /→ 204\n$/);
});

describe('the response of leat listen', () => {
  test('statusOf: returns 204, the status of the options, or 401 for a wrong signature', () => {
    assert.equal(statusOf({}, 1, undefined), 204);
    assert.equal(statusOf({ status: 503 }, 9, 'valid'), 503);
    assert.deepEqual(
      [1, 2, 3].map((number) => statusOf({ fail: 2 }, number, 'valid')),
      [503, 503, 204],
    );
    assert.equal(statusOf({ fail: 1, status: 410 }, 1, undefined), 410);
    assert.equal(statusOf({ status: 200 }, 1, 'wrong'), 401);
  });

  test('requestLine: returns one line, with control characters escaped', () => {
    const received = {
      time: '2026-03-01T09:30:00.000Z',
      signature: undefined,
      status: 204,
      path: '/a\u001B',
    };
    assert.equal(
      requestLine({ ...received, event: undefined }, plain),
      '09:30:00  no event                /a\\u{1b}  → 204',
    );
    const event = { type: 'a\u009B', id: 'b\n' };
    assert.equal(
      requestLine({ ...received, event, signature: 'wrong', status: 401 }, plain),
      '09:30:00  a\\u{9b}                 b\\n  signature wrong  → 401',
    );
  });
});

/** Posts a webhook with a signature `v1a` of no key; returns the status. */
async function postSigned(url: string, more: Readonly<Record<string, string>>): Promise<number> {
  const headers = {
    'webhook-id': 'evt_1',
    'webhook-timestamp': String(Math.floor(Date.now() / 1000)),
    'webhook-signature': `v1a,${Buffer.alloc(64).toString('base64')}`,
    ...more,
  };
  return (await fetch(url, { method: 'POST', body: '{}', headers })).status;
}

function linesOf(stdout: string): Line[] {
  const whole = stdout.slice(0, stdout.lastIndexOf('\n') + 1).trimEnd();
  return whole === '' ? [] : whole.split('\n').map((line) => JSON.parse(line) as Line);
}

interface Line {
  readonly signature: string;
  readonly status: number;
  readonly event: unknown;
}

async function urlOf(listening: Started): Promise<string> {
  return waitFor('the listener', () => /http:\/\/127\.0\.0\.1:\d+\//.exec(listening.stderr())?.[0]);
}
