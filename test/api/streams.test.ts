import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { formatTime } from '../../src/core/date.ts';
import { failed, fixtureOf } from '../store/contract/fixture.ts';
import { openApiFixture, type ApiResponse, type ApiFixture } from './fixture.ts';

let fixture: ApiFixture;

before(async () => {
  fixture = await openApiFixture({ disableTotal: 3 });
});
after(() => fixture.close());

type Json = Readonly<Record<string, unknown>>;

const bearer = { method: 'bearer', token: 'kept-secret' };
const client = {
  method: 'oauth2_client_credentials',
  token_endpoint: 'https://login.example.net/oauth/token',
  client_id: 'leat',
};
const oauth = { ...client, client_secret: 'kept-secret', scope: 'a:b c', audience: 'https://a/' };

function destination(authorization: Json = bearer, endpoint = 'https://hooks.example.net/leat') {
  const configuration = { webhook_endpoint: endpoint, webhook_authorization: authorization };
  return { type: 'webhook', configuration };
}

async function create(fields: Json = {}): Promise<ApiResponse['body']> {
  const response = await fixture.send('POST', '/event-streams', {
    destination: destination(),
    ...fields,
  });
  assert.equal(response.status, 201, response.text);
  return response.body;
}

async function patch(id: string, change: Json): Promise<ApiResponse> {
  return fixture.send('PATCH', `/event-streams/${id}`, change);
}

function assertBad(response: ApiResponse, reason: string | RegExp, property: string): void {
  assert.equal(response.status, 400, response.text);
  assert.equal(response.body.errorCode, 'invalid_body');
  const match = /^Payload validation error: '(.*)' on property (\S+) \(.+\)\.$/s.exec(
    response.body.message,
  );
  assert.ok(match, response.body.message);
  if (typeof reason === 'string') assert.equal(match[1], reason);
  else assert.match(match[1] ?? '', reason);
  assert.equal(match[2], property);
}

