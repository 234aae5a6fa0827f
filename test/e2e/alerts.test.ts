import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import type { StreamAlertBody } from '../../src/alerting/alert.ts';
import { type AlertReceiver, startAlertReceiver } from '../helpers/alerts.ts';
import { startEndpoint, text, type Endpoint } from '../helpers/endpoint.ts';
import { makePlace, startLeat, waitFor, type Place, type Running } from '../helpers/leat.ts';
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
const secretWord = 'what-the-receiver-said';

/** Leat that looks every second and gives up after one attempt, with a chat tool and a receiver. */
interface Site {
  readonly place: Place;
  readonly leat: Running;
  readonly chat: AlertReceiver;
  readonly endpoint: Endpoint;
  readonly settings: Readonly<Record<string, string>>;
}

async function open(
  t: TestContext,
  settings: Readonly<Record<string, string>> = {},
): Promise<Site> {
  const place = await makePlace();
  const chat = await startAlertReceiver();
  const endpoint = await startEndpoint(text(410, secretWord));
  const all = {
    LEAT_RETRY_DELAYS_MS: '0',
    LEAT_MONITOR_INTERVAL_SECONDS: '1',
    LEAT_ALERT_WEBHOOK_URL: `http://127.0.0.1:${chat.port}${secretPath}`,
    LEAT_LOG_LEVEL: 'info',
    ...settings,
  };
  const leat = await startLeat(place, all);
  t.after(async () => {
    await leat.kill();
    await Promise.all([chat.close(), endpoint.close()]);
    await place.remove();
  });
  return { place, leat, chat, endpoint, settings: all };
}

interface Failing extends StreamBody {
  readonly type: string;
}

async function streamAt({ leat }: Pick<Site, 'leat'>, { url }: Endpoint): Promise<Failing> {
  const type = freshType();
  return { ...(await createStream(leat, url, { types: [type] })), type };
}

async function fail({ leat }: Pick<Site, 'leat'>, { type }: Failing, count: number): Promise<void> {
  await publishAll(leat, eventsOf(type, count));
}

/** Looks go by: a failure of a stream of its own has come through all of them. */
async function aFewLooks(site: Site): Promise<void> {
  const marker = await streamAt(site, site.endpoint);
  for (const count of [1, 2]) {
    await fail(site, marker, 1);
    await site.chat.waitFor(marker.id, count);
  }
}

function brief({
  alert,
  new_failures: news,
  total_failures: total,
  percent,
}: StreamAlertBody): string {
  return [alert, `${news} new`, `${total} open`, ...(percent === undefined ? [] : [percent])].join(
    ', ',
  );
}

