import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { startEndpoint, type Endpoint } from '../helpers/endpoint.ts';
import { exchange, requestText } from '../helpers/exchange.ts';
import { makePlace, startLeat, type Place, type Running } from '../helpers/leat.ts';
import {
  answered,
  bearer,
  createStream,
  freshName,
  freshType,
  narrowToken,
  publishAll,
  readStream,
  streamBody,
  waitForStats,
  type ProblemBody,
  type StreamBody,
} from '../helpers/api-client.ts';

let place: Place;
let leat: Running;
let endpoint: Endpoint;
let stream: StreamBody;
let userId: string;
let clientId: string;
let apiId: string;
let grantId: string;

before(async () => {
  place = await makePlace();
  leat = await startLeat(place);
  endpoint = await startEndpoint();
  stream = await createStream(leat, endpoint.url);
});
after(async () => {
  await leat.kill();
  await endpoint.close();
  await place.remove();
});

/** One of each, for the routes that change something. */
async function makeAccounts(): Promise<void> {
  const made = async (path: string, body: object): Promise<Record<string, string>> =>
    answered(201, leat.send('POST', `/api/v2${path}`, body));
  userId = (await made('/users', userBody()))['user_id'] ?? '';
  clientId = (await made('/clients', { name: freshName() }))['client_id'] ?? '';
  const audience = `https://${freshName()}.example.com`;
  apiId = (await made('/resource-servers', apiBody(audience)))['id'] ?? '';
  const grant = { client_id: clientId, audience, scope: ['read:things'] };
  grantId = (await made('/client-grants', grant))['id'] ?? '';
}

interface Route {
  readonly method: string;
  /** Under `/api/v2`. */
  readonly path: () => string;
  /** A body that the route accepts, made anew each time. */
  readonly body: () => Record<string, unknown>;
  readonly bodyBytesMax?: number;
  /** Members that have to be there. */
  readonly required: readonly string[];
  /** Whether the body may be left out. */
  readonly optional?: boolean;
}

const MIB = 1 << 20;
const streamRoutes: readonly Route[] = [
  {
    method: 'POST',
    path: () => '/event-streams',
    body: () => ({ ...streamBody(endpoint.url), status: 'enabled' }),
    required: ['destination'],
  },
  {
    method: 'PATCH',
    path: () => `/event-streams/${stream.id}`,
    body: () => ({ ...streamBody(endpoint.url), status: 'enabled' }),
    required: [],
  },
  {
    method: 'POST',
    path: () => `/event-streams/${stream.id}/redeliver`,
    body: () => ({
      date_from: '2026-03-01T00:00:00Z',
      date_to: '2026-03-02T00:00:00Z',
      statuses: ['failed'],
      event_types: ['user.created'],
    }),
    required: [],
    optional: true,
  },
  {
    method: 'POST',
    path: () => `/event-streams/${stream.id}/test`,
    body: () => ({ event_type: 'user.created', data: { object: {} } }),
    bodyBytesMax: MIB / 4,
    required: ['event_type'],
  },
  {
    method: 'POST',
    path: () => '/events',
    body: () => ({
      type: freshType(),
      data: { object: {} },
      id: freshName(),
      time: '2026-03-01T00:00:00Z',
    }),
    bodyBytesMax: 4 * MIB,
    required: ['type', 'data'],
  },
];
const accountRoutes: readonly Route[] = [
  {
    method: 'POST',
    path: () => '/users',
    body: () => userBody(),
    required: ['email', 'password', 'connection'],
  },
  {
    method: 'PATCH',
    path: () => `/users/${encodeURIComponent(userId)}`,
    body: () => ({ blocked: false, user_metadata: { a: 1 }, app_metadata: { b: 2 } }),
    required: [],
  },
  {
    method: 'POST',
    path: () => '/clients',
    body: () => ({ name: freshName(), global: false }),
    required: ['name'],
  },
  {
    method: 'PATCH',
    path: () => `/clients/${clientId}`,
    body: () => ({ name: freshName(), global: false }),
    required: [],
  },
  {
    method: 'POST',
    path: () => '/resource-servers',
    body: () => apiBody(`https://${freshName()}.example.com`),
    required: ['identifier'],
  },
  {
    method: 'PATCH',
    path: () => `/resource-servers/${apiId}`,
    body: () => ({ name: freshName(), enforce_policies: false, token_lifetime: 60 }),
    required: [],
  },
  {
    method: 'POST',
    path: () => '/client-grants',
    body: () => ({ client_id: clientId, audience: 'https://none.example.com', scope: [] }),
    required: ['client_id', 'audience'],
  },
  {
    method: 'PATCH',
    path: () => `/client-grants/${grantId}`,
    body: () => ({ scope: ['read:things'] }),
    required: [],
  },
];

