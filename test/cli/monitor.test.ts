import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFile, stat, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { after, before, describe, test, type TestContext } from 'node:test';
import type { StreamAlertBody } from '../../src/alerting/alert-body.ts';
import { type AlertReceiver, startAlertReceiver } from '../helpers/alerts.ts';
import {
  createStream,
  eventsOf,
  freshType,
  patchStream,
  publishAll,
  type StreamBody,
  waitForStats,
} from '../helpers/api-client.ts';
import { type Endpoint, startEndpoint, text } from '../helpers/endpoint.ts';
import { end, type Running, waitFor } from '../helpers/leat.ts';
import { startMailServer } from '../helpers/smtp.ts';
import { logIn, openLoggedInShell, openServer, openShell, type Shell } from './shell.ts';

let leat: Running & { close(): Promise<void> };
let endpoint: Endpoint;

before(async () => {
  endpoint = await startEndpoint(text(404, 'body-of-the-receiver'));
  leat = await openServer({ LEAT_RETRY_DELAYS_MS: '0', LEAT_DISABLE_CONSECUTIVE: '6' });
});
after(async () => {
  await leat.close();
  await endpoint.close();
});

interface Fixture {
  readonly shell: Shell;
  readonly chat: AlertReceiver;
  readonly stream: StreamBody & { readonly type: string };
  readonly state: string;
}

/** Creates a shell that is logged in, a chat tool, and a stream whose deliveries all fail. */
async function open(t: TestContext): Promise<Fixture> {
  const chat = await startAlertReceiver();
  t.after(() => chat.close());
  const shell = await openLoggedInShell(t, leat);
  const type = freshType();
  const stream = { ...(await createStream(leat, endpoint.url, { types: [type] })), type };
  t.after(() => leat.send('DELETE', `/api/v2/event-streams/${stream.id}`));
  return { shell, chat, stream, state: join(shell.home, 'state.json') };
}

async function fail(
  { stream }: Pick<Fixture, 'stream'>,
  count: number,
  total = count,
): Promise<void> {
  await publishAll(leat, eventsOf(stream.type, count));
  await waitForStats(leat, stream.id, { failed: total });
}

function brief(alerts: readonly StreamAlertBody[]): string[] {
  return alerts.map((alert) =>
    [alert.alert, alert.new_failures, alert.total_failures, alert.percent]
      .filter((part) => part !== undefined)
      .join(' '),
  );
}

