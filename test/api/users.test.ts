import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { databaseConnection as connection } from '../../src/core/users.ts';
import { secondTenant } from '../auth/fixture.ts';
import { limits, openSite, type Received, type Site } from './fixture.ts';

let site: Site;

before(async () => {
  site = await openSite({ serviceName: 'acme', attributePrefix: 'a0' });
});
after(() => site.close());

const password = 'a horse in a blue house';
let made = 0;

/** A body of a create, with an e-mail that nobody has. */
function body(sent: object = {}): Record<string, unknown> {
  made += 1;
  return { email: `user-${made}@example.com`, password, connection, ...sent };
}

// oxlint-disable-next-line typescript/no-explicit-any -- a test reads what it expects.
async function create(sent: object = {}): Promise<any> {
  const answer = await site.send('POST', '/users', body(sent));
  assert.equal(answer.status, 201, answer.text);
  return answer.body;
}

const pathOf = (id: string): string => `/users/${encodeURIComponent(id)}`;

interface Told {
  readonly type: string;
  readonly body: string;
  // oxlint-disable-next-line typescript/no-explicit-any -- a test reads what it expects.
  readonly object: any;
}

/** What the log tells of a user, oldest first. */
async function told(id: string): Promise<Told[]> {
  const { store, tenant } = site.house;
  const query = { after: 0, take: 10_000, bytesMax: 100_000_000 };
  const { events } = await store.log.page(tenant.id, query);
  return events
    .map(({ type, body: text }) => ({ type, body: text, object: JSON.parse(text).data.object }))
    .filter(({ object }) => object.user_id === id);
}

function assertRefused(answer: Received, status: number, message: string, code?: string): void {
  assert.equal(answer.status, status, answer.text);
  assert.equal(answer.body.message, message);
  assert.equal(answer.body.errorCode, code);
}

const invalid = (reason: string, property: string, description: string): string =>
  `Payload validation error: '${reason}' on property ${property} (${description}).`;