const malformed: readonly (readonly [string, string | Uint8Array<ArrayBuffer>])[] = [
  ['an object that does not end', '{'],
  ['a comma at the end', '{"name":"a",}'],
  ['single quotes', "{'name':'a'}"],
  ['a comment', '{/* a */}'],
  ['NaN', '{"name":NaN}'],
  ['two values', '{}{}'],
  ['a NUL', '\0'],
  ['a control character in a string', '{"name":"a\u0001"}'],
  ['null', 'null'],
  ['a number', '42'],
  ['a string', '"name"'],
  ['true', 'true'],
  ['an array of arrays', '[[]]'],
  ['an empty array', '[]'],
  ['100,000 brackets', '['.repeat(100_000)],
  ['20,000 nested objects', '{"name":'.repeat(20_000)],
  ['nested objects that end', `${'{"data":'.repeat(10_000)}1${'}'.repeat(10_000)}`],
  ['broken UTF-8', Uint8Array.from([0x7b, 0x22, 0xff, 0xfe, 0x22, 0x3a, 0x31, 0x7d])],
  ['UTF-16', Uint8Array.from(Buffer.from('\uFEFF{"name":"a"}', 'utf16le'))],
  ['blanks only', '   \n'],
];

describe('every route of streams and events', () => {
  refuseHostileBodies(streamRoutes);
});

describe('every route of users, clients, APIs and grants', () => {
  before(makeAccounts);
  refuseHostileBodies(accountRoutes);
});

