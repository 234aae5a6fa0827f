import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { runSync } from '../../src/core/slices.ts';
import type { User } from '../../src/core/types.ts';
import {
  applyUserPatch,
  clashingFields,
  isEmail,
  makeLocalId,
  newUser,
  type NewUser,
  userEvent,
  userParts,
} from '../../src/core/users.ts';

const now = Date.parse('2026-03-01T09:30:00.971Z');
const hash = '$argon2id$v=19$m=19456,t=2,p=1$c2FsdA$dGFn';

function made(sent: Partial<NewUser> = {}): User {
  return newUser({
    tenant: 1,
    provider: 'leat',
    localId: '65e1a0b2c3d4e5f60718293a',
    email: 'ada@example.com',
    username: undefined,
    passwordHash: hash,
    profile: {},
    issuer: 'https://tenant.example.com/',
    now,
    ...sent,
  });
}

/** The user as clients see it. */
function userObject(user: User): Record<string, unknown> {
  return Object.assign({}, ...userParts(user).map(profileOf)) as Record<string, unknown>;
}

function profileOf(json: string): Record<string, unknown> {
  return JSON.parse(json) as Record<string, unknown>;
}

function applied(...patch: Parameters<typeof applyUserPatch>): User {
  return runSync(applyUserPatch(...patch));
}

function patched(profile: object, before: object = {}): Readonly<Record<string, unknown>> {
  const user = made({ profile: { ...before } });
  return profileOf(applied(user, { profile: { ...profile } }, now + 1).profileJson);
}

/** As parsed from a body: an own property, not the prototype. */
const proto = JSON.parse('{"__proto__": {"polluted": true}}') as object;

