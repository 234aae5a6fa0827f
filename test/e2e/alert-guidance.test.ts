import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { chmod, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import { promisify } from 'node:util';
import type { AlertKind } from '../../src/alerting/alert.ts';
import { guidanceOf } from '../../src/alerting/guidance.ts';
import { openLoggedInShell } from '../cli/shell.ts';
import { alertExamples, type AlertReceiver, startAlertReceiver } from '../helpers/alerts.ts';
import {
  createStream,
  eventsOf,
  freshType,
  publishAll,
  readStream,
  waitForFailures,
} from '../helpers/api-client.ts';
import { type Endpoint, startEndpoint, text } from '../helpers/endpoint.ts';
import {
  compileCache,
  createTempStore,
  leatProgram,
  type Running,
  startLeat,
  storeEnvironment,
  waitFor,
} from '../helpers/leat.ts';
import { startMailServer } from '../helpers/smtp.ts';

/** Alerts of the running program: their links are fetched and their commands typed into a shell. */
interface Fixture {
  readonly leat: Running;
  readonly chat: AlertReceiver;
  readonly endpoint: Endpoint;
  /** Runs a line in `sh`, in a folder of its own, where `leat` is the program and logged in. */
  type(line: string): Promise<{ readonly code: number; readonly output: string }>;
  /** Files that commands have left in that folder. */
  files(): Promise<readonly string[]>;
}

async function openFixture(
  t: TestContext,
  settings: Readonly<Record<string, string>> = {},
): Promise<Fixture> {
  const tempStore = await createTempStore();
  const chat = await startAlertReceiver();
  const endpoint = await startEndpoint(text(503, 'text-of-the-receiver'));
  const leat = await startLeat(tempStore, {
    LEAT_RETRY_DELAYS_MS: '0',
    LEAT_MONITOR_INTERVAL_SECONDS: '1',
    LEAT_ALERT_WEBHOOK_URL: chat.url,
    ...settings,
  });
  t.after(async () => {
    await leat.kill();
    await Promise.all([chat.close(), endpoint.close()]);
    await tempStore.remove();
  });
  const { home } = await openLoggedInShell(t, leat);
  const program = join(home, 'leat');
  await writeFile(program, `#!/bin/sh\nexec '${process.execPath}' '${leatProgram}' "$@"\n`);
  await chmod(program, 0o755);
  const env = {
    ...storeEnvironment(tempStore),
    ...compileCache,
    PATH: `${home}:${process.env['PATH']}`,
    HOME: home,
    XDG_CONFIG_HOME: join(home, 'x'),
  };
  return {
    leat,
    chat,
    endpoint,
    type: async (line) => {
      try {
        const { stdout, stderr } = await promisify(execFile)('sh', ['-c', line], {
          cwd: home,
          env,
        });
        return { code: 0, output: stdout + stderr };
      } catch (error) {
        const { code, stdout, stderr } = error as { code: number; stdout: string; stderr: string };
        return { code, output: stdout + stderr };
      }
    },
    files: async () => (await readdir(home)).filter((name) => !['x', 'leat'].includes(name)),
  };
}

const hostileNames = [
  '--yes',
  '-h; touch pwned',
  "crm'; touch pwned; '",
  '$(touch pwned)',
  '`touch pwned`',
  '{"level":50} Bcc: evil@example.net',
];

describe('the guidance of an alert', () => {
  test(
    'hostile names of streams: the next command names the stream and runs nothing else',
    { tags: ['long'] },
    async (t) => {
      const mails = await startMailServer();
      t.after(() => mails.close());
      const fixture = await openFixture(t, {
        LEAT_ALERT_EMAIL: 'ops@example.com',
        LEAT_SMTP_URL: `smtp://127.0.0.1:${mails.port}`,
      });
      const { leat, chat, endpoint } = fixture;
      for (const [index, name] of hostileNames.entries()) {
        const type = freshType();
        const { id } = await createStream(leat, endpoint.url, { types: [type], name });
        await publishAll(leat, eventsOf(type, 1));
        const [alert] = await chat.waitFor(id, 1);
        assert.equal(alert?.next_command, `leat failures --stream ${id}`);
        const { code, output } = await fixture.type(alert.next_command);
        assert.equal(code, 0, output);
        assert.match(output, /http_503 +1 /);
        const mail = await mails.mail(index + 1);
        assert.deepEqual([mail.to, mail.parsed.bcc ?? []], [['ops@example.com'], []]);
        const lines = (mail.parsed.text ?? '').split('\n');
        assert.ok(
          lines.includes(
            'Cause         1 http_503 (503). The receiver is overloaded or unavailable.',
          ),
          mail.source,
        );
        assert.ok(lines.includes(`Link          ${alert.link}`));
        assert.ok(lines.includes(`Next command  ${alert.next_command}`));
        assert.ok(!mail.source.includes('text-of-the-receiver'));
      }
      assert.deepEqual(await fixture.files(), []);
    },
  );

  test(
    'a disabled stream: the next command of its alert enables it and sends what waits',
    { tags: ['long'] },
    async (t) => {
      const fixture = await openFixture(t, { LEAT_DISABLE_CONSECUTIVE: '2' });
      const { leat, chat, endpoint } = fixture;
      const type = freshType();
      const stream = await createStream(leat, endpoint.url, { types: [type] });
      await publishAll(leat, eventsOf(type, 2));
      const disabled = await waitFor('the alert', () =>
        chat.alerts(stream.id).find(({ alert }) => alert === 'stream_disabled'),
      );
      assert.deepEqual(disabled.cause, {
        meaning: 'The receiver is overloaded or unavailable.',
        codes: [{ code: 'http_503', count: 2, sample: '503' }],
      });
      await publishAll(leat, eventsOf(type, 1));
      endpoint.respondWith(204);
      const before = endpoint.arrivals.length;
      const { code, output } = await fixture.type(disabled.next_command);
      assert.equal(code, 0, output);
      assert.equal((await readStream(leat, stream.id)).status, 'enabled');
      await endpoint.arrival(before);
    },
  );

  test(
    'every kind of alert: its link is a page of the console and its next command succeeds',
    { tags: ['long'] },
    async (t) => {
      const fixture = await openFixture(t);
      const { leat, endpoint } = fixture;
      const type = freshType();
      const stream = await createStream(leat, endpoint.url, { types: [type], name: 'crm' });
      await publishAll(leat, eventsOf(type, 1));
      await waitForFailures(leat, stream.id, 1);
      /** What each command prints. */
      const printed: Readonly<Record<AlertKind, RegExp>> = {
        delivery_failures: /crm +http_503 +1 /,
        threshold_near: /0 failures would be sent again/,
        stream_disabled: /Status +enabled/,
        lag_near: /crm/,
        lag_disabled: /Status +enabled/,
        certificate_near: /Name +crm/,
        certificate_expired: /Name +crm/,
        results_refused: /crm/,
        clock_skew: /clock .*agrees with the store/,
        clock_step: /clock .*agrees with the store/,
        node_shortage: /alerts/,
        disk_full: /store/,
        store_went_back: /store/,
        test: /alerts/,
      };
      for (const [kind, { alert }] of Object.entries(alertExamples(stream))) {
        const { link, next_command: command } = guidanceOf(alert, `http://localhost:${leat.port}/`);
        // What the page shows: test/browser/console-alerts.test.ts.
        assert.match(link, /^http:\/\/localhost:\d+\/console\/\w+/);
        assert.equal((await fetch(link)).status, 200, link);
        const { code, output } = await fixture.type(command);
        assert.match(output, printed[kind as AlertKind], command);
        // The exit code of leat doctor is about everything it checks.
        if (command !== 'leat doctor') assert.equal(code, 0, output);
      }
    },
  );
});
