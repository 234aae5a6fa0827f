import assert from 'node:assert/strict';
import { type IncomingMessage, request } from 'node:http';
import { json } from 'node:stream/consumers';
import { after, before, describe, test } from 'node:test';
import { parseOffset } from '../../src/core/offset.ts';
import {
  assertInvalid,
  assertLacksScope,
  openApiFixture,
  type ApiResponse,
  type ApiFixture,
} from './fixture.ts';

let fixture: ApiFixture;

before(async () => {
  fixture = await openApiFixture();
});
after(() => fixture.close());

const cloudEvent = { 'content-type': 'application/cloudevents+json' };
const cloudEvents = { 'content-type': 'application/cloudevents-batch+json' };

function publish(body: unknown, headers?: Readonly<Record<string, string>>): Promise<ApiResponse> {
  return fixture.send('POST', '/events', body, headers);
}

/** Publishes with a header in several lines, which `fetch` would join. */
async function publishWithLines(
  body: object,
  name: string,
  values: readonly string[],
): Promise<{ status: number | undefined; message: string }> {
  const { port, token } = fixture;
  const headers = {
    authorization: `Bearer ${token}`,
    'content-type': 'application/json',
    [name]: [...values],
  };
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  const sent = request({ port, method: 'POST', path: '/api/v2/events', headers }, resolve);
  sent.on('error', reject).end(JSON.stringify(body));
  const response = await promise;
  const { message } = (await json(response)) as { message: string };
  return { status: response.statusCode, message };
}

/** Returns the text of the event at an offset. */
async function bodyAt(offset: string): Promise<string> {
  const query = { after: (parseOffset(offset)?.offset ?? 0) - 1, take: 1, bytesMax: 1 };
  const page = await fixture.auth.store.log.page(1, query);
  return page.events[0]?.body ?? '';
}

async function head(): Promise<number> {
  return fixture.auth.store.log.head(1);
}

function times(count: number, event: object): object[] {
  return Array.from({ length: count }, () => event);
}

