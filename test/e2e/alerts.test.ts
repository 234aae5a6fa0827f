import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import type { StreamAlertBody } from '../../src/alerting/alert-body.ts';
import { type AlertReceiver, startAlertReceiver } from '../helpers/alerts.ts';
import { startEndpoint, text, type Endpoint } from '../helpers/endpoint.ts';
import {
  createTempStore,
  startLeat,
  waitFor,
  type TempStore,
  type Running,
} from '../helpers/leat.ts';
import { startMailServer } from '../helpers/smtp.ts';
import {
  createStream,
  eventsOf,
  freshType,
  patchStream,
  publishAll,
  readStream,
  statsOf,
  waitForStats,
  type StreamBody,
} from '../helpers/api-client.ts';

const secretPath = '/services/T0/secret-of-the-channel';
const secretWord = 'text-of-the-receiver';

/** Starts Leat with a check each second and one attempt per event, with a chat tool and a receiver. */
interface Fixture {
  readonly tempStore: TempStore;
  readonly leat: Running;
  readonly chat: AlertReceiver;
  readonly endpoint: Endpoint;
  readonly settings: Readonly<Record<string, string>>;
}

async function openFixture(
  t: TestContext,
  settings: Readonly<Record<string, string>> = {},
): Promise<Fixture> {
  const tempStore = await createTempStore();
  const chat = await startAlertReceiver();
  const endpoint = await startEndpoint(text(404, secretWord));
  const all = {
    LEAT_RETRY_DELAYS_MS: '0',
    LEAT_MONITOR_INTERVAL_SECONDS: '1',
    LEAT_ALERT_WEBHOOK_URL: `http://127.0.0.1:${chat.port}${secretPath}`,
    LEAT_LOG_LEVEL: 'info',
    ...settings,
  };
  const leat = await startLeat(tempStore, all);
  t.after(async () => {
    await leat.kill();
    await Promise.all([chat.close(), endpoint.close()]);
    await tempStore.remove();
  });
  return { tempStore, leat, chat, endpoint, settings: all };
}

interface Failing extends StreamBody {
  readonly type: string;
}

async function streamAt({ leat }: Pick<Fixture, 'leat'>, { url }: Endpoint): Promise<Failing> {
  const type = freshType();
  return { ...(await createStream(leat, url, { types: [type] })), type };
}

async function fail(
  { leat }: Pick<Fixture, 'leat'>,
  { type }: Failing,
  count: number,
): Promise<void> {
  await publishAll(leat, eventsOf(type, count));
}

/** Waits for two checks: each reports a failure of another stream. */
async function afterTwoChecks(fixture: Fixture): Promise<void> {
  const marker = await streamAt(fixture, fixture.endpoint);
  for (const count of [1, 2]) {
    await fail(fixture, marker, 1);
    await fixture.chat.waitFor(marker.id, count);
  }
}

function brief({
  alert,
  new_failures: newFailures,
  total_failures: total,
  percent,
}: StreamAlertBody): string {
  return [
    alert,
    `${newFailures} new`,
    `${total} open`,
    ...(percent === undefined ? [] : [percent]),
  ].join(', ');
}

