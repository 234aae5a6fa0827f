import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { describe, test, type TestContext } from 'node:test';
import { EventSource } from 'eventsource';
import { revokeKey } from '../../src/auth/keys.ts';
import { StoreUnavailable } from '../../src/core/errors.ts';
import { formatOffset } from '../../src/core/offset.ts';
import { managementApiId } from '../../src/core/types.ts';
import { dayMs } from '../../src/core/units.ts';
import { secondTenant } from '../auth/fixture.ts';
import { waitFor } from '../helpers/leat.ts';
import { openPull, type OpenPull, positionOf } from '../helpers/pull.ts';
import { postgres, sqliteFile } from '../store/engines.ts';
import type { Engine } from '../store/contract/engine.ts';
import { openApiFixture, type ApiResponse, type ApiFixture } from './fixture.ts';

async function openFixtureFor(
  t: TestContext,
  ...options: Parameters<typeof openApiFixture>
): Promise<ApiFixture> {
  const fixture = await openApiFixture(...options);
  t.after(() => fixture.close());
  return fixture;
}

interface PullOptions {
  readonly headers?: Readonly<Record<string, string>>;
  readonly token?: string;
}

function pullOf(fixture: ApiFixture, query = '', options: PullOptions = {}): Promise<OpenPull> {
  const { token = fixture.token, headers } = options;
  return openPull(`http://127.0.0.1:${fixture.port}/api/v2/events${query}`, token, headers);
}

/** Returns the problem of a rejected pull; an accepted pull would not end. */
async function refused(
  fixture: ApiFixture,
  query = '',
  options: PullOptions = {},
): Promise<ApiResponse['body']> {
  const pull = await pullOf(fixture, query, options);
  await pull.ended;
  const { statusCode, error, message, errorCode } = JSON.parse(pull.text());
  assert.equal(pull.status, statusCode);
  assert.ok(typeof error === 'string');
  return { statusCode, message, errorCode };
}

async function publish(fixture: ApiFixture, ...types: readonly string[]): Promise<string[]> {
  const events = types.map((type, n) => ({ type, data: { n } }));
  const response = await fixture.send('POST', '/events', events);
  assert.equal(response.status, 202, response.text);
  return response.body.map(({ offset }: { offset: string }) => offset);
}

const idsOf = (blocks: readonly { id: string | undefined }[]): (string | undefined)[] =>
  blocks.map(({ id }) => id && positionOf(id));

