import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { describe, test, type TestContext } from 'node:test';
import { EventSource } from 'eventsource';
import { revokeKey } from '../../src/auth/keys.ts';
import { StoreUnavailable } from '../../src/core/errors.ts';
import { formatOffset } from '../../src/core/offset.ts';
import { secondTenant } from '../auth/fixture.ts';
import { waitFor } from '../helpers/leat.ts';
import { openPull, type OpenPull, placeOf } from '../helpers/pull.ts';
import { postgres, sqliteFile } from '../store/engines.ts';
import type { Engine } from '../store/contract/engine.ts';
import { openSite, type Received, type Site } from './fixture.ts';

const dayMs = 86_400_000;

async function siteOf(t: TestContext, ...options: Parameters<typeof openSite>): Promise<Site> {
  const site = await openSite(...options);
  t.after(() => site.close());
  return site;
}

interface PullWish {
  readonly headers?: Readonly<Record<string, string>>;
  readonly token?: string;
}

function pullOf(site: Site, query = '', wish: PullWish = {}): Promise<OpenPull> {
  const { token = site.token, headers } = wish;
  return openPull(`http://127.0.0.1:${site.port}/api/v2/events${query}`, token, headers);
}

/** A refused pull, as JSON; a pull that is not refused would not end. */
async function refused(site: Site, query = '', wish: PullWish = {}): Promise<Received['body']> {
  const pull = await pullOf(site, query, wish);
  await pull.ended;
  const { statusCode, error, message, errorCode } = JSON.parse(pull.text());
  assert.equal(pull.status, statusCode);
  assert.ok(typeof error === 'string');
  return { statusCode, message, errorCode };
}

async function publish(site: Site, ...types: readonly string[]): Promise<string[]> {
  const events = types.map((type, n) => ({ type, data: { n } }));
  const answer = await site.send('POST', '/events', events);
  assert.equal(answer.status, 202, answer.text);
  return answer.body.map(({ offset }: { offset: string }) => offset);
}

const idsOf = (blocks: readonly { id: string | undefined }[]): (string | undefined)[] =>
  blocks.map(({ id }) => id && placeOf(id));

