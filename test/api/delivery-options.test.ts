import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { openApiFixture, type ApiFixture, type ApiResponse } from './fixture.ts';

let fixture: ApiFixture;

before(async () => {
  fixture = await openApiFixture({ streamConcurrency: 8 });
});
after(() => fixture.close());

type Json = Readonly<Record<string, unknown>>;

const destination = (authorization: Json = { method: 'bearer', token: 'kept' }): Json => ({
  type: 'webhook',
  configuration: {
    webhook_endpoint: 'https://hooks.example.net/leat',
    webhook_authorization: authorization,
  },
});

const send = (fields: Json): Promise<ApiResponse> =>
  fixture.send('POST', '/event-streams', { destination: destination(), ...fields });

async function create(fields: Json = {}): Promise<ApiResponse['body']> {
  const response = await send(fields);
  assert.equal(response.status, 201, response.text);
  return response.body;
}

const patch = (id: string, change: Json): Promise<ApiResponse> =>
  fixture.send('PATCH', `/event-streams/${id}`, change);

function assertBad(response: ApiResponse, reason: string, property: string): void {
  assert.equal(response.status, 400, response.text);
  assert.ok(
    response.body.message.startsWith(
      `Payload validation error: '${reason}' on property ${property} (`,
    ),
    response.body.message,
  );
}