describe('leat monitor --once', () => {
  test('leat monitor --once: reports only failures that are new since the previous run', async (t) => {
    const fixture = await open(t);
    const { shell, chat, stream, state } = fixture;
    const words = ['monitor', '--once', '--state', state, '--webhook-url', chat.url];
    await fail(fixture, 2);
    const first = await shell.leat(words);
    assert.deepEqual([first.code, first.stderr], [0, '']);
    const [alert, ...others] = chat.alerts(stream.id);
    assert.deepEqual(others, []);
    const link = `${leat.url}/console/failures?stream=${stream.id}`;
    assert.deepEqual(alert, {
      text: [
        `${stream.name}: 2 new delivery failures (2 open), last: 404`,
        '2 http_404 (404). The receiver knows no such endpoint.',
        `Next: \`leat failures --stream ${stream.name}\``,
        link,
      ].join('\n'),
      alert: 'delivery_failures',
      tenant: new URL(leat.url).host,
      stream: { id: stream.id, name: stream.name },
      new_failures: 2,
      total_failures: 2,
      last_error: '404',
      cause: {
        meaning: 'The receiver knows no such endpoint.',
        codes: [{ code: 'http_404', count: 2, sample: '404' }],
      },
      link,
      next_command: `leat failures --stream ${stream.name}`,
      time: alert?.time,
    });
    assert.doesNotMatch(first.stdout, /open failure: /);
    const [head, cause, next] = first.stdout
      .split('\n')
      .slice(first.stdout.split('\n').findIndex((line) => line.includes(stream.name)));
    assert.match(head ?? '', /: 2 new delivery failures \(2 open\), last: 404$/);
    assert.equal(cause, '  2 http_404 (404). The receiver knows no such endpoint.');
    assert.equal(next, `  Next: leat failures --stream ${stream.name}`);
    assert.match(
      first.stdout,
      / {2}\d+ streams?, \d+ disabled; \d+ open failures at \d+ of them, \d+ new\n$/,
    );
    const verbose = await shell.leat(['monitor', '--once', '--verbose']);
    assert.match(verbose.stdout, new RegExp(`open failure: ${stream.id} evt_\\w+ ${stream.type}`));
    assert.ok(!first.stdout.includes('body-of-the-receiver'));
    assert.equal((await stat(state)).mode & 0o777, 0o600);

    const quiet = await shell.leat(words);
    assert.deepEqual([quiet.code, quiet.stdout], [0, '']);
    await fail(fixture, 1, 3);
    await shell.leat(words);
    assert.deepEqual(brief(chat.alerts(stream.id)), [
      'delivery_failures 2 2',
      'delivery_failures 1 3',
    ]);
  });

  test('leat monitor --once: reports thresholds of the given limits, and a stream that was disabled', async (t) => {
    const fixture = await open(t);
    const { shell, chat, stream, state } = fixture;
    const words = ['monitor', '--once', '--state', state, '--webhook-url', chat.url];
    const limits = ['--disable-total', '6', '--disable-consecutive', '6'];
    await fail(fixture, 3);
    await shell.leat([...words, ...limits]);
    await fail(fixture, 3, 6);
    await shell.leat([...words, ...limits]);
    await patchStream(leat, stream.id, { status: 'enabled' });
    await patchStream(leat, stream.id, { status: 'disabled' });
    await shell.leat([...words, ...limits]);
    assert.deepEqual(brief(chat.alerts(stream.id)), [
      'delivery_failures 3 3',
      'threshold_near 3 3 50',
      'stream_disabled 3 6',
    ]);
  });

  test('leat monitor --once: stores unsent alerts for the next run, and exits with 6', async (t) => {
    const fixture = await open(t);
    const { shell, chat, stream, state } = fixture;
    const words = [
      'monitor',
      '--once',
      '--state',
      state,
      '--webhook-url',
      `${chat.url}/secret-path`,
    ];
    await fail(fixture, 1);
    chat.respondWith(500);
    const refused = await shell.leat(words);
    assert.equal(refused.code, 6);
    assert.match(refused.stderr, /could not be sent to the webhook \(status 500\)/);
    assert.ok(!`${refused.stdout}${refused.stderr}`.includes('secret-path'));
    chat.respondWith(200);
    assert.equal((await shell.leat(words)).code, 0);
    assert.equal((await shell.leat(words)).code, 0);
    assert.deepEqual(brief(chat.alerts(stream.id)), ['delivery_failures 1 1']);
  });

  test('leat monitor --once: prints open failures as JSON lines with --json, without a channel and a state', async (t) => {
    const fixture = await open(t);
    await fail(fixture, 1);
    const { code, stdout } = await fixture.shell.leat(['monitor', '--once', '--json']);
    assert.equal(code, 0);
    const lines = stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    const own = lines.filter((line) => JSON.stringify(line).includes(fixture.stream.id));
    assert.deepEqual(
      own.map(({ level, msg }) => [level, msg]),
      [
        ['info', 'open failure'],
        ['error', `${fixture.stream.name}: 1 new delivery failure (1 open), last: 404`],
      ],
    );
    assert.deepEqual([own[0]?.['attempts'], own[0]?.['last_error']], [1, '404']);
  });

  test('leat monitor --once: rejects invalid options, and never prints a secret address', async (t) => {
    const { shell, state } = await open(t);
    const cases: [words: string[], code: number, text: RegExp][] = [
      [['--email', 'ops@example.com'], 2, /--email and --smtp-url go together/],
      [['--webhook-url', 'hooks.example.com/secret-path'], 2, /is not an http/],
      [['--interval', '0'], 2, /not a whole number from 1 to 86400/],
      [['--state', join(shell.home, 'no', 'folder')], 2, /cannot be written \(ENOENT\)/],
    ];
    for (const [words, code, message] of cases) {
      const ended = await shell.leat(['monitor', '--once', ...words]);
      assert.equal(ended.code, code, ended.stderr);
      assert.match(ended.stderr, message);
    }
    const env = { LEAT_ALERT_WEBHOOK_URL: 'ftp://secret-path' };
    const ended = await shell.leat(['monitor', '--once'], { env });
    assert.match(ended.stderr, /^LEAT_ALERT_WEBHOOK_URL is not an http/);
    assert.ok(!ended.stderr.includes('secret-path'));
    for (const stored of [
      '{}',
      '[1',
      '{"version":1,"server":"https://other","alarm":{"streams":{}},"outbox":{}}',
    ]) {
      await writeFile(state, stored);
      const other = await shell.leat(['monitor', '--once', '--state', state]);
      assert.equal(other.code, 2);
      assert.match(other.stderr, /(was not written by the monitor|belongs to https:\/\/other)/);
      assert.equal(await readFile(state, 'utf8'), stored);
    }
  });
});