describe('a pull', () => {
  test('begins with the greeting and is given what is published from then on', async (t) => {
    const site = await siteOf(t);
    await publish(site, 'order.early');
    const pull = await pullOf(site);
    assert.equal(pull.status, 200);
    assert.equal(pull.headers['content-type'], 'text/event-stream');
    assert.equal(pull.headers['cache-control'], 'no-store');
    assert.equal(pull.headers['x-accel-buffering'], 'no');
    assert.equal(pull.headers['x-content-type-options'], 'nosniff');
    assert.match(String(pull.headers['x-ratelimit-remaining']), /^\d+$/);
    await pull.until(() => pull.blocks.length >= 2);
    assert.equal(pull.text(), ':connected\n\nretry: 2000\n\n');

    const answer = await site.send('POST', '/events', { type: 'order.paid', data: { n: 1 } });
    const [block] = await pull.events(1);
    assert.equal(block?.event, 'order.paid');
    assert.equal(block.id, answer.body.offset);
    assert.deepEqual(Object.keys(block.data), ['offset', 'event']);
    assert.equal(block.data.offset, answer.body.offset);
    const { id, source, specversion, type, data, svctenant, ...rest } = block.data.event;
    assert.deepEqual(
      { id, source, specversion, type, data, svctenant },
      {
        id: answer.body.id,
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

  test('goes on after an offset, from a time, and after the last id, which wins', async (t) => {
    const site = await siteOf(t);
    await publish(site, 'a.one', 'a.two');
    site.house.clock.move(1000);
    await publish(site, 'a.three');
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
      const pull = await pullOf(site, query, { headers });
      assert.deepEqual(idsOf(await pull.events(expected.length)), expected, query);
      pull.close();
    }
  });

  test('is given the types it asks for, and no others', async (t) => {
    const site = await siteOf(t);
    const pull = await pullOf(site, '?event_type=a.one&event_type=a.three');
    await publish(site, 'a.one', 'a.two', 'a.three', 'a.two', 'a.one');
    const blocks = await pull.events(3);
    assert.deepEqual(
      blocks.map(({ event }) => event),
      ['a.one', 'a.three', 'a.one'],
    );
    pull.close();
  });

  test('is given nothing of another tenant, and counts against its own tenant', async (t) => {
    const pull = { connectionsMax: 2 };
    const site = await siteOf(t, {}, { domain: 'one.example.com', pull });
    const { tenant } = await secondTenant(site.house);
    const headers = { host: 'one.example.com' };
    const open = await pullOf(site, '', { headers });
    const { log } = site.house.store;
    const event = { chosen: false, time: 0, body: '{}' };
    await log.append(tenant.id, [{ ...event, id: 'evt_2', type: 'a.other' }]);
    await log.append(site.house.tenant.id, [{ ...event, id: 'evt_1', type: 'a.own' }]);
    const [first] = await open.events(1);
    assert.equal(first?.event, 'a.own');
    open.close();
  });

  test('shows a body with every kind of line break as one line', async (t) => {
    const site = await siteOf(t);
    const pull = await pullOf(site);
    const data = { text: 'a\nb\r\nc\rd\u2028e\u2029f\n\nid: 7\n\n\u0000', 'id: 8\n\n': 1 };
    await site.send('POST', '/events', { type: 'a.made', data });
    const [block] = await pull.events(1);
    assert.deepEqual(block?.data.event.data, data);
    assert.equal(pull.blocks.length, 3);
    pull.close();
  });

  test('opens nothing for HEAD, which answers as GET does', async (t) => {
    const site = await siteOf(t, {}, { pull: { connectionsMax: 1 } });
    for (let round = 0; round < 3; round += 1) {
      const answer = await site.send('HEAD', '/events');
      assert.equal(answer.status, 200);
      assert.equal(answer.headers.get('content-type'), 'text/event-stream');
      assert.equal(answer.headers.get('x-accel-buffering'), 'no');
      assert.equal(answer.text, '');
    }
    const wrong = await site.send('HEAD', '/events?from=wrong');
    assert.equal(wrong.status, 400);
    const pull = await pullOf(site);
    assert.equal(pull.status, 200);
    assert.equal((await site.send('HEAD', '/events')).status, 403);
    pull.close();
  });
});

describe('a pull that cannot begin', () => {
  test('for its query or its offset is 400, and says which', async (t) => {
    const site = await siteOf(t);
    await publish(site, 'a.one');
    const from = 'from (Offset to go on after).';
    const offset = (text: string): string =>
      `Query validation error: 'Object didn't pass validation for format offset: ${text}' on property`;
    const both = `from=${formatOffset(0)}&from_timestamp=2026-01-01T00:00:00Z`;
    for (const [query, headers, message] of [
      ['?from=nonsense', {}, `${offset('nonsense')} ${from}`],
      ['?from=MDAwMDAwMDAwMDQ', {}, `${offset('MDAwMDAwMDAwMDQ')} ${from}`],
      [`?from=${'a'.repeat(1025)}`, {}, /String is too long \(1025 chars\), maximum 1024/],
      ['?from=', {}, /String is too short/],
      [`?from=${formatOffset(0)}&from=${formatOffset(1)}`, {}, /on property from /],
      [`?${both}`, {}, /from does not go with from_timestamp, send one of them/],
      [`?${both}`, { 'last-event-id': formatOffset(0) }, /from does not go with from_timestamp/],
      ['?from_timestamp=yesterday', {}, /format date-time: yesterday' on property from_timestamp/],
      ['?from_timestamp=2026-02-30T00:00:00Z', {}, /format date-time/],
      ['?event_type=user', {}, /format event-type: user' on property event_type\.0/],
      ['?event_type=a.b&event_type=*', {}, /format event-type: \*' on property event_type\.1/],
      ['?event_type=', {}, /on property event_type\.0/],
      [`?${'event_type=a.b&'.repeat(101)}`, {}, /Array is too long \(101\), maximum 100/],
      ['', { 'last-event-id': 'nonsense' }, `${offset('nonsense')} Last-Event-ID (Header, `],
    ] as const) {
      const problem = await refused(site, query, { headers });
      assert.equal(problem.statusCode, 400, query);
      assert.equal(problem.errorCode, 'invalid_query_string');
      if (typeof message === 'string') assert.ok(problem.message.startsWith(message), query);
      else assert.match(problem.message, message, query);
    }
    const unlisted = await pullOf(site, '?take=1&unknown=2');
    assert.equal(unlisted.status, 200);
    unlisted.close();
  });

  test('after an event that the log does not have at that place is 410', async (t) => {
    const site = await siteOf(t);
    const [one = '', two = ''] = [
      ...(await publish(site, 'a.one')),
      ...(await publish(site, 'a.two')),
    ];
    const page = await site.house.store.log.page(1, { after: 0, take: 1, bytesMax: 1 });
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
        const problem = await refused(site, query, { headers });
        assert.deepEqual([problem.statusCode, problem.errorCode], [410, 'cursor_expired'], gone);
      }
    }
    for (const [offset, rest] of [
      [formatOffset(1), [two]],
      [one, [two]],
      [formatOffset(0), [one, two]],
    ] as const) {
      const pull = await pullOf(site, `?from=${offset}`);
      const events = await pull.events(rest.length);
      assert.deepEqual(
        events.map(({ id }) => id),
        rest,
        'an offset is the one that publishing answered',
      );
      pull.close();
    }
  });

  test('for its token is 401, and 403 without the scope', async (t) => {
    const site = await siteOf(t);
    const missing = await refused(site, '', { headers: { authorization: '' } });
    assert.deepEqual([missing.statusCode, missing.message], [401, 'Missing authentication']);
    const token = await site.tokenWith('read:event_streams');
    assert.deepEqual(await refused(site, '?from=wrong', { token }), {
      statusCode: 403,
      message: 'Insufficient scope; expected any of: read:events',
      errorCode: 'insufficient_scope',
    });
    const pull = await pullOf(site, '', { token: await site.tokenWith('read:events') });
    assert.equal(pull.status, 200);
    pull.close();
  });

  test('for too many open ones is 403, before its query is looked at', async (t) => {
    const site = await siteOf(t, {}, { pull: { connectionsMax: 3 } });
    const problem = {
      statusCode: 403,
      message:
        'Maximum concurrent event stream connections reached. Please close existing connections.',
      errorCode: 'too_many_connections',
    };
    const token = await site.tokenWith('read:events');
    const pulls = [await pullOf(site), await pullOf(site)];
    assert.deepEqual(await refused(site), problem, 'above half, rounded up');
    pulls.push(await pullOf(site, '', { token }));
    assert.deepEqual(await refused(site, '', { token }), problem, 'above all');
    assert.deepEqual(await refused(site, '?from=wrong', { token }), problem);
    for (const pull of pulls) pull.close();
    await waitFor('a place', async () => {
      const pull = await pullOf(site);
      pull.close();
      return pull.status === 200;
    });
  });

  test('because the store or the process is away is 503', async (t) => {
    const site = await siteOf(t);
    site.ready = false;
    assert.equal((await refused(site)).statusCode, 503);
  });

  test('gives its place back, whatever refuses it', async (t) => {
    let isAway = false;
    const site = await siteOf(
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
    await publish(site, 'a.one');
    site.house.clock.move(8 * dayMs);
    const now = await fresh(site);
    for (let round = 0; round < 2; round += 1) {
      isAway = true;
      assert.equal((await refused(site, '', now)).statusCode, 503);
      isAway = false;
      const beyond = await refused(site, `?from=${formatOffset(2)}`, now);
      assert.equal(beyond.statusCode, 410);
      const expired = await refused(site, `?from=${formatOffset(0)}`, now);
      assert.equal(expired.statusCode, 410);
    }
    const pull = await pullOf(site, '', now);
    assert.equal(pull.status, 200);
    pull.close();
  });

  test('gives its place back when it was asked for behind another and both are gone', async (t) => {
    const site = await siteOf(t, {}, { pull: { connectionsMax: 6 } });
    const socket = sendRaw(site.port, site.token);
    await readUntil(socket, /retry: 2000/);
    const head = `Host: a\r\nAuthorization: Bearer ${site.token}\r\n\r\n`;
    socket.write(`GET /api/v2/events HTTP/1.1\r\n${head}`.repeat(2));
    await waitFor('all places to be taken', async () => {
      return (await site.send('HEAD', '/events')).status === 403;
    });
    socket.destroy();
    await waitFor('places', async () => (await site.send('HEAD', '/events')).status === 200);
    const pulls = [await pullOf(site), await pullOf(site), await pullOf(site)];
    assert.deepEqual(
      pulls.map(({ status }) => status),
      [200, 200, 200],
    );
    for (const pull of pulls) pull.close();
  });

  test('gives its place back, also when its client has gone meanwhile', async (t) => {
    let reading = 0;
    let answer: (() => void) | undefined;
    const site = await siteOf(
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
              if (reading === 1) await new Promise<void>((resolve) => (answer = resolve));
              return store.log.head(tenant);
            },
          },
        }),
      },
    );
    const gone = sendRaw(site.port, site.token);
    await waitFor('the answer', () => answer !== undefined);
    gone.destroy();
    await waitFor('the connection to be gone', async () => {
      const count = await new Promise<number>((done) =>
        site.app.server.getConnections((_, connections) => done(connections)),
      );
      return count === 0;
    });
    answer?.();
    const pull = await waitFor('a place', async () => {
      const next = await pullOf(site);
      return next.status === 200 && next;
    });
    pull.close();
  });
});

