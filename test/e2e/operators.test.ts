import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { startAlertReceiver } from '../helpers/alerts.ts';
import { expectBody } from '../helpers/api-client.ts';
import { createTempStore, freePort, type Running, runLeat, startLeat } from '../helpers/leat.ts';
import { startMailServer } from '../helpers/smtp.ts';
import { createTenant, twoTenantsSettings } from '../helpers/tenants.ts';

const marker = 'hunter2';
const paths = [
  ['GET', '/nodes'],
  ['GET', '/settings'],
  ['POST', '/alerts/test'],
] as const;

interface Fixture {
  readonly leat: Running;
  readonly chat: Awaited<ReturnType<typeof startAlertReceiver>>;
  readonly mail: Awaited<ReturnType<typeof startMailServer>>;
  readonly file: string;
  readonly settings: Readonly<Record<string, string>>;
}

/** Starts Leat with alerts to a webhook and by mail; all its secrets have the marker. */
async function open(t: TestContext): Promise<Fixture> {
  const tempStore = await createTempStore();
  const chat = await startAlertReceiver();
  const login = { user: 'leat', pass: `${marker}-of-mail` };
  const mail = await startMailServer({ login });
  const settings = {
    ...twoTenantsSettings(await freePort()),
    LEAT_BOOTSTRAP_CLIENT_SECRET: `${marker}-of-the-operator`,
    LEAT_SECRET_KEY: Buffer.from(marker.repeat(5)).subarray(0, 32).toString('base64'),
    LEAT_ALERT_WEBHOOK_URL: `http://127.0.0.1:${chat.port}/T0/${marker}?t=${marker}`,
    LEAT_ALERT_EMAIL: 'ops@example.com',
    LEAT_SMTP_URL: `smtp://leat:${login.pass}@127.0.0.1:${mail.port}`,
  };
  const leat = await startLeat(tempStore, settings);
  t.after(async () => {
    await leat.kill();
    await Promise.all([chat.close(), mail.close()]);
    await tempStore.remove();
  });
  return { leat, chat, mail, file: tempStore.file, settings };
}

describe('the operations of operators', () => {
  test(
    'settings are those of leat config, and no response has a secret',
    { tags: ['long'] },
    async (t) => {
      const { leat, settings, chat } = await open(t);
      const texts = await Promise.all(
        paths.map(async ([method, path]) => (await leat.send(method, `/api/v2${path}`)).text()),
      );
      const hidden = [marker, settings['LEAT_SECRET_KEY'] ?? '', leat.token];
      for (const text of texts) for (const each of hidden) assert.ok(!text.includes(each), text);
      const body = JSON.parse(texts[1] ?? '') as {
        settings: { name: string; value: string | null; is_default: boolean; meaning: string }[];
        alert_channels: object[];
      };
      assert.deepEqual(body.alert_channels, [
        { channel: 'webhook', target: `http://127.0.0.1:${chat.port}/***` },
        { channel: 'email', target: 'ops@example.com' },
      ]);
      const value = (name: string) => body.settings.find((each) => each.name === name)?.value;
      assert.equal(value('LEAT_SECRET_KEY'), '***');
      assert.equal(value('LEAT_PORT'), String(leat.port));
      assert.equal(value('PORT'), '6060');
      const { output } = await runLeat(['config'], {});
      assert.deepEqual(
        output
          .trim()
          .split('\n')
          // The meaning has a line of its own after a long value.
          .filter((line) => !line.startsWith(' '))
          .map((line) => line.split(' ')[0]),
        body.settings.map(({ name }) => name),
      );
    },
  );

  test(
    'a test alert arrives at the webhook and by mail, and failures are reported by channel',
    { tags: ['long'] },
    async (t) => {
      const { leat, chat, mail } = await open(t);
      const send = () => expectBody(200, leat.send('POST', '/api/v2/alerts/test'));
      assert.deepEqual(await send(), {
        channels: [
          { channel: 'webhook', sent: true },
          { channel: 'email', sent: true },
        ],
      });
      const [alert, ...others] = chat.system();
      assert.deepEqual([alert?.alert, alert?.tenant, others], ['test', 'main', []]);
      assert.match(alert?.text ?? '', /^this is a test alert, nothing is wrong\n/);
      const { parsed, to, user } = await mail.mail(1);
      assert.deepEqual([to, user], [['ops@example.com'], 'leat']);
      assert.equal(parsed.subject, '[Leat main] this is a test alert, nothing is wrong');
      assert.match(parsed.text ?? '', /^Alert +test$/m);

      chat.respondWith(500);
      mail.refuse({ code: 550, text: `no such user ${marker}` });
      const failed = (await send()) as { channels: { error_message?: string }[] };
      assert.deepEqual(failed.channels, [
        { channel: 'webhook', sent: false, error_message: 'status 500' },
        { channel: 'email', sent: false, error_message: failed.channels[1]?.error_message },
      ]);
      assert.match(failed.channels[1]?.error_message ?? '', /^[^\n]+ 550$/);
      assert.ok(!JSON.stringify(failed).includes(marker));
      const logs = await expectBody<{ details: { path?: string } }[]>(
        200,
        leat.send('GET', '/api/v2/logs?types=sapi'),
      );
      const ofTests = logs.filter(({ details }) => details.path === '/api/v2/alerts/test');
      assert.equal(ofTests.length, 2);
      assert.ok(!JSON.stringify(logs).includes(marker));
    },
  );

  test(
    'without other channels the test alert is an entry of the log',
    { tags: ['long'] },
    async (t) => {
      const tempStore = await createTempStore();
      const leat = await startLeat(tempStore);
      t.after(async () => {
        await leat.kill();
        await tempStore.remove();
      });
      assert.deepEqual(await expectBody(200, leat.send('POST', '/api/v2/alerts/test')), {
        channels: [{ channel: 'log', sent: true }],
      });
      assert.match(leat.output(), /this is a test alert, nothing is wrong/);
      const { nodes, store } = await expectBody<{
        nodes: { version?: string; is_self: boolean; lease_ms: number }[];
        store: { engine: string; bytes: number };
      }>(200, leat.send('GET', '/api/v2/nodes'));
      assert.deepEqual(
        nodes.map(({ is_self: isSelf, version, lease_ms: leaseMs }) => [
          isSelf,
          /^\d+\.\d+\.\d+/.test(version ?? ''),
          leaseMs > 0,
        ]),
        [[true, true, true]],
      );
      assert.equal(store.engine, 'sqlite');
      assert.ok(store.bytes > 0);
    },
  );

  test('the bootstrap client of another tenant learns nothing', { tags: ['long'] }, async (t) => {
    const { leat, file, chat } = await open(t);
    const other = await createTenant(leat, file);
    for (const [method, path] of paths) {
      const response = await other.send(method, `/api/v2${path}`);
      const { message } = await expectBody<{ message: string }>(403, response);
      assert.match(message, /^Only an operator may do this: /);
    }
    assert.deepEqual(chat.arrivals, []);
  });
});