describe('new failures', () => {
  test(
    'new failures: one alert for each stream, with the fields of docs/monitoring.md#alerts',
    { tags: ['long'] },
    async (t) => {
      const fixture = await openFixture(t);
      const one = await streamAt(fixture, fixture.endpoint);
      const other = await streamAt(fixture, fixture.endpoint);
      const healthy = await startEndpoint();
      t.after(() => healthy.close());
      const fine = await streamAt(fixture, healthy);
      await Promise.all([fail(fixture, one, 3), fail(fixture, other, 2), fail(fixture, fine, 2)]);
      for (const [stream, total] of [
        [one, 3],
        [other, 2],
      ] as const) {
        await waitFor('all alerts', () => newOf(fixture.chat.alerts(stream.id)) === total);
        const last = fixture.chat.alerts(stream.id).at(-1);
        const { time = '', ...rest } = last ?? {};
        assert.match(time, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
        const newFailures = last?.new_failures ?? 0;
        const failures = newFailures === 1 ? 'failure' : 'failures';
        const sentence = `${stream.name}: ${newFailures} new delivery ${failures} (${total} open, ${total} in a row), last: 404`;
        const link = `http://localhost:${fixture.leat.port}/console/failures?stream=${stream.id}`;
        const command = `leat failures --stream ${stream.name}`;
        assert.deepEqual(rest, {
          text: [
            sentence,
            `${newFailures} http_404 (404). The receiver knows no such endpoint.`,
            `Next: \`${command}\``,
            link,
          ].join('\n'),
          alert: 'delivery_failures',
          tenant: 'main',
          stream: { id: stream.id, name: stream.name },
          new_failures: newFailures,
          total_failures: total,
          consecutive_failures: total,
          last_error: '404',
          cause: {
            meaning: 'The receiver knows no such endpoint.',
            codes: [{ code: 'http_404', count: newFailures, sample: '404' }],
          },
          link,
          next_command: command,
        });
      }
      await afterTwoChecks(fixture);
      assert.equal(newOf(fixture.chat.alerts(one.id)), 3);
      assert.deepEqual(fixture.chat.alerts(fine.id), []);
      const { path, headers } = fixture.chat.arrivals[0] ?? {};
      assert.equal(path, secretPath);
      assert.match(headers?.['user-agent'] ?? '', /^Leat\/\d/);
    },
  );

  test(
    'new failures: one log entry each, without text of the receiver and event data',
    { tags: ['long'] },
    async (t) => {
      const fixture = await openFixture(t);
      const stream = await streamAt(fixture, fixture.endpoint);
      const events = [{ type: stream.type, data: { object: { iban: 'secret-of-the-event' } } }];
      const [id = ''] = await publishAll(fixture.leat, events);
      await fixture.chat.waitFor(stream.id, 1);
      const lines = fixture.leat.output().split('\n');
      const entries = lines.filter((line) => line.includes('"open failure"'));
      assert.equal(entries.length, 1);
      const { level, tenant, ...entry } = JSON.parse(entries[0] ?? '') as Record<string, unknown>;
      assert.deepEqual([level, tenant, typeof entry['time']], [30, 1, 'number']);
      delete entry['time'];
      assert.deepEqual(entry, {
        stream: stream.id,
        eventId: id,
        eventType: stream.type,
        attempts: 1,
        error: '404',
        tenantName: 'main',
        msg: 'open failure',
      });
      await afterTwoChecks(fixture);
      const output = fixture.leat.output() + JSON.stringify(fixture.chat.alerts());
      for (const secret of [secretWord, 'secret-of-the-event', 'secret-of-the-channel']) {
        assert.ok(!output.includes(secret), secret);
      }
      assert.equal(
        fixture.leat.output().split(id).length,
        3,
        'logged when it failed and by one check',
      );
    },
  );

  test(
    'without a channel an alert is a log entry of level error',
    { tags: ['long'] },
    async (t) => {
      const fixture = await openFixture(t, { LEAT_ALERT_WEBHOOK_URL: '', LEAT_LOG_LEVEL: 'error' });
      const stream = await streamAt(fixture, fixture.endpoint);
      await fail(fixture, stream, 1);
      await waitFor('the entry', () => fixture.leat.output().includes('1 new delivery failure'));
      const line =
        fixture.leat
          .output()
          .split('\n')
          .find((one) => one.includes(stream.id)) ?? '';
      const { level, msg, alert } = JSON.parse(line) as Record<string, unknown>;
      assert.equal(level, 50);
      assert.equal(msg, `${stream.name}: 1 new delivery failure (1 open, 1 in a row), last: 404`);
      assert.equal((alert as StreamAlertBody).alert, 'delivery_failures');
    },
  );

  test('with a mail channel: one mail for each alert', { tags: ['long'] }, async (t) => {
    const mails = await startMailServer({ login: { user: 'leat', pass: 'mail-secret' } });
    t.after(() => mails.close());
    const fixture = await openFixture(t, {
      LEAT_ALERT_EMAIL: 'ops@example.com',
      LEAT_SMTP_URL: `smtp://leat:mail-secret@127.0.0.1:${mails.port}`,
      LEAT_TENANT_DOMAIN: 'leat.example.com',
    });
    const stream = await streamAt(fixture, fixture.endpoint);
    await fail(fixture, stream, 1);
    const { parsed, to, from } = await mails.mail(1);
    assert.deepEqual([to, from], [['ops@example.com'], 'leat@leat.example.com']);
    assert.equal(
      parsed.subject,
      `[Leat main] ${stream.name}: 1 new delivery failure (1 open, 1 in a row), last: 404`,
    );
    await fixture.chat.waitFor(stream.id, 1);
    await afterTwoChecks(fixture);
    const ofStream = mails.mails.filter(({ source }) => source.includes(stream.id));
    assert.equal(ofStream.length, 1);
    assert.ok(!fixture.leat.output().includes('mail-secret'));
  });
});

describe('a stream near its limit', () => {
  test(
    'a stream is reported at 50, 70 and 90 percent, and when it is disabled',
    { tags: ['long'] },
    async (t) => {
      const fixture = await openFixture(t, {
        LEAT_DISABLE_TOTAL: '10',
        LEAT_DISABLE_CONSECUTIVE: '1000',
      });
      const stream = await streamAt(fixture, fixture.endpoint);
      const steps: [count: number, expected: string[]][] = [
        [4, []],
        [1, ['threshold_near 50']],
        [1, ['threshold_near 50']],
        [1, ['threshold_near 50', 'threshold_near 70']],
        [2, ['threshold_near 50', 'threshold_near 70', 'threshold_near 90']],
        [1, ['threshold_near 50', 'threshold_near 70', 'threshold_near 90', 'stream_disabled']],
      ];
      const others = (): string[] =>
        fixture.chat
          .alerts(stream.id)
          .filter(({ alert }) => alert !== 'delivery_failures')
          .map(({ alert, percent }) =>
            [alert, ...(percent === undefined ? [] : [percent])].join(' '),
          );
      let total = 0;
      for (const [count, expected] of steps) {
        total += count;
        await failTogether(fixture, stream, count);
        await waitFor('the failures', () => newOf(fixture.chat.alerts(stream.id)) === total);
        await waitFor(expected.join() || 'nothing', () => others().length >= expected.length);
        assert.deepEqual(others(), expected);
      }
      await afterTwoChecks(fixture);
      assert.deepEqual([newOf(fixture.chat.alerts(stream.id)), others()], [10, steps.at(-1)?.[1]]);
      const disabled = fixture.chat.alerts(stream.id).at(-1);
      assert.equal(
        disabled?.text.split('\n')[0],
        `${stream.name}: the event stream was disabled by its delivery failures (10 open, 10 in a row), last: 404`,
      );
      assert.deepEqual(disabled?.cause.codes, [{ code: 'http_404', count: 10, sample: '404' }]);
    },
  );

  test(
    'a stream that is disabled again is reported again, also when it is enabled at once',
    { tags: ['long'] },
    async (t) => {
      const fixture = await openFixture(t, { LEAT_DISABLE_CONSECUTIVE: '2' });
      const stream = await streamAt(fixture, fixture.endpoint);
      await failTogether(fixture, stream, 2);
      await waitFor('the first disabling', () => disablings(fixture, stream) === 1);
      await patchStream(fixture.leat, stream.id, { status: 'enabled' });
      await failTogether(fixture, stream, 2);
      await waitFor('the second one', async () => {
        return (await readStream(fixture.leat, stream.id)).status === 'disabled';
      });
      await patchStream(fixture.leat, stream.id, { status: 'enabled' });
      await waitFor('the second alert', () => disablings(fixture, stream) === 2);
      await afterTwoChecks(fixture);
      assert.equal(disablings(fixture, stream), 2);
    },
  );

  test('a stream that is disabled by hand is not reported', { tags: ['long'] }, async (t) => {
    const fixture = await openFixture(t);
    const stream = await streamAt(fixture, fixture.endpoint);
    await fail(fixture, stream, 1);
    await patchStream(fixture.leat, stream.id, { status: 'disabled' });
    await fixture.chat.waitFor(stream.id, 1);
    await afterTwoChecks(fixture);
    assert.equal(disablings(fixture, stream), 0);
  });
});

describe('an outage of the chat tool', () => {
  test('after the outage there is one alert for each stream', { tags: ['long'] }, async (t) => {
    const fixture = await openFixture(t);
    fixture.chat.respondWith(503);
    const one = await streamAt(fixture, fixture.endpoint);
    const other = await streamAt(fixture, fixture.endpoint);
    await fail(fixture, one, 2);
    await waitFor('a first rejection', () => fixture.chat.arrivals.length >= 1);
    await fail(fixture, other, 1);
    await fail(fixture, one, 1);
    const rejected = (): string => fixture.chat.arrivals.map(({ body }) => body).join();
    await waitFor('both to be rejected', () => rejected().includes(other.id));
    await waitFor('the sum', () => rejected().includes('"new_failures":3'));
    assert.deepEqual(fixture.chat.alerts(), []);
    fixture.chat.respondWith(200);
    await fixture.chat.waitFor(one.id, 1);
    await fixture.chat.waitFor(other.id, 1);
    await afterTwoChecks(fixture);
    assert.deepEqual(fixture.chat.alerts(one.id).map(brief), ['delivery_failures, 3 new, 3 open']);
    assert.deepEqual(fixture.chat.alerts(other.id).map(brief), [
      'delivery_failures, 1 new, 1 open',
    ]);
    assert.match(fixture.leat.output(), /"reason":"status 503"/);
    assert.ok(!fixture.leat.output().includes('secret-of-the-channel'));
  });

  test('an unresponsive chat tool does not block shutdown', { tags: ['long'] }, async (t) => {
    const fixture = await openFixture(t);
    fixture.chat.respondWith(() => undefined);
    const stream = await streamAt(fixture, fixture.endpoint);
    await fail(fixture, stream, 1);
    await waitFor('a post', () => fixture.chat.arrivals.length === 1);
    assert.equal(await fixture.leat.stop(), 0);
    assert.match(fixture.leat.output(), /"reason":"the program ends"/);
  });
});

describe('a restart', () => {
  test(
    'after a restart every failure is reported once, also those from before',
    { tags: ['long'] },
    async (t) => {
      const fixture = await openFixture(t);
      const stream = await streamAt(fixture, fixture.endpoint);
      await failTogether(fixture, stream, 2);
      await fixture.chat.waitFor(stream.id, 1);
      for (const ended of ['stop', 'kill'] as const) {
        const before = newOf(fixture.chat.alerts(stream.id));
        await fixture.leat.stop();
        // Its checks are so rare that the next process reports these failures.
        const between = await startLeat(fixture.tempStore, {
          ...fixture.settings,
          LEAT_MONITOR_INTERVAL_SECONDS: '3600',
        });
        await failTogether({ ...fixture, leat: between }, stream, 3);
        assert.equal(newOf(fixture.chat.alerts(stream.id)), before);
        await between[ended]();
        const again = await startLeat(fixture.tempStore, fixture.settings);
        t.after(() => again.kill());
        await waitFor('the rest', () => newOf(fixture.chat.alerts(stream.id)) === before + 3);
        await afterTwoChecks({ ...fixture, leat: again });
        assert.equal(newOf(fixture.chat.alerts(stream.id)), before + 3);
        await again.stop();
      }
    },
  );

  test(
    'after a restart alerts that could not be sent are sent once',
    { tags: ['long'] },
    async (t) => {
      const fixture = await openFixture(t);
      fixture.chat.respondWith(503);
      const stream = await streamAt(fixture, fixture.endpoint);
      await failTogether(fixture, stream, 2);
      await waitFor('a rejection', () => fixture.chat.arrivals.length >= 1);
      await fixture.leat.kill();
      fixture.chat.respondWith(200);
      const again = await startLeat(fixture.tempStore, fixture.settings);
      t.after(() => again.kill());
      await fixture.chat.waitFor(stream.id, 1);
      await afterTwoChecks({ ...fixture, leat: again });
      assert.equal(newOf(fixture.chat.alerts(stream.id)), 2);
    },
  );
});

function newOf(alerts: readonly StreamAlertBody[]): number {
  return alerts
    .filter(({ alert }) => alert === 'delivery_failures' || alert === 'stream_disabled')
    .reduce((sum, alert) => sum + alert.new_failures, 0);
}

function disablings(fixture: Fixture, stream: StreamBody): number {
  return fixture.chat.alerts(stream.id).filter(({ alert }) => alert === 'stream_disabled').length;
}

/** Creates failures that one check sees together: they get their responses when all requests are there. */
async function failTogether(fixture: Fixture, stream: Failing, count: number): Promise<void> {
  const held: (() => void)[] = [];
  fixture.endpoint.respondWith((response) => {
    held.push(() => response.writeHead(404).end(secretWord));
    if (held.length === count) for (const release of held) release();
  });
  const { failed } = await statsOf(fixture.leat, stream.id);
  await fail(fixture, stream, count);
  await waitForStats(fixture.leat, stream.id, { failed: failed + count });
  fixture.endpoint.respondWith(text(404, secretWord));
}