describe('an offset that has passed the retention', () => {
  for (const engine of [sqliteFile, postgres]) {
    test(`is 410 by its age and not by what is left, on ${engine.name}`, async (t) => {
      const site = await siteOn(t, engine);
      const { clock, store, tenant } = site.house;
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
      const still = await pullOf(site, `?from=${formatOffset(0)}`, await fresh(site));
      assert.deepEqual(
        idsOf(await still.events(3)),
        [1, 2, 3].map((each) => formatOffset(each)),
      );
      still.close();

      clock.move(1);
      const now = await fresh(site);
      assert.deepEqual(await refused(site, `?from=${first}`, now), gone);
      const headers = { 'last-event-id': formatOffset(0) };
      assert.deepEqual(await refused(site, '', { ...now, headers }), gone);
      const pull = await pullOf(site, `?from=${second}`, now);
      assert.deepEqual(idsOf(await pull.events(1)), [formatOffset(3)]);
      pull.close();
      const oldest = await pullOf(site, '?from_timestamp=2000-01-01T00:00:00Z', now);
      assert.deepEqual(idsOf(await oldest.events(1)), [formatOffset(3)]);
      oldest.close();

      await store.log.prune(tenant.id, { olderThanMs: -1, take: 100 });
      assert.deepEqual(await refused(site, `?from=${second}`, now), gone, 'it is not there');
      const end = await pullOf(site, `?from=${formatOffset(3)}`, now);
      assert.equal(end.status, 200, 'nothing was lost');
      await append('evt_4');
      assert.deepEqual(idsOf(await end.events(1)), [formatOffset(4)]);
      end.close();
    });
  }
});