describe('new failures', () => {
  test('are told once for each stream, with the numbers of docs/monitoring.md#alerts', async (t) => {
    const site = await open(t);
    const one = await streamAt(site, site.endpoint);
    const other = await streamAt(site, site.endpoint);
    const healthy = await startEndpoint();
    t.after(() => healthy.close());
    const fine = await streamAt(site, healthy);
    await Promise.all([fail(site, one, 3), fail(site, other, 2), fail(site, fine, 2)]);
    for (const [stream, total] of [
      [one, 3],
      [other, 2],
    ] as const) {
      await waitFor('all to be told', () => newOf(site.chat.alerts(stream.id)) === total);
      const last = site.chat.alerts(stream.id).at(-1);
      const { time = '', ...rest } = last ?? {};
      assert.match(time, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
      const news = last?.new_failures ?? 0;
      const failures = news === 1 ? 'failure' : 'failures';
      assert.deepEqual(rest, {
        text: `${stream.name}: ${news} new delivery ${failures} (${total} open, ${total} in a row), last: 410`,
        alert: 'delivery_failures',
        tenant: 'main',
        stream: { id: stream.id, name: stream.name },
        new_failures: news,
        total_failures: total,
        consecutive_failures: total,
        last_error: '410',
      });
    }
    await aFewLooks(site);
    assert.equal(newOf(site.chat.alerts(one.id)), 3);
    assert.deepEqual(site.chat.alerts(fine.id), []);
    const { path, headers } = site.chat.arrivals[0] ?? {};
    assert.equal(path, secretPath);
    assert.match(headers?.['user-agent'] ?? '', /^Leat\/\d/);
  });

  test('are logged one by one, without what the receiver said and without event data', async (t) => {
    const site = await open(t);
    const stream = await streamAt(site, site.endpoint);
    const events = [{ type: stream.type, data: { object: { iban: 'secret-of-the-event' } } }];
    const [id = ''] = await publishAll(site.leat, events);
    await site.chat.waitFor(stream.id, 1);
    const lines = site.leat.output().split('\n');
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
      error: '410',
      msg: 'open failure',
    });
    await aFewLooks(site);
    const said = site.leat.output() + JSON.stringify(site.chat.alerts());
    for (const secret of [secretWord, 'secret-of-the-event', 'secret-of-the-channel']) {
      assert.ok(!said.includes(secret), secret);
    }
    assert.equal(site.leat.output().split(id).length, 3, 'logged when it failed and by one look');
  });

  test('are a log entry of level error where no place is named', async (t) => {
    const site = await open(t, { LEAT_ALERT_WEBHOOK_URL: '', LEAT_LOG_LEVEL: 'error' });
    const stream = await streamAt(site, site.endpoint);
    await fail(site, stream, 1);
    await waitFor('the entry', () => site.leat.output().includes('1 new delivery failure'));
    const line =
      site.leat
        .output()
        .split('\n')
        .find((one) => one.includes(stream.id)) ?? '';
    const { level, msg, alert } = JSON.parse(line) as Record<string, unknown>;
    assert.equal(level, 50);
    assert.equal(msg, `${stream.name}: 1 new delivery failure (1 open, 1 in a row), last: 410`);
    assert.equal((alert as StreamAlertBody).alert, 'delivery_failures');
  });

  test('are mailed beside, one mail for each alert', async (t) => {
    const mails = await startMailServer({ login: { user: 'leat', pass: 'mail-secret' } });
    t.after(() => mails.close());
    const site = await open(t, {
      LEAT_ALERT_EMAIL: 'ops@example.com',
      LEAT_SMTP_URL: `smtp://leat:mail-secret@127.0.0.1:${mails.port}`,
      LEAT_TENANT_DOMAIN: 'leat.example.com',
    });
    const stream = await streamAt(site, site.endpoint);
    await fail(site, stream, 1);
    const { parsed, to, from } = await mails.mail(1);
    assert.deepEqual([to, from], [['ops@example.com'], 'leat@leat.example.com']);
    assert.equal(
      parsed.subject,
      `[Leat main] ${stream.name}: 1 new delivery failure (1 open, 1 in a row), last: 410`,
    );
    await site.chat.waitFor(stream.id, 1);
    await aFewLooks(site);
    const about = mails.mails.filter(({ source }) => source.includes(stream.id));
    assert.equal(about.length, 1);
    assert.ok(!site.leat.output().includes('mail-secret'));
  });
});

describe('a stream on its way to its limit', () => {
  test('is told at 50, 70 and 90 percent, and when it is disabled', async (t) => {
    const site = await open(t, { LEAT_DISABLE_TOTAL: '10', LEAT_DISABLE_CONSECUTIVE: '1000' });
    const stream = await streamAt(site, site.endpoint);
    const steps: [count: number, told: string[]][] = [
      [4, []],
      [1, ['threshold_near 50']],
      [1, ['threshold_near 50']],
      [1, ['threshold_near 50', 'threshold_near 70']],
      [2, ['threshold_near 50', 'threshold_near 70', 'threshold_near 90']],
      [1, ['threshold_near 50', 'threshold_near 70', 'threshold_near 90', 'stream_disabled']],
    ];
    const others = (): string[] =>
      site.chat
        .alerts(stream.id)
        .filter(({ alert }) => alert !== 'delivery_failures')
        .map(({ alert, percent }) =>
          [alert, ...(percent === undefined ? [] : [percent])].join(' '),
        );
    let total = 0;
    for (const [count, told] of steps) {
      total += count;
      await failTogether(site, stream, count);
      await waitFor('the failures', () => newOf(site.chat.alerts(stream.id)) === total);
      await waitFor(told.join() || 'nothing', () => others().length >= told.length);
      assert.deepEqual(others(), told);
    }
    await aFewLooks(site);
    assert.deepEqual([newOf(site.chat.alerts(stream.id)), others()], [10, steps.at(-1)?.[1]]);
    const disabled = site.chat.alerts(stream.id).at(-1);
    assert.equal(
      disabled?.text,
      `${stream.name}: the event stream was disabled by its delivery failures (10 open, 10 in a row), last: 410`,
    );
  });

  test('that fails again after it was enabled is told again, also when it is enabled at once', async (t) => {
    const site = await open(t, { LEAT_DISABLE_CONSECUTIVE: '2' });
    const stream = await streamAt(site, site.endpoint);
    await failTogether(site, stream, 2);
    await waitFor('the first disabling', () => disablings(site, stream) === 1);
    await patchStream(site.leat, stream.id, { status: 'enabled' });
    await failTogether(site, stream, 2);
    await waitFor('the second one', async () => {
      return (await readStream(site.leat, stream.id)).status === 'disabled';
    });
    await patchStream(site.leat, stream.id, { status: 'enabled' });
    await waitFor('it to be told', () => disablings(site, stream) === 2);
    await aFewLooks(site);
    assert.equal(disablings(site, stream), 2);
  });

  test('that somebody disables by hand is not told', async (t) => {
    const site = await open(t);
    const stream = await streamAt(site, site.endpoint);
    await fail(site, stream, 1);
    await patchStream(site.leat, stream.id, { status: 'disabled' });
    await site.chat.waitFor(stream.id, 1);
    await aFewLooks(site);
    assert.equal(disablings(site, stream), 0);
  });
});

