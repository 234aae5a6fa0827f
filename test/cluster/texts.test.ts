import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { startCluster } from '../helpers/cluster.ts';

const message = 'A text has the character U+0000, which cannot be stored; leave it out.';

/** PostgreSQL can neither store nor search U+0000; SQLite can do both. */
describe('U+0000 in a request to a node on PostgreSQL', () => {
  test(
    'U+0000 is refused where PostgreSQL would search or store it, and nothing is lost',
    { tags: ['long'] },
    async (t) => {
      const cluster = await startCluster(t);
      const node = await cluster.start();
      const ids = ['clients', 'users', 'roles', 'resource-servers', 'client-grants'];
      const destination = {
        type: 'webhook',
        configuration: {
          webhook_endpoint: 'http://127.0.0.1:9/',
          webhook_authorization: { method: 'bearer', token: 'token' },
        },
      };
      const requests: [method: string, path: string, body?: unknown][] = [
        ...ids
          .filter((of) => of !== 'client-grants')
          .map((of): [string, string] => ['GET', `${of}/%00`]),
        ...ids.map((of): [string, string] => ['DELETE', `${of}/%00`]),
        ['GET', 'users-by-email?email=a%00@b.c'],
        ['GET', 'client-grants?client_id=%00'],
        ['GET', 'client-grants?audience=%00'],
        ['GET', 'roles/%00/users'],
        ['POST', 'clients', { name: 'a\u0000' }],
        ['POST', 'roles', { name: 'a\u0000' }],
        ['POST', 'resource-servers', { identifier: 'https://a.example.com', name: 'a\u0000' }],
        ['POST', 'event-streams', { name: 'a\u0000', destination }],
      ];
      for (const [method, path, body] of requests) {
        const response = await node.send(method, `/api/v2/${path}`, body);
        const expected = {
          statusCode: 400,
          error: 'Bad Request',
          message,
          errorCode: 'invalid_body',
        };
        assert.deepEqual(await response.json(), expected, `${method} ${path}`);
      }
      const token = await fetch(`${node.url}/oauth/token`, {
        method: 'POST',
        body: new URLSearchParams({
          grant_type: 'client_credentials',
          client_id: '\u0000',
          client_secret: 'secret',
          audience: 'https://localhost/api/v2/',
        }),
      });
      assert.deepEqual(
        [token.status, await token.json()],
        [400, { error: 'invalid_request', error_description: message }],
      );
    },
  );

  test(
    'U+0000 is accepted in the data of an event and in a profile',
    { tags: ['long'] },
    async (t) => {
      const cluster = await startCluster(t);
      const node = await cluster.start();
      const event = await node.send('POST', '/api/v2/events', {
        type: 'order.paid',
        id: 'key\u0000',
        data: { 'a\u0000': '\u0000' },
      });
      assert.equal(event.status, 202);
      const user = await node.send('POST', '/api/v2/users', {
        email: 'ada@example.com',
        password: 'correct-horse-7-battery',
        connection: 'Username-Password-Authentication',
        name: 'Ada\u0000',
      });
      assert.equal(((await user.json()) as { name: string }).name, 'Ada\u0000');
    },
  );
});
