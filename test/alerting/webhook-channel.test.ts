import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import type { Alert } from '../../src/alerting/alert.ts';
import { createAlertWebhook } from '../../src/alerting/channels.ts';
import {
  type Reply,
  flood,
  hang,
  raw,
  type Receiver,
  redirect,
  reply,
  startReceiver,
} from '../helpers/receiver.ts';
import { freePort } from '../helpers/leat.ts';

const alert: Alert = {
  kind: 'threshold_near',
  tenant: 'main',
  stream: { id: 'est_MASi45ub7Qe4ZE36UT5G6c', name: 'crm' },
  newFailures: 0,
  total: 2500,
  consecutive: 3,
  limits: { consecutive: 500, total: 5000 },
  percent: 50,
  at: Date.parse('2026-03-01T09:35:00.000Z'),
};
const message = { alert, domain: 'leat.example.com', url: 'https://leat.example.com/' };
const guidance = {
  cause: { meaning: 'The failures have no known cause, or are not open any more.', codes: [] },
  link: 'https://leat.example.com/console/failures?stream=est_MASi45ub7Qe4ZE36UT5G6c',
  next_command: 'leat failures --stream crm',
};
const never = new AbortController().signal;
const path = '/services/T0/B0/secret-of-the-channel';

async function receive(t: TestContext, answer: Reply): Promise<Receiver> {
  const receiver = await startReceiver({ respond: answer });
  t.after(() => receiver.close());
  return receiver;
}

function hookAt(origin: string) {
  return createAlertWebhook({ fetch, url: `${origin}${path}`, userAgent: 'Leat/1.2.3' });
}

describe('the request of an alert', () => {
  test('the request has the documented JSON body', async (t) => {
    const receiver = await receive(t, reply(200, 'ok'));
    await hookAt(receiver.origin).send(message, never);
    assert.equal(receiver.requests.length, 1);
    const [request] = receiver.requests;
    assert.deepEqual([request?.method, request?.path], ['POST', path]);
    assert.equal(request?.headers['content-type'], 'application/json');
    assert.equal(request?.headers['user-agent'], 'Leat/1.2.3');
    assert.deepEqual(JSON.parse(request?.body ?? ''), {
      text:
        'crm: 50% of a limit that disables the event stream is reached ' +
        '(2500 of 5000 open, 3 of 500 in a row)\n' +
        `${guidance.cause.meaning}\nNext: \`${guidance.next_command}\`\n${guidance.link}`,
      alert: 'threshold_near',
      tenant: 'main',
      stream: { id: 'est_MASi45ub7Qe4ZE36UT5G6c', name: 'crm' },
      new_failures: 0,
      total_failures: 2500,
      consecutive_failures: 3,
      percent: 50,
      ...guidance,
      time: '2026-03-01T09:35:00.000Z',
    });
  });

  test('send succeeds with any 2xx, also when the response body never ends', async (t) => {
    for (const status of [200, 201, 202, 204]) {
      await hookAt((await receive(t, reply(status))).origin).send(message, never);
    }
    const endless = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n';
    const receiver = await receive(t, flood(endless, `3e8\r\n${'x'.repeat(1000)}\r\n`));
    await hookAt(receiver.origin).send(message, never);
    assert.equal(receiver.requests.length, 1);
  });

  test('send fails with any other status, and follows no redirect', async (t) => {
    const elsewhere = await receive(t, reply(200));
    for (const [answer, status] of [
      [redirect(302, elsewhere.origin), 302],
      [redirect(307, `${elsewhere.origin}/x`), 307],
      [reply(400, 'no'), 400],
      [reply(429), 429],
      [reply(500, 'the secret is secret-of-the-channel'), 500],
    ] as const) {
      const { origin } = await receive(t, answer);
      const reason = `status ${status}`;
      await assert.rejects(hookAt(origin).send(message, never), {
        name: 'AlertNotSent',
        message: reason,
      });
    }
    assert.equal(elsewhere.requests.length, 0);
  });

  test('send fails without the address in its reason when no HTTP server listens', async (t) => {
    const origin = `http://127.0.0.1:${await freePort()}`;
    await assert.rejects(hookAt(origin).send(message, never), { message: 'ECONNREFUSED' });
    const noHttp = await receive(t, raw('220 mail.example ESMTP\r\n'));
    await assert.rejects(hookAt(noHttp.origin).send(message, never), (error: Error) => {
      assert.match(error.message, /^(it failed|[A-Z_]+)$/);
      return error.name === 'AlertNotSent';
    });
  });

  test('send ends when aborted', async (t) => {
    const receiver = await receive(t, hang);
    const cut = new AbortController();
    receiver.respond = () => cut.abort();
    await assert.rejects(hookAt(receiver.origin).send(message, cut.signal), {
      name: 'AlertNotSent',
    });
  });
});
