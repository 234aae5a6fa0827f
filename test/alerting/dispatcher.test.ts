import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { systemClock } from '../../src/clock.ts';
import type { Alert } from '../../src/alerting/alert.ts';
import type { Clock } from '../../src/core/clock.ts';
import { type AlertDispatcher, createAlertDispatcher } from '../../src/alerting/dispatcher.ts';
import { createAlertLog, createAlertWebhook } from '../../src/alerting/channels.ts';
import { createAlertMail } from '../../src/alerting/mail-channel.ts';
import type { AlertChannel } from '../../src/alerting/channel.ts';
import { createManualClock } from '../helpers/clock.ts';
import { type Endpoint, startEndpoint } from '../helpers/endpoint.ts';
import { freePort, waitFor } from '../helpers/leat.ts';
import { startMailServer } from '../helpers/smtp.ts';

const settings = {
  concurrency: 4,
  timeoutMs: 10_000,
  failuresInARowMax: 16,
  runMs: 60_000,
  saveEveryMs: 5000,
  closingMs: 3000,
};
const domain = 'leat.example.com';

function alertsOf(count: number): Alert[] {
  return Array.from({ length: count }, (_, index) => ({
    kind: 'delivery_failures',
    tenant: 'main',
    stream: { id: `est_${index}`, name: `stream ${index}` },
    newFailures: 1,
    total: 1,
    consecutive: 1,
    limits: { consecutive: 500, total: 5000 },
    at: 0,
  }));
}

function dispatcherOf(channels: readonly AlertChannel[], clock: Clock = systemClock) {
  const reports: string[] = [];
  const dispatcher: AlertDispatcher = createAlertDispatcher({
    clock,
    channels,
    settings,
    urlOf: (host) => `https://${host}/`,
    report: (alert, name, reason = 'sent') => {
      reports.push(`${alert.stream?.id} ${name}: ${reason}`);
    },
  });
  return { dispatcher, reports };
}

function webhookAt(url: string): AlertChannel {
  return createAlertWebhook({ fetch, url, userAgent: 'Leat/1.2.3' });
}

async function receive(t: TestContext, refused: readonly string[] = []): Promise<Endpoint> {
  const endpoint = await startEndpoint((response, { body }) => {
    response.writeHead(refused.includes(streamIn(body)) ? 500 : 200).end('ok');
  });
  t.after(() => endpoint.close());
  return endpoint;
}

function streamIn(body: string): string {
  return (JSON.parse(body) as { stream: { id: string } }).stream.id;
}

const never = new AbortController().signal;
const save = (): Promise<boolean> => Promise.resolve(true);