describe('a chat tool that is away', () => {
  test('gets each alert once when it is back, one for each stream', async (t) => {
    const site = await open(t);
    site.chat.answer(503);
    const one = await streamAt(site, site.endpoint);
    const other = await streamAt(site, site.endpoint);
    await fail(site, one, 2);
    await waitFor('a first refusal', () => site.chat.arrivals.length >= 1);
    await fail(site, other, 1);
    await fail(site, one, 1);
    const refused = (): string => site.chat.arrivals.map(({ body }) => body).join();
    await waitFor('both to be refused', () => refused().includes(other.id));
    await waitFor('the sum', () => refused().includes('"new_failures":3'));
    assert.deepEqual(site.chat.alerts(), []);
    site.chat.answer(200);
    await site.chat.waitFor(one.id, 1);
    await site.chat.waitFor(other.id, 1);
    await aFewLooks(site);
    assert.deepEqual(site.chat.alerts(one.id).map(brief), ['delivery_failures, 3 new, 3 open']);
    assert.deepEqual(site.chat.alerts(other.id).map(brief), ['delivery_failures, 1 new, 1 open']);
    assert.match(site.leat.output(), /"reason":"status 503"/);
    assert.ok(!site.leat.output().includes('secret-of-the-channel'));
  });

  test('does not hold up the end of the program', async (t) => {
    const site = await open(t);
    site.chat.answer(() => undefined);
    const stream = await streamAt(site, site.endpoint);
    await fail(site, stream, 1);
    await waitFor('a post', () => site.chat.arrivals.length === 1);
    assert.equal(await site.leat.stop(), 0);
    assert.match(site.leat.output(), /"reason":"the program ends"/);
  });
});

describe('a restart', () => {
  test('tells nothing twice and loses nothing that happened before it', async (t) => {
    const site = await open(t);
    const stream = await streamAt(site, site.endpoint);
    await failTogether(site, stream, 2);
    await site.chat.waitFor(stream.id, 1);
    for (const ended of ['stop', 'kill'] as const) {
      const before = newOf(site.chat.alerts(stream.id));
      await site.leat.stop();
      // Looks so rarely that what fails here is seen by the next process.
      const between = await startLeat(site.place, {
        ...site.settings,
        LEAT_MONITOR_INTERVAL_SECONDS: '3600',
      });
      await failTogether({ ...site, leat: between }, stream, 3);
      assert.equal(newOf(site.chat.alerts(stream.id)), before);
      await between[ended]();
      const again = await startLeat(site.place, site.settings);
      t.after(() => again.kill());
      await waitFor('the rest', () => newOf(site.chat.alerts(stream.id)) === before + 3);
      await aFewLooks({ ...site, leat: again });
      assert.equal(newOf(site.chat.alerts(stream.id)), before + 3);
      await again.stop();
    }
  });

  test('sends what could not be sent before, once', async (t) => {
    const site = await open(t);
    site.chat.answer(503);
    const stream = await streamAt(site, site.endpoint);
    await failTogether(site, stream, 2);
    await waitFor('a refusal', () => site.chat.arrivals.length >= 1);
    await site.leat.kill();
    site.chat.answer(200);
    const again = await startLeat(site.place, site.settings);
    t.after(() => again.kill());
    await site.chat.waitFor(stream.id, 1);
    await aFewLooks({ ...site, leat: again });
    assert.equal(newOf(site.chat.alerts(stream.id)), 2);
  });
});

function newOf(alerts: readonly StreamAlertBody[]): number {
  return alerts
    .filter(({ alert }) => alert === 'delivery_failures')
    .reduce((sum, alert) => sum + alert.new_failures, 0);
}

function disablings(site: Site, stream: StreamBody): number {
  return site.chat.alerts(stream.id).filter(({ alert }) => alert === 'stream_disabled').length;
}

/** Failures that one look sees together: they are answered when all are there. */
async function failTogether(site: Site, stream: Failing, count: number): Promise<void> {
  const held: (() => void)[] = [];
  site.endpoint.answer((response) => {
    held.push(() => response.writeHead(410).end(secretWord));
    if (held.length === count) for (const release of held) release();
  });
  const { failed } = await statsOf(site.leat, stream.id);
  await fail(site, stream, count);
  await waitForStats(site.leat, stream.id, { failed: failed + count });
  site.endpoint.answer(text(410, secretWord));
}