describe('create', () => {
  test('create returns the stream without its secret', async () => {
    const now = formatTime(fixture.auth.clock.now());
    const body = await create({
      name: 'crm',
      subscriptions: [{ event_type: 'user.created' }, { event_type: 'order.paid' }],
      status: 'disabled',
    });
    assert.match(body.id, /^est_[1-9A-HJ-NP-Za-km-z]{22}$/);
    assert.deepEqual(body, {
      id: body.id,
      status: 'disabled',
      name: 'crm',
      subscriptions: [{ event_type: 'user.created' }, { event_type: 'order.paid' }],
      created_at: now,
      updated_at: now,
      destination: destination({ method: 'bearer' }),
    });
  });

  test('a new stream is enabled, has no subscriptions, and is named by its id by default', async () => {
    const body = await create();
    assert.equal(body.status, 'enabled');
    assert.deepEqual(body.subscriptions, []);
    assert.equal(body.name, body.id);
  });

  const kinds: [sent: Json, shown: Json][] = [
    [
      { method: 'basic', username: 'ada', password: 'p:w' },
      { method: 'basic', username: 'ada' },
    ],
    [bearer, { method: 'bearer' }],
    [
      { method: 'custom_header', header_key: 'Authorization', header_value: 'v' },
      { method: 'custom_header', header_key: 'Authorization' },
    ],
    [oauth, { ...client, scope: 'a:b c', audience: 'https://a/' }],
    [{ ...client, client_secret: 's' }, client],
  ];
  for (const [sent, shown] of kinds) {
    test(`create never returns the secret of ${String(sent['method'])}${'scope' in sent ? ' with a scope' : ''}`, async () => {
      const { id, destination: returned } = await create({ destination: destination(sent) });
      assert.deepEqual(returned.configuration.webhook_authorization, shown);
      const read = await fixture.send('GET', `/event-streams/${id}`);
      assert.deepEqual(read.body.destination, returned);
      const stored = await fixture.auth.store.streams.get(1, id);
      const fields = ['password', 'token', 'header_value', 'client_secret'];
      const secrets = fields.map((field) => sent[field]);
      const [secret] = secrets.filter((value) => value !== undefined);
      assert.ok(JSON.stringify(stored?.destination).includes(JSON.stringify(secret)));
    });
  }

  test('create keeps the order and the repeats of subscriptions', async () => {
    const subscriptions = ['b.b', 'a.a', 'b.b'].map((event_type) => ({ event_type }));
    assert.deepEqual((await create({ subscriptions })).subscriptions, subscriptions);
  });

  test('create and update reject blanks at the ends of a name, and say so', async () => {
    const { id } = await create({ name: 'c r m' });
    const sent = { destination: destination(), name: 'c r m ' };
    for (const response of [
      await fixture.send('POST', '/event-streams', sent),
      await patch(id, { name: 'c r m ' }),
    ]) {
      assert.equal(response.status, 400, response.text);
      assert.equal(
        response.body.message,
        "Payload validation error: 'Object didn't pass validation for format name: c r m ' on property name (Name of the event stream, no blank at its ends).",
      );
    }
  });

  test('create rejects a name in use', async () => {
    await create({ name: 'taken' });
    const response = await fixture.send('POST', '/event-streams', {
      destination: destination(),
      name: 'taken',
    });
    assert.equal(response.status, 409);
    assert.equal(response.body.message, 'Event stream name already in use.');
    assert.equal(response.body.errorCode, 'stream_name_in_use');
  });

  test('create rejects a stream above the limit of the tenant', async (t) => {
    const small = await openApiFixture({ maxStreams: 1 });
    t.after(() => small.close());
    const body = { destination: destination() };
    assert.equal((await small.send('POST', '/event-streams', body)).status, 201);
    const response = await small.send('POST', '/event-streams', body);
    assert.equal(response.status, 409);
    assert.equal(response.body.message, 'You have reached the maximum number of event streams.');
    assert.equal(response.body.errorCode, 'too_many_streams');
  });

  test('create accepts any name of 128 visible characters', async () => {
    for (const name of ['ä'.repeat(128), '😀'.repeat(128), '"\\<script>', 'a b']) {
      assert.equal((await create({ name })).name, name);
    }
  });

  const configuration = 'destination.configuration';
  const authorization = `${configuration}.webhook_authorization`;
  const refused: [name: string, body: Json, reason: string | RegExp, property: string][] = [
    ['no destination', {}, 'Missing required property: destination', 'destination'],
    [
      'an id',
      { destination: destination(), id: 'x' },
      'Additional properties not allowed: id',
      'id',
    ],
    ['a start', { destination: destination(), start_from: 'then' }, /Neither now/, 'start_from'],
    ['resume', { destination: destination(), resume: 'held' }, /resume$/, 'resume'],
    ['an empty name', { destination: destination(), name: '' }, /too short/, 'name'],
    ['a long name', { destination: destination(), name: 'x'.repeat(129) }, /too long/, 'name'],
    [
      'a status',
      { destination: destination(), status: 'paused' },
      'No enum match for: paused; allowed: enabled, disabled',
      'status',
    ],
    [
      'no subscription',
      { destination: destination(), subscriptions: [] },
      /too short/,
      'subscriptions',
    ],
    [
      'a type of one segment',
      { destination: destination(), subscriptions: [{ event_type: 'user' }] },
      "Object didn't pass validation for format event-type: user; write it such as order.paid",
      'subscriptions.0.event_type',
    ],
    [
      'a long type',
      { destination: destination(), subscriptions: [{ event_type: `a.${'b'.repeat(127)}` }] },
      /too long/,
      'subscriptions.0.event_type',
    ],
    [
      'another kind of destination',
      { destination: { ...destination(), type: 'eventbridge' } },
      'No enum match for: eventbridge; allowed: webhook',
      'destination.type',
    ],
    [
      'no secret',
      { destination: destination({ method: 'basic', username: 'a' }) },
      'Missing required property: password',
      `${authorization}.password`,
    ],
    [
      'an empty secret',
      { destination: destination({ ...bearer, token: '' }) },
      /too short/,
      `${authorization}.token`,
    ],
    [
      'a long secret',
      { destination: destination({ ...bearer, token: 'x'.repeat(4097) }) },
      /too long/,
      `${authorization}.token`,
    ],
    [
      'a line break in a secret',
      { destination: destination({ ...bearer, token: 'a\r\nx: y' }) },
      /does not match/,
      `${authorization}.token`,
    ],
    [
      'a colon in a user name',
      { destination: destination({ method: 'basic', username: 'a:b', password: 'p' }) },
      /does not match/,
      `${authorization}.username`,
    ],
    [
      'a header of blanks',
      {
        destination: destination({ method: 'custom_header', header_key: 'a b', header_value: 'v' }),
      },
      /does not match/,
      `${authorization}.header_key`,
    ],
  ];
  for (const [name, body, reason, property] of refused) {
    test(`create rejects ${name}`, async () => {
      assertBad(await fixture.send('POST', '/event-streams', body), reason, property);
    });
  }

  const reserved =
    'Content-Type Content-Length User-Agent webhook-id WEBHOOK-TIMESTAMP webhook-signature webhook-key-id traceparent TraceState Host Connection Keep-Alive Transfer-Encoding TE Trailer Upgrade Expect Proxy-Authorization proxy-x';
  for (const header_key of reserved.split(' ')) {
    test(`create rejects the header ${header_key}`, async () => {
      const method = { method: 'custom_header', header_key, header_value: 'v' };
      const response = await fixture.send('POST', '/event-streams', {
        destination: destination(method),
      });
      assertBad(response, `Header not allowed: ${header_key}`, `${authorization}.header_key`);
    });
  }

  const noHttp =
    'http:// endpoints are not allowed; the operator can allow them with LEAT_ALLOW_HTTP_ENDPOINTS=true';
  const endpoints: [endpoint: string, reason: string | RegExp][] = [
    ['http://hooks.example.net/', noHttp],
    ['ftp://hooks.example.net/', /format https-url/],
    ['javascript:alert(1)', /format https-url/],
    ['hooks.example.net', /format https-url/],
    ['https://', /format https-url/],
    [' https://hooks.example.net/', /format https-url/],
    ['https://hooks.example.net/\n', /format https-url/],
    ['https://hooks.exa\tmple.net/', /format https-url/],
    ['https://hooks.example.net:99999/', /format https-url/],
    ['https://ada@hooks.example.net/', 'User info is not allowed in the URL'],
    ['https://ada:pw@hooks.example.net/', 'User info is not allowed in the URL'],
    ['https://hooks.example.net/#', 'A fragment is not allowed in the URL'],
    ['https://127.0.0.1/', 'blocked address: 127.0.0.1 (LEAT_EGRESS_ALLOW)'],
    ['https://2130706433/', 'blocked address: 127.0.0.1 (LEAT_EGRESS_ALLOW)'],
    [`https://hooks.example.net/${'x'.repeat(2048)}`, /too long/],
    ['', /too short/],
  ];
  for (const [endpoint, reason] of endpoints) {
    test(`create rejects the endpoint ${JSON.stringify(endpoint.slice(0, 40))}`, async () => {
      const body = { destination: destination(bearer, endpoint) };
      const response = await fixture.send('POST', '/event-streams', body);
      assertBad(response, reason, `${configuration}.webhook_endpoint`);
    });
  }

  for (const [endpoint, reason] of endpoints) {
    test(`create rejects the token endpoint ${JSON.stringify(endpoint.slice(0, 40))}`, async () => {
      const body = { destination: destination({ ...oauth, token_endpoint: endpoint }) };
      const response = await fixture.send('POST', '/event-streams', body);
      assertBad(response, reason, `${authorization}.token_endpoint`);
    });
  }

  const badClients: readonly (readonly [Json, RegExp, field: string])[] = [
    [{ client_secret: undefined }, /Missing required property/, 'client_secret'],
    [{ client_id: undefined }, /Missing required property/, 'client_id'],
    [{ token_endpoint: undefined }, /Missing required property/, 'token_endpoint'],
    [{ client_id: '' }, /too short/, 'client_id'],
    [{ client_id: 'a\nb' }, /pattern/, 'client_id'],
    [{ client_secret: 'a\nb' }, /pattern/, 'client_secret'],
    [{ client_secret: 'x'.repeat(4097) }, /too long/, 'client_secret'],
    [{ scope: '' }, /too short/, 'scope'],
    [{ scope: 'a  b' }, /pattern/, 'scope'],
    [{ scope: 'a"b' }, /pattern/, 'scope'],
    [{ scope: ' a' }, /pattern/, 'scope'],
    [{ audience: '' }, /too short/, 'audience'],
    [{ audience: 'a\rb' }, /pattern/, 'audience'],
    [{ resource: 'https://a/' }, /Additional properties/, 'webhook_authorization'],
  ];
  for (const [fields, reason, field] of badClients) {
    const shown = JSON.stringify(fields, (_, value: unknown) => value ?? 'absent').slice(0, 50);
    test(`create rejects client credentials with ${shown}`, async () => {
      const body = { destination: destination({ ...oauth, ...fields }) };
      const response = await fixture.send('POST', '/event-streams', body);
      assert.equal(response.status, 400, response.text);
      assert.match(response.body.message, reason);
      assert.ok(response.body.message.includes(field), response.body.message);
    });
  }

  test('create accepts an http endpoint if the operator allows it', async (t) => {
    const other = await openApiFixture({ allowHttpEndpoints: true });
    t.after(() => other.close());
    const body = { destination: destination(bearer, 'http://hooks.example.net/') };
    assert.equal((await other.send('POST', '/event-streams', body)).status, 201);
  });
});