describe('delivery of an event stream', () => {
  const all = {
    retry: { delays_seconds: [1, 86_400], retry_4xx: [408] },
    per_second: 0.5,
    headers: { 'X-Environment': 'test', 'x-b': 'é' },
    concurrency: 8,
    timeout_ms: 30_000,
    signature: 'v1 v1a',
    order_by: '/data/object/user_id',
    on_failure: 'block',
  };

  test('options are shown as they were sent, and absent where nothing is set', async () => {
    const { id, delivery } = await create({ delivery: all });
    assert.deepEqual(delivery, all);
    assert.deepEqual((await fixture.send('GET', `/event-streams/${id}`)).body.delivery, all);
    for (const nothing of [undefined, {}, { headers: {} }]) {
      const fields = nothing === undefined ? {} : { delivery: nothing };
      assert.ok(!Object.hasOwn(await create(fields), 'delivery'));
    }
  });

  test('signature: the first stream with v1a makes the key, which is published before the response', async () => {
    const own = await openApiFixture();
    try {
      const kids = async (): Promise<number> => {
        const { body } = await own.raw('GET', '/.well-known/webhook-keys.json');
        return (body as unknown as { keys: unknown[] }).keys.length;
      };
      const stream = { destination: destination(), delivery: { signature: 'v1' } };
      const { body } = await own.send('POST', '/event-streams', stream);
      assert.deepEqual(body.delivery, { signature: 'v1' });
      assert.equal(await kids(), 0);
      const delivery = { signature: 'v1a' };
      await own.send('PATCH', `/event-streams/${body.id}`, { delivery });
      assert.equal(await kids(), 1);
      await own.send('POST', '/event-streams', { destination: destination(), delivery });
      assert.equal(await kids(), 1);
    } finally {
      await own.close();
    }
  });

  test('signature: other texts than v1, v1a and both in this order are rejected', async () => {
    for (const signature of ['v2', 'v1a v1', 'v1 v1', '', 'V1', null, ['v1']]) {
      assert.equal((await send({ delivery: { signature } })).status, 400, String(signature));
    }
  });

  test('an update replaces all options; null removes them; equal ones change nothing', async () => {
    const made = await create({ delivery: all });
    fixture.auth.clock.move(1000);
    assert.deepEqual((await patch(made.id, { delivery: all })).body, made);
    assert.deepEqual((await patch(made.id, { name: 'another' })).body.delivery, all);
    const replaced = await patch(made.id, { delivery: { concurrency: 1 } });
    assert.deepEqual(replaced.body.delivery, { concurrency: 1 });
    assert.notEqual(replaced.body.updated_at, made.updated_at);
    for (const nothing of [null, {}]) {
      await patch(made.id, { delivery: all });
      const { body } = await patch(made.id, { delivery: nothing });
      assert.ok(!Object.hasOwn(body, 'delivery'));
    }
  });

  test('order_by takes names with dots and any JSON Pointer, also the empty one; on_failure goes with it', async () => {
    const pointers = [
      '',
      'data.object.user_id',
      'type',
      '/',
      '/a~1b/m~0n',
      '/data/object/user_id',
      `/${'a'.repeat(255)}`,
    ];
    for (const pointer of pointers) {
      const { id, delivery } = await create({ delivery: { order_by: pointer } });
      assert.deepEqual(delivery, { order_by: pointer });
      const both = { order_by: pointer, on_failure: 'continue' };
      assert.deepEqual((await patch(id, { delivery: both })).body.delivery, both);
      assert.ok(!Object.hasOwn((await patch(id, { delivery: null })).body, 'delivery'));
      assert.deepEqual((await patch(id, { delivery: both })).body.delivery, both);
      assert.deepEqual((await patch(id, { delivery: { per_second: 1 } })).body.delivery, {
        per_second: 1,
      });
    }
  });

  test('order_by and on_failure of other types, and other words, are 400', async () => {
    const bad = [{ order_by: null }, { order_by: 1 }, { order_by: ['/a'] }];
    const words = ['stop', 'Block', '', null, true].map((on_failure) => ({
      order_by: '/a',
      on_failure,
    }));
    for (const delivery of [...bad, ...words]) {
      const response = await send({ delivery });
      assert.equal(response.status, 400, JSON.stringify(delivery));
      assert.match(response.body.message, /on property delivery\.(?:order_by|on_failure)/);
    }
  });

  const invalid: [options: Json, reason: string, property: string][] = [
    ...['data/user', '$.data', 'data..id', '/a~', '/~2'].map((pointer): [Json, string, string] => [
      { order_by: pointer },
      `No path, such as data.object.user_id or /data/object/user_id (RFC 6901): ${pointer}`,
      'delivery.order_by',
    ]),
    [
      { order_by: `/${'a'.repeat(256)}` },
      'String is too long (257 chars), maximum 256',
      'delivery.order_by',
    ],
    [
      { on_failure: 'block' },
      'on_failure is sent without order_by: only ordered events wait for a failure',
      'delivery.on_failure',
    ],
    [{ speed: 1 }, 'Additional properties not allowed: speed', 'delivery.speed'],
    [{ per_second: 0.05 }, 'Value 0.05 is less than minimum 0.1', 'delivery.per_second'],
    [
      { retry: { delays_seconds: [] } },
      'Array is too short (0), minimum 1',
      'delivery.retry.delays_seconds',
    ],
    [
      { retry: { delays_seconds: [1, 86_401] } },
      'Value 86401 is greater than maximum 86400',
      'delivery.retry.delays_seconds.1',
    ],
    [
      { retry: { delays_seconds: [1], retry_4xx: [500] } },
      'Value 500 is greater than maximum 499',
      'delivery.retry.retry_4xx.0',
    ],
    [{ concurrency: 0 }, 'Value 0 is less than minimum 1', 'delivery.concurrency'],
    [
      { concurrency: 9 },
      'Value 9 is greater than maximum 8 (LEAT_STREAM_CONCURRENCY)',
      'delivery.concurrency',
    ],
    [{ timeout_ms: 999 }, 'Value 999 is less than minimum 1000', 'delivery.timeout_ms'],
    [{ timeout_ms: 30_001 }, 'Value 30001 is greater than maximum 30000', 'delivery.timeout_ms'],
    [{ headers: { 'a b': '1' } }, 'Not the name of a header: a b', 'delivery.headers.a b'],
    [{ headers: { Host: '1' } }, 'Header not allowed: Host', 'delivery.headers.Host'],
    [
      { headers: { 'Webhook-Key-Id': '1' } },
      'Header not allowed: Webhook-Key-Id',
      'delivery.headers.Webhook-Key-Id',
    ],
    [{ headers: { 'X-A': '1', 'x-a': '2' } }, 'Header sent twice: x-a', 'delivery.headers.x-a'],
    [
      { headers: { Authorization: '1' } },
      'Header not allowed: Authorization (the authorization of the destination sends it)',
      'delivery.headers.Authorization',
    ],
    [
      { headers: { 'X-A': '' } },
      'String is too short (0 chars), minimum 1',
      'delivery.headers.X-A',
    ],
    [
      { headers: { 'X-A': 1 } },
      'Expected type string but found type integer',
      'delivery.headers.X-A',
    ],
  ];
  for (const [delivery, reason, property] of invalid) {
    test(`${JSON.stringify(delivery)} is 400: ${reason}`, async () => {
      assertBad(await send({ delivery }), reason, property);
      const { id } = await create();
      assertBad(await patch(id, { delivery }), reason, property);
    });
  }

  test('retry takes the names of schedules, and no others', async () => {
    for (const retry of ['quick', 'hours', 'days', { delays_seconds: [5] }]) {
      assert.deepEqual((await create({ delivery: { retry } })).delivery, { retry });
    }
    for (const retry of ['weeks', 1, null, ['quick'], {}]) {
      const response = await send({ delivery: { retry } });
      assert.equal(response.status, 400, response.text);
      assert.match(response.body.message, /on property delivery\.retry/);
    }
  });

  for (const value of ['a\nb', ' a', 'a ', 'a\u0000', '\u007f']) {
    test(`the value of a header ${JSON.stringify(value)} is 400`, async () => {
      const response = await send({ delivery: { headers: { 'X-A': value } } });
      assert.equal(response.status, 400);
      assert.match(response.body.message, /on property delivery\.headers\.X-A /);
    });
  }

  test('more than 20 headers are 400', async () => {
    const headersOf = (count: number): Json =>
      Object.fromEntries(Array.from({ length: count }, (_, index) => [`X-${index}`, 'v']));
    assert.equal((await send({ delivery: { headers: headersOf(20) } })).status, 201);
    assert.equal((await send({ delivery: { headers: headersOf(21) } })).status, 400);
  });

  test('a new authorization may not send a header of the options, nor the other way round', async () => {
    const custom = { method: 'custom_header', header_key: 'X-Key', header_value: 'v' };
    const { id } = await create({ delivery: { headers: { 'x-key': '1' } } });
    const reason = 'Header not allowed: x-key (the authorization of the destination sends it)';
    const moved = await patch(id, { destination: destination(custom) });
    assertBad(moved, reason, 'delivery.headers.x-key');
    const both = {
      destination: destination(custom),
      delivery: { headers: { authorization: '1' } },
    };
    const response = await patch(id, both);
    assert.equal(response.status, 200, response.text);
  });
});