describe('a send run', () => {
  test('a send run sends every alert over every channel once', async (t) => {
    const endpoint = await receive(t);
    const mails = await startMailServer();
    t.after(() => mails.close());
    const smtpUrl = `smtp://127.0.0.1:${mails.port}`;
    const { dispatcher, reports } = dispatcherOf([
      webhookAt(endpoint.url),
      createAlertMail({ smtpUrl, to: 'ops@example.com' }),
    ]);
    const outbox = { webhook: alertsOf(30), email: alertsOf(10) };
    assert.deepEqual(await dispatcher.startRun(never).deliver(outbox, domain, save), {});
    const posted = endpoint.arrivals.map(({ body }) => streamIn(body));
    assert.deepEqual(
      posted.toSorted(),
      alertsOf(30)
        .flatMap(({ stream }) => stream?.id ?? [])
        .toSorted(),
    );
    assert.equal(new Set(mails.mails.map(({ parsed }) => parsed.messageId)).size, 10);
    assert.equal(reports.filter((report) => report.endsWith(': sent')).length, 40);
  });

  test('a send run at most `concurrency` alerts are in flight', { tags: ['long'] }, async (t) => {
    let open = 0;
    let most = 0;
    const endpoint = await startEndpoint((response) => {
      most = Math.max(most, ++open);
      setImmediate(() => {
        open--;
        response.writeHead(204).end();
      });
    });
    t.after(() => endpoint.close());
    const { dispatcher } = dispatcherOf([webhookAt(endpoint.url)]);
    const left = await dispatcher
      .startRun(never)
      .deliver({ webhook: alertsOf(2000) }, domain, save);
    assert.deepEqual([left, endpoint.arrivals.length], [{}, 2000]);
    assert.ok(most <= 4, `${most} at once`);
  });

  test('a send run sends the other alerts when some are rejected, and returns the rejected ones', async (t) => {
    const endpoint = await receive(t, ['est_0', 'est_3']);
    const { dispatcher, reports } = dispatcherOf([webhookAt(endpoint.url)]);
    const { webhook } = await dispatcher
      .startRun(never)
      .deliver({ webhook: alertsOf(20) }, domain, save);
    const left = webhook?.map(({ stream }) => stream?.id);
    assert.deepEqual(left?.toSorted(), ['est_0', 'est_3']);
    assert.ok(reports.includes('est_3 webhook: status 500'));
    assert.equal(endpoint.arrivals.length, 20);
  });

  test('skips a channel after 16 failures in a row, also for the next tenant, and uses the others', async (t) => {
    const mails = await startMailServer();
    t.after(() => mails.close());
    const { dispatcher, reports } = dispatcherOf([
      webhookAt(`http://127.0.0.1:${await freePort()}/hook`),
      createAlertMail({ smtpUrl: `smtp://127.0.0.1:${mails.port}`, to: 'ops@example.com' }),
    ]);
    const run = dispatcher.startRun(never);
    const first = await run.deliver({ webhook: alertsOf(100) }, domain, save);
    const tried = reports.length;
    assert.ok(tried >= 16 && tried < 24, `${tried} tried`);
    assert.equal(first.webhook?.length, 100);
    const second = await run.deliver({ webhook: alertsOf(1), email: alertsOf(1) }, domain, save);
    assert.deepEqual([second.webhook?.length, second.email], [1, undefined]);
    assert.deepEqual(reports.slice(tried), ['est_0 email: sent']);
    const again = await dispatcher.startRun(never).deliver({ webhook: alertsOf(1) }, domain, save);
    assert.equal(again.webhook?.length, 1);
    assert.equal(reports.length, tried + 2);
  });

  test('the timeout of one alert is 10 s, also for later tenants after other work took long', async (t) => {
    const silent = await startEndpoint(() => undefined);
    t.after(() => silent.close());
    const clock = createManualClock();
    const { dispatcher, reports } = dispatcherOf([webhookAt(silent.url)], clock);
    const run = dispatcher.startRun(never);
    const delivered = run.deliver({ webhook: alertsOf(5) }, domain, save);
    await silent.arrival(4);
    await clock.advance(9_999);
    assert.equal(reports.length, 0);
    await clock.advance(1);
    assert.equal(reports[0], 'est_0 webhook: no response within 10 s');
    await waitFor('the fifth', () => silent.arrivals.length >= 5);
    await clock.advance(10_000);
    assert.equal((await delivered).webhook?.length, 5);
    assert.equal(reports.length, 5);
    // The check of the next tenant takes long; that is not counted as sending.
    await clock.advance(60_000);
    for (const count of [6, 7]) {
      const more = run.deliver({ webhook: alertsOf(1) }, domain, save);
      await silent.arrival(count);
      await clock.advance(20_000);
      assert.equal((await more).webhook?.length, 1);
    }
    assert.equal(clock.pending, 0);
  });

  test('a send run sends for one minute in total', async () => {
    const clock = createManualClock();
    const slow: AlertChannel = {
      name: 'webhook',
      send: () => new Promise((resolve) => clock.after(9000, resolve)),
    };
    const { dispatcher } = dispatcherOf([slow], clock);
    const run = dispatcher.startRun(never);
    const left: (number | undefined)[] = [];
    for (let tenant = 0; tenant < 3; tenant++) {
      const delivered = run.deliver({ webhook: alertsOf(16) }, domain, save);
      await clock.advance(10 * 60_000);
      left.push((await delivered).webhook?.length);
    }
    // Four in flight for nine seconds each: seven times four are started in a minute.
    assert.deepEqual(left, [undefined, 4, 16]);
  });

  test('a send run treats a 2xx as sent even if its response never ends', async (t) => {
    const endless = await startEndpoint((response) => {
      response.writeHead(200).write('ok');
    });
    t.after(() => endless.close());
    const clock = createManualClock();
    const headers = Promise.withResolvers<undefined>();
    const channel = createAlertWebhook({
      fetch: async (url, init) => {
        const response = await fetch(url, init);
        headers.resolve(undefined);
        return response;
      },
      url: endless.url,
      userAgent: 'Leat/1.2.3',
    });
    const { dispatcher, reports } = dispatcherOf([channel], clock);
    const delivered = dispatcher.startRun(never).deliver({ webhook: alertsOf(1) }, domain, save);
    await headers.promise;
    await clock.advance(10_000);
    assert.deepEqual(await delivered, {});
    assert.deepEqual(reports, ['est_0 webhook: sent']);
  });

  test('a send run does not wait for a channel that ignores the abort', async () => {
    const clock = createManualClock();
    const stuck: AlertChannel = { name: 'webhook', send: () => new Promise(() => undefined) };
    const { dispatcher, reports } = dispatcherOf([stuck], clock);
    const delivered = dispatcher.startRun(never).deliver({ webhook: alertsOf(1) }, domain, save);
    await clock.advance(11_000);
    assert.equal((await delivered).webhook?.length, 1);
    assert.deepEqual(reports, ['est_0 webhook: no response within 10 s']);
    assert.equal(clock.pending, 0);
  });

  test('saves what is left from time to time, and stops when `save` returns false', async (t) => {
    const slow = await startEndpoint((response) => {
      void clock.advance(1000).then(() => response.writeHead(204).end());
    });
    t.after(() => slow.close());
    const clock = createManualClock();
    const { dispatcher, reports } = dispatcherOf([webhookAt(slow.url)], clock);
    const saved: number[] = [];
    const left = await dispatcher
      .startRun(never)
      .deliver({ webhook: alertsOf(100) }, domain, (so) => {
        saved.push(so.webhook?.length ?? 0);
        return Promise.resolve(saved.length < 3);
      });
    assert.equal(saved.length, 3);
    assert.deepEqual(
      saved,
      saved.toSorted((one, other) => other - one),
    );
    assert.deepEqual([left.webhook?.length, 100 - reports.length], [saved[2], saved[2]]);
  });

  test('an abort starts no further alert and ends those in flight after 3 s', async (t) => {
    const silent = await startEndpoint(() => undefined);
    t.after(() => silent.close());
    const clock = createManualClock();
    const end = new AbortController();
    const { dispatcher, reports } = dispatcherOf([webhookAt(silent.url)], clock);
    const delivered = dispatcher
      .startRun(end.signal)
      .deliver({ webhook: alertsOf(9) }, domain, save);
    await silent.arrival(4);
    end.abort();
    await clock.advance(3000);
    assert.equal((await delivered).webhook?.length, 9);
    assert.deepEqual(
      reports,
      [0, 1, 2, 3].map((id) => `est_${id} webhook: the program ends`),
    );
    assert.equal(clock.pending, 0);
  });
});

test('the log channel writes an alert as one log entry of level error', async () => {
  const entries: [fields: object, message: string][] = [];
  const channel = createAlertLog({ error: (...entry) => entries.push(entry) }, systemClock);
  const { dispatcher } = dispatcherOf([channel]);
  assert.deepEqual(
    await dispatcher.startRun(never).deliver({ log: alertsOf(1) }, domain, save),
    {},
  );
  assert.deepEqual(entries, [
    [
      {
        alert: {
          alert: 'delivery_failures',
          tenant: 'main',
          stream: { id: 'est_0', name: 'stream 0' },
          new_failures: 1,
          total_failures: 1,
          consecutive_failures: 1,
          cause: {
            meaning: 'The failures have no known cause, or are not open any more.',
            codes: [],
          },
          link: `https://${domain}/console/failures?stream=est_0`,
          next_command: 'leat failures --stream est_0',
          time: '1970-01-01T00:00:00.000Z',
        },
      },
      'stream 0: 1 new delivery failure (1 open, 1 in a row)',
    ],
  ]);
});
