import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { startEndpoint, type Endpoint } from '../helpers/endpoint.ts';
import { createTempStore, startLeat, type TempStore, type Running } from '../helpers/leat.ts';
import {
  expectBody,
  createStream,
  destination,
  freshType,
  publish,
  readStream,
  redeliver,
  streamBody,
  waitForFailures,
  waitForStats,
  type ProblemBody,
} from '../helpers/api-client.ts';
import { runServer } from './fixture.ts';

/** Nothing is allowed beyond the defaults: the endpoint must receive nothing. */

let leat: Running;
let secret: Endpoint;

runServer({ LEAT_EGRESS_ALLOW: '', LEAT_RETRY_DELAYS_MS: '0' }, (running) => {
  leat = running;
});
before(async () => {
  secret = await startEndpoint();
});
after(async () => {
  await secret.close();
});

const blockedHosts = [
  // Loopback, in every notation of a URL.
  '127.0.0.1',
  '127.1',
  '127.255.255.254',
  '2130706433',
  '0x7f000001',
  '0x7F.0.0.1',
  '0177.0.0.1',
  '017700000001',
  '127.0.0.1.',
  '%31%32%37.0.0.1',
  '①②⑦.0.0.1',
  '127。0。0。1',
  // Unspecified, "this network", private, CGNAT, link-local.
  '0.0.0.0',
  '0',
  '0.1.2.3',
  '10.0.0.1',
  '172.16.0.1',
  '172.31.255.255',
  '192.168.1.1',
  '100.64.0.1',
  '100.127.255.255',
  '169.254.1.1',
  // Metadata services of clouds.
  '169.254.169.254',
  '0xa9fea9fe',
  '100.100.100.200',
  '[fd00:ec2::254]',
  // Protocol assignments, documentation, benchmarks, multicast, reserved, broadcast.
  '192.0.0.8',
  '192.0.2.1',
  '198.18.0.1',
  '198.51.100.1',
  '203.0.113.1',
  '224.0.0.1',
  '239.255.255.255',
  '240.0.0.1',
  '255.255.255.255',
  // IPv6: loopback, unspecified, unique local, link-local, site-local, multicast, documentation.
  '[::1]',
  '[0:0:0:0:0:0:0:1]',
  '[::]',
  '[fc00::1]',
  '[fd12:3456:789a::1]',
  '[fe80::1]',
  '[febf::1]',
  '[fec0::1]',
  '[ff02::1]',
  '[2001:db8::1]',
  '[100::1]',
  // IPv4 in IPv6: mapped, compatible, translated, NAT64 (both prefixes), 6to4, Teredo.
  '[::ffff:127.0.0.1]',
  '[::ffff:7f00:1]',
  '[0:0:0:0:0:ffff:a00:1]',
  '[::ffff:169.254.169.254]',
  '[::127.0.0.1]',
  '[::ffff:0:127.0.0.1]',
  '[64:ff9b::127.0.0.1]',
  '[64:ff9b::a9fe:a9fe]',
  '[64:ff9b:1::127.0.0.1]',
  '[2002:7f00:1::]',
  '[2002:a00:1::1]',
  '[2002:a9fe:a9fe::1]',
  '[2001:0:7f00:1::1]',
];

describe('a literal address that is not public', () => {
  for (const host of blockedHosts) {
    test(`${host} is refused on create and on update`, async (t) => {
      const target = await createStream(leat, 'https://93.184.215.14/hook');
      t.after(() => leat.send('DELETE', `/api/v2/event-streams/${target.id}`));
      for (const scheme of ['https', 'http']) {
        const endpoint = `${scheme}://${host}:${secret.port}/hook`;
        const create = leat.send('POST', '/api/v2/event-streams', streamBody(endpoint));
        const refused = await expectBody<ProblemBody>(400, create);
        assert.equal(refused.errorCode, 'invalid_body');
        assert.match(
          refused.message,
          /^Payload validation error: '.+' on property .*webhook_endpo/,
        );
        const path = `/api/v2/event-streams/${target.id}`;
        const update = leat.send('PATCH', path, { destination: destination(endpoint) });
        assert.equal((await expectBody<ProblemBody>(400, update)).errorCode, 'invalid_body');
      }
      assert.deepEqual(await readStream(leat, target.id), target);
      assert.equal(secret.connections(), 0);
    });
  }
});