describe('an open pull', () => {
  for (const engine of [sqliteFile, postgres]) {
    test(`is given all that is published meanwhile, once and in order, on ${engine.name}`, async (t) => {
      const site = await siteOn(t, engine);
      await publish(site, ...Array<string>(50).fill('a.made'));
      const live = await Promise.all(Array.from({ length: 10 }, () => pullOf(site)));
      const publishing = Promise.all(
        Array.from({ length: 4 }, async () => {
          for (let round = 0; round < 25; round += 1) {
            await publish(site, ...Array<string>(20).fill('a.made'), 'b.made');
          }
        }),
      );
      const behind = await Promise.all(
        Array.from({ length: 10 }, () => pullOf(site, `?from=${formatOffset(0)}`)),
      );
      const filtered = await pullOf(site, `?from=${formatOffset(0)}&event_type=b.made`);
      await publishing;
      const total = 50 + 4 * 25 * 21;
      for (const pull of behind) {
        const expected = Array.from({ length: total }, (_, index) => formatOffset(index + 1));
        assert.deepEqual(idsOf(await pull.events(total)), expected);
      }
      for (const pull of live) {
        const expected = Array.from({ length: total - 50 }, (_, index) => formatOffset(index + 51));
        assert.deepEqual(idsOf(await pull.events(total - 50)), expected);
      }
      assert.equal(new Set(idsOf(await filtered.events(100))).size, 100);
      for (const pull of [...live, ...behind, filtered]) pull.close();
    });
  }

  test('ends with its token, 5 s after its end', async (t) => {
    const site = await siteOf(t);
    const pull = await pullOf(site);
    site.house.clock.move(300_000);
    assert.equal(await pull.ended, 'complete', 'it ends by itself before');
    const { clock } = site.house;
    const exp = expiryOf(site.token) * 1000;
    clock.move(exp - clock.now() - 1000);
    const second = await pullOf(site);
    clock.move(5_500);
    assert.equal(
      second.blocks.some(({ event }) => event === 'error'),
      false,
    );
    clock.move(500);
    assert.equal(await second.ended, 'complete');
    assert.equal((await refused(site)).statusCode, 401);
  });

  test('ends when its client is deleted, or is not global any more', async (t) => {
    const site = await siteOf(t);
    for (const change of ['delete', 'clear'] as const) {
      const client = await site.house.client({}, ['read:events']);
      const token = await site.house.token(client);
      const pull = await pullOf(site, '', { token });
      const other = await pullOf(site);
      const { clientId } = client;
      const answer =
        change === 'delete'
          ? await site.send('DELETE', `/clients/${clientId}`)
          : await site.send('PATCH', `/clients/${clientId}`, { global: false });
      assert.ok(answer.status < 300, answer.text);
      site.house.clock.move(500);
      assert.equal(await pull.ended, 'complete');
      assert.doesNotMatch(pull.text(), /event: error/);
      const problem = await refused(site, '', { token });
      assert.deepEqual([problem.statusCode, problem.message], [401, 'Client is not global.']);
      await publish(site, 'a.made');
      await other.events(1);
      other.close();
    }
  });

  test('ends when the key of its token is revoked', async (t) => {
    const site = await siteOf(t);
    const pull = await pullOf(site);
    const { store, tenant, clock } = site.house;
    const kid = JSON.parse(Buffer.from(site.token.split('.')[0] ?? '', 'base64url').toString()).kid;
    await revokeKey(store, tenant.id, kid, clock.now());
    clock.move(500);
    assert.equal(await pull.ended, 'complete');
  });

  test('ends as a matter of course when the app closes, and holds nothing up', async (t) => {
    const site = await siteOf(t);
    const pulls = await Promise.all(Array.from({ length: 5 }, () => pullOf(site)));
    await site.app.close();
    for (const pull of pulls) {
      assert.equal(await pull.ended, 'complete');
      assert.doesNotMatch(pull.text(), /event: error/);
    }
  });

  test('leaves its connection to the next request', async (t) => {
    const site = await siteOf(t);
    const socket = connect(site.port, '127.0.0.1');
    const head = `Host: a\r\nAuthorization: Bearer ${site.token}\r\n\r\n`;
    socket.write(`GET /api/v2/events HTTP/1.1\r\n${head}`);
    await readUntil(socket, /retry: 2000/);
    site.house.clock.move(300_000);
    await readUntil(socket, /0\r\n\r\n$/);
    socket.write(`GET /api/v2/events HTTP/1.1\r\n${head}`);
    await readUntil(socket, /retry: 2000/);
    socket.destroy();
  });

  test('of an HTTP/1.0 client ends with its connection', async (t) => {
    const site = await siteOf(t);
    const socket = connect(site.port, '127.0.0.1');
    socket.write(`GET /api/v2/events HTTP/1.0\r\nAuthorization: Bearer ${site.token}\r\n\r\n`);
    const greeted = await readUntil(socket, /retry: 2000\n\n$/);
    assert.doesNotMatch(greeted, /transfer-encoding/i);
    const ended = once(socket, 'close');
    site.house.clock.move(300_000);
    socket.resume();
    await ended;
  });

  test('whose client does not read is cut off, and others are not held up', async (t) => {
    const site = await siteOf(t, {}, { pull: { stalledMs: 100, connectionsMax: 2 } });
    const token = await site.tokenWith('read:events');
    const quick = await pullOf(site, '', { token });
    const slow = sendRaw(site.port, site.token);
    await readUntil(slow, /retry: 2000/);
    slow.pause();
    const gone = once(slow, 'close');
    const data = { text: 'x'.repeat(100_000) };
    const events = Array.from({ length: 30 }, () => ({ type: 'a.big', data }));
    let published = 0;
    const warnings = (): string[] => site.logged.map(({ message }) => message);
    while (!warnings().includes('a pull was closed because its client did not read')) {
      assert.ok(published < 3000, 'it is still there after 300 MB');
      const answer = await site.send('POST', '/events', events);
      assert.equal(answer.status, 202);
      published += events.length;
      await quick.events(published);
      // Looking at its times is not what keeps it.
      site.house.clock.move(500);
    }
    const { facts } = site.logged[0] ?? {};
    assert.deepEqual(Object.keys(facts ?? {}), ['tenant', 'client', 'offset']);
    assert.equal((facts as { client: string }).client, site.house.manager.clientId);
    slow.resume();
    await gone;
    const again = await pullOf(site);
    assert.equal(again.status, 200, 'its place is free');
    again.close();
    quick.close();
  });

  test('that reads a burst late, but reads, is not cut off and misses nothing', async (t) => {
    const site = await siteOf(t, {}, { pull: { stalledMs: 60_000 } });
    const pull = await pullOf(site);
    pull.pause();
    const data = { text: 'x'.repeat(100_000) };
    const events = Array.from({ length: 30 }, () => ({ type: 'a.big', data }));
    for (let round = 0; round < 10; round += 1) await site.send('POST', '/events', events);
    pull.resume();
    const blocks = await pull.events(300);
    assert.deepEqual(
      idsOf(blocks),
      Array.from({ length: 300 }, (_, index) => formatOffset(index + 1)),
    );
    assert.deepEqual(site.logged, []);
    pull.close();
  });
});