describe('list', () => {
  test('list pages oldest first, without next on the last page', async (t) => {
    const own = await openApiFixture();
    t.after(() => own.close());
    const made: string[] = [];
    for (let i = 0; i < 5; i++) {
      const body = { destination: destination(), name: `s${i}` };
      made.push((await own.send('POST', '/event-streams', body)).body.id);
      own.auth.clock.move(1);
    }
    const seen: string[] = [];
    let query = 'take=2';
    for (let page = 0; page < 3; page++) {
      const { body } = await own.send('GET', `/event-streams?${query}`);
      seen.push(...body.eventStreams.map((stream: { id: string }) => stream.id));
      assert.equal('next' in body, page < 2);
      query = `take=2&from=${body.next}`;
    }
    assert.deepEqual(seen, made);
    assert.deepEqual(Object.keys((await own.send('GET', '/event-streams')).body), ['eventStreams']);
  });

  const bad: [query: string, property: string][] = [
    ['take=0', 'take'],
    ['take=101', 'take'],
    ['take=x', 'take'],
    ['take=1.5', 'take'],
    ['take=1&take=2', 'take'],
    ['from=', 'from'],
    ['from=%00', 'from'],
    ['from=nonsense!', 'from'],
    ['from=bm9uc2Vuc2U', 'from'],
    [`from=${'a'.repeat(1025)}`, 'from'],
  ];
  for (const [query, property] of bad) {
    test(`list rejects ${query.slice(0, 30)}`, async () => {
      const response = await fixture.send('GET', `/event-streams?${query}`);
      assert.equal(response.status, 400);
      assert.equal(response.body.errorCode, 'invalid_query_string');
      assert.match(
        response.body.message,
        new RegExp(`^Query validation error: '.+' on property ${property} \\(`),
      );
    });
  }
});