describe('a name of an address that is not public', () => {
  test('a name of an address that is not public is accepted, and each attempt fails without a retry', async () => {
    for (const name of ['localhost', 'LOCALHOST']) {
      const type = freshType();
      const url = `http://${name}:${secret.port}/hook`;
      const stream = await createStream(leat, url, { types: [type] });
      const id = await publish(leat, type);
      const [failure] = await waitForFailures(leat, stream.id, 1);
      assert.equal(failure?.attempts.length, 1);
      assert.match(
        failure.attempts[0]?.error_message ?? '',
        /^blocked address: no allowed address \(LEAT_EGRESS_ALLOW\)$/,
      );
      await expectBody(202, redeliver(leat, stream.id, id));
      await waitForStats(leat, stream.id, { failed: 2 });
    }
    assert.equal(secret.connections(), 0);
    // The address is for the operator alone, once however often it is tried.
    const logged = leat.output().match(/"name":"localhost","address":"(127\.0\.0\.1|::1)"/g);
    assert.equal(logged?.length, 1);
  });

  test('a name of an address that is not public is not connected to for a test event either', async () => {
    const stream = await createStream(leat, `http://localhost:${secret.port}/hook`);
    const path = `/api/v2/event-streams/${stream.id}/test`;
    await expectBody(202, leat.send('POST', path, { event_type: 'user.created' }));
    const [failure] = await waitForFailures(leat, stream.id, 1);
    assert.match(failure?.attempts[0]?.error_message ?? '', /^blocked address: /);
    assert.equal(secret.connections(), 0);
  });
});

describe('without LEAT_ALLOW_HTTP_ENDPOINTS', () => {
  let strictStore: TempStore;
  let strict: Running;
  before(async () => {
    strictStore = await createTempStore();
    strict = await startLeat(strictStore, {
      LEAT_ALLOW_HTTP_ENDPOINTS: 'false',
      LEAT_EGRESS_ALLOW: '127.0.0.2/32,::ffff:127.0.0.3/128',
    });
  });
  after(async () => {
    await strict.kill();
    await strictStore.remove();
  });

  test('http:// is refused with the reason, on create and on update', async () => {
    const reason =
      "Payload validation error: 'http:// endpoints are not allowed; " +
      "the operator can allow them with LEAT_ALLOW_HTTP_ENDPOINTS=true' on property ";
    const stream = await createStream(strict, 'https://hooks.example.com/');
    const sent = ['http://hooks.example.com/', 'HTTP://hooks.example.com/'];
    for (const endpoint of sent) {
      const create = strict.send('POST', '/api/v2/event-streams', streamBody(endpoint));
      const update = strict.send('PATCH', `/api/v2/event-streams/${stream.id}`, {
        destination: destination(endpoint),
      });
      for (const response of [create, update]) {
        const refused = await expectBody<ProblemBody>(400, response);
        assert.ok(refused.message.startsWith(reason), refused.message);
      }
    }
  });

  test('an address in LEAT_EGRESS_ALLOW is accepted, the next one is not', async () => {
    for (const host of ['127.0.0.2', '[::ffff:127.0.0.2]', '127.0.0.3']) {
      const stream = await createStream(strict, `https://${host}/`);
      assert.equal(stream.status, 'enabled');
    }
    for (const host of ['127.0.0.1', '127.0.0.4', '[::1]']) {
      const body = streamBody(`https://${host}/`);
      await expectBody(400, strict.send('POST', '/api/v2/event-streams', body));
    }
    assert.equal((await strict.send('GET', '/api/v2/event-streams')).status, 200);
  });
});