function refuseHostileBodies(routes: readonly Route[]): void {
  for (const route of routes) {
    const name = `${route.method} ${pattern(route)}`;

    test(`${name} refuses what is no JSON object`, async () => {
      for (const [what, body] of malformed) {
        const refused = await answered<ProblemBody>(400, sendRaw(route, body)).catch(saying(what));
        assert.equal(refused.errorCode, 'invalid_body', what);
        assert.match(refused.message, /^Payload validation error: '.+' on property .+ \(.+\)\.$/s);
      }
    });

    test(`${name} names a member that is not listed`, async () => {
      for (const member of ['extra', '__proto__', 'constructor', 'toString', 'Name', '', 'id ']) {
        const body = JSON.stringify(route.body()).replace('{', `{${JSON.stringify(member)}:{},`);
        const refused = await answered<ProblemBody>(400, sendRaw(route, body)).catch(
          saying(member),
        );
        assert.equal(refused.errorCode, 'invalid_body');
        assert.ok(
          refused.message.startsWith(
            `Payload validation error: 'Additional properties not allowed: ${member}' on property `,
          ),
          refused.message,
        );
      }
    });

    test(`${name} refuses each member in each wrong type`, async () => {
      for (const [member, value] of Object.entries(route.body())) {
        for (const wrong of wrongFor(value)) {
          const body = JSON.stringify({ ...route.body(), [member]: wrong });
          const what = `${member} = ${JSON.stringify(wrong)}`;
          const refused = await answered<ProblemBody>(400, sendRaw(route, body)).catch(
            saying(what),
          );
          assert.equal(refused.errorCode, 'invalid_body', what);
          assert.match(refused.message, new RegExp(`on property ${member}\\b`), what);
        }
      }
    });

    for (const member of route.required) {
      test(`${name} misses ${member} by name`, async () => {
        const rest = route.body();
        delete rest[member];
        const refused = await answered<ProblemBody>(400, sendRaw(route, JSON.stringify(rest)));
        assert.equal(refused.errorCode, 'invalid_body');
        assert.ok(
          refused.message.startsWith(
            `Payload validation error: 'Missing required property: ${member}' on property `,
          ),
          refused.message,
        );
      });
    }

    test(`${name} reads JSON only, and an empty body as none`, async () => {
      const types = [
        'text/plain',
        'application/x-www-form-urlencoded',
        'application/jsonp',
        'application/problem+json',
        'multipart/form-data; boundary=x',
        'application/json; charset=utf-16le',
        'json',
        ', application/json',
      ];
      for (const type of types) {
        const refused = await answered<ProblemBody>(415, sendRaw(route, '{}', type));
        assert.equal(refused.errorCode, 'unsupported_media_type', type);
        assert.equal(refused.message, 'Unsupported Media Type');
        const empty = await sendRaw(route, '', type);
        if (route.optional === true) assert.equal(empty.status, 202);
        else assert.equal((await answered<ProblemBody>(400, empty)).errorCode, 'invalid_body');
      }
      const none = await leat.send(route.method, `/api/v2${route.path()}`);
      assert.equal(none.status, route.optional === true ? 202 : 400);
    });

    test(`${name} refuses a body that is too large, announced or not`, async () => {
      const bytesMax = route.bodyBytesMax ?? MIB;
      const large = JSON.stringify({ name: 'x'.repeat(bytesMax) });
      for (const transfer of [
        [`Content-Length: ${bytesMax + 1}`],
        ['Content-Length: 9007199254740991'],
        ['Transfer-Encoding: chunked'],
      ]) {
        const head = [`Authorization: Bearer ${leat.token}`, 'Content-Type: application/json'];
        const chunked = `${large.length.toString(16)}\r\n${large}\r\n0\r\n\r\n`;
        const body = transfer[0] === 'Transfer-Encoding: chunked' ? chunked : '';
        const answer = await exchange(
          leat.port,
          requestText(`${route.method} /api/v2${route.path()}`, [...head, ...transfer], body),
        );
        assert.equal(answer.status, 413, `${transfer.join()}: ${answer.body}`);
        assert.deepEqual(JSON.parse(answer.body), {
          statusCode: 413,
          error: 'Payload Too Large',
          message: 'Payload Too Large',
          errorCode: 'payload_too_large',
        });
      }
    });

    test(`${name} has the token judged before anything of the body`, async () => {
      const request = requestText(`${route.method} /api/v2${route.path()}`, [
        'Content-Type: text/plain',
        'Content-Length: 9007199254740991',
      ]);
      const answer = await exchange(leat.port, request);
      assert.equal(answer.status, 401);
      assert.equal((JSON.parse(answer.body) as ProblemBody).message, 'Missing authentication');
    });

    test(`${name} asks for the scope, then media type, then size`, async () => {
      const narrow = await narrowToken(leat, 'read:actions');
      const path = `/api/v2${route.path()}`;
      const text = { 'content-type': 'text/plain' };
      const forbidden = await answered<ProblemBody>(
        403,
        leat.send(route.method, path, 'nonsense', { ...bearer(narrow), ...text }),
      );
      assert.equal(forbidden.errorCode, 'insufficient_scope');
      const answer = await exchange(
        leat.port,
        requestText(`${route.method} ${path}`, [
          `Authorization: Bearer ${leat.token}`,
          'Content-Type: text/plain',
          'Content-Length: 9007199254740991',
        ]),
      );
      assert.equal(answer.status, 415);
    });
  }
}

describe('JSON that is read in two ways', () => {
  test('a member sent twice is refused or the last one counts, never both', async () => {
    const [first, last] = [freshName(), freshName()];
    const body = JSON.stringify(streamBody(endpoint.url, { name: last }));
    const twice = body.replace('{', `{"name":"${first}",`);
    const answer = await leat.send('POST', '/api/v2/event-streams', twice);
    assert.ok(answer.status === 400 || answer.status === 201);
    if (answer.status === 201) assert.equal(((await answer.json()) as StreamBody).name, last);
  });

  test('numbers, key order and Unicode of data arrive as they were sent', async () => {
    const type = freshType();
    const own = await createStream(leat, endpoint.url, { types: [type] });
    const data =
      '{"z":1,"a":12345678901234567890,"10":1.10,"2":-0,"e":1e400,' +
      '"text":"\\u00e4 \\ud83d\\ude00 \\u2028 </script> \\\\u0000"}';
    const body = `{"type":"${type}","data":${data}}`;
    const answer = await leat.send('POST', '/api/v2/events', body);
    assert.equal(answer.status, 202, await answer.clone().text());
    const { id } = (await answer.json()) as { id: string };
    await waitForStats(leat, own.id, { delivered: 1 });
    const sent = endpoint.of(id)[0]?.body ?? '';
    for (const part of ['12345678901234567890', '1.10', '-0', '1e400']) {
      assert.ok(sent.includes(`:${part}`), `${part} in ${sent}`);
    }
    const { text } = JSON.parse(sent).data as { text: string };
    assert.equal(text, 'ä 😀 \u2028 </script> \\u0000');
  });

  test('half a character is refused or replaced, and nothing gets stuck behind it', async () => {
    const type = freshType();
    const own = await createStream(leat, endpoint.url, { types: [type] });
    const answers = [];
    for (const text of ['\\ud800', '\\udc00', 'a\\u0000b', '\\ufffe']) {
      const body = `{"type":"${type}","data":{"object":{"text":"${text}"}}}`;
      answers.push((await leat.send('POST', '/api/v2/events', body)).status);
    }
    assert.ok(
      answers.every((status) => status === 202 || status === 400),
      answers.join(),
    );
    const accepted = answers.filter((status) => status === 202).length;
    await publishAll(leat, [{ type, data: {} }]);
    await waitForStats(leat, own.id, { delivered: accepted + 1 });
  });

  test('a byte order mark is no syntax of JSON or is skipped', async () => {
    const body = `\uFEFF${JSON.stringify(streamBody(endpoint.url))}`;
    const { status } = await leat.send('POST', '/api/v2/event-streams', body);
    assert.ok(status === 400 || status === 201);
  });
});