describe('publishing', () => {
  test('the rules of attributes of CloudEvents do not hold for data and ids of own events', async () => {
    const { status, body } = await publish({
      type: 'a.b',
      id: 'a\n\ufffe',
      data: { 'a\0': '\0\ud800' },
    });
    assert.equal(status, 202);
    assert.deepEqual(JSON.parse(await bodyAt(body.offset)).data, { 'a\0': '\0\ud800' });
  });

  test('publishing returns id and offset, and stores the envelope', async () => {
    const { status, body } = await publish({ type: 'order.paid', data: { object: { n: 1 } } });
    assert.equal(status, 202);
    assert.deepEqual(Object.keys(body), ['id', 'offset']);
    assert.match(body.id, /^evt_[1-9A-HJ-NP-Za-km-z]{22}$/);
    assert.deepEqual(JSON.parse(await bodyAt(body.offset)), {
      id: body.id,
      source: 'urn:leat:',
      specversion: '1.0',
      type: 'order.paid',
      time: '2026-03-01T09:30:00.000Z',
      data: { object: { n: 1 } },
      svctenant: 'main',
    });
  });

  test('an array returns ids and offsets in its order', async () => {
    const events = [1, 2, 3].map((n) => ({ type: 'order.paid', data: { n } }));
    const { status, body } = await publish(events);
    assert.equal(status, 202);
    const stored = await Promise.all(
      body.map(async ({ offset }: { offset: string }) => JSON.parse(await bodyAt(offset)).data),
    );
    assert.deepEqual(stored, [{ n: 1 }, { n: 2 }, { n: 3 }]);
    assert.ok(Array.isArray((await publish([events[0]])).body), 'also an array of one');
  });

  test('publishing writes the time in UTC, truncated to milliseconds', async () => {
    const time = '2026-03-01T10:30:00.9876+02:00';
    const { body } = await publish({ type: 'order.paid', data: {}, time });
    assert.equal(JSON.parse(await bodyAt(body.offset)).time, '2026-03-01T08:30:00.987Z');
  });

  test('publishing keeps data unchanged', async () => {
    const texts = [
      '{"a":12345678901234567890,"b":1.10,"c":-0,"d":1e400,"e":[0.1,1E5,100]}',
      '{"__proto__":{"x":1},"constructor":{"prototype":1},"toJSON":null}',
      '{"lone":"\\ud800","pair":"\\ud83d\\ude00","nul":"\\u0000"}',
      '{"deep":' + '['.repeat(97) + ']'.repeat(97) + '}',
      '{"":"","\\"quoted\\"":"1234567890123456789"}',
      '{"n": 1.50 }',
      '{"quoted":",1.50,[12345678901234567890]"}',
    ];
    for (const data of texts) {
      const { status, body } = await publish(`{"type":"a.b","data":${data}}`);
      assert.equal(status, 202, data);
      const stored = await bodyAt(body.offset);
      const compact = data.replaceAll(': ', ':').replaceAll(' }', '}');
      const expected = compact.replace('\\ud83d\\ude00', '😀');
      assert.ok(stored.includes(`"data":${expected}`), stored);
    }
  });

  test('publishing refuses data whose text nests too deep to keep its numbers', async () => {
    const deep = `${'['.repeat(7000)}${']'.repeat(7000)}`;
    const refused = await publish(`{"type":"a.b","data":{"n":${deep},"n":1.0}}`);
    assert.equal(refused.status, 400, refused.text);
    assert.match(refused.body.message, /Nested deeper than 100 levels/);
  });

  test('publishing uses the last of repeated fields', async () => {
    const { body } = await publish('{"type":"a.b","data":{"n":1},"data":{"n":2,"n":3}}');
    assert.deepEqual(JSON.parse(await bodyAt(body.offset)).data, { n: 3 });
  });

  test('publishing keeps numbers of a large body unchanged', async () => {
    const numbers = `[${'1.0,-0,1e400,'.repeat(5000)}12345678901234567890]`;
    const { status, body } = await publish(`[{"type":"a.b","data":{"x":${numbers}}}]`);
    assert.equal(status, 202);
    assert.ok((await bodyAt(body[0].offset)).includes(`"data":{"x":${numbers}}`));
  });

  test('publishing names the invalid event of a large body, and stores none of it', async () => {
    const former = await head();
    const large = { type: 'a.b', data: { x: 'x'.repeat(200_000) } };
    assertInvalid(await publish([large, large, { ...large, time: 'x' }]), '2.time');
    assertInvalid(await publish([large, { ...large, more: 1 }]), '1.more');
    assertInvalid(await publish(`[${JSON.stringify(large)},`), 'body');
    assert.equal(await head(), former);
  });

  test('publishing needs the scope create:events', async () => {
    const headers = await fixture.headersWith('read:events');
    assertLacksScope(await publish({ type: 'a.b', data: {} }, headers), 'create:events');
  });

  const bad: [name: string, body: unknown, property: string][] = [
    ['no type', { data: {} }, 'type'],
    ['no data', { type: 'a.b' }, 'data'],
    ['a type of one segment', { type: 'a', data: {} }, 'type'],
    ['a type in capitals', { type: 'A.b', data: {} }, 'type'],
    ['a type with a dot too many', { type: 'a..b', data: {} }, 'type'],
    ['a type with a line end', { type: 'a.b\n', data: {} }, 'type'],
    ['a long type', { type: `a.${'b'.repeat(127)}`, data: {} }, 'type'],
    ['an array as data', { type: 'a.b', data: [] }, 'data'],
    ['a text as data', { type: 'a.b', data: 'x' }, 'data'],
    ['null as data', { type: 'a.b', data: null }, 'data'],
    ['a number as data', '{"type":"a.b","data":12345678901234567890}', 'data'],
    ['an empty id', { type: 'a.b', data: {}, id: '' }, 'id'],
    ['a long id', { type: 'a.b', data: {}, id: 'x'.repeat(256) }, 'id'],
    ['a number as id', { type: 'a.b', data: {}, id: 1 }, 'id'],
    ['a date that is none', { type: 'a.b', data: {}, time: 'now' }, 'time'],
    ['a day that is none', { type: 'a.b', data: {}, time: '2026-02-30T00:00:00Z' }, 'time'],
    ['a source', { type: 'a.b', data: {}, source: 'x' }, 'source'],
    ['__proto__', '{"type":"a.b","data":{},"__proto__":{}}', '__proto__'],
    ['no event', [], 'body'],
    ['too many events', times(1001, { type: 'a.b', data: {} }), 'body'],
    ['a text', '"x"', 'body'],
    ['one bad event of many', [{ type: 'a.b', data: {} }, 1], '1'],
    [
      'one bad type of many',
      [...times(3, { type: 'a.b', data: {} }), { type: 'x', data: {} }],
      '3.type',
    ],
    [
      'one bad time of many',
      [
        { type: 'a.b', data: {} },
        { type: 'a.b', data: {}, time: 'x' },
      ],
      '1.time',
    ],
    ['an array in an array', [[{ type: 'a.b', data: {} }]], '0'],
    [
      'data that is too deep',
      `{"type":"a.b","data":{"a":${'['.repeat(99)}${']'.repeat(99)}}}`,
      'body',
    ],
  ];
  for (const [name, body, property] of bad) {
    test(`publishing rejects ${name} and stores nothing`, async () => {
      const former = await head();
      assertInvalid(await publish(body), property);
      assert.equal(await head(), former);
    });
  }

  test('brackets in strings do not count as depth', async () => {
    const { status } = await publish({ type: 'a.b', data: { x: '[{'.repeat(1000), y: '\\"[[[' } });
    assert.equal(status, 202);
  });

  test('limits the bytes of an event and of a request', async () => {
    const former = await head();
    const of = (length: number): object => ({ type: 'a.b', data: { x: 'x'.repeat(length) } });
    const overhead = JSON.stringify(of(0)).length;
    assert.equal((await publish(of(262_144 - overhead))).status, 202);
    assert.equal((await publish(of(262_145 - overhead))).status, 413);
    assert.equal((await publish({ type: 'a.b', data: { x: '€'.repeat(90_000) } })).status, 413);
    assert.equal((await publish({ type: 'a.b', data: { x: '€'.repeat(80_000) } })).status, 202);
    assert.equal((await publish([of(1), of(262_145)])).status, 413);
    assert.equal((await publish(times(17, of(250_000)))).status, 413);
    assert.equal((await publish(times(15, of(250_000)))).status, 202);
    assert.equal((await publish(times(1000, of(1)))).status, 202);
    assert.equal(await head(), former + 2 + 15 + 1000);
  });
});

