import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { once } from 'node:events';
import { describe, test, type TestContext } from 'node:test';
import { secondTenant } from '../auth/fixture.ts';
import { openSite, type Received, type Site } from './fixture.ts';

const openTrusting = async (t: TestContext): Promise<Site> => {
  const site = await openSite({ trustProxy: ['127.0.0.1'] });
  t.after(() => site.close());
  return site;
};

function newUser(n: number): object {
  return {
    connection: 'Username-Password-Authentication',
    email: `user${n}@example.com`,
    password: 'Quiet-River-42',
  };
}

describe('the passwords of many new users', () => {
  const many = Array.from({ length: 30 }, (_, n) => n);

  test('of one tenant do not keep a new user of another waiting', async (t) => {
    const site = await openTrusting(t);
    const other = await secondTenant(site.house);
    site.house.clock.move(10_000);
    await site.raw('GET', '/healthz');
    const host = { 'x-forwarded-host': other.tenant.domain, 'content-type': 'application/json' };
    const asked = {
      grant_type: 'client_credentials',
      audience: '/api/v2/',
      client_id: other.manager.clientId,
      client_secret: other.manager.clientSecret,
    };
    const { body } = await site.raw('POST', '/oauth/token', JSON.stringify(asked), host);
    const main = { 'x-forwarded-host': site.house.tenant.domain };
    const order: string[] = [];
    const greedy = many.map(async (n) => {
      const { status } = await site.send('POST', '/users', newUser(n), main);
      assert.equal(status, 201);
      order.push('greedy');
    });
    await Promise.race(greedy);
    const headers = { ...host, authorization: `Bearer ${body.access_token}` };
    const user = JSON.stringify(newUser(0));
    const created: Received = await site.raw('POST', '/api/v2/users', user, headers);
    order.push('other');
    assert.equal(created.status, 201, created.text);
    await Promise.all(greedy);
    assert.ok(order.indexOf('other') < many.length / 2, order.join());
  });

  test('are not hashed for clients that have gone', async (t) => {
    const site = await openTrusting(t);
    for (const n of many) {
      const body = JSON.stringify(newUser(n));
      const socket = connect(site.port, '127.0.0.1').on('error', () => {});
      socket.write(
        `POST /api/v2/users HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer ${site.token}\r\n` +
          `content-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
      );
      await once(socket, 'connect');
      socket.destroySoon();
    }
    const last = await site.send('POST', '/users', newUser(many.length));
    assert.equal(last.status, 201);
    const { body } = await site.send('GET', '/users?include_totals=true&per_page=1');
    assert.ok(body.total < many.length, `${body.total} users`);
  });
});
