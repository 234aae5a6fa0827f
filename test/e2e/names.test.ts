import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { startDns, type Zone } from '../helpers/dns.ts';
import { startEndpoint } from '../helpers/endpoint.ts';
import {
  bootstrapClient,
  fetchToken,
  freePort,
  makePlace,
  type Running,
  startLeat,
} from '../helpers/leat.ts';
import { createStream, failuresOf, freshType, type Leat, publish } from '../helpers/story.ts';
import { createTenant, twoTenantsSettings } from '../helpers/tenants.ts';

/** Name servers as a tenant may have them, beside streams and requests that need others. */

const silentNames = 20;
const eventsEach = 20;

test('silent name servers delay nothing but the streams that need them', async (t) => {
  const zone: Zone = (name) => (name.startsWith('silent') ? 'silence' : ['127.0.0.1']);
  const { main, two } = await startWithTwoTenants(t, zone);
  const receiver = await startEndpoint((response) => {
    // Every request needs a connection, and every connection a name.
    response.writeHead(204, { connection: 'close' }).end();
  });
  t.after(() => receiver.close());

  const silentType = freshType();
  for (let n = 0; n < silentNames; n += 1) {
    await createStream(main, `http://silent-${n}.test/hook`, { types: [silentType] });
  }
  const healthy = await Promise.all(
    [main, two].map(async (leat, n) => {
      const type = freshType();
      const url = `http://healthy-${n}.test:${receiver.port}/hook`;
      return { leat, type, stream: await createStream(leat, url, { types: [type] }) };
    }),
  );
  const ids: string[] = [];
  for (let n = 0; n < eventsEach; n += 1) {
    await publish(main, silentType);
    for (const { leat, type } of healthy) ids.push(await publish(leat, type));
    // Hashes a secret in the threads that getaddrinfo would occupy.
    await fetchToken(main.url, bootstrapClient);
    await receiver.arrival(ids.length);
  }
  for (const id of ids) assert.equal(receiver.of(id).length, 1, `${id} was sent more than once`);
  for (const { leat, stream } of healthy) {
    assert.deepEqual(await failuresOf(leat, stream.id), []);
  }
});

async function startWithTwoTenants(
  t: TestContext,
  zone: Zone,
): Promise<{ main: Running; two: Leat }> {
  const dns = await startDns(zone);
  t.after(() => dns.close());
  const place = await makePlace();
  t.after(() => place.remove());
  const main = await startLeat(place, {
    LEAT_DNS_SERVERS: dns.servers.join(','),
    LEAT_RETRY_DELAYS_MS: '100,100,100',
    ...twoTenantsSettings(await freePort()),
  });
  t.after(() => main.kill());
  return { main, two: await createTenant(main, place.file) };
}
