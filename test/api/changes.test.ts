import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { secondTenant } from '../auth/fixture.ts';
import { openPull, type OpenPull } from '../helpers/pull.ts';
import { type ApiFixture, openApiFixture } from './fixture.ts';

async function openFixtureFor(
  t: TestContext,
  options: Parameters<typeof openApiFixture>[1] = {},
): Promise<ApiFixture> {
  const fixture = await openApiFixture({}, options);
  t.after(() => fixture.close());
  return fixture;
}

function changesOf({ port, token: main }: ApiFixture, token = main): Promise<OpenPull> {
  return openPull(`http://127.0.0.1:${port}/api/v2/changes`, token);
}

/** Returns the data of the `changed` messages so far. */
const changed = ({ blocks }: Pick<OpenPull, 'blocks'>): unknown[] =>
  blocks.filter(({ event }) => event === 'changed').map(({ data }) => data);

const everything = { streams: [], all: true, overview: true };

describe('GET /changes', () => {
  test('above the limits of connections the response is 403, also for one client alone', async (t) => {
    const fixture = await openFixtureFor(t, { changes: { connectionsMax: 2 } });
    const one = await changesOf(fixture);
    const refused = await changesOf(fixture);
    await refused.ended;
    assert.equal(refused.status, 403);
    assert.equal(JSON.parse(refused.text()).errorCode, 'too_many_connections');
    const other = await changesOf(fixture, await fixture.tokenWith('read:event_streams'));
    assert.equal(other.status, 200);
    const third = await changesOf(fixture, await fixture.tokenWith('read:event_streams'));
    assert.equal(third.status, 403);
    one.close();
    other.close();
  });

  test('a connection says that everything is to be read, then which stream changed', async (t) => {
    const fixture = await openFixtureFor(t);
    const watch = await changesOf(fixture);
    assert.deepEqual(
      [watch.status, watch.headers['content-type'], watch.headers['x-accel-buffering']],
      [200, 'text/event-stream', 'no'],
    );
    await watch.until(() => watch.blocks.length >= 2);
    assert.equal(watch.text(), ':connected\n\nretry: 2000\n\n');
    await fixture.auth.clock.advance(1_000);
    await watch.until(() => changed(watch).length === 1);
    const stream = await fixture.send('POST', '/event-streams', {
      name: 'crm',
      subscriptions: [{ event_type: 'user.created' }],
      destination: {
        type: 'webhook',
        configuration: {
          webhook_endpoint: 'https://receiver.example/',
          webhook_authorization: { method: 'bearer', token: 'secret-of-the-receiver' },
        },
      },
    });
    assert.equal(stream.status, 201, stream.text);
    const { id } = stream.body;
    await fixture.auth.clock.advance(1_000);
    await watch.until(() => changed(watch).length === 2);
    for (const [method, path, body] of [
      ['PATCH', `/event-streams/${id}`, { name: 'renamed' }],
      ['PATCH', `/event-streams/${id}`, { status: 'disabled' }],
      ['DELETE', `/event-streams/${id}`, undefined],
    ] as const) {
      const before = changed(watch).length;
      const response = await fixture.send(method, path, body);
      assert.ok(response.status < 300, response.text);
      await fixture.auth.clock.advance(1_000);
      await watch.until(() => changed(watch).length > before);
    }
    await fixture.send('POST', '/events', { type: 'order.paid', data: {} });
    await fixture.auth.clock.advance(1_000);
    await watch.until(() => changed(watch).length === 6);
    const ofStream = { streams: [id], overview: true };
    const published = { streams: [], overview: true };
    assert.deepEqual(changed(watch), [
      everything,
      ofStream,
      ofStream,
      ofStream,
      ofStream,
      published,
    ]);
    watch.close();
  });

  test('a connection ends when its token expires, and when its client is deleted', async (t) => {
    const fixture = await openFixtureFor(t);
    const client = await fixture.auth.client({}, ['read:event_streams']);
    const watch = await changesOf(fixture, await fixture.auth.token(client));
    const other = await changesOf(fixture);
    const gone = await fixture.send('DELETE', `/clients/${client.clientId}`);
    assert.equal(gone.status, 204, gone.text);
    await fixture.auth.clock.advance(1_000);
    assert.equal(await watch.ended, 'complete');
    assert.doesNotMatch(watch.text(), /event: error/);
    fixture.auth.clock.move(86_400_000);
    await fixture.auth.clock.advance(1_000);
    assert.equal(await other.ended, 'complete');
    assert.equal(fixture.watchers.open, 0);
  });

  test('a connection of another tenant does not learn that this one has changed', async (t) => {
    const fixture = await openApiFixture({}, { domain: 'one.example.com' });
    t.after(() => fixture.close());
    const { tenant } = await secondTenant(fixture.auth);
    const url = `http://127.0.0.1:${fixture.port}/api/v2/changes`;
    const watch = await openPull(url, fixture.token, { host: 'one.example.com' });
    await fixture.auth.clock.advance(1_000);
    await watch.until(() => changed(watch).length > 0);
    const event = { id: 'evt_1', chosen: false, type: 'a.other', time: 0, body: '{}' };
    await fixture.auth.store.log.append(tenant.id, [event]);
    await fixture.auth.clock.advance(3_000);
    await fixture.auth.store.log.append(fixture.auth.tenant.id, [event]);
    await fixture.auth.clock.advance(1_000);
    await watch.until(() => changed(watch).length > 1);
    assert.deepEqual(changed(watch), [everything, { streams: [], overview: true }]);
    watch.close();
  });

  test('the end of the service ends open connections', async (t) => {
    const fixture = await openFixtureFor(t);
    const watch = await changesOf(fixture);
    await fixture.app.close();
    assert.equal(await watch.ended, 'complete');
  });
});