describe('the id of an event', () => {
  const event = { type: 'a.b', data: {} };

  test('an id that is an event id is used unchanged', async () => {
    const id = 'evt_0OIl567890123456789012';
    assert.equal((await publish({ ...event, id })).body.id, id);
  });

  test('any other id is an idempotency key: a repeat returns the first event', async () => {
    const id = 'order-42-paid';
    const first = (await publish({ ...event, id })).body;
    assert.match(first.id, /^evt_/);
    const former = await head();
    const repeat = await publish({ ...event, id });
    assert.equal(repeat.status, 202);
    assert.deepEqual(repeat.body, { ...first, repeated: true });
    assert.equal(await head(), former);
    assert.deepEqual((await publish({ ...event, id: first.id })).body, repeat.body);
  });

  test('an id with another type or other data is refused, with the event it is sent with', async () => {
    const sent = { type: 'a.b', id: 'compared', data: { a: 1, b: [{ c: 'x', d: null }] } };
    await publish(sent);
    const former = await head();
    for (const other of [{ type: 'c.d' }, { data: {} }, { data: { ...sent.data, a: '1' } }]) {
      const { status, body } = await publish({ ...sent, ...other });
      assert.deepEqual([status, body.errorCode], [409, 'event_id_in_use']);
      assert.match(body.message, / on property id, .* or with another id\.$/);
      const { body: ofArray } = await publish([event, { ...sent, ...other }]);
      assert.match(ofArray.message, / on property 1\.id, /);
    }
    const twice = await publish([
      { ...event, id: 'new' },
      { ...event, id: 'new' },
      { type: 'c.d', data: {}, id: 'new' },
    ]);
    assert.match(twice.body.message, / on property 2\.id, /);
    assert.equal(await head(), former);
  });

  test('the order of fields, blanks and the time of an event are not compared; texts of numbers are', async () => {
    const of = (data: string): string => `{"type":"a.b","id":"by text","data":${data}}`;
    await publish(of('{"n":1.0,"o":{"y":1,"x":12345678901234567890,"__proto__":2}}'));
    const same = '{ "o": {"__proto__":2, "x":12345678901234567890,\n"y":1}, "n":1.0}';
    assert.equal((await publish(of(same))).status, 202);
    for (const other of [
      same.replace('1.0', '1'),
      same.replace('890,', '891,'),
      same.replace('2,', '3,'),
    ]) {
      assert.equal((await publish(of(other))).status, 409, other);
    }
    const later = { type: 'a.b', id: 'by text', time: '2020-01-01T00:00:00Z' };
    assert.equal((await publish({ ...later, data: {} })).status, 409);
  });

  test('large data is compared as well', async () => {
    const of = (last: string): object => ({
      type: 'a.b',
      id: 'large',
      data: { a: 'x'.repeat(100_000), last },
    });
    const first = (await publish(of('1'))).body;
    assert.deepEqual((await publish(of('1'))).body, { ...first, repeated: true });
    assert.equal((await publish(of('2'))).status, 409);
  });

  test('the header Idempotency-Key is the id of a single event', async () => {
    const keyed = (body: unknown, key: string, headers = {}): ReturnType<typeof publish> =>
      publish(body, { ...headers, 'idempotency-key': key });
    for (const [id, ...keys] of [
      ['by "header", \\;', String.raw`"by \"header\", \\;"`],
      ['8e03978e-40d5:/+=', '8e03978e-40d5:/+=', '"8e03978e-40d5:/+="'],
    ]) {
      const first = (await publish({ ...event, id })).body;
      for (const key of keys) {
        assert.deepEqual((await keyed(event, key)).body, { ...first, repeated: true });
        assert.deepEqual((await keyed({ ...event, id }, key)).body.id, first.id);
        for (const body of [
          { type: 'c.d', data: {} },
          { type: 'c.d', data: {}, id },
        ]) {
          const { status, body: problem } = await keyed(body, key);
          assert.equal(status, 409);
          assert.match(problem.message, /with the id in the header Idempotency-Key, with another /);
        }
      }
    }
    const bare = (key: string): [unknown, string] => [event, key];
    const ofCloudEvent = { specversion: '1.0', id: '1', source: 'urn:a', ...event };
    const bad: [unknown, string, object?][] = [
      [{ ...event, id: 'other' }, 'key'],
      [[event], 'key'],
      [ofCloudEvent, 'key', cloudEvent],
      [[ofCloudEvent], 'key', cloudEvents],
      [event, ''],
      [event, '""'],
      [event, 'k'.repeat(256)],
      [event, 'clé'],
      ...['"abc', 'abc"', '"a"b"', '"a\\b"', '"a\\"', 'a"b', String.raw`a\b`, 'a b'].map(bare),
      ...['"h";p=1', 'h;p=1', '"a", "b"', 'a, b', 'a,', '"a" "b"', '(a b)'].map(bare),
    ];
    for (const [body, key, headers] of bad) {
      const { status, body: problem } = await keyed(body, key, headers);
      assert.deepEqual([status, problem.errorCode], [400, 'invalid_query_string'], key);
      assert.match(problem.message, / on property Idempotency-Key \(Header, /);
    }
  });

  test('the header Idempotency-Key is the id of a large event, too', async () => {
    const large = { type: 'a.b', data: { a: 'x'.repeat(100_000) } };
    const first = (await publish({ ...large, id: 'large by header' })).body;
    const { body } = await publish(large, { 'idempotency-key': '"large by header"' });
    assert.deepEqual(body, { ...first, repeated: true });
  });

  test('the header Idempotency-Key that is sent twice is refused, also with the same value', async () => {
    const former = await head();
    for (const values of [
      ['a', 'b'],
      ['a', 'a'],
      ['"a"', '"b"'],
    ]) {
      const { status, message } = await publishWithLines(event, 'Idempotency-Key', values);
      assert.equal(status, 400);
      assert.match(message, /'Sent more than once: .* on property Idempotency-Key /);
    }
    assert.equal(await head(), former);
  });

  test('an id that repeats within a request is stored once', async () => {
    const former = await head();
    const { body } = await publish([
      { ...event, id: 'twice' },
      { ...event, id: 'twice' },
      { ...event, id: 'Twice' },
    ]);
    assert.deepEqual({ ...body[0], repeated: true }, body[1]);
    assert.notEqual(body[0].id, body[2].id);
    assert.equal(await head(), former + 2);
  });

  test('an id sent by concurrent requests is stored once', async () => {
    const former = await head();
    const responses = await Promise.all(
      Array.from({ length: 20 }, () => publish({ ...event, id: 'raced' })),
    );
    assert.equal(new Set(responses.map(({ body }) => body.id)).size, 1);
    assert.equal(responses.filter(({ body }) => body.repeated).length, 19);
    assert.equal(await head(), former + 1);
  });

  test('an id can be any text of 255 characters', async () => {
    const ids = ['x'.repeat(255), '😀'.repeat(255), ' ', '\u0001/?#%', 'evt_', '__proto__'];
    const published = await Promise.all(ids.map((id) => publish({ ...event, id })));
    assert.deepEqual(
      published.map(({ status }) => status),
      ids.map(() => 202),
    );
    assert.equal(new Set(published.map(({ body }) => body.id)).size, ids.length);
    for (const [index, id] of ids.entries()) {
      const { status, body } = await fixture.send('GET', `/event-log/${encodeURIComponent(id)}`);
      assert.deepEqual([status, body.event?.id], [200, published[index]?.body.id], id);
    }
  });

  test('an id that no path can have is refused, as it is where an event is looked up', async () => {
    for (const [id, reason] of [
      ['a\u0000', 'Has the character U+0000'],
      ['a\ud800', 'Not well-formed Unicode: a lone surrogate'],
    ] as const) {
      for (const [body, property] of [
        [{ ...event, id }, 'id'],
        [[event, { ...event, id }], '1.id'],
      ] as const) {
        const response = await publish(body);
        assertInvalid(response, property);
        assert.ok(response.body.message.includes(`'${reason}'`), response.text);
      }
    }
  });
});

describe('CloudEvents', () => {
  const event = { specversion: '1.0', id: '42', source: 'urn:shop', type: 'a.b', data: { n: 1 } };

  test('CloudEvents keep their other attributes and get the source of the service', async () => {
    const sent = {
      ...event,
      id: 'with everything',
      time: '2026-03-01T09:30:00Z',
      subject: 'x"y',
      dataschema: 'https://example.com/s',
      datacontenttype: 'application/json',
      sampled: true,
      sequence: 7,
    };
    const { status, body } = await publish(sent, cloudEvent);
    assert.equal(status, 202);
    const others: Partial<typeof sent> = { ...sent };
    delete others.source;
    assert.deepEqual(JSON.parse(await bodyAt(body.offset)), {
      ...others,
      id: body.id,
      source: 'urn:leat:',
      time: '2026-03-01T09:30:00.000Z',
      svctenant: 'main',
    });
  });

  test('attributes of a CloudEvent that are null count as absent, also beside long numbers', async () => {
    const unset = {
      time: null,
      subject: null,
      dataschema: null,
      datacontenttype: null,
      region: null,
    };
    for (const data of ['{"n":1}', '{"n":1546130668394913822,"o":null}']) {
      const sent = JSON.stringify({ ...event, ...unset, id: data, data: 0 }).replace(
        '"data":0',
        `"data":${data}`,
      );
      const { status, body } = await publish(sent, cloudEvent);
      assert.equal(status, 202);
      const stored = await bodyAt(body.offset);
      assert.ok(stored.includes(`"data":${data}`), stored);
      const names = Object.keys(JSON.parse(stored) as object);
      assert.deepEqual(names.toSorted(), [
        'data',
        'id',
        'source',
        'specversion',
        'svctenant',
        'time',
        'type',
      ]);
    }
  });

  test('source and id of a CloudEvent together are its idempotency key', async () => {
    const of = async (source: string, id: string): Promise<string> =>
      (await publish({ ...event, source, id }, cloudEvent)).body.id;
    const one = await of('urn:a', 'bc');
    assert.equal(await of('urn:a', 'bc'), one);
    assert.notEqual(await of('urn:ab', 'c'), one);
    const plain = await publish({ type: 'a.b', data: {}, id: 'bc' });
    assert.notEqual(plain.body.id, one);
    const own = 'evt_abcdefghijkmnopqrstuvw';
    assert.notEqual(await of('urn:a', own), own);
  });

  test('attributes of CloudEvents have any other character, and data has all', async () => {
    const text = ' \u00a0\u200b\u2028\u{1f600}\ue000\ufffd"\\';
    const sent = {
      ...event,
      id: text,
      subject: text,
      region: text,
      data: { '\0': '\ud800\ufffe' },
    };
    for (const source of [
      'a',
      '/a/b?c#d',
      '//h/',
      '#',
      '?',
      'urn:x',
      'http://[::1]/%20',
      "a'(b)",
    ]) {
      const { status, body } = await publish({ ...sent, source }, cloudEvent);
      assert.equal(status, 202, source);
      const stored = JSON.parse(await bodyAt(body.offset)) as object;
      assert.deepEqual(
        { ...sent, ...stored },
        { ...stored, ...sent, id: body.id, source: 'urn:leat:' },
      );
    }
  });

  test('CloudEvents can be sent in batches', async () => {
    const { status, body } = await publish([event, { ...event, id: '43' }], cloudEvents);
    assert.equal(status, 202);
    assert.equal(body.length, 2);
  });

  const values: Readonly<Record<string, string>> = {
    datacontenttype: 'application/json;',
    dataschema: 'urn:a',
  };
  const bad: [name: string, body: unknown, property: string][] = [
    ['no specversion', { ...event, specversion: undefined }, 'specversion'],
    ['another specversion', { ...event, specversion: '0.3' }, 'specversion'],
    ['no id', { ...event, id: undefined }, 'id'],
    ['no source', { ...event, source: undefined }, 'source'],
    ['no data', { ...event, data: undefined }, 'data'],
    ['a text as data', { ...event, data: 'x' }, 'data'],
    ['binary data', { ...event, data_base64: 'AA==' }, 'data_base64'],
    ['data that is no JSON', { ...event, datacontenttype: 'text/xml' }, 'datacontenttype'],
    ['an attribute of the service', { ...event, svctenant: 'x' }, 'svctenant'],
    ['any name with the prefix', { ...event, svcother: 'x' }, 'svcother'],
    ['a name in capitals', { ...event, Subject: 'x' }, 'Subject'],
    ['a null id', { ...event, id: null }, 'id'],
    ['null as data', { ...event, data: null }, 'data'],
    ['an empty subject', { ...event, subject: '' }, 'subject'],
    ['a number as subject', { ...event, subject: 5 }, 'subject'],
    ['an empty dataschema', { ...event, dataschema: '' }, 'dataschema'],
    ['a dataschema without a scheme', { ...event, dataschema: 'order.json' }, 'dataschema'],
    ['a dataschema with a blank', { ...event, dataschema: 'https://a.example/a b' }, 'dataschema'],
    ...['http:', 'urn:', 'a:', 'http:?', 'a:?b', 'a:#f'].map((dataschema): (typeof bad)[number] => [
      `the dataschema ${dataschema}`,
      { ...event, dataschema },
      'dataschema',
    ]),
    ['an object as attribute', { ...event, subject: {} }, 'subject'],
    ['a fraction as attribute', { ...event, sequence: 1.5 }, 'sequence'],
    ['a large number as attribute', { ...event, sequence: 2 ** 31 }, 'sequence'],
    [
      '__proto__',
      '{"specversion":"1.0","id":"1","source":"s","type":"a.b","data":{},"__proto__":1}',
      '__proto__',
    ],
    ['an array', [event], 'body'],
    ...['a b', 'urn:ä', '<a>', 'a\\b', '%zz', '1:2'].map((source): (typeof bad)[number] => [
      `the source ${source}`,
      { ...event, source },
      'source',
    ]),
    ...[
      '\0',
      '\n',
      '\u001f',
      '\u007f',
      '\u0085',
      '\u009f',
      '\ud800',
      '\udc00x',
      '\ufdd0',
      '\u{1fffe}',
    ].flatMap((text): (typeof bad)[number][] =>
      ['id', 'source', 'type', 'subject', 'dataschema', 'datacontenttype', 'region'].map((name) => [
        `${JSON.stringify(text)} in ${name}`,
        { ...event, datacontenttype: 'application/json', [name]: `${values[name] ?? 'a'}${text}` },
        name,
      ]),
    ),
  ];
  for (const [name, body, property] of bad) {
    test(`CloudEvents rejects a CloudEvent with ${name}`, async () => {
      assertInvalid(await publish(body, cloudEvent), property);
    });
  }

  test('the attributes of a CloudEvent count towards its bytes', async () => {
    const large = { ...event, id: 'large', subject: 'x'.repeat(300_000) };
    assert.equal((await publish(large, cloudEvent)).status, 413);
  });

  test('errors name a CloudEvent of a batch by its index', async () => {
    assertInvalid(await publish([event, { ...event, svcx: 1 }], cloudEvents), '1.svcx');
    assertInvalid(await publish(event, cloudEvents), 'body');
    assertInvalid(await publish([], cloudEvents), 'body');
  });
});