describe('a pull', () => {
  test('a pull begins with the greeting and receives events published from then on', async (t) => {
    const fixture = await openFixtureFor(t);
    const early = await publish(fixture, 'order.early');
    const pull = await pullOf(fixture);
    assert.equal(pull.status, 200);
    assert.equal(pull.headers['content-type'], 'text/event-stream');
    assert.equal(pull.headers['cache-control'], 'no-store');
    assert.equal(pull.headers['x-accel-buffering'], 'no');
    assert.equal(pull.headers['x-content-type-options'], 'nosniff');
    assert.match(String(pull.headers['x-ratelimit-remaining']), /^\d+$/);
    await pull.until(() => pull.blocks.length >= 3);
    const [offset = ''] = early;
    const start = `event: offset-only\nid: ${offset}\ndata: {"offset":"${offset}"}\n\n`;
    assert.equal(pull.text(), `:connected\n\nretry: 2000\n\n${start}`);

    const response = await fixture.send('POST', '/events', { type: 'order.paid', data: { n: 1 } });
    const [block] = await pull.events(1);
    assert.equal(block?.event, 'order.paid');
    assert.equal(block.id, response.body.offset);
    assert.deepEqual(Object.keys(block.data), ['offset', 'event']);
    assert.equal(block.data.offset, response.body.offset);
    const { id, source, specversion, type, data, svctenant, ...rest } = block.data.event;
    assert.deepEqual(
      { id, source, specversion, type, data, svctenant },
      {
        id: response.body.id,
        source: 'urn:leat:',
        specversion: '1.0',
        type: 'order.paid',
        data: { n: 1 },
        svctenant: 'main',
      },
    );
    assert.deepEqual(Object.keys(rest), ['time']);
    pull.close();
  });

  test('a pull resumes after an offset, at a time, or after Last-Event-ID, which has priority', async (t) => {
    const fixture = await openFixtureFor(t);
    await publish(fixture, 'a.one', 'a.two');
    fixture.auth.clock.move(1000);
    await publish(fixture, 'a.three');
    const after = (offset: number): string[] =>
      [1, 2, 3].filter((each) => each > offset).map((each) => formatOffset(each));
    for (const [query, lastEventId, expected] of [
      [`?from=${formatOffset(1)}`, undefined, after(1)],
      [`?from=${formatOffset(0)}`, undefined, after(0)],
      ['?from_timestamp=2026-03-01T09:30:01Z', undefined, after(2)],
      ['?from_timestamp=2026-03-01T09:30:00%2B00:00', undefined, after(0)],
      ['?from_timestamp=1999-01-01T00:00:00Z', undefined, after(0)],
      [`?from=${formatOffset(0)}`, formatOffset(2), after(2)],
      ['?from_timestamp=1999-01-01T00:00:00Z', formatOffset(1), after(1)],
      [`?from=${formatOffset(1)}`, '', after(1)],
    ] as const) {
      const headers = lastEventId === undefined ? {} : { 'last-event-id': lastEventId };
      const pull = await pullOf(fixture, query, { headers });
      assert.deepEqual(idsOf(await pull.events(expected.length)), expected, query);
      pull.close();
    }
  });

  test('a pull receives only events of the requested types', async (t) => {
    const fixture = await openFixtureFor(t);
    const pull = await pullOf(fixture, '?event_type=a.one&event_type=a.three');
    await publish(fixture, 'a.one', 'a.two', 'a.three', 'a.two', 'a.one');
    const blocks = await pull.events(3);
    assert.deepEqual(
      blocks.map(({ event }) => event),
      ['a.one', 'a.three', 'a.one'],
    );
    pull.close();
  });

  test('a pull receives no events of another tenant', async (t) => {
    const pull = { connectionsMax: 2 };
    const fixture = await openFixtureFor(t, {}, { domain: 'one.example.com', pull });
    const { tenant } = await secondTenant(fixture.auth);
    const headers = { host: 'one.example.com' };
    const open = await pullOf(fixture, '', { headers });
    const { log } = fixture.auth.store;
    const event = { chosen: false, time: 0, body: '{}' };
    await log.append(tenant.id, [{ ...event, id: 'evt_2', type: 'a.other' }]);
    await log.append(fixture.auth.tenant.id, [{ ...event, id: 'evt_1', type: 'a.own' }]);
    const [first] = await open.events(1);
    assert.equal(first?.event, 'a.own');
    open.close();
  });

  test('a pull sends a body with every kind of line break as one line', async (t) => {
    const fixture = await openFixtureFor(t);
    const pull = await pullOf(fixture);
    const data = { text: 'a\nb\r\nc\rd\u2028e\u2029f\n\nid: 7\n\n\u0000', 'id: 8\n\n': 1 };
    await fixture.send('POST', '/events', { type: 'a.made', data });
    const [block] = await pull.events(1);
    assert.deepEqual(block?.data.event.data, data);
    // The greeting, the offset of the start and the event.
    assert.equal(pull.blocks.length, 4);
    pull.close();
  });

  test('HEAD returns the headers of GET and opens no pull', async (t) => {
    const fixture = await openFixtureFor(t, {}, { pull: { connectionsMax: 1 } });
    for (let round = 0; round < 3; round += 1) {
      const response = await fixture.send('HEAD', '/events');
      assert.equal(response.status, 200);
      assert.equal(response.headers.get('content-type'), 'text/event-stream');
      assert.equal(response.headers.get('x-accel-buffering'), 'no');
      assert.equal(response.text, '');
    }
    const wrong = await fixture.send('HEAD', '/events?from=wrong');
    assert.equal(wrong.status, 400);
    const pull = await pullOf(fixture);
    assert.equal(pull.status, 200);
    assert.equal((await fixture.send('HEAD', '/events')).status, 403);
    pull.close();
  });
});

