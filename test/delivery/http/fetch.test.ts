import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { systemClock } from '../../../src/clock.ts';
import { limits } from '../../../src/config.ts';
import { createFetch } from '../../../src/delivery/http/fetch.ts';
import { lookupFunction } from '../../../src/delivery/http/lookup-function.ts';
import { createNameLookups } from '../../../src/delivery/http/name-lookups.ts';
import { createResolver } from '../../../src/delivery/http/resolver.ts';
import { createAlertMail } from '../../../src/alerting/mail-channel.ts';
import { createAlertWebhook } from '../../../src/alerting/channels.ts';
import { exampleAlert as alert } from '../../helpers/alerts.ts';
import { noFiles, startDns, type Zone } from '../../helpers/dns.ts';
import { selfSigned } from '../../helpers/certificates.ts';
import { startEndpoint } from '../../helpers/endpoint.ts';
import { receiverOf } from '../../helpers/receiver.ts';
import { startMailServer } from '../../helpers/smtp.ts';

/** Requests of the service itself, to names that only the name server of the test has. */

const message = { alert, domain: 'leat.example.com', url: 'https://leat.example.com/' };
const never = new AbortController().signal;

const zone: Zone = (name) => (name === 'known.test' ? ['127.0.0.1'] : 'no such name');

async function createFixture(t: TestContext) {
  const dns = await startDns(zone);
  t.after(() => dns.close());
  const { servers } = dns;
  const clock = systemClock;
  const resolver = createResolver({ clock, ...limits.resolver, ...noFiles, servers });
  const { resolve } = resolver;
  const names = createNameLookups({ clock, resolve, limits: limits.names });
  const lookup = lookupFunction(names, 'system');
  const own = createFetch(lookup);
  t.after(async () => {
    resolver.close();
    await own.close();
  });
  return { lookup, names, fetch: own.fetch, questions: dns.questions };
}

describe('requests of the service itself', () => {
  test('requests of the service itself refuse an untrusted certificate also with NODE_TLS_REJECT_UNAUTHORIZED=0', async (t) => {
    const receiver = await receiverOf(t, { tls: selfSigned });
    const { fetch } = await createFixture(t);
    process.env['NODE_TLS_REJECT_UNAUTHORIZED'] = '0';
    t.after(() => delete process.env['NODE_TLS_REJECT_UNAUTHORIZED']);
    await assert.rejects(
      fetch(`https://known.test:${receiver.port}/`, { signal: never }),
      ({ cause }) => Object(cause).code === 'DEPTH_ZERO_SELF_SIGNED_CERT',
    );
    assert.equal(receiver.requests.length, 0);
  });

  test('requests of the service resolve a name once for a while and read the response', async (t) => {
    const { fetch, questions } = await createFixture(t);
    const endpoint = await startEndpoint((response) => {
      response.writeHead(200, { connection: 'close' }).end('{"keys":[]}');
    });
    t.after(() => endpoint.close());
    for (let n = 0; n < 2; n += 1) {
      const response = await fetch(`http://known.test:${endpoint.port}/keys`, {
        redirect: 'error',
      });
      assert.equal(response.status, 200);
      assert.deepEqual(await response.json(), { keys: [] });
    }
    assert.deepEqual(questions.toSorted(), ['known.test A', 'known.test AAAA']);
  });

  test('requests of the service can be aborted, and their failures have a reason', async (t) => {
    const { fetch } = await createFixture(t);
    const endpoint = await startEndpoint(() => undefined);
    t.after(() => endpoint.close());
    const abort = new AbortController();
    const { signal } = abort;
    const response = fetch(`http://known.test:${endpoint.port}/`, { signal });
    await endpoint.arrival(1);
    abort.abort(new Error('too late'));
    await assert.rejects(response, { message: 'too late' });
    await assert.rejects(fetch('http://unknown.test/', {}), (error: Error) => {
      assert.equal(Object(error.cause)['code'], 'ENOTFOUND');
      return true;
    });
  });

  test('alerts to a webhook name their failure in one word', async (t) => {
    const { fetch } = await createFixture(t);
    const endpoint = await startEndpoint();
    t.after(() => endpoint.close());
    const userAgent = 'Leat/1.2.3';
    const known = `http://known.test:${endpoint.port}/`;
    await createAlertWebhook({ fetch, url: known, userAgent }).send(message, never);
    assert.equal(endpoint.arrivals.length, 1);
    const unknown = createAlertWebhook({ fetch, url: 'http://unknown.test/', userAgent });
    await assert.rejects(unknown.send(message, never), { message: 'ENOTFOUND' });
  });

  test('mail names its failure in one word', async (t) => {
    const { lookup } = await createFixture(t);
    const server = await startMailServer();
    t.after(() => server.close());
    const to = 'ops@example.com';
    const smtpUrl = `smtp://known.test:${server.port}`;
    await createAlertMail({ smtpUrl, to, lookup }).send(message, never);
    await server.mail(1);
    const unknown = createAlertMail({ smtpUrl: 'smtp://unknown.test:25', to, lookup });
    await assert.rejects(unknown.send(message, never), { message: 'ENOTFOUND' });
  });
});
