import assert from 'node:assert/strict';
import { after, before, describe, test, type TestContext } from 'node:test';
import { EventSource } from 'eventsource';
import { fetchToken, waitFor } from '../helpers/leat.ts';
import {
  expectBody,
  eventsOf,
  freshName,
  freshType,
  publish,
  publishAll,
} from '../helpers/api-client.ts';
import { type Fixture, openFixture, reopenFixture } from './fixture.ts';
import { openReader, type Read, type Reader } from './reader.ts';

/** The unchanged package reads the log over TLS; its option `fetch` adds the token, as it recommends. */

let fixture: Fixture;

before(async () => {
  fixture = await openFixture();
});
after(() => fixture?.close());

/** Opens the pull of the current fixture. */
function open(
  t: TestContext,
  query: string,
  types: readonly string[],
  token = fixture.token,
): Promise<Reader> {
  return openReader(t, { url: fixture.url, query, types, token: () => token });
}

const idsOf = (messages: readonly Read[]): (string | undefined)[] =>
  messages.map(({ data }) => data.event?.id);

describe('EventSource', () => {
  test('EventSource receives each event under its type, with its offset as id', async (t) => {
    const type = freshType();
    const reader = await open(t, '', [type]);
    const ids = await publishAll(fixture, eventsOf(type, 20));
    const messages = await reader.read(20);
    assert.deepEqual(idsOf(messages), ids);
    for (const { lastEventId, data } of messages) assert.equal(lastEventId, data.offset);
    assert.deepEqual(reader.resumed, [undefined]);
  });

  test('EventSource receives the requested types only, from the requested start', async (t) => {
    const [one, two, three] = [freshType(), freshType(), freshType()];
    const start = await expectBody<{ offset: string }>(
      202,
      fixture.send('POST', '/api/v2/events', { type: one, data: {} }),
    );
    const wanted: string[] = [];
    for (const type of [two, one, three, two, one]) {
      const id = await publish(fixture, type);
      if (type !== two) wanted.push(id);
    }
    const query = `?from=${start.offset}&event_type=${one}&event_type=${three}`;
    const reader = await open(t, query, [one, two, three]);
    assert.deepEqual(idsOf(await reader.read(wanted.length)), wanted);
  });

  test('EventSource continues after its last event when the server restarts', async (t) => {
    const type = freshType();
    const now = { token: () => fixture.token, url: fixture.url, query: '' };
    const reader = await openReader(t, { ...now, types: [type] });
    // The connection of another one ends before its first event.
    const quietType = freshType();
    const quiet = await openReader(t, {
      ...now,
      query: `?event_type=${quietType}`,
      types: [quietType],
    });
    const earlier = await publishAll(fixture, eventsOf(type, 3));
    const last = (await reader.read(3)).at(-1)?.lastEventId;

    assert.equal(await fixture.stop(), 0);
    await waitFor('the end of the connection', () => reader.errors.length > 0);
    fixture = await reopenFixture(fixture);
    const during = await publishAll(fixture, eventsOf(type, 3));
    const [missed] = await publishAll(fixture, eventsOf(quietType, 1));
    await waitFor('the connection', () => reader.source.readyState === EventSource.OPEN);
    const since = await publishAll(fixture, eventsOf(type, 3));

    assert.deepEqual(idsOf(await reader.read(9)), [...earlier, ...during, ...since]);
    assert.deepEqual(idsOf(await quiet.read(1)), [missed]);
    assert.deepEqual(new Set(reader.resumed), new Set([undefined, last]));
    // No response refused it: an error without a code is a closed connection.
    assert.deepEqual(new Set(reader.errors), new Set([undefined]));
  });

  test('EventSource moves past events of other types', { tags: ['long'] }, async (t) => {
    const type = freshType();
    const reader = await open(t, `?event_type=${type}`, [type, 'offset-only']);
    const stored = await expectBody<{ offset: string }>(
      202,
      fixture.send('POST', '/api/v2/events', { type: freshType(), data: {} }),
    );
    // Progress is sent every 15 s.
    const [start, progress] = await reader.read(2);
    assert.equal(start?.type, 'offset-only');
    assert.ok(progress !== undefined);
    assert.equal(progress.type, 'offset-only');
    assert.deepEqual(progress.data, { offset: progress.lastEventId });
    assert.ok(progress.lastEventId >= stored.offset);
  });

  test(
    'EventSource is disconnected when its client is deleted, and refused afterwards',
    { tags: ['long'] },
    async (t) => {
      const created = await expectBody<{ client_id: string; client_secret: string }>(
        201,
        fixture.send('POST', '/api/v2/clients', { name: freshName(), global: true }),
      );
      const { client_id: id, client_secret: secret } = created;
      const audience = `https://${fixture.domain}/api/v2/`;
      const grant = { client_id: id, audience, scope: ['read:events'] };
      await expectBody(201, fixture.send('POST', '/api/v2/client-grants', grant));
      const token = await fetchToken(fixture.url, { id, secret });
      const reader = await open(t, '', [], token);

      await expectBody(204, fixture.send('DELETE', `/api/v2/clients/${id}`));
      await waitFor('its end', () => reader.source.readyState === EventSource.CLOSED);
      assert.deepEqual(reader.errors, [undefined, 401]);
    },
  );

  test('EventSource is refused without a token', async (t) => {
    const source = new EventSource(`${fixture.url}/api/v2/events`);
    t.after(() => source.close());
    const codes: (number | undefined)[] = [];
    source.addEventListener('error', ({ code }) => {
      codes.push(code);
    });
    await waitFor('its end', () => source.readyState === EventSource.CLOSED);
    assert.deepEqual(codes, [401]);
  });
});