describe('update', () => {
  test('update changes only the fields sent and updated_at', async () => {
    const made = await create();
    fixture.auth.clock.move(1000);
    const subscriptions = [{ event_type: 'user.deleted' }];
    const { status, body } = await patch(made.id, { name: 'changed', subscriptions });
    assert.equal(status, 200);
    assert.notEqual(body.updated_at, made.updated_at);
    const { updated_at } = body;
    assert.deepEqual(body, { ...made, name: 'changed', subscriptions, updated_at });
    assert.deepEqual((await fixture.send('GET', `/event-streams/${made.id}`)).body, body);
    assert.deepEqual((await patch(made.id, { subscriptions: [] })).body.subscriptions, []);
  });

  test('an update with equal values changes nothing', async () => {
    const made = await create({ name: 'as it is' });
    fixture.auth.clock.move(1000);
    const { status, name, subscriptions, destination: shown } = made;
    const whole = { status, name, subscriptions, destination: shown };
    for (const change of [{}, { name: 'as it is' }, { status: 'enabled' }, whole]) {
      const response = await patch(made.id, change);
      assert.equal(response.status, 200);
      assert.deepEqual(response.body, made, JSON.stringify(change));
      assert.equal(response.headers.get('leat-skipped-events'), null);
    }
  });

  test('update rejects the name of another stream', async () => {
    await create({ name: 'first' });
    const { id } = await create({ name: 'second' });
    const response = await patch(id, { name: 'first' });
    assert.equal(response.status, 409);
    assert.equal(response.body.errorCode, 'stream_name_in_use');
  });

  test('requires the secret again when the destination changes', async () => {
    const { id } = await create();
    const changed = destination({ method: 'bearer' }, 'https://other.example.net/');
    assertBad(
      await patch(id, { destination: changed, name: 'not applied' }),
      'Missing required property: token (required because the destination changes)',
      'destination.configuration.webhook_authorization.token',
    );
    assert.equal((await fixture.send('GET', `/event-streams/${id}`)).body.name, id);
    const kinds: [Json, string][] = [
      [{ method: 'basic', username: 'a' }, 'password'],
      [{ method: 'custom_header', header_key: 'x' }, 'header_value'],
      [client, 'client_secret'],
    ];
    for (const [sent, field] of kinds) {
      const at = `destination.configuration.webhook_authorization.${field}`;
      assertBad(await patch(id, { destination: destination(sent) }), /because the destination/, at);
    }
    const response = await patch(id, { destination: destination({ ...bearer, token: 'new' }) });
    assert.equal(response.status, 200);
    const stored = await fixture.auth.store.streams.get(1, id);
    assert.deepEqual(stored?.destination.authorization, { method: 'bearer', token: 'new' });
  });

  test('update rejects fields that cannot be changed, and a missing body', async () => {
    const { id } = await create();
    for (const field of ['id', 'created_at', 'updated_at', 'start_from']) {
      assertBad(
        await patch(id, { [field]: 'x' }),
        `Additional properties not allowed: ${field}`,
        field,
      );
    }
    assertBad(await fixture.send('PATCH', `/event-streams/${id}`), 'Missing body', 'body');
    assertBad(await patch(id, { resume: 'held' }), /only beside status enabled/, 'resume');
    assertBad(await patch(id, { resume: 'held', status: 'disabled' }), /only beside/, 'resume');
    assertBad(
      await patch(id, { resume: 'x', status: 'enabled' }),
      'No enum match for: x; allowed: latest, held',
      'resume',
    );
  });

  test('update returns the number of events published while it was disabled that are not sent', async () => {
    const { id } = await create({ subscriptions: [{ event_type: 'a.b' }] });
    await patch(id, { status: 'disabled' });
    await fixture.send(
      'POST',
      '/events',
      [1, 2, 3].map(() => ({ type: 'a.b', data: {} })),
    );
    await fixture.send('POST', '/events', { type: 'c.d', data: {} });
    const latest = await patch(id, { status: 'enabled' });
    assert.equal(latest.headers.get('leat-skipped-events'), '3');
    await patch(id, { status: 'disabled' });
    await fixture.send('POST', '/events', { type: 'a.b', data: {} });
    const held = await patch(id, { status: 'enabled', resume: 'held' });
    assert.equal(held.headers.get('leat-skipped-events'), '0');
  });

  test('update rejects enabling a stream with too many failures, and applies nothing then', async () => {
    const { id } = await create({ subscriptions: [{ event_type: 'a.b' }] });
    const storeFixture = fixtureOf(fixture.auth.store, fixture.auth.tenant.id, fixture.auth.time);
    const stream = await fixture.auth.store.streams.get(1, id);
    assert.ok(stream);
    const events = await storeFixture.publish('a.b', 'a.b', 'a.b');
    const owned = await storeFixture.own(stream);
    await storeFixture.settle(owned, { outcomes: events.map((event) => failed(event)) });
    await storeFixture.retire();
    await patch(id, { status: 'disabled' });
    const response = await patch(id, { status: 'enabled', name: 'not applied' });
    assert.equal(response.status, 409);
    assert.equal(response.body.errorCode, 'too_many_failures');
    assert.equal(
      response.body.message,
      'The event stream has 3 failed deliveries. Redeliver failed events until fewer than 3 remain, then enable it again.',
    );
    const { body } = await fixture.send('GET', `/event-streams/${id}`);
    assert.deepEqual([body.status, body.name], ['disabled', id]);
  });
});