describe('the eventsource client', () => {
  test('reads on by itself where it was when the server ends the connection', async (t) => {
    const site = await siteOf(t);
    const sent: (string | null)[] = [];
    const source = new EventSource(`http://127.0.0.1:${site.port}/api/v2/events`, {
      fetch: (url, init) => {
        const headers = new Headers(init.headers);
        sent.push(headers.get('last-event-id'));
        headers.set('authorization', `Bearer ${site.token}`);
        return fetch(url, { ...init, headers });
      },
    });
    t.after(() => source.close());
    const seen: { id: string; type: string }[] = [];
    for (const type of ['a.one', 'a.two', 'a.three']) {
      source.addEventListener(type, (event) => {
        seen.push({ id: placeOf(event.lastEventId), type: JSON.parse(event.data).event.type });
      });
    }
    await new Promise((resolve) => source.addEventListener('open', resolve, { once: true }));
    await publish(site, 'a.one');
    await waitFor('the first event', () => seen.length === 1);
    site.house.clock.move(300_000);
    await waitFor('a new connection', () => source.readyState === source.CONNECTING);
    await publish(site, 'a.two');
    await waitFor('the connection', () => source.readyState === source.OPEN);
    await publish(site, 'a.three');
    await waitFor('three events', () => seen.length === 3);
    assert.deepEqual(seen, [
      { id: formatOffset(1), type: 'a.one' },
      { id: formatOffset(2), type: 'a.two' },
      { id: formatOffset(3), type: 'a.three' },
    ]);
    assert.deepEqual(
      sent.map((id) => id && placeOf(id)),
      [null, formatOffset(1)],
    );
  });
});

function siteOn(t: TestContext, engine: Engine): Promise<Site> {
  return siteOf(t, {}, { open: () => engine.open() });
}

/** A token of now: days have passed. */
async function fresh(site: Site): Promise<{ token: string }> {
  return { token: await site.house.token() };
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

/** Reads from a socket until the text fits. */
async function readUntil(socket: Socket, pattern: RegExp): Promise<string> {
  let text = '';
  while (!pattern.test(text)) {
    const [chunk] = (await once(socket, 'data')) as [Buffer];
    text += chunk.toString();
  }
  return text;
}
