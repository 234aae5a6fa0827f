import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { startDns, type Zone } from '../helpers/dns.ts';
import { startEndpoint } from '../helpers/endpoint.ts';
import {
  bootstrapClient,
  fetchToken,
  freePort,
  createTempStore,
  type Running,
  startLeat,
} from '../helpers/leat.ts';
import { createStream, failuresOf, freshType, type Leat, publish } from '../helpers/api-client.ts';
import { createTenant, twoTenantsSettings } from '../helpers/tenants.ts';

/** Hostile name servers of one tenant, next to streams and requests that need other names. */

const eventsEach = 20;

/** Hosts of one tenant, by the behaviour of their name servers. */
const hostile = ['silent', 'flapping', 'lying', 'failing'].flatMap((kind) =>
  Array.from({ length: kind === 'silent' ? 20 : 5 }, (_, n) => `${kind}-${n}.test`),
);
const issuers = Array.from({ length: 8 }, (_, n) => `https://silent-issuer-${n}.test/`);

const zone: Zone = (name, count) => {
  if (name.startsWith('silent')) return 'silence';
  if (name.startsWith('flapping')) return count % 2 === 1 ? ['127.0.0.1'] : 'silence';
  if (name.startsWith('lying')) return count % 2 === 1 ? ['10.0.0.1'] : 'forgeries';
  return name.startsWith('failing') ? 'failure' : ['127.0.0.1'];
};

test(
  'hostile name servers delay no other stream, tenant or request',
  { tags: ['long'] },
  async (t) => {
    const { main, two, questions } = await startWithTwoTenants(t);
    const receiver = await startEndpoint((response) => {
      // Every request needs a connection, and every connection a name.
      response.writeHead(204, { connection: 'close' }).end();
    });
    t.after(() => receiver.close());

    const hostileType = freshType();
    for (const host of hostile) {
      await createStream(main, `http://${host}/hook`, { types: [hostileType] });
    }
    const healthy = await Promise.all(
      [main, two].map(async (leat, n) => {
        const type = freshType();
        const url = `http://healthy-${n}.test:${receiver.port}/hook`;
        return { leat, type, stream: await createStream(leat, url, { types: [type] }) };
      }),
    );
    const refusals = issuers.map((issuer) => statusWith(main, tokenOf(issuer)));
    const ids: string[] = [];
    for (let n = 0; n < eventsEach; n += 1) {
      await publish(main, hostileType);
      for (const { leat, type } of healthy) ids.push(await publish(leat, type));
      // Hashes a secret in the threads that getaddrinfo would occupy.
      await fetchToken(main.url, bootstrapClient);
      await receiver.arrival(ids.length);
    }
    for (const id of ids) assert.equal(receiver.of(id).length, 1, `${id} was sent more than once`);
    for (const { leat, stream } of healthy) {
      assert.deepEqual(await failuresOf(leat, stream.id), []);
    }
    for (const status of await Promise.all(refusals)) assert.ok(status >= 400, `${status}`);
    for (const name of [...hostile, ...issuers.map((issuer) => new URL(issuer).hostname)]) {
      assert.ok(questions.includes(`${name} A`), `${name} was looked up`);
    }
  },
);

/** Returns a token whose signature can be verified only with the keys of its issuer. */
function tokenOf(issuer: string): string {
  const part = (object: object): string =>
    Buffer.from(JSON.stringify(object)).toString('base64url');
  const claims = { iss: issuer, sub: 'a', aud: 'a', iat: 1_772_357_400, exp: 4_000_000_000 };
  const signature = Buffer.alloc(256, 1).toString('base64url');
  return `${part({ alg: 'RS256', typ: 'JWT', kid: 'a' })}.${part(claims)}.${signature}`;
}

async function statusWith(leat: Running, token: string): Promise<number> {
  const headers = { authorization: `Bearer ${token}` };
  const response = await fetch(`${leat.url}/api/v2/event-streams`, { headers });
  await response.arrayBuffer();
  return response.status;
}

async function startWithTwoTenants(
  t: TestContext,
): Promise<{ main: Running; two: Leat; questions: readonly string[] }> {
  const dns = await startDns(zone);
  t.after(() => dns.close());
  const tempStore = await createTempStore();
  t.after(() => tempStore.remove());
  const main = await startLeat(tempStore, {
    LEAT_DNS_SERVERS: dns.servers.join(','),
    LEAT_TRUSTED_ISSUERS: issuers.join(','),
    LEAT_RETRY_DELAYS_MS: '100,100,100',
    ...twoTenantsSettings(await freePort()),
  });
  t.after(() => main.kill());
  return { main, two: await createTenant(main, tempStore.file), questions: dns.questions };
}
