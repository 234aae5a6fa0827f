import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { databaseConnection as connection } from '../../src/core/users.ts';
import { postgres, sqliteFile } from '../store/engines.ts';
import { type ApiFixture, openApiFixture } from './fixture.ts';

/**
 * Receivers ignore changes that are older than what they have (docs/receivers.md), so the time of each
 * change of a user must be later than that of the change before it, in the order of the log.
 */
for (const engine of [sqliteFile, postgres]) {
  describe(`${engine.name}: times of changes`, () => {
    test('PATCH and DELETE of a user: each event is later than the one before it, while the clock stands and after it went back', async (t) => {
      const fixture = await open(t, engine);
      const id = await createUser(fixture, 'ada');
      for (const moveMs of [0, 0, -5000, 0, 1, -1]) {
        fixture.auth.time.at += moveMs;
        const changed = await fixture.send('PATCH', pathOf(id), { given_name: `${moveMs}` });
        assert.equal(changed.status, 200, changed.text);
      }
      assert.equal((await fixture.send('DELETE', pathOf(id))).status, 204);
      await assertOrdered(fixture, id, 8);
    });

    test('concurrent PATCHes of a user: the event with the final state has the latest time', async (t) => {
      const fixture = await open(t, engine);
      for (let round = 0; round < 10; round += 1) {
        const id = await createUser(fixture, `user-${round}`);
        const names = ['a', 'b', 'c', 'd'];
        // Their requests begin in the order of the list, and commit in any.
        const responses = names.map((given_name) => {
          fixture.auth.time.at += 1;
          return fixture.send('PATCH', pathOf(id), { given_name });
        });
        for (const { status } of await Promise.all(responses)) assert.equal(status, 200);
        await assertOrdered(fixture, id, names.length + 1);
      }
    });

    test('every PATCH of a stream advances updated_at, while the clock stands and after it went back', async (t) => {
      const fixture = await open(t, engine);
      const created = await fixture.send('POST', '/event-streams', {
        name: 'crm',
        destination: {
          type: 'webhook',
          configuration: {
            webhook_endpoint: 'https://hooks.example.net/leat',
            webhook_authorization: { method: 'bearer', token: 'secret' },
          },
        },
        subscriptions: [{ event_type: 'user.created' }],
      });
      assert.equal(created.status, 201, created.text);
      const path = `/event-streams/${created.body.id}`;
      const changes = [{ name: 'sales' }, { status: 'disabled' }, { status: 'enabled' }];
      let before: string = created.body.updated_at;
      for (const change of changes) {
        fixture.auth.time.at -= 1000;
        const changed = await fixture.send('PATCH', path, change);
        assert.equal(changed.status, 200, changed.text);
        const after: string = changed.body.updated_at;
        assert.ok(after > before, `${JSON.stringify(change)}: ${after} after ${before}`);
        before = after;
      }
    });
  });
}

async function open(t: TestContext, engine: typeof postgres): Promise<ApiFixture> {
  const opened = await engine.open();
  const fixture = await openApiFixture({}, { open: async () => opened });
  t.after(() => fixture.close());
  return fixture;
}

async function createUser(fixture: ApiFixture, name: string): Promise<string> {
  const sent = { email: `${name}@example.com`, password: 'a horse in a blue house', connection };
  const { status, text, body } = await fixture.send('POST', '/users', sent);
  assert.equal(status, 201, text);
  return body.user_id;
}

const pathOf = (id: string): string => `/users/${encodeURIComponent(id)}`;

/** Requires that the events of the user in the log have rising times, the last one that of its state. */
async function assertOrdered(fixture: ApiFixture, id: string, count: number): Promise<void> {
  const { store, tenant } = fixture.auth;
  const { events } = await store.log.page(tenant.id, { after: 0, take: 1000, bytesMax: 1e8 });
  const ofUser = events
    .map(({ body }) => JSON.parse(body) as { time: string; data: { object: UserShown } })
    .filter(({ data }) => data.object.user_id === id);
  const times = ofUser.map(({ time }) => time);
  assert.equal(times.length, count);
  assert.deepEqual(times, [...new Set(times)].toSorted(), `of ${id}`);
  const last = ofUser.at(-1);
  const { deleted_at: deletedAt, updated_at: updatedAt } = last?.data.object ?? {};
  assert.equal(last?.time, deletedAt ?? updatedAt);
}

interface UserShown {
  readonly user_id: string;
  readonly updated_at: string;
  readonly deleted_at?: string;
}