describe('delete', () => {
  test('delete returns 204 also for an unknown stream; a deleted stream is 404', async () => {
    const { id } = await create();
    assert.equal((await fixture.send('DELETE', `/event-streams/${id}`)).status, 204);
    assert.equal((await fixture.send('DELETE', `/event-streams/${id}`)).status, 204);
    for (const response of [
      await fixture.send('GET', `/event-streams/${id}`),
      await patch(id, {}),
      await fixture.send('GET', `/event-streams/${id}/signing-secret`),
      await fixture.send('POST', `/event-streams/${id}/signing-secret/rotate`),
    ]) {
      assert.equal(response.status, 404);
      assert.equal(response.body.message, `The requested stream does not exist: ${id}`);
    }
  });
});

describe('a change that is rejected', () => {
  test('a change that lacks the secret of a new endpoint leaves no entry in the audit log', async () => {
    const { id } = await create();
    const configuration = {
      webhook_endpoint: 'https://hooks.example.net/other',
      webhook_authorization: { method: 'bearer' },
    };
    const rejected = await patch(id, { destination: { type: 'webhook', configuration } });
    assertBad(
      rejected,
      /required because the destination changes/,
      'destination.configuration.webhook_authorization.token',
    );
    const { body } = await fixture.send('GET', `/logs?target=${id}`);
    assert.deepEqual(
      body.map(({ description }: { description: string }) => description),
      ['Create an event stream'],
    );
  });
});

