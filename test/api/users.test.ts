import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { userEmail } from '../../src/core/mailbox.ts';
import { databaseConnection as connection, userEvent } from '../../src/core/users.ts';
import { secondTenant } from '../auth/fixture.ts';
import {
  assertNotFound,
  assertLacksScope,
  assertProblem,
  limits,
  openApiFixture,
  type ApiResponse,
  type ApiFixture,
} from './fixture.ts';

let fixture: ApiFixture;

before(async () => {
  fixture = await openApiFixture({ serviceName: 'acme', attributePrefix: 'a0' });
});
after(() => fixture.close());

const password = 'a horse in a blue house';
let made = 0;

/** Returns the body of a create, with a new e-mail. */
function body(sent: object = {}): Record<string, unknown> {
  made += 1;
  return { email: `user-${made}@example.com`, password, connection, ...sent };
}

// oxlint-disable-next-line typescript/no-explicit-any -- a test reads what it expects.
async function create(sent: object = {}): Promise<any> {
  const response = await fixture.send('POST', '/users', body(sent));
  assert.equal(response.status, 201, response.text);
  return response.body;
}

const pathOf = (id: string): string => `/users/${encodeURIComponent(id)}`;

interface UserEvent {
  readonly type: string;
  readonly body: string;
  // oxlint-disable-next-line typescript/no-explicit-any -- a test reads what it expects.
  readonly object: any;
}

/** Returns the events of a user in the log, oldest first. */
async function eventsOf(id: string): Promise<UserEvent[]> {
  const { store, tenant } = fixture.auth;
  const query = { after: 0, take: 10_000, bytesMax: 100_000_000 };
  const { events } = await store.log.page(tenant.id, query);
  return (
    events
      // Parsing the events of all tests takes longer than the tests.
      .filter(({ body: text }) => text.includes(id))
      .map(({ type, body: text }) => ({ type, body: text, object: JSON.parse(text).data.object }))
      .filter(({ object }) => object.user_id === id)
  );
}

const invalid = (reason: string, property: string, description: string): string =>
  `Payload validation error: '${reason}' on property ${property} (${description}).`;

