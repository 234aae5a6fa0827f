import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { once } from 'node:events';
import { describe, test, type TestContext } from 'node:test';
import { secondTenant } from '../auth/fixture.ts';
import { openApiFixture, type ApiResponse, type ApiFixture } from './fixture.ts';

const openTrusting = async (t: TestContext): Promise<ApiFixture> => {
  const fixture = await openApiFixture({ trustProxy: ['127.0.0.1'] });
  t.after(() => fixture.close());
  return fixture;
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

  test(
    'many new users of one tenant do not delay a new user of another',
    { tags: ['long'] },
    async (t) => {
      const fixture = await openTrusting(t);
      const other = await secondTenant(fixture.auth);
      fixture.auth.clock.move(10_000);
      await fixture.raw('GET', '/healthz');
      const host = { 'x-forwarded-host': other.tenant.domain, 'content-type': 'application/json' };
      const tokenRequest = {
        grant_type: 'client_credentials',
        audience: '/api/v2/',
        client_id: other.manager.clientId,
        client_secret: other.manager.clientSecret,
      };
      const { body } = await fixture.raw(
        'POST',
        '/oauth/token',
        JSON.stringify(tokenRequest),
        host,
      );
      const main = { 'x-forwarded-host': fixture.auth.tenant.domain };
      const order: string[] = [];
      const greedy = many.map(async (n) => {
        const { status } = await fixture.send('POST', '/users', newUser(n), main);
        assert.equal(status, 201);
        order.push('greedy');
      });
      await Promise.race(greedy);
      const headers = { ...host, authorization: `Bearer ${body.access_token}` };
      const user = JSON.stringify(newUser(0));
      const created: ApiResponse = await fixture.raw('POST', '/api/v2/users', user, headers);
      order.push('other');
      assert.equal(created.status, 201, created.text);
      await Promise.all(greedy);
      assert.ok(order.indexOf('other') < many.length / 2, order.join());
    },
  );

  test('passwords are not hashed for clients that have disconnected', async (t) => {
    const fixture = await openTrusting(t);
    for (const n of many) {
      const body = JSON.stringify(newUser(n));
      const socket = connect(fixture.port, '127.0.0.1').on('error', () => {});
      socket.write(
        `POST /api/v2/users HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer ${fixture.token}\r\n` +
          `content-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
      );
      await once(socket, 'connect');
      socket.destroySoon();
    }
    const last = await fixture.send('POST', '/users', newUser(many.length));
    assert.equal(last.status, 201);
    const { body } = await fixture.send('GET', '/users?include_totals=true&per_page=1');
    assert.ok(body.total < many.length, `${body.total} users`);
  });
});