describe('the signing secret', () => {
  test('the signing secret can be read, and rotated with an overlap of 24 hours', async () => {
    const { id } = await create();
    const path = `/event-streams/${id}/signing-secret`;
    const first = (await fixture.send('GET', path)).body;
    assert.deepEqual(Object.keys(first), ['secret', 'created_at']);
    assert.match(first.secret, /^whsec_[A-Za-z0-9+/]{43}=$/);
    const rotated = (await fixture.send('POST', `${path}/rotate`)).body;
    assert.notEqual(rotated.secret, first.secret);
    const now = fixture.auth.clock.now();
    assert.equal(Date.parse(rotated.previous_expires_at), now + 86_400_000);
    assert.deepEqual((await fixture.send('GET', path)).body, rotated);
  });

  test('a second rotation is 409 while the previous secret is valid, and changes nothing', async () => {
    const { id } = await create();
    const path = `/event-streams/${id}/signing-secret`;
    const rotated = (await fixture.send('POST', `${path}/rotate`)).body;
    for (const body of [undefined, {}, { force: false }, { overlap_seconds: 60 }]) {
      const refused = await fixture.send('POST', `${path}/rotate`, body);
      assert.deepEqual(
        [refused.status, refused.body],
        [
          409,
          {
            statusCode: 409,
            error: 'Conflict',
            message: `The previous signing secret is valid until ${rotated.previous_expires_at}. Rotate later, or end it now with {"force": true}.`,
            errorCode: 'rotation_pending',
          },
        ],
      );
    }
    assert.deepEqual((await fixture.send('GET', path)).body, rotated);
  });

  test('a rotation with force drops the oldest secret', async () => {
    const { id } = await create();
    const path = `/event-streams/${id}/signing-secret`;
    const second = (await fixture.send('POST', `${path}/rotate`)).body;
    const third = await fixture.send('POST', `${path}/rotate`, { force: true });
    assert.equal(third.status, 200, third.text);
    const stored = await fixture.auth.store.streams.get(1, id);
    assert.deepEqual(
      stored?.signingSecrets.map(({ secret }) => secret),
      [third.body.secret, second.secret],
    );
  });

  test('overlap_seconds: the former secret is valid for that long, with 0 not at all', async () => {
    const { id } = await create();
    const path = `/event-streams/${id}/signing-secret/rotate`;
    const rotate = async (body: Json) => (await fixture.send('POST', path, body)).body;
    const now = fixture.auth.clock.now();
    assert.deepEqual(Object.keys(await rotate({ overlap_seconds: 0 })), ['secret', 'created_at']);
    const rotated = await rotate({ overlap_seconds: 604_800 });
    assert.equal(Date.parse(rotated.previous_expires_at), now + 604_800_000);
    assert.deepEqual(Object.keys(await rotate({ overlap_seconds: 0, force: true })), [
      'secret',
      'created_at',
    ]);
  });

  test('a former secret that has expired is not shown', async (t) => {
    const own = await openApiFixture();
    t.after(() => own.close());
    const { id } = (await own.send('POST', '/event-streams', { destination: destination() })).body;
    const path = `/event-streams/${id}/signing-secret`;
    await own.send('POST', `${path}/rotate`);
    own.auth.clock.move(86_400_000);
    const headers = { authorization: `Bearer ${await own.auth.token()}` };
    const later = await own.send('GET', path, undefined, headers);
    assert.deepEqual(Object.keys(later.body), ['secret', 'created_at']);
  });

  test('a rotation rejects other fields and values', async () => {
    const { id } = await create();
    const path = `/event-streams/${id}/signing-secret/rotate`;
    assertBad(await fixture.send('POST', path, { secret: 'x' }), /not allowed: secret/, 'secret');
    assertBad(await fixture.send('POST', path, { force: 'yes' }), /boolean/, 'force');
    for (const seconds of [-1, 604_801, 1.5, '60']) {
      const body = { overlap_seconds: seconds };
      assertBad(await fixture.send('POST', path, body), /./, 'overlap_seconds');
    }
  });
});