describe('POST /users', () => {
  test('answers the user with its defaults and tells of it in the log', async () => {
    const answer = await site.send('POST', '/users', body({ email: 'Ada@Example.com' }));
    assert.equal(answer.status, 201);
    const { user_id: id, created_at: at } = answer.body;
    assert.match(id, /^acme\|[0-9a-f]{24}$/);
    assert.match(at, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    assert.deepEqual(answer.body, {
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
    const [event, ...more] = await told(id);
    assert.equal(event?.type, 'user.created');
    assert.deepEqual(event.object, answer.body);
    assert.deepEqual(more, []);
    const envelope = JSON.parse(event.body);
    assert.match(envelope.id, /^evt_[A-Za-z0-9]{22}$/);
    assert.equal(envelope.source, 'urn:acme:');
    assert.equal(envelope.time, at);
    assert.equal(envelope.a0tenant, 'main');
  });

  test('takes every member', async () => {
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

  test('never answers the password, keeps an argon2id hash and tells nobody', async () => {
    const user = await create();
    const { store, tenant } = site.house;
    const kept = await store.users.get(tenant.id, user.user_id);
    assert.match(kept?.passwordHash ?? '', /^\$argon2id\$/);
    const everything = JSON.stringify([user, await told(user.user_id)]);
    assert.doesNotMatch(everything, /horse|argon2/);
  });

  for (const name of ['email', 'password', 'connection']) {
    test(`requires ${name}`, async () => {
      const sent = body();
      delete sent[name];
      const answer = await site.send('POST', '/users', sent);
      assert.equal(answer.status, 400);
      assert.equal(answer.body.errorCode, 'invalid_body');
      assert.match(
        answer.body.message,
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
    test(`refuses the e-mail ${JSON.stringify(email.slice(0, 30))}`, async () => {
      const reason = `Object didn't pass validation for format email: ${email.slice(0, 100)}`;
      const answer = await site.send('POST', '/users', body({ email }));
      assertRefused(answer, 400, invalid(reason, 'email', "The user's e-mail"), 'invalid_body');
    });
  }

  test('takes an e-mail in any script', async () => {
    const user = await create({ email: 'ÄDÄ+1@exämple.com' });
    assert.equal(user.email, 'ädä+1@exämple.com');
  });

  for (const weak of ['short', '', 'password1', 'PASSWORD1', 'x'.repeat(257), 'Weak@Example.com']) {
    test(`refuses the password ${weak.slice(0, 20)} (${weak.length})`, async () => {
      const sent = body({ email: 'weak@example.com', password: weak });
      const answer = await site.send('POST', '/users', sent);
      assertRefused(answer, 400, 'PasswordStrengthError: Password is too weak');
    });
  }

  test('refuses a connection that is not there', async () => {
    const answer = await site.send('POST', '/users', body({ connection: 'github' }));
    assertRefused(answer, 400, 'The connection does not exist.', 'inexistent_connection');
  });

  const long = 'x'.repeat(5000);
  const wrong: [member: string, values: unknown[]][] = [
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
  for (const [member, values] of wrong) {
    test(`refuses what ${member} cannot be`, async () => {
      for (const value of values) {
        const answer = await site.send('POST', '/users', body({ [member]: value }));
        assert.equal(answer.status, 400, `${JSON.stringify(value).slice(0, 40)}: ${answer.text}`);
        assert.equal(answer.body.errorCode, 'invalid_body');
        assert.match(answer.body.message, new RegExp(`on property ${member} \\(`));
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
  for (const member of strangers) {
    test(`refuses the member ${member}`, async () => {
      const answer = await site.send('POST', '/users', body({ [member]: 'x' }));
      const reason = `Additional properties not allowed: ${member}`;
      assertRefused(answer, 400, invalid(reason, member, 'Unknown member'), 'invalid_body');
    });
  }

  test('refuses __proto__ as a member', async () => {
    const text = JSON.stringify(body()).replace('{', '{"__proto__": {"blocked": true},');
    const answer = await site.send('POST', '/users', text);
    assert.equal(answer.status, 400, answer.text);
  });

  for (const text of ['[]', '"x"', 'null', '1', '{}', '{"email"', '']) {
    test(`refuses the body ${text || '(none)'}`, async () => {
      const answer = await site.send('POST', '/users', text);
      assert.equal(answer.status, 400, answer.text);
      assert.equal(answer.body.errorCode, 'invalid_body');
    });
  }

  test('delivers metadata with any names as it came, and pollutes nothing', async () => {
    const metadata =
      '{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}},"\\u0000":"\\u0000","":0,"😀":"😀","a.b":[],"toString":"x"}';
    const text = JSON.stringify(body()).replace('{', `{"user_metadata": ${metadata},`);
    const answer = await site.send('POST', '/users', text);
    assert.equal(answer.status, 201, answer.text);
    const again = await site.send('GET', pathOf(answer.body.user_id));
    assert.equal(JSON.stringify(again.body.user_metadata), metadata);
    const [event] = await told(answer.body.user_id);
    assert.ok(event?.body.includes(`"user_metadata":${metadata}`));
    assert.equal(Object.hasOwn(Object.prototype, 'polluted'), false);
  });

  test('refuses a long body for the depth of its value alone', async () => {
    const deep = `${'['.repeat(101)}${']'.repeat(101)}`;
    const padding = `"pad":"${'x'.repeat(100_000)}"`;
    const sent = (metadata: string): Promise<Received> => {
      const text = JSON.stringify(body()).replace(
        '{',
        `{"user_metadata":{${padding},${metadata}},`,
      );
      return site.send('POST', '/users', text);
    };
    const refused = await sent(`"a":${deep}`);
    assert.equal(refused.status, 400, refused.text);
    assert.match(refused.body.message, /Nested deeper than 100 levels/);
    const taken = await sent(`"a":${deep},"a":1,"b":"${deep}"`);
    assert.equal(taken.status, 201, taken.text);
  });

  test('is not found, whatever of it was under way, once its tenant leaves', async (t) => {
    const leaving = await openSite();
    t.after(() => leaving.close());
    const metadata = { x: Array(100_000).fill('a') };
    const created = await leaving.send('POST', '/users', body({ user_metadata: metadata }));
    assert.equal(created.status, 201);
    const path = pathOf(created.body.user_id);
    const answers = Array.from({ length: 10 }, (_, index) =>
      leaving.send('PATCH', path, { nickname: `n${index}` }),
    );
    await Promise.race(answers);
    await leaving.house.store.tenants.leave(1);
    const statuses = new Set((await Promise.all(answers)).map(({ status }) => status));
    assert.deepEqual(statuses, new Set([200, 404]));
    assert.deepEqual(leaving.logged, []);
  });

  test('takes metadata up to the limit of the body', async () => {
    const blob = 'x'.repeat(1_048_576 - 400);
    const user = await create({ app_metadata: { blob } });
    assert.equal(user.app_metadata.blob.length, blob.length);
    const answer = await site.send(
      'POST',
      '/users',
      body({ app_metadata: { blob: `${blob}${blob}` } }),
    );
    assertRefused(answer, 413, 'Payload Too Large', 'payload_too_large');
  });

  describe('when the user is there already', () => {
    const duplicates: [what: string, first: object, second: object][] = [
      ['an e-mail', { email: 'bob@example.com' }, { email: 'bob@example.com' }],
      ['an e-mail in capitals', { email: 'eve@example.com' }, { email: 'EVE@Example.com' }],
      ['a username', { username: 'carol' }, { username: 'carol' }],
      ['an id', { user_id: 'taken' }, { user_id: 'taken' }],
    ];
    for (const [what, first, second] of duplicates) {
      test(`refuses ${what} for the second time and tells nothing`, async () => {
        const { user_id: id } = await create(first);
        const head = await site.house.store.log.head(site.house.tenant.id);
        const answer = await site.send('POST', '/users', body(second));
        assertRefused(answer, 409, 'The user already exists.', 'acme_idp_error');
        assert.equal(await site.house.store.log.head(site.house.tenant.id), head);
        assert.equal((await told(id)).length, 1);
      });
    }

    test('lets one of many at once through, with one event', async () => {
      const email = 'rush@example.com';
      const asked = Array.from({ length: 8 }, () => site.send('POST', '/users', body({ email })));
      const statuses = (await Promise.all(asked)).map(({ status }) => status);
      assert.equal(statuses.filter((status) => status === 201).length, 1);
      assert.equal(statuses.filter((status) => status === 409).length, 7);
      const { body: found } = await site.send('GET', `/users-by-email?email=${email}`);
      assert.equal(found.length, 1);
      assert.equal((await told(found[0].user_id)).length, 1);
    });
  });
});

describe('GET /users/{id}', () => {
  test('answers the user', async () => {
    const user = await create();
    const answer = await site.send('GET', pathOf(user.user_id));
    assert.equal(answer.status, 200);
    assert.deepEqual(answer.body, user);
  });

  test('finds an id of any characters and of full length', async () => {
    for (const id of ['a/b', '..', '%41', 'a?b#c', '|', '!'.repeat(255)]) {
      const user = await create({ user_id: id });
      assert.equal(user.user_id, `acme|${id}`);
      const answer = await site.send('GET', pathOf(user.user_id));
      assert.equal(answer.body.user_id, `acme|${id}`, answer.text);
    }
  });

  for (const id of [
    'acme|none',
    'x',
    '%00',
    'a'.repeat(2000),
    '%F0%9F%98%80',
    "'; drop table users; --",
  ]) {
    test(`answers 404 for ${id.slice(0, 30)}`, async () => {
      const answer = await site.send('GET', `/users/${id}`);
      assertRefused(answer, 404, 'The user does not exist.', 'inexistent_user');
    });
  }

  test('shows the fields that are asked for', async () => {
    const user = await create();
    const path = pathOf(user.user_id);
    const only = await site.send('GET', `${path}?fields=email,user_id,nothing,constructor`);
    assert.deepEqual(only.body, { user_id: user.user_id, email: user.email });
    const { body: but } = await site.send('GET', `${path}?fields=email,name&include_fields=false`);
    const others = Object.keys(user).filter((name) => name !== 'email' && name !== 'name');
    assert.deepEqual(Object.keys(but), others);
  });

  test('refuses include_fields that is neither true nor false', async () => {
    const answer = await site.send('GET', '/users/x?include_fields=1');
    assert.equal(answer.status, 400);
    assert.equal(answer.body.errorCode, 'invalid_query_string');
  });
});

describe('PATCH /users/{id}', () => {
  async function patch(id: string, sent: unknown): Promise<Received> {
    return site.send('PATCH', pathOf(id), sent);
  }

  test('neither parses nor writes the rest of a large profile again', async (t) => {
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
    const answers: Response[] = [];
    for (const sent of ['{"nickname":"a"}', '{"user_metadata":{"y":1}}']) {
      const url = `http://127.0.0.1:${site.port}/api/v2${pathOf(id)}`;
      const headers = {
        authorization: `Bearer ${site.token}`,
        'content-type': 'application/json',
      };
      answers.push(await fetch(url, { method: 'PATCH', headers, body: sent }));
    }
    t.mock.restoreAll();
    const texts = await Promise.all(answers.map((answer) => answer.text()));
    assert.deepEqual(
      answers.map(({ status }) => status),
      [200, 200],
    );
    assert.ok(lengths.length > 0, 'the spies see the requests');
    assert.ok(Math.max(...lengths) < 10_000, `${Math.max(...lengths)} characters at once`);
    const expected = { ...user_metadata, y: 1 };
    const [, , updated] = await told(id);
    assert.deepEqual(updated?.object.user_metadata, expected);
    assert.deepEqual(JSON.parse(texts[1] ?? '').user_metadata, expected);
  });

  test('changes any member, moves updated_at, and tells the user as it is now', async () => {
    const user = await create();
    site.house.clock.move(1000);
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
    const answer = await patch(user.user_id, { ...sent, verify_email: false, connection });
    assert.equal(answer.status, 200, answer.text);
    const expected = { ...user, ...sent, email: 'new-name@example.com' };
    assert.deepEqual(answer.body, { ...expected, updated_at: answer.body.updated_at });
    assert.ok(answer.body.updated_at > user.updated_at);
    const events = await told(user.user_id);
    assert.deepEqual(
      events.map(({ type }) => type),
      ['user.created', 'user.updated'],
    );
    assert.deepEqual(events[1]?.object, answer.body);
  });

  test('tells of a change that changes nothing', async () => {
    const user = await create();
    assert.equal((await patch(user.user_id, {})).status, 200);
    assert.equal((await told(user.user_id)).length, 2);
  });

  test('changes the username, and one that is taken is 409', async () => {
    await create({ username: 'first' });
    const user = await create({ username: 'second' });
    const answer = await patch(user.user_id, { username: 'first' });
    assertRefused(answer, 409, 'The user already exists.', 'acme_idp_error');
    assert.equal((await patch(user.user_id, { username: 'third' })).body.username, 'third');
    assert.equal((await patch(user.user_id, { username: 'third' })).status, 200);
  });

  test('refuses an e-mail that another user has, whatever its capitals, and tells nothing', async () => {
    await create({ email: 'mine@example.com' });
    const user = await create();
    const answer = await patch(user.user_id, { email: 'MINE@example.com' });
    assertRefused(answer, 409, 'The user already exists.', 'acme_idp_error');
    assert.equal((await told(user.user_id)).length, 1);
  });

  test('replaces the password and never shows it', async () => {
    const user = await create();
    const { store, tenant } = site.house;
    const former = await store.users.get(tenant.id, user.user_id);
    const answer = await patch(user.user_id, { password: 'another horse entirely', connection });
    assert.equal(answer.status, 200, answer.text);
    const present = await store.users.get(tenant.id, user.user_id);
    assert.notEqual(present?.passwordHash, former?.passwordHash);
    const everything = JSON.stringify([answer.body, await told(user.user_id)]);
    assert.doesNotMatch(everything, /horse|argon2/);
  });

  test('refuses a weak password', async () => {
    const user = await create({ email: 'my-long-mail@example.com' });
    for (const weak of ['', 'short', 'password123', 'My-Long-Mail@example.com', 'x'.repeat(257)]) {
      const answer = await patch(user.user_id, { password: weak });
      assertRefused(answer, 400, 'PasswordStrengthError: Password is too weak');
    }
    assert.equal((await told(user.user_id)).length, 1);
  });

  const clashes: [object, string][] = [
    [{ password, email: 'x@y' }, 'password and email'],
    [{ password, email_verified: true }, 'password and email_verified'],
    [{ password, username: 'x' }, 'password and username'],
    [{ username: 'x', email: 'x@y' }, 'username and email'],
    [{ username: 'x', email_verified: true }, 'username and email_verified'],
  ];
  for (const [sent, pair] of clashes) {
    test(`refuses ${pair} at once, also for no user`, async () => {
      const answer = await patch('acme|none', sent);
      assertRefused(answer, 400, `Cannot update ${pair} simultaneously.`, 'invalid_body');
    });
  }

  test('removes with null what can be removed', async () => {
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

  const kept = ['email', 'password', 'username', 'email_verified', 'blocked', 'user_metadata'];
  for (const name of [...kept, 'app_metadata', 'phone_verified', 'connection', 'verify_email']) {
    test(`refuses to remove ${name}`, async () => {
      const answer = await patch('acme|none', { [name]: null });
      assert.equal(answer.status, 400, answer.text);
      assert.match(answer.body.message, new RegExp(`on property ${name} \\(`));
    });
  }

  test('merges metadata at the first level, null removes a key, {} clears', async () => {
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

  test('loses no change of metadata made at the same time', async () => {
    const { user_id: id } = await create();
    const keys = Array.from({ length: 20 }, (_, index) => `key${index}`);
    await Promise.all(keys.map((key) => patch(id, { user_metadata: { [key]: true } })));
    const { body: user } = await site.send('GET', pathOf(id));
    assert.deepEqual(Object.keys(user.user_metadata).toSorted(), keys.toSorted());
    const events = await told(id);
    assert.equal(events.length, 21);
    assert.deepEqual(events.at(-1)?.object, user);
  });

  test('lets metadata grow to the length of a body and no further', async () => {
    const blob = 'x'.repeat(600_000);
    const { user_id: id } = await create({ user_metadata: { a: blob } });
    const answer = await patch(id, { app_metadata: { b: blob } });
    const reason = 'Metadata is too long, maximum 1048576 characters';
    const message = invalid(reason, 'user_metadata', 'What the user may change');
    assertRefused(answer, 400, message, 'invalid_body');
    assert.equal((await told(id)).length, 1);
    assert.equal((await patch(id, { user_metadata: { a: null } })).status, 200);
  });

  test('lets metadata grow to 20,000 parts and no further', async () => {
    const parts = Array.from({ length: 12_000 }, () => []);
    const { user_id: id } = await create({ user_metadata: { a: parts } });
    const answer = await patch(id, { user_metadata: { b: parts } });
    const reason = 'Metadata has more than 20000 arrays, objects and members of objects';
    const message = invalid(reason, 'user_metadata', 'What the user may change');
    assertRefused(answer, 400, message, 'invalid_body');
    assert.equal((await patch(id, { user_metadata: { a: null, b: parts } })).status, 200);
  });

  test('refuses another id, and a connection that the user is not of', async () => {
    const user = await create();
    const id = await patch(user.user_id, { user_id: 'x' });
    const reason = 'Additional properties not allowed: user_id';
    assertRefused(id, 400, invalid(reason, 'user_id', 'Unknown member'), 'invalid_body');
    const moved = await patch(user.user_id, { connection: 'github' });
    assertRefused(moved, 400, 'The connection does not exist.', 'inexistent_connection');
  });

  test('answers 404 for no user, with and without a password', async () => {
    for (const sent of [{}, { name: 'x' }, { password }]) {
      const answer = await patch('acme|none', sent);
      assertRefused(answer, 404, 'The user does not exist.', 'inexistent_user');
    }
  });
});

describe('DELETE /users/{id}', () => {
  test('removes the user and tells its last state', async () => {
    const user = await create();
    site.house.clock.move(1000);
    const answer = await site.send('DELETE', pathOf(user.user_id));
    assert.equal(answer.status, 204);
    assert.equal(answer.text, '');
    assert.equal((await site.send('GET', pathOf(user.user_id))).status, 404);
    const [, event] = await told(user.user_id);
    assert.equal(event?.type, 'user.deleted');
    const { deleted_at: at, ...last } = event.object;
    assert.deepEqual(last, user);
    assert.ok(at > user.updated_at);
  });

  test('answers 204 when there is none, and tells nothing', async () => {
    const head = await site.house.store.log.head(site.house.tenant.id);
    assert.equal((await site.send('DELETE', '/users/acme%7Cnone')).status, 204);
    assert.equal(await site.house.store.log.head(site.house.tenant.id), head);
  });

  test('tells one deletion when many ask for it at once', async () => {
    const { user_id: id } = await create();
    const asked = Array.from({ length: 5 }, () => site.send('DELETE', pathOf(id)));
    for (const { status } of await Promise.all(asked)) assert.equal(status, 204);
    assert.equal((await told(id)).length, 2);
  });

  test('frees the e-mail', async () => {
    const { user_id: id, email } = await create();
    await site.send('DELETE', pathOf(id));
    assert.notEqual((await create({ email })).user_id, id);
  });
});

describe('GET /users-by-email', () => {
  test('finds whatever the capitals', async () => {
    const user = await create({ email: 'find+me@example.com' });
    const email = encodeURIComponent('FIND+Me@Example.com');
    const answer = await site.send('GET', `/users-by-email?email=${email}`);
    assert.equal(answer.status, 200);
    assert.deepEqual(answer.body, [user]);
    const some = await site.send('GET', `/users-by-email?email=${email}&fields=user_id`);
    assert.deepEqual(some.body, [{ user_id: user.user_id }]);
  });

  test('finds nobody without such an e-mail', async () => {
    for (const email of ['nobody@example.com', '', 'x', '%25', '%F0%9F%98%80']) {
      const answer = await site.send('GET', `/users-by-email?email=${email}`);
      assert.deepEqual([answer.status, answer.body], [200, []]);
    }
  });

  test('requires the e-mail, once', async () => {
    const none = await site.send('GET', '/users-by-email');
    const message =
      "Query validation error: 'Missing required property: email' on property email (The user's e-mail).";
    assertRefused(none, 400, message, 'invalid_query_string');
    assert.equal((await site.send('GET', '/users-by-email?email=a&email=b')).status, 400);
  });
});

describe('GET /users', () => {
  let other: Site;
  const ids = (answer: Received): string[] =>
    (answer.body.users ?? answer.body).map((user: { user_id: string }) => user.user_id);

  before(async () => {
    other = await openSite();
    for (const [index, name] of ['c', 'a', 'b'].entries()) {
      const sent = { email: `${name}@example.com`, password, connection, user_id: `${index}` };
      const answer = await other.send('POST', '/users', sent);
      assert.equal(answer.status, 201, answer.text);
      other.house.clock.move(1000);
    }
  });
  after(() => other.close());

  test('is an array, without totals', async () => {
    const answer = await other.send('GET', '/users');
    assert.deepEqual(ids(answer), ['leat|0', 'leat|1', 'leat|2']);
    assert.ok(Array.isArray(answer.body));
    const same = await other.send('GET', '/users?include_totals=false');
    assert.deepEqual(same.body, answer.body);
  });

  test('has totals when they are asked for', async () => {
    const answer = await other.send('GET', '/users?include_totals=true&page=1&per_page=2');
    const { users, ...totals } = answer.body;
    assert.deepEqual(totals, { start: 2, limit: 2, length: 1, total: 3 });
    assert.deepEqual(ids(answer), ['leat|2']);
    assert.equal(users.length, 1);
  });

  test('has empty pages after the last one, and pages of nobody', async () => {
    const answer = await other.send('GET', '/users?page=9&include_totals=true');
    assert.deepEqual(answer.body, { start: 450, limit: 50, length: 0, total: 3, users: [] });
    assert.deepEqual((await other.send('GET', '/users?per_page=0')).body, []);
    assert.deepEqual((await other.send('GET', '/users?page=99999999999999&per_page=0')).body, []);
  });

  for (const query of [
    'page=10&per_page=100',
    'page=20',
    'page=1000&per_page=1',
    'page=999999999999999',
  ]) {
    test(`refuses ${query}`, async () => {
      const answer = await other.send('GET', `/users?${query}`);
      const message = 'You can only page through the first 1000 records.';
      assertRefused(answer, 400, message, 'invalid_paging');
    });
  }

  test('takes the last page before that', async () => {
    assert.equal((await other.send('GET', '/users?page=9&per_page=100')).status, 200);
    assert.equal((await other.send('GET', '/users?page=999&per_page=1')).status, 200);
  });

  test('sorts', async () => {
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

  test('refuses to sort more users than its limit by a field without an index', async (t) => {
    const small = await openSite({ limits: { ...limits, sortedUsersMax: 1 } });
    t.after(() => small.close());
    for (const email of ['a@example.com', 'b@example.com']) {
      const answer = await small.send('POST', '/users', { email, password, connection });
      assert.equal(answer.status, 201, answer.text);
    }
    const message =
      "Query validation error: 'More than 1 users, or too much metadata, to sort by nickname; sort by created_at, updated_at, email, user_id or username' on property sort (field:1 or field:-1).";
    const answer = await small.send('GET', '/users?sort=nickname:-1');
    assertRefused(answer, 400, message, 'invalid_query_string');
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
    'q=',
    'fields=a&fields=b',
  ];
  for (const query of wrong) {
    test(`refuses ${query}`, async () => {
      const answer = await other.send('GET', `/users?${query}`);
      assert.equal(answer.status, 400, answer.text);
      assert.equal(answer.body.errorCode, 'invalid_query_string');
    });
  }

  test('ignores parameters that are not listed', async () => {
    const answer = await other.send('GET', '/users?search_engine=v3&connection=x&__proto__=1');
    assert.equal(answer.body.length, 3);
  });

  test('shows the fields that are asked for', async () => {
    const { body: users } = await other.send('GET', '/users?fields=user_id&include_totals=true');
    assert.deepEqual(users.users[0], { user_id: 'leat|0' });
  });

  test('pages onwards with take and from, whatever the ids', async () => {
    const first = await other.send('GET', '/users?take=2&include_totals=true&page=50');
    assert.deepEqual(Object.keys(first.body), ['users', 'next']);
    assert.deepEqual(ids(first), ['leat|0', 'leat|1']);
    const last = await other.send('GET', `/users?from=${first.body.next}`);
    assert.deepEqual(Object.keys(last.body), ['users']);
    assert.deepEqual(ids(last), ['leat|2']);
  });
});

test('users of one tenant are not there for another, and may be the same', async (t) => {
  const two = await openSite({ trustProxy: ['127.0.0.1'] });
  t.after(() => two.close());
  const { tenant, manager } = await secondTenant(two.house);
  two.house.clock.move(10_000);
  const host = { 'x-forwarded-host': tenant.domain };
  await two.raw('GET', '/healthz');
  const answer = await two.raw(
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
  const there = { ...host, authorization: `Bearer ${answer.body.access_token}` };
  const here = { 'x-forwarded-host': two.house.tenant.domain };

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
      const headers = { authorization: `Bearer ${await site.tokenWith(...without)}` };
      const answer = await site.send(method, path, undefined, headers);
      const message = `Insufficient scope; expected any of: ${scope}`;
      assertRefused(answer, 403, message, 'insufficient_scope');
      const enough = { authorization: `Bearer ${await site.tokenWith(scope)}` };
      assert.notEqual((await site.send(method, path, undefined, enough)).status, 403);
    });
  }
});