describe('a rejected pull', () => {
  test('an invalid query or offset is 400, and the message names it', async (t) => {
    const fixture = await openFixtureFor(t);
    await publish(fixture, 'a.one');
    const from = 'from (Offset to go on after).';
    const offset = (text: string): string =>
      `Query validation error: 'Object didn't pass validation for format offset: ${text}; send one of a response, such as MDAwMDAwMDAwMDQyLmNmZDhiMDRh' on property`;
    const both = `from=${formatOffset(0)}&from_timestamp=2026-01-01T00:00:00Z`;
    for (const [query, headers, message] of [
      ['?from=nonsense', {}, `${offset('nonsense')} ${from}`],
      ['?from=MDAwMDAwMDAwMDQ', {}, `${offset('MDAwMDAwMDAwMDQ')} ${from}`],
      [`?from=${'a'.repeat(1025)}`, {}, /String is too long \(1025 chars\), maximum 1024/],
      ['?from=', {}, /String is too short/],
      [`?from=${formatOffset(0)}&from=${formatOffset(1)}`, {}, /on property from /],
      [`?${both}`, {}, /from does not go with from_timestamp, send one of them/],
      [`?${both}`, { 'last-event-id': formatOffset(0) }, /from does not go with from_timestamp/],
      [
        '?from_timestamp=yesterday',
        {},
        /format date-time: yesterday; write .+' on property from_timestamp/,
      ],
      ['?from_timestamp=2026-02-30T00:00:00Z', {}, /format date-time/],
      ['?event_type=user', {}, /format event-type: user; write .+' on property event_type\.0/],
      [
        '?event_type=a.b&event_type=*',
        {},
        /format event-type: \*; write .+' on property event_type\.1/,
      ],
      ['?event_type=', {}, /on property event_type\.0/],
      [`?${'event_type=a.b&'.repeat(101)}`, {}, /Array is too long \(101\), maximum 100/],
      ['', { 'last-event-id': 'nonsense' }, `${offset('nonsense')} Last-Event-ID (Header, `],
    ] as const) {
      const problem = await refused(fixture, query, { headers });
      assert.equal(problem.statusCode, 400, query);
      assert.equal(problem.errorCode, 'invalid_query_string');
      if (typeof message === 'string') assert.ok(problem.message.startsWith(message), query);
      else assert.match(problem.message, message, query);
    }
  });

  test('an offset of an event that the log does not have there is 410', async (t) => {
    const fixture = await openFixtureFor(t);
    const [one = '', two = ''] = [
      ...(await publish(fixture, 'a.one')),
      ...(await publish(fixture, 'a.two')),
    ];
    const page = await fixture.auth.store.log.page(1, { after: 0, take: 1, bytesMax: 1 });
    const first = page.events[0]?.id;
    for (const gone of [
      formatOffset(1, 'evt_of_another_log'),
      formatOffset(2, first),
      formatOffset(3, first),
      formatOffset(3),
      formatOffset(999_999_999_999),
    ]) {
      for (const [query, headers] of [
        [`?from=${gone}`, {}],
        ['', { 'last-event-id': gone }],
      ] as const) {
        const problem = await refused(fixture, query, { headers });
        assert.deepEqual([problem.statusCode, problem.errorCode], [410, 'cursor_expired'], gone);
      }
    }
    for (const [offset, rest] of [
      [formatOffset(1), [two]],
      [one, [two]],
      [formatOffset(0), [one, two]],
    ] as const) {
      const pull = await pullOf(fixture, `?from=${offset}`);
      const events = await pull.events(rest.length);
      assert.deepEqual(
        events.map(({ id }) => id),
        rest,
        'publishing returned the same offsets',
      );
      pull.close();
    }
  });

  test('a missing token is 401, a token without the scope 403', async (t) => {
    const fixture = await openFixtureFor(t);
    const missing = await refused(fixture, '', { headers: { authorization: '' } });
    assert.deepEqual([missing.statusCode, missing.message], [401, 'Missing authentication']);
    const token = await fixture.tokenWith('read:event_streams');
    assert.deepEqual(await refused(fixture, '?from=wrong', { token }), {
      statusCode: 403,
      message: 'Insufficient scope; expected any of: read:events',
      errorCode: 'insufficient_scope',
    });
    const pull = await pullOf(fixture, '', { token: await fixture.tokenWith('read:events') });
    assert.equal(pull.status, 200);
    pull.close();
  });

  test('a pull above the connection limit is 403, before its query is checked', async (t) => {
    const fixture = await openFixtureFor(t, {}, { pull: { connectionsMax: 3 } });
    const problem = {
      statusCode: 403,
      message:
        'Maximum concurrent event stream connections reached. Please close existing connections.',
      errorCode: 'too_many_connections',
    };
    const token = await fixture.tokenWith('read:events');
    const pulls = [await pullOf(fixture), await pullOf(fixture)];
    assert.deepEqual(await refused(fixture), problem, 'above half, rounded up');
    pulls.push(await pullOf(fixture, '', { token }));
    assert.deepEqual(await refused(fixture, '', { token }), problem, 'above all');
    assert.deepEqual(await refused(fixture, '?from=wrong', { token }), problem);
    for (const pull of pulls) pull.close();
    await waitFor('a free connection', async () => {
      const pull = await pullOf(fixture);
      pull.close();
      return pull.status === 200;
    });
  });

  test('a pull is 503 while the process accepts no requests', async (t) => {
    const fixture = await openFixtureFor(t);
    fixture.ready = false;
    assert.equal((await refused(fixture)).statusCode, 503);
  });

  test('a pull that fails after its reservation releases it', async (t) => {
    let isAway = false;
    const fixture = await openFixtureFor(
      t,
      {},
      {
        pull: { connectionsMax: 1 },
        around: (store) => ({
          ...store,
          log: {
            ...store.log,
            head: async (tenant) => {
              if (isAway) throw new StoreUnavailable('away');
              return store.log.head(tenant);
            },
          },
        }),
      },
    );
    await publish(fixture, 'a.one');
    fixture.auth.clock.move(8 * dayMs);
    const now = await newToken(fixture);
    for (let round = 0; round < 2; round += 1) {
      isAway = true;
      assert.equal((await refused(fixture, '', now)).statusCode, 503);
      isAway = false;
      const beyond = await refused(fixture, `?from=${formatOffset(2)}`, now);
      assert.equal(beyond.statusCode, 410);
      const expired = await refused(fixture, `?from=${formatOffset(0)}`, now);
      assert.equal(expired.statusCode, 410);
    }
    const pull = await pullOf(fixture, '', now);
    assert.equal(pull.status, 200);
    pull.close();
  });

  test('pipelined pulls begin one after the other, and release their reservations when the client disconnects', async (t) => {
    const fixture = await openFixtureFor(t, {}, { pull: { connectionsMax: 1 } });
    const socket = sendRaw(fixture.port, fixture.token);
    await readUntil(socket, /retry: 2000/);
    const head = `Host: a\r\nAuthorization: Bearer ${fixture.token}\r\n\r\n`;
    socket.write(`GET /api/v2/events HTTP/1.1\r\n${head}`.repeat(2));
    await waitFor('all connections to be in use', async () => {
      return (await fixture.send('HEAD', '/events')).status === 403;
    });
    socket.destroy();
    await waitFor('free connections', async () => {
      return (await fixture.send('HEAD', '/events')).status === 200;
    });
    const pull = await pullOf(fixture);
    assert.equal(pull.status, 200);
    pull.close();
  });

  test('a pull whose client disconnects before it begins releases its reservation', async (t) => {
    let reading = 0;
    let resolveHead: (() => void) | undefined;
    const fixture = await openFixtureFor(
      t,
      {},
      {
        pull: { connectionsMax: 1 },
        around: (store) => ({
          ...store,
          log: {
            ...store.log,
            head: async (tenant) => {
              reading += 1;
              if (reading === 1) await new Promise<void>((resolve) => (resolveHead = resolve));
              return store.log.head(tenant);
            },
          },
        }),
      },
    );
    const gone = sendRaw(fixture.port, fixture.token);
    await waitFor('the response', () => resolveHead !== undefined);
    gone.destroy();
    await waitFor('the connection to be gone', async () => {
      const count = await new Promise<number>((done) =>
        fixture.app.server.getConnections((_, connections) => done(connections)),
      );
      return count === 0;
    });
    resolveHead?.();
    const pull = await waitFor('a free connection', async () => {
      const next = await pullOf(fixture);
      return next.status === 200 && next;
    });
    pull.close();
  });
});

describe('an offset that has passed the retention', () => {
  for (const engine of [sqliteFile, postgres]) {
    test(
      `an offset is 410 by age, before events are pruned, on ${engine.name}`,
      { tags: ['long'] },
      async (t) => {
        const fixture = await openFixtureOn(t, engine);
        const { clock, store, tenant } = fixture.auth;
        const gone = {
          statusCode: 410,
          message: 'Cursor points to data no longer available in the stream.',
          errorCode: 'cursor_expired',
        };
        const append = async (...ids: readonly string[]): Promise<void> => {
          const events = ids.map((id) => ({
            id,
            chosen: false,
            type: 'a.made',
            time: 0,
            body: '{}',
          }));
          await store.log.append(tenant.id, events);
        };
        const [first, second] = [formatOffset(1), formatOffset(2)];
        await append('evt_1', 'evt_2');
        clock.move(4 * dayMs);
        await append('evt_3');
        clock.move(3 * dayMs);
        const still = await pullOf(fixture, `?from=${formatOffset(0)}`, await newToken(fixture));
        assert.deepEqual(
          idsOf(await still.events(3)),
          [1, 2, 3].map((each) => formatOffset(each)),
        );
        still.close();

        clock.move(1);
        const now = await newToken(fixture);
        assert.deepEqual(await refused(fixture, `?from=${first}`, now), gone);
        const headers = { 'last-event-id': formatOffset(0) };
        assert.deepEqual(await refused(fixture, '', { ...now, headers }), gone);
        const pull = await pullOf(fixture, `?from=${second}`, now);
        assert.deepEqual(idsOf(await pull.events(1)), [formatOffset(3)]);
        pull.close();
        const oldest = await pullOf(fixture, '?from_timestamp=2000-01-01T00:00:00Z', now);
        assert.deepEqual(idsOf(await oldest.events(1)), [formatOffset(3)]);
        oldest.close();

        await store.log.prune(tenant.id, { olderThanMs: -1, take: 100 });
        assert.deepEqual(await refused(fixture, `?from=${second}`, now), gone, 'it was pruned');
        const end = await pullOf(fixture, `?from=${formatOffset(3)}`, now);
        assert.equal(end.status, 200, 'no event was missed');
        await append('evt_4');
        assert.deepEqual(idsOf(await end.events(1)), [formatOffset(4)]);
        end.close();
      },
    );
  }
});

describe('an open pull', () => {
  for (const engine of [sqliteFile, postgres]) {
    test(
      `an open pull receives all events published during the pull, once and in order, on ${engine.name}`,
      { tags: ['long'] },
      async (t) => {
        const fixture = await openFixtureOn(t, engine);
        await publish(fixture, ...Array<string>(50).fill('a.made'));
        const live = await Promise.all(Array.from({ length: 10 }, () => pullOf(fixture)));
        const publishing = Promise.all(
          Array.from({ length: 4 }, async () => {
            for (let round = 0; round < 25; round += 1) {
              await publish(fixture, ...Array<string>(20).fill('a.made'), 'b.made');
            }
          }),
        );
        const lagging = await Promise.all(
          Array.from({ length: 10 }, () => pullOf(fixture, `?from=${formatOffset(0)}`)),
        );
        const filtered = await pullOf(fixture, `?from=${formatOffset(0)}&event_type=b.made`);
        await publishing;
        const total = 50 + 4 * 25 * 21;
        for (const pull of lagging) {
          const expected = Array.from({ length: total }, (_, index) => formatOffset(index + 1));
          assert.deepEqual(idsOf(await pull.events(total)), expected);
        }
        for (const pull of live) {
          const expected = Array.from({ length: total - 50 }, (_, index) =>
            formatOffset(index + 51),
          );
          assert.deepEqual(idsOf(await pull.events(total - 50)), expected);
        }
        assert.equal(new Set(idsOf(await filtered.events(100))).size, 100);
        for (const pull of [...live, ...lagging, filtered]) pull.close();
      },
    );
  }

  test('a pull ends 5 s after its token expires', async (t) => {
    const fixture = await openFixtureFor(t);
    const pull = await pullOf(fixture);
    fixture.auth.clock.move(300_000);
    assert.equal(await pull.ended, 'complete', 'a pull ends after 5 minutes');
    const { clock } = fixture.auth;
    const exp = expiryOf(fixture.token) * 1000;
    clock.move(exp - clock.now() - 1000);
    const second = await pullOf(fixture);
    clock.move(5_500);
    assert.equal(
      second.blocks.some(({ event }) => event === 'error'),
      false,
    );
    clock.move(500);
    assert.equal(await second.ended, 'complete');
    assert.equal((await refused(fixture)).statusCode, 401);
  });

  test('a pull ends when its client is deleted or no longer global', async (t) => {
    const fixture = await openFixtureFor(t);
    for (const change of ['delete', 'clear'] as const) {
      const client = await fixture.auth.client({}, ['read:events']);
      const token = await fixture.auth.token(client);
      const pull = await pullOf(fixture, '', { token });
      const other = await pullOf(fixture);
      const { clientId } = client;
      const response =
        change === 'delete'
          ? await fixture.send('DELETE', `/clients/${clientId}`)
          : await fixture.send('PATCH', `/clients/${clientId}`, { global: false });
      assert.ok(response.status < 300, response.text);
      fixture.auth.clock.move(500);
      assert.equal(await pull.ended, 'complete');
      assert.doesNotMatch(pull.text(), /event: error/);
      const problem = await refused(fixture, '', { token });
      assert.deepEqual([problem.statusCode, problem.message], [401, 'Client is not global.']);
      await publish(fixture, 'a.made');
      await other.events(1);
      other.close();
    }
  });

  test('a pull ends when its grant is deleted or loses the scope, or the secret of its client is rotated', async (t) => {
    const fixture = await openFixtureFor(t);
    const { store, tenant } = fixture.auth;
    for (const [change, status] of [
      ['delete', 403],
      ['narrow', 403],
      ['rotate', 401],
    ] as const) {
      const client = await fixture.auth.client({}, ['read:events', 'read:users']);
      const token = await fixture.auth.token(client);
      const pull = await pullOf(fixture, '', { token });
      const other = await pullOf(fixture);
      const grant = await store.grants.of(tenant.id, client.clientId, managementApiId);
      const path = `/client-grants/${grant?.id}`;
      const changes = {
        delete: () => fixture.send('DELETE', path),
        narrow: () => fixture.send('PATCH', path, { scope: ['read:users'] }),
        rotate: () => fixture.send('POST', `/clients/${client.clientId}/rotate-secret`),
      };
      const response = await changes[change]();
      assert.ok(response.status < 300, response.text);
      fixture.auth.clock.move(500);
      assert.equal(await pull.ended, 'complete', change);
      assert.doesNotMatch(pull.text(), /event: error/);
      assert.equal((await refused(fixture, '', { token })).statusCode, status);
      await publish(fixture, 'a.made');
      await other.events(1);
      other.close();
    }
  });

  test('a pull ends when the key of its token is revoked', async (t) => {
    const fixture = await openFixtureFor(t);
    const pull = await pullOf(fixture);
    const { store, tenant, clock } = fixture.auth;
    const kid = JSON.parse(
      Buffer.from(fixture.token.split('.')[0] ?? '', 'base64url').toString(),
    ).kid;
    await revokeKey(store, tenant.id, kid, { now: clock.now() });
    clock.move(500);
    assert.equal(await pull.ended, 'complete');
  });

  test('a pull ends without error when the app closes, and does not delay that', async (t) => {
    const fixture = await openFixtureFor(t);
    const pulls = await Promise.all(Array.from({ length: 5 }, () => pullOf(fixture)));
    await fixture.app.close();
    for (const pull of pulls) {
      assert.equal(await pull.ended, 'complete');
      assert.doesNotMatch(pull.text(), /event: error/);
    }
  });

  test('after a pull its connection can be used for the next request', async (t) => {
    const fixture = await openFixtureFor(t);
    const socket = connect(fixture.port, '127.0.0.1');
    const head = `Host: a\r\nAuthorization: Bearer ${fixture.token}\r\n\r\n`;
    socket.write(`GET /api/v2/events HTTP/1.1\r\n${head}`);
    await readUntil(socket, /retry: 2000/);
    fixture.auth.clock.move(300_000);
    await readUntil(socket, /0\r\n\r\n$/);
    socket.write(`GET /api/v2/events HTTP/1.1\r\n${head}`);
    await readUntil(socket, /retry: 2000/);
    socket.destroy();
  });

  test('a pull of an HTTP/1.0 client ends by closing the connection', async (t) => {
    const fixture = await openFixtureFor(t);
    const socket = connect(fixture.port, '127.0.0.1');
    socket.write(`GET /api/v2/events HTTP/1.0\r\nAuthorization: Bearer ${fixture.token}\r\n\r\n`);
    const greeted = await readUntil(socket, /retry: 2000\n\n/);
    assert.doesNotMatch(greeted, /transfer-encoding/i);
    const ended = once(socket, 'close');
    fixture.auth.clock.move(300_000);
    socket.resume();
    await ended;
  });

  test('a pull whose client does not read is closed, and does not delay others', async (t) => {
    const fixture = await openFixtureFor(t, {}, { pull: { stalledMs: 100, connectionsMax: 2 } });
    const token = await fixture.tokenWith('read:events');
    const quick = await pullOf(fixture, '', { token });
    const slow = sendRaw(fixture.port, fixture.token);
    await readUntil(slow, /retry: 2000/);
    slow.pause();
    const gone = once(slow, 'close');
    const data = { text: 'x'.repeat(100_000) };
    const events = Array.from({ length: 30 }, () => ({ type: 'a.big', data }));
    let published = 0;
    const warnings = (): string[] => fixture.logged.map(({ message }) => message);
    while (!warnings().includes('a pull was closed because its client did not read')) {
      assert.ok(published < 3000, 'still open after 300 MB');
      const response = await fixture.send('POST', '/events', events);
      assert.equal(response.status, 202);
      published += events.length;
      await quick.events(published);
      // Runs the periodic checks of the pull too.
      fixture.auth.clock.move(500);
    }
    const { facts } = fixture.logged[0] ?? {};
    assert.deepEqual(Object.keys(facts ?? {}), ['tenant', 'client', 'offset']);
    assert.equal((facts as { client: string }).client, fixture.auth.manager.clientId);
    slow.resume();
    await gone;
    const again = await pullOf(fixture);
    assert.equal(again.status, 200, 'its connection is free');
    again.close();
    quick.close();
  });

  test(
    'a pull whose client reads a burst late is not closed and misses nothing',
    { tags: ['long'] },
    async (t) => {
      const fixture = await openFixtureFor(t, {}, { pull: { stalledMs: 60_000 } });
      const pull = await pullOf(fixture);
      pull.pause();
      const data = { text: 'x'.repeat(100_000) };
      const events = Array.from({ length: 30 }, () => ({ type: 'a.big', data }));
      for (let round = 0; round < 10; round += 1) await fixture.send('POST', '/events', events);
      pull.resume();
      const blocks = await pull.events(300);
      assert.deepEqual(
        idsOf(blocks),
        Array.from({ length: 300 }, (_, index) => formatOffset(index + 1)),
      );
      assert.deepEqual(fixture.logged, []);
      pull.close();
    },
  );
});

describe('the eventsource client', () => {
  test('eventsource resumes automatically after its last event when the server ends a pull', async (t) => {
    const fixture = await openFixtureFor(t);
    const sent: (string | null)[] = [];
    const source = new EventSource(`http://127.0.0.1:${fixture.port}/api/v2/events`, {
      fetch: (url, init) => {
        const headers = new Headers(init.headers);
        sent.push(headers.get('last-event-id'));
        headers.set('authorization', `Bearer ${fixture.token}`);
        return fetch(url, { ...init, headers });
      },
    });
    t.after(() => source.close());
    const seen: { id: string; type: string }[] = [];
    for (const type of ['a.one', 'a.two', 'a.three']) {
      source.addEventListener(type, (event) => {
        seen.push({ id: positionOf(event.lastEventId), type: JSON.parse(event.data).event.type });
      });
    }
    await new Promise((resolve) => source.addEventListener('open', resolve, { once: true }));
    await publish(fixture, 'a.one');
    await waitFor('the first event', () => seen.length === 1);
    fixture.auth.clock.move(300_000);
    await waitFor('a new connection', () => source.readyState === source.CONNECTING);
    await publish(fixture, 'a.two');
    await waitFor('the connection', () => source.readyState === source.OPEN);
    await publish(fixture, 'a.three');
    await waitFor('three events', () => seen.length === 3);
    assert.deepEqual(seen, [
      { id: formatOffset(1), type: 'a.one' },
      { id: formatOffset(2), type: 'a.two' },
      { id: formatOffset(3), type: 'a.three' },
    ]);
    assert.deepEqual(
      sent.map((id) => id && positionOf(id)),
      [null, formatOffset(1)],
    );
  });
});

function openFixtureOn(t: TestContext, engine: Engine): Promise<ApiFixture> {
  return openFixtureFor(t, {}, { open: () => engine.open() });
}

/** Returns a new token, because days have passed. */
async function newToken(fixture: ApiFixture): Promise<{ token: string }> {
  return { token: await fixture.auth.token() };
}

function expiryOf(token: string): number {
  return JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString()).exp;
}

function sendRaw(port: number, token: string): Socket {
  const socket = connect(port, '127.0.0.1');
  socket.on('error', () => {});
  socket.write(`GET /api/v2/events HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${token}\r\n\r\n`);
  return socket;
}

/** Reads from a socket until the text matches. */
async function readUntil(socket: Socket, pattern: RegExp): Promise<string> {
  let text = '';
  while (!pattern.test(text)) {
    const [chunk] = (await once(socket, 'data')) as [Buffer];
    text += chunk.toString();
  }
  return text;
}