describe('values at their limits', () => {
  test('the name of a stream has 1 to 128 characters', async () => {
    const named = (name: string): Promise<Response> =>
      leat.send('POST', '/api/v2/event-streams', { ...streamBody(endpoint.url), name });
    await answered(400, named(''));
    await answered(201, named(freshName().padEnd(128, 'n')));
    await answered(400, named(freshName().padEnd(129, 'n')));
    await answered(201, named(`${freshName()}😀`.padEnd(127, 'ä')));
  });

  test('an event type has two segments at least and 128 characters at most', async () => {
    const send = (type: string): Promise<Response> =>
      leat.send('POST', '/api/v2/events', { type, data: {} });
    const long = `a.${'b'.repeat(126)}`;
    for (const type of ['a.b', 'a_1.b_2.c', long]) await answered(202, send(type));
    const bad = ['', 'a', 'a.', '.a', 'a..b', 'A.b', 'a.B', '1a.b', 'a.1b', 'a-b.c', 'a.b ', 'ä.b'];
    for (const type of [...bad, `${long}b`, 'a.b\n', '*', 'a.*', '__proto__.a']) {
      const refused = await answered<ProblemBody>(400, send(type)).catch(saying(type));
      assert.match(refused.message, /on property type \(/, type);
    }
  });

  test('the index of the bad event is named, and none of the batch is stored', async () => {
    const type = freshType();
    const own = await createStream(leat, endpoint.url, { types: [type] });
    const good = { type, data: {} };
    const cases: [object, string][] = [
      [{ type: 'bad', data: {} }, '3.type'],
      [{ type, data: 1 }, '3.data'],
      [{ type, data: {}, time: 'yesterday' }, '3.time'],
      [{ type, data: {}, id: '' }, '3.id'],
      [{ type, data: {}, id: 'i'.repeat(256) }, '3.id'],
    ];
    for (const [bad, property] of cases) {
      const refused = await answered<ProblemBody>(
        400,
        leat.send('POST', '/api/v2/events', [good, good, good, bad]),
      );
      assert.ok(refused.message.includes(` on property ${property} (`), refused.message);
    }
    const [marker] = await publishAll(leat, [good]);
    await waitForStats(leat, own.id, { delivered: 1 });
    const got = endpoint.arrivals.filter(({ event }) => event['svcstream'] === own.id);
    assert.deepEqual(
      got.map(({ event }) => event.id),
      [marker],
    );
  });

  test('a batch has 1 to 1000 events of 256 KiB each', async () => {
    const type = freshType();
    const of = (total: number): object[] =>
      Array.from({ length: total }, () => ({ type, data: {} }));
    await answered(400, leat.send('POST', '/api/v2/events', []));
    await answered(202, leat.send('POST', '/api/v2/events', of(1000)));
    await answered(400, leat.send('POST', '/api/v2/events', of(1001)));
    const large = { type, data: { object: { text: 'x'.repeat(MIB / 4) } } };
    for (const body of [large, [...of(1), large]]) {
      const refused = await answered<ProblemBody>(413, leat.send('POST', '/api/v2/events', body));
      assert.equal(refused.errorCode, 'payload_too_large');
    }
    const fits = { type, data: { object: { text: 'x'.repeat(MIB / 4 - 1024) } } };
    await answered(202, leat.send('POST', '/api/v2/events', fits));
  });

  test('times are RFC 3339 and arrive in UTC with milliseconds', async () => {
    const type = freshType();
    const own = await createStream(leat, endpoint.url, { types: [type] });
    const good = [
      ['2026-03-01T09:30:00Z', '2026-03-01T09:30:00.000Z'],
      ['2026-03-01T09:30:00.9719+02:00', '2026-03-01T07:30:00.971Z'],
      ['2024-02-29T23:59:59.1-00:30', '2024-03-01T00:29:59.100Z'],
    ] as const;
    const ids = await publishAll(
      leat,
      good.map(([time]) => ({ type, data: {}, time })),
    );
    await waitForStats(leat, own.id, { delivered: good.length });
    good.forEach(([, expected], index) => {
      assert.equal(endpoint.of(ids[index] ?? '')[0]?.event.time, expected);
    });
    const bad = [
      '2026-03-01',
      '2026-03-01T09:30:00',
      '2026-13-01T00:00:00Z',
      '2026-02-30T00:00:00Z',
      '2026-03-01T25:00:00Z',
      '2026-03-01T00:00:00+25:00',
      'Sun, 01 Mar 2026 00:00:00 GMT',
      '1772323200',
      `2026-03-01T00:00:00.${'0'.repeat(20)}Z`,
      '+002026-03-01T00:00:00Z',
    ];
    for (const time of bad) {
      const refused = leat.send('POST', '/api/v2/events', { type, data: {}, time });
      await answered(400, refused).catch(saying(time));
    }
  });

  test('headers that are ours cannot be set by the authorization', async () => {
    const keys = [
      'Content-Type',
      'content-length',
      'USER-AGENT',
      'webhook-id',
      'Webhook-Signature',
    ];
    keys.push('webhook-timestamp', 'traceparent', 'Host', 'Connection', 'Keep-Alive', 'TE');
    keys.push(
      'Transfer-Encoding',
      'Trailer',
      'Upgrade',
      'Expect',
      'Proxy-Authorization',
      'Proxy-X',
    );
    for (const key of [...keys, '', 'a b', 'a:b', 'a\r\nX: 1', 'ä', '(a)']) {
      const authorization = { method: 'custom_header', header_key: key, header_value: 'v' };
      const body = streamBody(endpoint.url, { authorization });
      const refused = await answered<ProblemBody>(
        400,
        leat.send('POST', '/api/v2/event-streams', body),
      ).catch(saying(key));
      assert.equal(refused.errorCode, 'invalid_body', key);
    }
  });

  test('no secret can break out of its header', async () => {
    const secrets = ['', 'a\nb', 'a\rb', 'a\0b', 'a\u007fb', 'a\u0085b', 'x'.repeat(4097)];
    for (const secret of secrets) {
      const ways = [
        { method: 'bearer', token: secret },
        { method: 'basic', username: 'ada', password: secret },
        { method: 'custom_header', header_key: 'X-Key', header_value: secret },
      ];
      for (const authorization of ways) {
        const body = streamBody(endpoint.url, { authorization });
        const refused = await answered<ProblemBody>(
          400,
          leat.send('POST', '/api/v2/event-streams', body),
        ).catch(saying(JSON.stringify(authorization).slice(0, 100)));
        assert.ok(!refused.message.includes(secret) || secret === '', refused.message);
      }
    }
  });

  test('a stream is refused for what is wrong deep inside, by its path', async () => {
    const { type, configuration } = streamBody(endpoint.url)['destination'] as {
      type: string;
      configuration: Record<string, unknown>;
    };
    const inside = (change: object): object => ({
      destination: { type, configuration: { ...configuration, ...change } },
    });
    const cases: [object, string][] = [
      [{ destination: { type: 'kafka', configuration } }, 'destination.type'],
      [{ destination: { type } }, 'destination'],
      [{ destination: { type, configuration, extra: 1 } }, 'destination'],
      [inside({ webhook_endpoint: 1 }), 'destination.configuration.webhook_endpoint'],
      [inside({ webhook_endpoint: null }), 'destination.configuration.webhook_endpoint'],
      [inside({ webhook_endpoint: [endpoint.url] }), 'destination.configuration.webhook_endpoint'],
      [inside({ webhook_authorization: [] }), 'destination.configuration.webhook_authorization'],
      [inside({ webhook_authorization: null }), 'destination.configuration.webhook_authorization'],
      [inside({ extra: 1 }), 'destination.configuration'],
      [{ subscriptions: [] }, 'subscriptions'],
      [{ subscriptions: [{}] }, 'subscriptions.0'],
      [{ subscriptions: [{ event_type: 1 }] }, 'subscriptions.0.event_type'],
      [{ subscriptions: [{ event_type: 'user.created', extra: 1 }] }, 'subscriptions.0'],
      [
        { subscriptions: [{ event_type: 'a.b' }, { event_type: 'B' }] },
        'subscriptions.1.event_type',
      ],
      [{ status: 'paused' }, 'status'],
      [{ resume: 'held' }, 'resume'],
    ];
    for (const [change, property] of cases) {
      const body = { ...streamBody(endpoint.url), ...change };
      const refused = await answered<ProblemBody>(
        400,
        leat.send('POST', '/api/v2/event-streams', body),
      ).catch(saying(JSON.stringify(change)));
      assert.equal(refused.errorCode, 'invalid_body');
      const named = / on property (?<path>[^ ]+) \(/.exec(refused.message)?.groups?.['path'] ?? '';
      assert.ok(named === property || named.startsWith(`${property}.`), refused.message);
    }
  });

  test('authorizations that mix methods are refused', async () => {
    const bad: Record<string, unknown>[] = [
      {},
      { method: 'none' },
      { method: 'bearer' },
      { method: 'bearer', token: 't', username: 'ada' },
      { method: 'basic', username: 'ada' },
      { method: 'basic', username: 'a:b', password: 'p' },
      { method: 'basic', username: '', password: 'p' },
      { method: 'custom_header', header_key: 'X-Key' },
      { method: 'BEARER', token: 't' },
      { token: 't' },
    ];
    for (const authorization of bad) {
      const body = streamBody(endpoint.url);
      const { configuration } = body['destination'] as { configuration: Record<string, unknown> };
      configuration['webhook_authorization'] = authorization;
      const refused = leat.send('POST', '/api/v2/event-streams', body);
      await answered(400, refused).catch(saying(JSON.stringify(authorization)));
    }
    assert.equal((await readStream(leat, stream.id)).id, stream.id);
  });
});

/** Sends a body as it is. */
function sendRaw(
  route: Route,
  body: string | Uint8Array<ArrayBuffer>,
  type = 'application/json',
): Promise<Response> {
  return fetch(`${leat.url}/api/v2${route.path()}`, {
    method: route.method,
    headers: { ...bearer(leat.token), 'content-type': type },
    body,
  });
}

function saying(what: string): (error: unknown) => never {
  return (error) => {
    throw new Error(`${what}: ${(error as Error).message}`, { cause: error });
  };
}

/** Values of every other type, and nearly right ones. */
function wrongFor(value: unknown): unknown[] {
  const all: [string, unknown][] = [
    ['null', null],
    ['number', 0],
    ['number', -1.5],
    ['boolean', true],
    ['string', 'nonsense'],
    ['array', []],
    ['array', [null]],
    ['object', {}],
    ['object', { constructor: { prototype: {} } }],
  ];
  const own = kindOf(value);
  const wrong = all.filter(([kind]) => kind !== own).map(([, each]) => each);
  return own === 'array' ? [...wrong, [null], [0], [{ nested: [] }], [[]]] : wrong;
}

function kindOf(value: unknown): string {
  if (value === null) return 'null';
  return Array.isArray(value) ? 'array' : typeof value;
}

function pattern(route: Route): string {
  return route.path
    .toString()
    .replace(/^\(\) => /, '')
    .replaceAll(/[`']/g, '');
}

function userBody(): Record<string, unknown> {
  return {
    email: `${freshName()}@example.com`,
    password: 'correct-horse-battery',
    connection: 'Username-Password-Authentication',
    email_verified: false,
    blocked: false,
    user_metadata: {},
    app_metadata: {},
    verify_email: false,
  };
}

function apiBody(identifier: string): Record<string, unknown> {
  return {
    identifier,
    name: freshName(),
    scopes: [{ value: 'read:things', description: 'Read things' }],
    enforce_policies: true,
    token_dialect: 'access_token',
    token_lifetime: 3600,
  };
}