describe('newUser', () => {
  test('fills in the documented defaults', () => {
    assert.deepEqual(userObject(made()), {
      user_id: 'leat|65e1a0b2c3d4e5f60718293a',
      email: 'ada@example.com',
      email_verified: false,
      name: 'ada@example.com',
      nickname: 'ada',
      picture: 'https://tenant.example.com/avatar.svg',
      created_at: '2026-03-01T09:30:00.971Z',
      updated_at: '2026-03-01T09:30:00.971Z',
      identities: [
        {
          connection: 'Username-Password-Authentication',
          user_id: '65e1a0b2c3d4e5f60718293a',
          provider: 'leat',
          isSocial: false,
        },
      ],
    });
  });

  test('converts the e-mail to lower case, also where it is a default', () => {
    const { email, name, nickname } = userObject(made({ email: 'Ada@Example.COM' }));
    assert.deepEqual([email, name, nickname], ['ada@example.com', 'ada@example.com', 'ada']);
  });

  test('newUser keeps sent fields instead of the defaults', () => {
    const profile = { name: 'Ada', nickname: 'countess', picture: 'ada.png', email_verified: true };
    const object = userObject(made({ profile, username: 'ada' }));
    assert.deepEqual({ ...object, ...profile, username: 'ada' }, object);
  });

  test('newUser keeps an empty user_metadata and drops an empty app_metadata', () => {
    const object = userObject(made({ profile: { user_metadata: {}, app_metadata: {} } }));
    assert.deepEqual(object['user_metadata'], {});
    assert.equal(Object.hasOwn(object, 'app_metadata'), false);
  });

  test('newUser splits the id at its first bar', () => {
    const [identity] = userObject(made({ localId: 'a|b' }))['identities'] as { user_id: string }[];
    assert.equal(identity?.user_id, 'a|b');
  });

  test('userParts never contain the password', () => {
    assert.doesNotMatch(JSON.stringify(userObject(made())), /argon2|"password|passwordHash/i);
  });
});

describe('makeLocalId', () => {
  test('makeLocalId returns 24 hexadecimal digits that begin with the seconds', () => {
    const id = makeLocalId(now, (count) => new Uint8Array(count).fill(0xab));
    assert.equal(id, `${Math.floor(now / 1000).toString(16)}abababababababab`);
    assert.match(
      makeLocalId(0, (count) => new Uint8Array(count)),
      /^0{24}$/,
    );
  });
});

describe('applyUserPatch', () => {
  test('applyUserPatch replaces only the fields sent and updated_at', () => {
    const before = made({ profile: { given_name: 'Ada', blocked: true } });
    const after = applied(before, { profile: { given_name: 'Augusta' } }, now + 5);
    assert.deepEqual(after, {
      ...before,
      updatedAt: now + 5,
      profileJson: before.profileJson.replace('"given_name":"Ada"', '"given_name":"Augusta"'),
    });
  });

  test('applyUserPatch changes e-mail, username and password, but no field derived from them', () => {
    const patch = { email: 'Countess@Example.com', username: 'c', passwordHash: 'x', profile: {} };
    const after = applied(made(), patch, now);
    assert.equal(after.email, 'countess@example.com');
    assert.equal(after.username, 'c');
    assert.equal(after.passwordHash, 'x');
    assert.equal(profileOf(after.profileJson)['name'], 'ada@example.com');
  });

  test('applyUserPatch removes a field that is null', () => {
    assert.equal(Object.hasOwn(patched({ name: null }), 'name'), false);
    assert.equal(Object.hasOwn(patched({ given_name: null }), 'given_name'), false);
  });

  for (const name of ['user_metadata', 'app_metadata']) {
    test(`applyUserPatch merges ${name} at its first level only`, () => {
      const before = { [name]: { a: 1, b: { c: 2, d: 3 } } };
      const after = patched({ [name]: { b: { c: 4 }, e: 5 } }, before);
      assert.deepEqual(after[name], { a: 1, b: { c: 4 }, e: 5 });
    });

    test(`applyUserPatch removes a key of ${name} that is null, and keeps a nested null`, () => {
      const after = patched({ [name]: { a: null, x: { y: null } } }, { [name]: { a: 1, b: 2 } });
      assert.deepEqual(after[name], { b: 2, x: { y: null } });
    });

    test(`applyUserPatch treats __proto__ in ${name} as an ordinary key`, () => {
      const after = patched({ [name]: proto }, { [name]: { a: 1 } })[name] as object;
      assert.deepEqual(Object.keys(after), ['a', '__proto__']);
      assert.equal(Object.getPrototypeOf(after), Object.prototype);
      assert.equal(Object.hasOwn(Object.prototype, 'polluted'), false);
      assert.equal(JSON.stringify(after), '{"a":1,"__proto__":{"polluted":true}}');
    });
  }

  test('clears metadata with {}: user_metadata stays empty, app_metadata is removed', () => {
    const before = { user_metadata: { a: 1 }, app_metadata: { a: 1 } };
    const after = patched({ user_metadata: {}, app_metadata: {} }, before);
    assert.deepEqual(after['user_metadata'], {});
    assert.equal(Object.hasOwn(after, 'app_metadata'), false);
  });

  test('applyUserPatch does not modify its argument', () => {
    const before = made({ profile: { user_metadata: { a: 1 } } });
    const copy = structuredClone(before);
    applied(before, { profile: { user_metadata: { a: null }, name: null } }, now + 1);
    assert.deepEqual(before, copy);
  });
});

describe('clashingFields', () => {
  const pairs: [object, string[] | undefined][] = [
    [{ password: 'x', email: 'y' }, ['password', 'email']],
    [{ email_verified: true, password: 'x' }, ['password', 'email_verified']],
    [{ password: 'x', username: 'y' }, ['password', 'username']],
    [{ email: 'x', username: 'y' }, ['username', 'email']],
    [{ username: 'y', email_verified: false }, ['username', 'email_verified']],
    [{ password: 'x', username: 'y', email: 'z' }, ['password', 'email']],
    [{ email: 'x', email_verified: true }, undefined],
    [{ password: 'x', name: 'y' }, undefined],
    [{}, undefined],
  ];
  for (const [sent, clash] of pairs) {
    const names = Object.keys(sent).join(', ') || 'no fields';
    test(`${names}: ${clash?.join(' clashes with ') ?? 'no clash'}`, () => {
      assert.deepEqual(clashingFields(sent), clash);
    });
  }
});

describe('userEvent', () => {
  const facts = {
    id: 'evt_b8dLcukC7edhDQ7cn5d4gE',
    tenant: { name: 'main' },
    service: 'leat',
    prefix: 'svc',
    now,
    trace: 'trace of the request',
  };

  test('contains the whole user as its object', () => {
    const event = userEvent('created', made(), facts);
    assert.deepEqual(JSON.parse(event.body), {
      id: facts.id,
      source: 'urn:leat:',
      specversion: '1.0',
      type: 'user.created',
      time: '2026-03-01T09:30:00.971Z',
      data: { object: userObject(made()) },
      svctenant: 'main',
    });
    assert.deepEqual(
      { ...event, body: '' },
      {
        id: facts.id,
        chosen: false,
        type: 'user.created',
        time: now,
        body: '',
        trace: facts.trace,
      },
    );
  });

  test('an event of a deletion contains the last state and deleted_at', () => {
    const { type, body } = userEvent('deleted', made(), { ...facts, now: now + 7 });
    assert.equal(type, 'user.deleted');
    const { data } = JSON.parse(body) as { data: { object: object } };
    const deleted = { ...userObject(made()), deleted_at: '2026-03-01T09:30:00.978Z' };
    assert.deepEqual(data.object, deleted);
  });

  test('an event never contains the password', () => {
    for (const change of ['created', 'updated', 'deleted'] as const) {
      assert.doesNotMatch(userEvent(change, made(), facts).body, /argon2|"password|passwordHash/i);
    }
  });
});

describe('isEmail', () => {
  const good = [
    'a@b',
    'ada@example.com',
    'ada+tag@example.com',
    'ädä@exämple.com',
    '😀@example.com',
    `${'a'.repeat(242)}@example.com`,
    '"quoted"@example.com',
    "o'neil@[192.0.2.1]",
  ];
  for (const text of good) {
    test(`isEmail accepts ${text.slice(0, 40)}`, () => {
      assert.equal(isEmail(text), true);
    });
  }

  const bad = [
    '',
    '@',
    'a@',
    '@b',
    'ada',
    'a@b@c',
    'a b@c',
    'a@b c',
    ' a@b',
    'a@b\n',
    'a\u0000@b',
    'a@b\u0085',
    'a\u00A0@b',
    `${'a'.repeat(243)}@example.com`,
    '@'.repeat(100_000),
    'a'.repeat(100_000),
  ];
  for (const text of bad) {
    test(`isEmail rejects ${JSON.stringify(text.slice(0, 40))} (${text.length})`, () => {
      assert.equal(isEmail(text), false);
    });
  }

  test('isEmail counts characters, not UTF-16 code units', () => {
    assert.equal(isEmail(`${'😀'.repeat(242)}@example.com`), true);
    assert.equal(isEmail(`${'😀'.repeat(243)}@example.com`), false);
  });
});