describe('leat monitor', () => {
  test(
    'leat monitor: polls repeatedly, posts and mails alerts, and ends at Ctrl-C',
    { tags: ['long'] },
    async (t) => {
      const fixture = await open(t);
      const { shell, chat, stream } = fixture;
      const mails = await startMailServer({ login: { user: 'leat', pass: 'mail-secret' } });
      t.after(() => mails.close());
      const running = shell.start(['monitor', '--interval', '1', '--email', 'ops@example.com'], {
        env: {
          LEAT_ALERT_WEBHOOK_URL: chat.url,
          LEAT_SMTP_URL: `smtp://leat:mail-secret@127.0.0.1:${mails.port}`,
        },
      });
      await fail(fixture, 1);
      await chat.waitFor(stream.id, 1);
      const subjects = (): (string | undefined)[] =>
        mails.mails
          .map(({ parsed }) => parsed.subject)
          .filter((subject) => subject?.includes(stream.name));
      await waitFor('the mail', () => subjects().length === 1);
      chat.respondWith(503);
      await fail(fixture, 1, 2);
      await waitFor('a refusal', () => running.stderr().includes('(status 503)'));
      chat.respondWith(200);
      await chat.waitFor(stream.id, 2);
      await fail(fixture, 4, 6);
      await waitFor('the disabling', () =>
        chat.alerts(stream.id).some(({ alert }) => alert === 'stream_disabled'),
      );
      await end(running.child, 'SIGINT');
      const { code, stdout, stderr } = await running.ended();
      assert.equal(code, 130);
      assert.ok(!`${stdout}${stderr}`.includes('mail-secret'));
      const reported = chat.alerts(stream.id).filter(({ alert }) => alert !== 'threshold_near');
      assert.equal(
        reported.reduce((sum, { new_failures: count }) => sum + count, 0),
        6,
      );
    },
  );

  test(
    'leat monitor: stays below the rate limit of the server and still reports every failure',
    { tags: ['long'] },
    async (t) => {
      const strict = await openServer({
        LEAT_RETRY_DELAYS_MS: '0',
        LEAT_RATE_LIMIT_BURST: '12',
        LEAT_RATE_LIMIT_PER_SECOND: '10',
      });
      t.after(() => strict.close());
      const chat = await startAlertReceiver();
      t.after(() => chat.close());
      const shell = await openShell(t);
      const type = freshType();
      const ids: string[] = [];
      while (ids.length < 15) {
        const made = await createStream(strict, endpoint.url, { types: [type] }).catch(
          () => undefined,
        );
        if (made !== undefined) ids.push(made.id);
      }
      await waitFor('the rate limit to allow a publish', () =>
        publishAll(strict, eventsOf(type, 1)).catch(() => false),
      );
      assert.equal(
        (
          await waitFor('the rate limit to allow a login', async () => {
            const login = await logIn(shell, strict);
            return login.code === 0 ? login : undefined;
          })
        ).code,
        0,
      );
      const words = ['monitor', '--interval', '1', '--webhook-url', chat.url];
      const running = shell.start(words);
      await waitFor('every alert', () => ids.every((id) => chat.alerts(id).length === 1), {
        progress: () => chat.arrivals.length,
      });
      assert.doesNotMatch(running.stderr(), /poll failed/);
    },
  );

  test('leat monitor: works with a server that returns bare arrays', async (t) => {
    const failures = Array.from({ length: 150 }, (_, index) => ({
      id: `evt_${index}`,
      event_type: 'user.created',
      status: 'failed',
      attempts: [{ status: 'failed', timestamp: 'x', error_message: 'Bad Gateway: details' }],
    }));
    const requested: string[] = [];
    const server = createServer((request, response) => {
      const url = new URL(request.url ?? '', 'http://localhost');
      const respond = (body: unknown): void => {
        response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body));
      };
      if (url.pathname === '/oauth/token') respond({ access_token: 'token', expires_in: 60 });
      else if (url.pathname === '/api/v2/event-streams') {
        respond([{ id: 'est_1', name: 'crm', status: 'enabled' }]);
      } else {
        const from = url.searchParams.get('from');
        requested.push(from ?? '');
        const start = failures.findIndex(({ id }) => id === from) + 1;
        respond(failures.slice(start, start + 100));
      }
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    t.after(() => server.close());
    const { port } = server.address() as { port: number };
    const shell = await openShell(t);
    const env = {
      LEAT_URL: `http://127.0.0.1:${port}`,
      LEAT_CLIENT_ID: 'id',
      LEAT_CLIENT_SECRET: 'secret',
    };
    const { code, stdout, stderr } = await shell.leat(['monitor', '--once'], { env });
    assert.equal(code, 0, stderr);
    assert.deepEqual(requested, ['', 'evt_99']);
    assert.match(stdout, /crm: 150 new delivery failures \(150 open\), last: Bad Gateway\n/);
    assert.ok(!stdout.includes(': details'));
  });
});