describe('POST /users', () => {
  test('POST /users returns the user with its defaults and publishes user.created', async () => {
    const response = await fixture.send('POST', '/users', body({ email: 'Ada@Example.com' }));
    assert.equal(response.status, 201);
    const { user_id: id, created_at: at } = response.body;
    assert.match(id, /^acme\|[0-9a-f]{24}$/);
    assert.match(at, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    assert.deepEqual(response.body, {
      user_id: id,
      email: 'ada@example.com',
      email_verified: false,
      name: 'ada@example.com',
      nickname: 'ada',
      picture: 'https://leat.example.com/avatar.svg',
      created_at: at,
      updated_at: at,
      identities: [{ connection, user_id: id.slice(5), provider: 'acme', isSocial: false }],
    });
    const [event, ...more] = await eventsOf(id);
    assert.equal(event?.type, 'user.created');
    assert.deepEqual(event.object, response.body);
    assert.deepEqual(more, []);
    const envelope = JSON.parse(event.body);
    assert.match(envelope.id, /^evt_[A-Za-z0-9]{22}$/);
    assert.equal(envelope.source, 'urn:acme:');
    assert.equal(envelope.time, at);
    assert.equal(envelope.a0tenant, 'main');
  });

  test('POST /users accepts every field', async () => {
    const sent = {
      user_id: 'from-elsewhere',
      username: 'ada',
      name: 'Ada Lovelace',
      nickname: 'countess',
      picture: 'https://example.com/ada.png',
      given_name: 'Ada',
      family_name: 'Lovelace',
      phone_number: '+15550100',
      phone_verified: true,
      email_verified: true,
      blocked: true,
      user_metadata: { language: 'en', deep: { er: [1, null] } },
      app_metadata: { plan: 'sample' },
    };
    const user = await create({ ...sent, verify_email: true });
    assert.deepEqual({ ...user, ...sent, user_id: 'acme|from-elsewhere' }, user);
    assert.equal(Object.hasOwn(user, 'verify_email'), false);
  });

  test('POST /users stores an argon2id hash of the password, and never returns or publishes it', async () => {
    const user = await create();
    const { store, tenant } = fixture.auth;
    const stored = await store.users.get(tenant.id, user.user_id);
    assert.match(stored?.passwordHash ?? '', /^\$argon2id\$/);
    const everything = JSON.stringify([user, await eventsOf(user.user_id)]);
    assert.doesNotMatch(everything, /horse|argon2/);
  });

  for (const name of ['email', 'password', 'connection']) {
    test(`requires ${name}`, async () => {
      const sent = body();
      delete sent[name];
      const response = await fixture.send('POST', '/users', sent);
      assert.equal(response.status, 400);
      assert.equal(response.body.errorCode, 'invalid_body');
      assert.match(
        response.body.message,
        new RegExp(`'Missing required property: ${name}' on property ${name} \\(`),
      );
    });
  }

  for (const email of [
    'ada',
    'a@b@c',
    'a b@c',
    '',
    `${'a'.repeat(300)}@example.com`,
    'a@b\u0000',
  ]) {
    test(`POST /users rejects the e-mail ${JSON.stringify(email.slice(0, 30))}`, async () => {
      const reason = `Object didn't pass validation for format email: ${email.slice(0, 100)}`;
      const response = await fixture.send('POST', '/users', body({ email }));
      assertProblem(response, 400, invalid(reason, 'email', "The user's e-mail"), 'invalid_body');
    });
  }

  test('POST /users accepts an e-mail in any script', async () => {
    const user = await create({ email: 'ÄDÄ+1@exämple.com' });
    assert.equal(user.email, 'ädä+1@exämple.com');
  });

  for (const weak of ['short', '', 'password1', 'PASSWORD1', 'x'.repeat(257), 'Weak@Example.com']) {
    test(`POST /users rejects the password ${weak.slice(0, 20)} (${weak.length})`, async () => {
      const sent = body({ email: 'weak@example.com', password: weak });
      const response = await fixture.send('POST', '/users', sent);
      assertProblem(response, 400, 'PasswordStrengthError: Password is too weak');
    });
  }

  test('POST /users rejects an unknown connection', async () => {
    const response = await fixture.send('POST', '/users', body({ connection: 'github' }));
    assertProblem(response, 400, 'The connection does not exist.', 'inexistent_connection');
  });

  const long = 'x'.repeat(5000);
  const wrong: [field: string, values: unknown[]][] = [
    ['email', [1, null, true, [], {}]],
    ['password', [1, null, [], {}]],
    ['connection', [1, null, []]],
    ['user_id', ['', 'a b', 'a\u0000', 'ä', long, 1, null]],
    ['username', ['', 'x'.repeat(129), 'a\n', 1, null]],
    ['name', ['', 'x'.repeat(301), 1, null]],
    ['nickname', ['', 'x'.repeat(301), {}, null]],
    ['given_name', ['', 'x'.repeat(151), [], null]],
    ['family_name', ['', 'x'.repeat(151), false, null]],
    ['picture', ['', 'x'.repeat(2049), 'javascript:alert(1)', ' javascript:a', 'data:x', 1, null]],
    ['phone_number', ['15550100', '+', '+1234567890123456', '+1 555', '+١', 1, null]],
    ['phone_verified', ['true', 1, null]],
    ['email_verified', ['true', 0, null]],
    ['blocked', ['', 1, null]],
    ['verify_email', ['yes', null]],
    ['user_metadata', ['x', 1, null, [], true]],
    ['app_metadata', ['x', 1, null, [], true]],
  ];
  for (const [field, values] of wrong) {
    test(`POST /users rejects invalid values of ${field}`, async () => {
      for (const value of values) {
        const response = await fixture.send('POST', '/users', body({ [field]: value }));
        assert.equal(
          response.status,
          400,
          `${JSON.stringify(value).slice(0, 40)}: ${response.text}`,
        );
        assert.equal(response.body.errorCode, 'invalid_body');
        assert.match(response.body.message, new RegExp(`on property ${field} \\(`));
      }
    });
  }

  const strangers = [
    'identities',
    'created_at',
    'tenant',
    'passwordHash',
    'constructor',
    'toString',
  ];
  for (const field of strangers) {
    test(`POST /users rejects the unknown field ${field}`, async () => {
      const response = await fixture.send('POST', '/users', body({ [field]: 'x' }));
      const reason = `Additional properties not allowed: ${field}`;
      assertProblem(response, 400, invalid(reason, field, 'Unknown member'), 'invalid_body');
    });
  }

  test('POST /users rejects __proto__ as a field', async () => {
    const text = JSON.stringify(body()).replace('{', '{"__proto__": {"blocked": true},');
    const response = await fixture.send('POST', '/users', text);
    assert.equal(response.status, 400, response.text);
  });

  for (const text of ['[]', '"x"', 'null', '1', '{}', '{"email"', '']) {
    test(`POST /users rejects the body ${text || '(none)'}`, async () => {
      const response = await fixture.send('POST', '/users', text);
      assert.equal(response.status, 400, response.text);
      assert.equal(response.body.errorCode, 'invalid_body');
    });
  }

  test('POST /users keeps metadata with any names unchanged, without prototype pollution', async () => {
    const metadata =
      '{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}},"\\u0000":"\\u0000","":0,"😀":"😀","a.b":[],"toString":"x"}';
    const text = JSON.stringify(body()).replace('{', `{"user_metadata": ${metadata},`);
    const response = await fixture.send('POST', '/users', text);
    assert.equal(response.status, 201, response.text);
    const again = await fixture.send('GET', pathOf(response.body.user_id));
    assert.equal(JSON.stringify(again.body.user_metadata), metadata);
    const [event] = await eventsOf(response.body.user_id);
    assert.ok(event?.body.includes(`"user_metadata":${metadata}`));
    assert.equal(Object.hasOwn(Object.prototype, 'polluted'), false);
  });

  test('POST /users checks the depth of the text, not of strings in it', async () => {
    const deep = `${'['.repeat(101)}${']'.repeat(101)}`;
    const padding = `"pad":"${'x'.repeat(100_000)}"`;
    const sent = (metadata: string): Promise<ApiResponse> => {
      const text = JSON.stringify(body()).replace(
        '{',
        `{"user_metadata":{${padding},${metadata}},`,
      );
      return fixture.send('POST', '/users', text);
    };
    for (const metadata of [`"a":${deep}`, `"a":${deep},"a":1`]) {
      const refused = await sent(metadata);
      assert.equal(refused.status, 400, refused.text);
      assert.match(refused.body.message, /Nested deeper than 100 levels/);
    }
    const taken = await sent(`"b":"${deep}"`);
    assert.equal(taken.status, 201, taken.text);
  });

  test('metadata keeps numbers as they were sent: in responses, in events and after a PATCH', async () => {
    const numbers = '{"id":1546130668394913822,"far":1e400,"price":1.10,"list":[-0,{"e":1E5}]}';
    const text = JSON.stringify(body()).replace('{', `{"app_metadata":${numbers},`);
    const created = await fixture.send('POST', '/users', text);
    assert.equal(created.status, 201, created.text);
    assert.ok(created.text.includes(`"app_metadata":${numbers}`), created.text);
    const path = pathOf(created.body.user_id);
    const patched = await fixture.send(
      'PATCH',
      path,
      `{"user_metadata":{"n":12345678901234567890}}`,
    );
    assert.equal(patched.status, 200, patched.text);
    for (const shown of [patched.text, (await fixture.send('GET', path)).text]) {
      assert.ok(shown.includes(`"app_metadata":${numbers}`), shown);
      assert.ok(shown.includes('"user_metadata":{"n":12345678901234567890}'), shown);
    }
    const [first = '', second = ''] = (await eventsOf(created.body.user_id)).map((one) => one.body);
    assert.ok(first.includes(`"app_metadata":${numbers}`), first);
    assert.ok(second.includes('"user_metadata":{"n":12345678901234567890}'), second);
  });

  test('a field that is repeated is 400, with its path', async () => {
    const repeated: [text: string, path: string][] = [
      ['{"blocked":false,"blocked":true}', 'blocked'],
      ['{"user_metadata":{"a":[1,{"b":1,"\\u0062":2}]}}', 'user_metadata.a.1.b'],
      ['{"user_metadata":{"__proto__":1,"__proto__":2}}', 'user_metadata.__proto__'],
    ];
    const { user_id: id } = await create();
    for (const [text, path] of repeated) {
      const response = await fixture.send('PATCH', pathOf(id), text);
      assert.equal(response.status, 400, response.text);
      assert.equal(response.body.message, invalid('Repeated property', path, 'The request body'));
    }
  });

  test('requests in progress are 200 or 404 when their tenant is removed', async (t) => {
    const leaving = await openApiFixture();
    t.after(() => leaving.close());
    const metadata = { x: Array(100_000).fill('a') };
    const created = await leaving.send('POST', '/users', body({ user_metadata: metadata }));
    assert.equal(created.status, 201);
    const path = pathOf(created.body.user_id);
    const requests = Array.from({ length: 10 }, (_, index) =>
      leaving.send('PATCH', path, { nickname: `n${index}` }),
    );
    await Promise.race(requests);
    await leaving.auth.store.tenants.leave(1);
    const statuses = new Set((await Promise.all(requests)).map(({ status }) => status));
    assert.deepEqual(statuses, new Set([200, 404]));
    assert.deepEqual(leaving.logged, []);
  });

  test('POST /users accepts metadata up to the limit of the body', async () => {
    const blob = 'x'.repeat(1_048_576 - 400);
    const user = await create({ app_metadata: { blob } });
    assert.equal(user.app_metadata.blob.length, blob.length);
    const response = await fixture.send(
      'POST',
      '/users',
      body({ app_metadata: { blob: `${blob}${blob}` } }),
    );
    const message = 'Payload Too Large: the limit of the body is 1048576 bytes';
    assertProblem(response, 413, message, 'payload_too_large');
  });

  describe('for an existing user', () => {
    const duplicates: [name: string, first: object, second: object][] = [
      ['an e-mail', { email: 'bob@example.com' }, { email: 'bob@example.com' }],
      ['an e-mail in capitals', { email: 'eve@example.com' }, { email: 'EVE@Example.com' }],
      ['a username', { username: 'carol' }, { username: 'carol' }],
      ['an id', { user_id: 'taken' }, { user_id: 'taken' }],
    ];
    for (const [name, first, second] of duplicates) {
      test(`rejects ${name} in use and publishes nothing`, async () => {
        const { user_id: id } = await create(first);
        const head = await fixture.auth.store.log.head(fixture.auth.tenant.id);
        const response = await fixture.send('POST', '/users', body(second));
        assertProblem(response, 409, 'The user already exists.', 'acme_idp_error');
        assert.equal(await fixture.auth.store.log.head(fixture.auth.tenant.id), head);
        assert.equal((await eventsOf(id)).length, 1);
      });
    }

    test('accepts one of many concurrent requests, with one event', async () => {
      const email = 'rush@example.com';
      const requests = Array.from({ length: 8 }, () =>
        fixture.send('POST', '/users', body({ email })),
      );
      const statuses = (await Promise.all(requests)).map(({ status }) => status);
      assert.equal(statuses.filter((status) => status === 201).length, 1);
      assert.equal(statuses.filter((status) => status === 409).length, 7);
      const { body: found } = await fixture.send('GET', `/users-by-email?email=${email}`);
      assert.equal(found.length, 1);
      assert.equal((await eventsOf(found[0].user_id)).length, 1);
    });
  });
});

describe('GET /users/{id}', () => {
  test('GET /users/{id} returns the user', async () => {
    const user = await create();
    const response = await fixture.send('GET', pathOf(user.user_id));
    assert.equal(response.status, 200);
    assert.deepEqual(response.body, user);
  });

  test('GET /users/{id} finds an id with any characters, and of full length', async () => {
    for (const id of ['a/b', '..', '%41', 'a?b#c', '|', '!'.repeat(255)]) {
      const user = await create({ user_id: id });
      assert.equal(user.user_id, `acme|${id}`);
      const response = await fixture.send('GET', pathOf(user.user_id));
      assert.equal(response.body.user_id, `acme|${id}`, response.text);
    }
  });

  for (const id of [
    'acme|none',
    'x',
    'a'.repeat(2000),
    '%F0%9F%98%80',
    "'; drop table users; --",
  ]) {
    test(`GET /users/{id} returns 404 for ${id.slice(0, 30)}`, async () => {
      const response = await fixture.send('GET', `/users/${id}`);
      assertNotFound(response, 'user');
    });
  }

  test('GET /users/{id} returns the selected fields', async () => {
    const user = await create();
    const path = pathOf(user.user_id);
    const only = await fixture.send('GET', `${path}?fields=email,user_id,nothing,constructor`);
    assert.deepEqual(only.body, { user_id: user.user_id, email: user.email });
    const { body: but } = await fixture.send(
      'GET',
      `${path}?fields=email,name&include_fields=false`,
    );
    const others = Object.keys(user).filter((name) => name !== 'email' && name !== 'name');
    assert.deepEqual(Object.keys(but), others);
  });

  test('GET /users/{id} rejects include_fields that is neither true nor false', async () => {
    const response = await fixture.send('GET', '/users/x?include_fields=1');
    assert.equal(response.status, 400);
    assert.equal(response.body.errorCode, 'invalid_query_string');
  });
});

describe('PATCH /users/{id}', () => {
  async function patch(id: string, sent: unknown): Promise<ApiResponse> {
    return fixture.send('PATCH', pathOf(id), sent);
  }

  test('parses and writes only the changed part of a large profile', async (t) => {
    const user_metadata = { x: Array.from({ length: 100_000 }, (_, n) => `${n}`) };
    const { user_id: id } = await create({ user_metadata });
    const lengths: number[] = [];
    const { parse, stringify } = JSON;
    t.mock.method(JSON, 'parse', (text: string) => {
      lengths.push(text.length);
      return parse(text) as unknown;
    });
    t.mock.method(JSON, 'stringify', (value: unknown) => {
      const text = stringify(value) as string | undefined;
      lengths.push(text?.length ?? 0);
      return text;
    });
    const responses: Response[] = [];
    for (const sent of ['{"nickname":"a"}', '{"user_metadata":{"y":1}}']) {
      const url = `http://127.0.0.1:${fixture.port}/api/v2${pathOf(id)}`;
      const headers = {
        authorization: `Bearer ${fixture.token}`,
        'content-type': 'application/json',
      };
      responses.push(await fetch(url, { method: 'PATCH', headers, body: sent }));
    }
    t.mock.restoreAll();
    const texts = await Promise.all(responses.map((response) => response.text()));
    assert.deepEqual(
      responses.map(({ status }) => status),
      [200, 200],
    );
    assert.ok(lengths.length > 0, 'the mocks record the requests');
    assert.ok(Math.max(...lengths) < 10_000, `${Math.max(...lengths)} characters at once`);
    const expected = { ...user_metadata, y: 1 };
    const [, , updated] = await eventsOf(id);
    assert.deepEqual(updated?.object.user_metadata, expected);
    assert.deepEqual(JSON.parse(texts[1] ?? '').user_metadata, expected);
  });

  test('PATCH /users/{id} changes any field and updated_at, and publishes the new state', async () => {
    const user = await create();
    fixture.auth.clock.move(1000);
    const sent = {
      email: 'New-Name@example.com',
      email_verified: true,
      name: 'New',
      nickname: 'n',
      picture: 'n.png',
      given_name: 'N',
      family_name: 'M',
      phone_number: '+1',
      phone_verified: true,
      blocked: true,
      user_metadata: { a: 1 },
      app_metadata: { b: 2 },
    };
    const response = await patch(user.user_id, { ...sent, verify_email: false, connection });
    assert.equal(response.status, 200, response.text);
    const expected = { ...user, ...sent, email: 'new-name@example.com' };
    assert.deepEqual(response.body, { ...expected, updated_at: response.body.updated_at });
    assert.ok(response.body.updated_at > user.updated_at);
    const events = await eventsOf(user.user_id);
    assert.deepEqual(
      events.map(({ type }) => type),
      ['user.created', 'user.updated'],
    );
    assert.deepEqual(events[1]?.object, response.body);
  });

  test('PATCH /users/{id} publishes an event even if nothing changes', async () => {
    const user = await create();
    assert.equal((await patch(user.user_id, {})).status, 200);
    assert.equal((await eventsOf(user.user_id)).length, 2);
  });

  test('PATCH /users/{id} changes the username, and rejects one in use', async () => {
    await create({ username: 'first' });
    const user = await create({ username: 'second' });
    const response = await patch(user.user_id, { username: 'first' });
    assertProblem(response, 409, 'The user already exists.', 'acme_idp_error');
    assert.equal((await patch(user.user_id, { username: 'third' })).body.username, 'third');
    assert.equal((await patch(user.user_id, { username: 'third' })).status, 200);
  });

  test('PATCH /users/{id} rejects an e-mail in use, ignoring case, and publishes nothing', async () => {
    await create({ email: 'mine@example.com' });
    const user = await create();
    const response = await patch(user.user_id, { email: 'MINE@example.com' });
    assertProblem(response, 409, 'The user already exists.', 'acme_idp_error');
    assert.equal((await eventsOf(user.user_id)).length, 1);
  });

  test('PATCH /users/{id} replaces the password and never shows it', async () => {
    const user = await create();
    const { store, tenant } = fixture.auth;
    const former = await store.users.get(tenant.id, user.user_id);
    const response = await patch(user.user_id, { password: 'another horse entirely', connection });
    assert.equal(response.status, 200, response.text);
    const present = await store.users.get(tenant.id, user.user_id);
    assert.notEqual(present?.passwordHash, former?.passwordHash);
    const everything = JSON.stringify([response.body, await eventsOf(user.user_id)]);
    assert.doesNotMatch(everything, /horse|argon2/);
  });

  test('PATCH /users/{id} rejects a weak password', async () => {
    const user = await create({ email: 'my-long-mail@example.com' });
    for (const weak of ['', 'short', 'password123', 'My-Long-Mail@example.com', 'x'.repeat(257)]) {
      const response = await patch(user.user_id, { password: weak });
      assertProblem(response, 400, 'PasswordStrengthError: Password is too weak');
    }
    assert.equal((await eventsOf(user.user_id)).length, 1);
  });

  const clashes: [object, string][] = [
    [{ password, email: 'x@y' }, 'password and email'],
    [{ password, email_verified: true }, 'password and email_verified'],
    [{ password, username: 'x' }, 'password and username'],
    [{ username: 'x', email: 'x@y' }, 'username and email'],
    [{ username: 'x', email_verified: true }, 'username and email_verified'],
  ];
  for (const [sent, pair] of clashes) {
    test(`PATCH /users/{id} rejects ${pair} together, also for an unknown user`, async () => {
      const response = await patch('acme|none', sent);
      assertProblem(response, 400, `Cannot update ${pair} simultaneously.`, 'invalid_body');
    });
  }

  test('PATCH /users/{id} removes optional fields that are null', async () => {
    const names = ['name', 'nickname', 'picture', 'given_name', 'family_name', 'phone_number'];
    const sent = { given_name: 'A', family_name: 'B', phone_number: '+1' };
    const user = await create(sent);
    const { body: left } = await patch(
      user.user_id,
      Object.fromEntries(names.map((name) => [name, null])),
    );
    for (const name of names) assert.equal(Object.hasOwn(left, name), false, name);
    assert.equal(left.email, user.email);
  });

  const permanent = ['email', 'password', 'username', 'email_verified', 'blocked', 'user_metadata'];
  for (const name of [
    ...permanent,
    'app_metadata',
    'phone_verified',
    'connection',
    'verify_email',
  ]) {
    test(`PATCH /users/{id} rejects to remove ${name}`, async () => {
      const response = await patch('acme|none', { [name]: null });
      assert.equal(response.status, 400, response.text);
      assert.match(response.body.message, new RegExp(`on property ${name} \\(`));
    });
  }

  test('PATCH /users/{id} merges metadata at the first level, null removes a key, {} clears', async () => {
    const both = { a: 1, b: { c: 2 } };
    const { user_id: id } = await create({ user_metadata: both, app_metadata: both });
    const change = { b: { d: 3 }, a: null, e: 4 };
    const merged = await patch(id, { user_metadata: change, app_metadata: change });
    assert.deepEqual(merged.body.user_metadata, { b: { d: 3 }, e: 4 });
    assert.deepEqual(merged.body.app_metadata, { b: { d: 3 }, e: 4 });
    const cleared = await patch(id, { user_metadata: {}, app_metadata: {} });
    assert.deepEqual(cleared.body.user_metadata, {});
    assert.equal(Object.hasOwn(cleared.body, 'app_metadata'), false);
  });

  test('applies all concurrent changes of metadata', async () => {
    const { user_id: id } = await create();
    const keys = Array.from({ length: 20 }, (_, index) => `key${index}`);
    await Promise.all(keys.map((key) => patch(id, { user_metadata: { [key]: true } })));
    const { body: user } = await fixture.send('GET', pathOf(id));
    assert.deepEqual(Object.keys(user.user_metadata).toSorted(), keys.toSorted());
    const events = await eventsOf(id);
    assert.equal(events.length, 21);
    assert.deepEqual(events.at(-1)?.object, user);
  });

  test('PATCH /users/{id} rejects metadata that grows beyond the length of a body', async () => {
    const blob = 'x'.repeat(600_000);
    const { user_id: id } = await create({ user_metadata: { a: blob } });
    const response = await patch(id, { app_metadata: { b: blob } });
    const reason = 'Metadata is too long, maximum 1048576 characters';
    const message = invalid(reason, 'user_metadata', 'What the user may change');
    assertProblem(response, 400, message, 'invalid_body');
    assert.equal((await eventsOf(id)).length, 1);
    assert.equal((await patch(id, { user_metadata: { a: null } })).status, 200);
  });

  test('PATCH /users/{id} rejects metadata that grows beyond 20,000 parts', async () => {
    const parts = Array.from({ length: 12_000 }, () => []);
    const { user_id: id } = await create({ user_metadata: { a: parts } });
    const response = await patch(id, { user_metadata: { b: parts } });
    const reason = 'Metadata has more than 20000 arrays, objects and members of objects';
    const message = invalid(reason, 'user_metadata', 'What the user may change');
    assertProblem(response, 400, message, 'invalid_body');
    assert.equal((await patch(id, { user_metadata: { a: null, b: parts } })).status, 200);
  });

  test('PATCH /users/{id} rejects a user_id, and an unknown connection', async () => {
    const user = await create();
    const id = await patch(user.user_id, { user_id: 'x' });
    const reason = 'Additional properties not allowed: user_id';
    assertProblem(id, 400, invalid(reason, 'user_id', 'Unknown member'), 'invalid_body');
    const moved = await patch(user.user_id, { connection: 'github' });
    assertProblem(moved, 400, 'The connection does not exist.', 'inexistent_connection');
  });

  test('PATCH /users/{id} returns 404 for an unknown user, with and without a password', async () => {
    for (const sent of [{}, { name: 'x' }, { password }]) {
      const response = await patch('acme|none', sent);
      assertNotFound(response, 'user');
    }
  });
});

describe('DELETE /users/{id}', () => {
  test('DELETE /users/{id} removes the user and publishes its last state', async () => {
    const user = await create();
    fixture.auth.clock.move(1000);
    const response = await fixture.send('DELETE', pathOf(user.user_id));
    assert.equal(response.status, 204);
    assert.equal(response.text, '');
    assert.equal((await fixture.send('GET', pathOf(user.user_id))).status, 404);
    const [, event] = await eventsOf(user.user_id);
    assert.equal(event?.type, 'user.deleted');
    const { deleted_at: at, ...last } = event.object;
    assert.deepEqual(last, user);
    assert.ok(at > user.updated_at);
  });

  test('DELETE /users/{id} returns 204 for an unknown user, and publishes nothing', async () => {
    const head = await fixture.auth.store.log.head(fixture.auth.tenant.id);
    assert.equal((await fixture.send('DELETE', '/users/acme%7Cnone')).status, 204);
    assert.equal(await fixture.auth.store.log.head(fixture.auth.tenant.id), head);
  });

  test('DELETE /users/{id} publishes one deletion for many concurrent requests', async () => {
    const { user_id: id } = await create();
    const requests = Array.from({ length: 5 }, () => fixture.send('DELETE', pathOf(id)));
    for (const { status } of await Promise.all(requests)) assert.equal(status, 204);
    assert.equal((await eventsOf(id)).length, 2);
  });

  test('DELETE /users/{id} allows another user to take the e-mail', async () => {
    const { user_id: id, email } = await create();
    await fixture.send('DELETE', pathOf(id));
    assert.notEqual((await create({ email })).user_id, id);
  });
});

describe('the mailbox of a user', () => {
  const forms = [
    'Zoë@Bücher.example',
    'zoe\u0308@bu\u0308cher.example',
    'zoë@xn--bcher-kva.example',
    'zoë@bücher.example.',
    'zoë@BÜCHER。example',
  ];

  test('the forms of a mailbox are one user: in responses, searches, creates and PATCHes', async () => {
    const user = await create({ email: 'zoe\u0308@XN--bcher-kva.example.' });
    assert.equal(user.email, 'zoë@bücher.example');
    const other = await create();
    for (const email of forms) {
      const path = `/users-by-email?email=${encodeURIComponent(email)}`;
      assert.deepEqual((await fixture.send('GET', path)).body, [user], email);
      assert.equal((await fixture.send('POST', '/users', body({ email }))).status, 409, email);
      const taken = await fixture.send('PATCH', pathOf(other.user_id), { email });
      assert.equal(taken.status, 409, email);
      const kept = await fixture.send('PATCH', pathOf(user.user_id), { email });
      assert.equal(kept.body.email, user.email);
      const weak = await fixture.send('PATCH', pathOf(user.user_id), { password: email });
      assert.equal(weak.status, 400, email);
      user.updated_at = kept.body.updated_at;
    }
  });
});

describe('an e-mail that an earlier version stored and a create refuses or changes', () => {
  const stored = ['soft@exam\u00ADple.com', 'two@dots.example..', 'so\u00ADft@example.com'];
  for (const email of stored) {
    test(`${JSON.stringify(email)} is found by the stored text, and can be sent unchanged`, async () => {
      const { user_id: id } = await create();
      await store(id, email);
      // The normal form may be another user's by now.
      await fixture.send('POST', '/users', body({ email: userEmail(email) }));
      const path = `/users-by-email?email=${encodeURIComponent(email)}`;
      const kept = await fixture.send('PATCH', pathOf(id), { email, name: 'Ada' });
      assert.equal(kept.status, 200, kept.text);
      assert.deepEqual([kept.body.email, kept.body.name], [email, 'Ada']);
      const { body: found } = await fixture.send('GET', path);
      assert.ok(found.some((each: { user_id: string }) => each.user_id === id));
      const changed = await fixture.send('PATCH', pathOf(id), { email: `x${email}..` });
      assert.equal(changed.status, 400);
    });
  }

  async function store(id: string, email: string): Promise<void> {
    const { store: present, tenant, clock } = fixture.auth;
    await present.users.update(tenant.id, id, async (former) => {
      const user = { ...former, email };
      const now = clock.now();
      const facts = { id: `evt_${id}`, tenant, service: 'acme', prefix: 'a0', now };
      return { after: user, event: userEvent('updated', user, facts) };
    });
  }
});

describe('GET /users-by-email', () => {
  test('GET /users-by-email finds users ignoring the case of the e-mail', async () => {
    const user = await create({ email: 'find+me@example.com' });
    const email = encodeURIComponent('FIND+Me@Example.com');
    const response = await fixture.send('GET', `/users-by-email?email=${email}`);
    assert.equal(response.status, 200);
    assert.deepEqual(response.body, [user]);
    const some = await fixture.send('GET', `/users-by-email?email=${email}&fields=user_id`);
    assert.deepEqual(some.body, [{ user_id: user.user_id }]);
  });

  test('GET /users-by-email returns an empty array for an unknown e-mail', async () => {
    for (const email of ['nobody@example.com', '', 'x', '%25', '%F0%9F%98%80']) {
      const response = await fixture.send('GET', `/users-by-email?email=${email}`);
      assert.deepEqual([response.status, response.body], [200, []]);
    }
  });

  test('requires exactly one e-mail', async () => {
    const none = await fixture.send('GET', '/users-by-email');
    const message =
      "Query validation error: 'Missing required property: email' on property email (The user's e-mail).";
    assertProblem(none, 400, message, 'invalid_query_string');
    assert.equal((await fixture.send('GET', '/users-by-email?email=a&email=b')).status, 400);
  });
});

describe('GET /users', () => {
  let other: ApiFixture;
  const ids = (response: ApiResponse): string[] =>
    (response.body.users ?? response.body).map((user: { user_id: string }) => user.user_id);

  before(async () => {
    other = await openApiFixture();
    for (const [index, name] of ['c', 'a', 'b'].entries()) {
      const sent = { email: `${name}@example.com`, password, connection, user_id: `${index}` };
      const response = await other.send('POST', '/users', sent);
      assert.equal(response.status, 201, response.text);
      other.auth.clock.move(1000);
    }
  });
  after(() => other.close());

  test('GET /users returns an array without totals', async () => {
    const response = await other.send('GET', '/users');
    assert.deepEqual(ids(response), ['leat|0', 'leat|1', 'leat|2']);
    assert.ok(Array.isArray(response.body));
    const same = await other.send('GET', '/users?include_totals=false');
    assert.deepEqual(same.body, response.body);
  });

  test('GET /users returns totals on request', async () => {
    const response = await other.send('GET', '/users?include_totals=true&page=1&per_page=2');
    const { users, ...totals } = response.body;
    assert.deepEqual(totals, { start: 2, limit: 2, length: 1, total: 3 });
    assert.deepEqual(ids(response), ['leat|2']);
    assert.equal(users.length, 1);
  });

  test('GET /users returns an empty page after the last one, and for per_page=0', async () => {
    const response = await other.send('GET', '/users?page=9&include_totals=true');
    assert.deepEqual(response.body, { start: 450, limit: 50, length: 0, total: 3, users: [] });
    assert.deepEqual((await other.send('GET', '/users?per_page=0')).body, []);
    assert.deepEqual((await other.send('GET', '/users?page=99999999999999&per_page=0')).body, []);
  });

  for (const query of [
    'page=10&per_page=100',
    'page=20',
    'page=1000&per_page=1',
    'page=999999999999999',
  ]) {
    test(`GET /users rejects ${query}`, async () => {
      const response = await other.send('GET', `/users?${query}`);
      const message = 'You can only page through the first 1000 records.';
      assertProblem(response, 400, message, 'invalid_paging');
    });
  }

  test('GET /users accepts the last page within the first 1,000 users', async () => {
    assert.equal((await other.send('GET', '/users?page=9&per_page=100')).status, 200);
    assert.equal((await other.send('GET', '/users?page=999&per_page=1')).status, 200);
  });

  test('GET /users sorts by a field in both directions', async () => {
    const sorted = async (sort: string): Promise<string> =>
      ids(await other.send('GET', `/users?sort=${sort}`))
        .map((id) => id.slice(5))
        .join('');
    assert.equal(await sorted('email:1'), '120');
    assert.equal(await sorted('email:-1'), '021');
    assert.equal(await sorted('created_at:-1'), '210');
    assert.equal(await sorted('name:1'), '120');
    assert.equal(await sorted('user_id:-1'), '210');
  });

  test('GET /users rejects to sort more users than its limit by a field without an index', async (t) => {
    const small = await openApiFixture({ limits: { ...limits, sortedUsersMax: 1 } });
    t.after(() => small.close());
    for (const email of ['a@example.com', 'b@example.com']) {
      const response = await small.send('POST', '/users', { email, password, connection });
      assert.equal(response.status, 201, response.text);
    }
    const message =
      "Query validation error: 'More than 1 users, or too much metadata, to sort by nickname; sort by created_at, updated_at, email, user_id or username' on property sort (field:1 or field:-1).";
    const response = await small.send('GET', '/users?sort=nickname:-1');
    assertProblem(response, 400, message, 'invalid_query_string');
    for (const field of ['created_at', 'updated_at', 'email', 'user_id', 'username']) {
      assert.equal((await small.send('GET', `/users?sort=${field}:-1`)).status, 200, field);
    }
  });

  const wrong = [
    'page=-1',
    'page=x',
    'page=1.5',
    'page=',
    'page=1&page=2',
    'per_page=101',
    'per_page=-1',
    'per_page=x',
    'include_totals=1',
    'include_fields=x',
    'sort=email',
    'sort=email:2',
    'sort=password_hash:1',
    'sort=:1',
    'sort=email:1,name:1',
    'take=0',
    'take=101',
    'take=x',
    'from=',
    'from=!',
    'from=eA',
    'take=5&sort=email:1',
    'q=email:x',
    'fields=a&fields=b',
  ];
  for (const query of wrong) {
    test(`GET /users rejects ${query}`, async () => {
      const response = await other.send('GET', `/users?${query}`);
      assert.equal(response.status, 400, response.text);
      assert.equal(response.body.errorCode, 'invalid_query_string');
    });
  }

  test('GET /users returns the selected fields', async () => {
    const { body: users } = await other.send('GET', '/users?fields=user_id&include_totals=true');
    assert.deepEqual(users.users[0], { user_id: 'leat|0' });
  });

  test('GET /users pages by cursor with take and from', async () => {
    const first = await other.send('GET', '/users?take=2&include_totals=true&page=50');
    assert.deepEqual(Object.keys(first.body), ['users', 'next']);
    assert.deepEqual(ids(first), ['leat|0', 'leat|1']);
    const last = await other.send('GET', `/users?from=${first.body.next}`);
    assert.deepEqual(Object.keys(last.body), ['users']);
    assert.deepEqual(ids(last), ['leat|2']);
  });
});

test('tenants do not see users of each other, and can have users with equal ids', async (t) => {
  const two = await openApiFixture({ trustProxy: ['127.0.0.1'] });
  t.after(() => two.close());
  const { tenant, manager } = await secondTenant(two.auth);
  two.auth.clock.move(10_000);
  const host = { 'x-forwarded-host': tenant.domain };
  await two.raw('GET', '/healthz');
  const response = await two.raw(
    'POST',
    '/oauth/token',
    JSON.stringify({
      grant_type: 'client_credentials',
      audience: '/api/v2/',
      client_id: manager.clientId,
      client_secret: manager.clientSecret,
    }),
    { 'content-type': 'application/json', ...host },
  );
  const there = { ...host, authorization: `Bearer ${response.body.access_token}` };
  const here = { 'x-forwarded-host': two.auth.tenant.domain };

  const sent = body({ user_id: 'same' });
  const mine = await two.send('POST', '/users', sent, here);
  assert.equal(mine.status, 201, mine.text);
  assert.equal((await two.send('GET', '/users/leat%7Csame', undefined, there)).status, 404);
  assert.deepEqual((await two.send('GET', '/users', undefined, there)).body, []);
  assert.equal((await two.send('DELETE', '/users/leat%7Csame', undefined, there)).status, 204);
  const theirs = await two.send('POST', '/users', { ...sent, name: 'Other' }, there);
  assert.equal(theirs.status, 201, theirs.text);
  const again = await two.send('GET', '/users/leat%7Csame', undefined, here);
  assert.deepEqual(again.body, mine.body);
});

describe('the scopes of users', () => {
  const operations: [method: string, path: string, scope: string][] = [
    ['GET', '/users', 'read:users'],
    ['GET', '/users-by-email?email=x', 'read:users'],
    ['GET', '/users/x', 'read:users'],
    ['POST', '/users', 'create:users'],
    ['PATCH', '/users/x', 'update:users'],
    ['DELETE', '/users/x', 'delete:users'],
  ];
  for (const [method, path, scope] of operations) {
    test(`${method} ${path} needs ${scope} and no other`, async () => {
      const without = ['create', 'read', 'update', 'delete']
        .map((verb) => `${verb}:users`)
        .filter((other) => other !== scope);
      const headers = await fixture.headersWith(...without);
      assertLacksScope(await fixture.send(method, path, undefined, headers), scope);
      const enough = await fixture.headersWith(scope);
      assert.notEqual((await fixture.send(method, path, undefined, enough)).status, 403);
    });
  }
});
