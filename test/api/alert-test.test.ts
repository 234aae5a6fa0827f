import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { StoreUnavailable } from '../../src/core/errors.ts';
import { allEntries } from '../helpers/audit-log.ts';
import { assertProblem, openApiFixture } from './fixture.ts';

describe('POST /alerts/test', () => {
  test('a node sends one test alert at a time; only accepted requests leave an entry', async (t) => {
    const ended = Promise.withResolvers<void>();
    const begun = Promise.withResolvers<void>();
    const named: string[] = [];
    const fixture = await openApiFixture(
      {},
      {
        node: {
          sendTestAlert: async ({ name }) => {
            named.push(name);
            begun.resolve();
            await ended.promise;
            return [{ channel: 'webhook', reason: 'status 500' }];
          },
        },
      },
    );
    t.after(() => fixture.close());
    const first = fixture.send('POST', '/alerts/test');
    await begun.promise;
    const second = await fixture.send('POST', '/alerts/test');
    const message = 'Another test alert is being sent. Repeat the request when it has ended.';
    assertProblem(second, 429, message, 'too_many_requests');
    assert.equal(second.headers.get('retry-after'), '1');
    ended.resolve();
    assert.deepEqual((await first).body, {
      channels: [{ channel: 'webhook', sent: false, error_message: 'status 500' }],
    });
    assert.equal((await fixture.send('POST', '/alerts/test')).status, 200);
    assert.deepEqual(named, ['main', 'main']);
    const { store, tenant } = fixture.auth;
    const entries = await allEntries(store, tenant.id, { types: ['sapi'] });
    assert.deepEqual(
      entries.map(({ details }) => details['path']),
      ['/api/v2/alerts/test', '/api/v2/alerts/test'],
    );
  });

  test(
    'nothing is sent when the audit log cannot be written, and the next request is served',
    { tags: ['long'] },
    async (t) => {
      let sent = 0;
      const fixture = await openApiFixture(
        {},
        {
          node: {
            sendTestAlert: async () => {
              sent += 1;
              return [];
            },
          },
        },
      );
      t.after(() => fixture.close());
      const add = t.mock.method(fixture.auth.store.auditLog, 'add', () =>
        Promise.reject(new StoreUnavailable('away')),
      );
      assert.equal((await fixture.send('POST', '/alerts/test')).status, 503);
      assert.equal(sent, 0);
      add.mock.restore();
      assert.equal((await fixture.send('POST', '/alerts/test')).status, 200);
      assert.equal(sent, 1);
    },
  );
});
