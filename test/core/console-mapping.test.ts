import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { Claims } from '../../src/core/claim-path.ts';
import {
  claimsOf,
  type ConsoleMapping,
  consoleMappings,
  createRoleOfMapping,
  mappingFor,
  soughtIn,
  userOf,
} from '../../src/core/console-mapping.ts';

function parse(text: string): readonly ConsoleMapping[] {
  const parsed = consoleMappings(text);
  if ('problem' in parsed) assert.fail(parsed.problem);
  return parsed.value;
}

function problemOf(text: string): string | undefined {
  const parsed = consoleMappings(text);
  return 'problem' in parsed ? parsed.problem : undefined;
}

/** Returns `<mapping>=<role>` of a person, `undefined` when there is no entry. */
function entryOf(text: string, tenant: string, claims: Claims): string | undefined {
  const mapping = mappingFor(parse(text), tenant, claims);
  return mapping === undefined ? undefined : `${mapping.id}=${mapping.role}`;
}

describe('LEAT_CONSOLE_ROLES', () => {
  test('LEAT_CONSOLE_ROLES: each entry has tenant, claim, value and role', () => {
    assert.deepEqual(parse('main/groups:leat-admins=operator, two/email:eve@example.com=viewer'), [
      {
        id: 'main/groups:leat-admins',
        tenantName: 'main',
        claim: ['groups'],
        value: 'leat-admins',
        role: 'operator',
      },
      {
        id: 'two/email:eve@example.com',
        tenantName: 'two',
        claim: ['email'],
        value: 'eve@example.com',
        role: 'viewer',
      },
    ]);
  });

  test('LEAT_CONSOLE_ROLES: names of claims may be URLs, values may have colons, slashes, equals signs and blanks', () => {
    const parts = (text: string) =>
      parse(text).map(({ claim, value }) => [claim.join(' > '), value]);
    assert.deepEqual(parts('main/https://example.com/groups:admins=support'), [
      ['https://example.com/groups', 'admins'],
    ]);
    assert.deepEqual(parts('main/"groups":urn:a:b=viewer,main/groups:/a/b c=viewer'), [
      ['groups', 'urn:a:b'],
      ['groups', '/a/b c'],
    ]);
    assert.deepEqual(parts('main/groups:a=operator=viewer'), [['groups', 'a=operator']]);
  });

  test('LEAT_CONSOLE_ROLES: a claim in quotation marks may have colons, a JSON pointer leads below others', () => {
    const text = [
      'main/"cognito:groups":admins=operator',
      'main/"https://example.com:8443/groups":a:b=viewer',
      'main//resource_access/leat/roles:admin=operator',
      'main/"/https:~1~1a.example/a~0b":c=viewer',
    ].join();
    assert.deepEqual(
      parse(text).map(({ claim, value }) => [...claim, value]),
      [
        ['cognito:groups', 'admins'],
        ['https://example.com:8443/groups', 'a:b'],
        ['resource_access', 'leat', 'roles', 'admin'],
        ['https://a.example', 'a~b', 'c'],
      ],
    );
  });

  const wrong: [text: string, problem: string][] = [
    [
      'main/cognito:groups:admins=operator',
      'is wrong in item 1: it can mean several claims, as it has several colons: write main/"cognito:groups":admins or main/"cognito":groups:admins',
    ],
    [
      'main/https://example.com:8443/groups:admins=operator',
      'is wrong in item 1: it can mean several claims, as it has several colons: write main/"https://example.com:8443/groups":admins or main/"https://example.com":8443/groups:admins',
    ],
    [
      'main/"cognito:groups:admins=operator',
      'is wrong in item 1: it has no claim in quotation marks, colon and value: "<claim>":<value>',
    ],
    [
      'main/"":admins=operator',
      'is wrong in item 1: it has no claim in quotation marks, colon and value: "<claim>":<value>',
    ],
    [
      'main//a~2:b=viewer',
      'is wrong in item 1: it has a JSON pointer with a ~ that is not ~0 or ~1',
    ],
    [
      'main/groups:a=viewer,main/"groups":a=operator',
      'is wrong in item 2: it has the tenant, claim and value of an earlier item',
    ],
    ['main/groups:a', 'is wrong in item 1: it does not end with =viewer, =support, =operator'],
    [
      'main/groups:a=viewer,main/groups:b=admin',
      'is wrong in item 2: it has a role that is not viewer or support or operator',
    ],
    [
      'main/groups:a=Viewer',
      'is wrong in item 1: it has a role that is not viewer or support or operator',
    ],
    ['groups:a=viewer', 'is wrong in item 1: it has no tenant, which ends with /'],
    [
      'Main/groups:a=viewer',
      'is wrong in item 1: it has a tenant that is not 3 to 63 of a-z, 0-9 and -',
    ],
    [
      '*/groups:a=viewer',
      'is wrong in item 1: it has a tenant that is not 3 to 63 of a-z, 0-9 and -',
    ],
    [
      'main/groups=viewer',
      'is wrong in item 1: it has no claim and value with a colon between them',
    ],
    [
      'main/groups:=viewer',
      'is wrong in item 1: it has no claim and value with a colon between them',
    ],
    ['main/:a=viewer', 'is wrong in item 1: it has no claim and value with a colon between them'],
    ['main/gro ups:a=viewer', 'is wrong in item 1: it has a blank in the name of its claim'],
    ['main/groups:a\u0000=viewer', 'is wrong in item 1: it has control characters in its value'],
    ['main/groups:a\u202Eb=viewer', 'is wrong in item 1: it has control characters in its value'],
    [
      'main/groups:a=viewer,main/groups:a=operator',
      'is wrong in item 2: it has the tenant, claim and value of an earlier item',
    ],
    [
      'main/groups:a=viewer,',
      'is wrong in item 2: it does not end with =viewer, =support, =operator',
    ],
    [
      `main/groups:${'a'.repeat(245)}=viewer`,
      'is wrong in item 1: it has more than 256 characters before its role',
    ],
    [
      Array.from({ length: 1001 }, (_, index) => `main/groups:${index}=viewer`).join(),
      'has more than 1000 items',
    ],
  ];
  for (const [text, problem] of wrong) {
    test(`LEAT_CONSOLE_ROLES: rejects ${JSON.stringify(text.slice(0, 50))} and says why`, () => {
      assert.equal(problemOf(text), problem);
    });
  }

  test('LEAT_CONSOLE_ROLES: any text is parsed or rejected without an exception', () => {
    const text = fc.string({
      unit: fc.constantFrom(...Array.from('main/groups:=,viewer "~\u0000é')),
    });
    fc.assert(fc.property(text, (each) => void consoleMappings(each)));
  });
});

describe('mappingFor', () => {
  const roles = 'main/groups:readers=viewer,main/groups:admins=operator,main/email:e@a.b=support';

  test('mappingFor: nobody has a role without a mapping', () => {
    for (const claims of [{}, { groups: [] }, { groups: 'other' }, { email: 'f@a.b' }]) {
      assert.equal(entryOf(roles, 'main', claims), undefined);
    }
  });

  test('mappingFor: an e-mail counts in every form of its domain and of Unicode', () => {
    const idn = 'main/email:zoë@bücher.example=viewer, main/name:zoë=support';
    for (const email of ['zoe\u0308@XN--bcher-kva.example', 'zoë@Bücher.example.']) {
      assert.equal(entryOf(idn, 'main', { email }), 'main/email:zoë@bücher.example=viewer');
    }
    for (const claims of [{ email: 'Zoë@bücher.example' }, { name: 'zoe\u0308' }, { email: [] }]) {
      assert.equal(entryOf(idn, 'main', claims), undefined, JSON.stringify(claims));
    }
  });

  test('mappingFor: a mapping counts in its tenant only', () => {
    assert.equal(entryOf(roles, 'two', { groups: ['admins'], email: 'e@a.b' }), undefined);
  });

  test('mappingFor: a claim may be a string or an array of strings', () => {
    assert.equal(entryOf(roles, 'main', { groups: 'admins' }), 'main/groups:admins=operator');
    assert.equal(
      entryOf(roles, 'main', { groups: ['x', 'readers'] }),
      'main/groups:readers=viewer',
    );
  });

  test('mappingFor: values of other types, parts of values and other letters do not count', () => {
    const all = [
      { groups: { admins: true } },
      { groups: [['admins']] },
      { groups: [{ admins: 1 }] },
      { groups: 'admins readers' },
      { groups: 'Admins' },
      { groups: ['admin', 'admins '] },
      { groups: null },
      { groups: 7 },
    ];
    for (const claims of all) {
      assert.equal(entryOf(roles, 'main', claims), undefined, JSON.stringify(claims));
    }
    assert.equal(entryOf('main/toString:a=viewer', 'main', {}), undefined);
    assert.equal(
      entryOf('main/n:1=viewer,main/b:true=viewer', 'main', { n: 1, b: true }),
      undefined,
    );
  });

  test('mappingFor: a JSON pointer leads to a claim in another one, through objects only', () => {
    const nested = 'main//resource_access/leat/roles:admin=operator';
    const leat = { roles: ['admin'] };
    assert.equal(
      entryOf(nested, 'main', { resource_access: { leat } }),
      'main//resource_access/leat/roles:admin=operator',
    );
    for (const resource_access of [{ other: leat }, [leat], 'leat', null, { leat: [leat] }, {}]) {
      assert.equal(entryOf(nested, 'main', { resource_access }), undefined);
    }
    assert.equal(
      entryOf('main//a/email:e@a.b=viewer', 'main', {
        a: { email: 'e@a.b', email_verified: false },
      }),
      undefined,
    );
  });

  test('mappingFor: names of an object count where an object is below them, as at Zitadel', () => {
    const zitadel = 'main/"urn:zitadel:iam:org:project:roles":admin=operator';
    const rolesOf = (value: unknown): Claims => ({ 'urn:zitadel:iam:org:project:roles': value });
    assert.equal(entryOf(zitadel, 'main', rolesOf({ admin: { '2273': 'a.example' } })), zitadel);
    for (const value of [{ admin: true }, { admin: null }, { other: {} }, { admin: ['x'] }]) {
      assert.equal(entryOf(zitadel, 'main', rolesOf(value)), undefined);
    }
  });

  test('soughtIn: names the claims of a tenant that are looked for, and which are absent', () => {
    const mappings = parse(
      'main/groups:a=viewer,main/groups:b=viewer,main//x/a~1b:c=viewer,two/z:a=viewer',
    );
    assert.equal(soughtIn(mappings, 'main', { groups: [] }), 'groups, /x/a~1b (absent)');
    assert.equal(soughtIn(mappings, 'three', {}), '');
  });

  test('mappingFor: the most powerful role wins, whatever the order', () => {
    const claims = { groups: ['readers', 'admins'], email: 'e@a.b', email_verified: true };
    const reversed = roles.split(',').toReversed().join();
    assert.equal(entryOf(roles, 'main', claims), 'main/groups:admins=operator');
    assert.equal(entryOf(reversed, 'main', claims), 'main/groups:admins=operator');
  });

  test('mappingFor: an address counts unless the provider says that it is not verified', () => {
    const withVerified = (verified: unknown): string | undefined =>
      entryOf(roles, 'main', { email: 'e@a.b', email_verified: verified });
    assert.equal(entryOf(roles, 'main', { email: 'e@a.b' }), 'main/email:e@a.b=support');
    assert.equal(withVerified(true), 'main/email:e@a.b=support');
    assert.equal(withVerified('true'), 'main/email:e@a.b=support');
    for (const each of [false, 'false', null, 0, '', 'no'])
      assert.equal(withVerified(each), undefined);
  });

  test('claimsOf: has the claims of the tenant', () => {
    const mappings = parse(`${roles},main//email/x:a=viewer,two/department:a=viewer`);
    assert.deepEqual([...claimsOf(mappings, 'main')], ['groups', 'email']);
    assert.deepEqual([...claimsOf(mappings, 'three')], []);
  });
});

test('createRoleOfMapping: returns the role of an entry that is in the setting now', () => {
  const roleOf = createRoleOfMapping(parse('main/groups:a=viewer'));
  assert.equal(roleOf('main/groups:a'), 'viewer');
  assert.equal(roleOf('main/groups:b'), undefined);
  assert.equal(roleOf('two/groups:a'), undefined);
});

describe('userOf', () => {
  const claims = { sub: 's', name: 'n', preferred_username: 'p', email: 'e@a.b' };

  test('userOf: prefers a verified address, then user name, name and subject', () => {
    assert.equal(userOf(claims), 'e@a.b');
    assert.equal(userOf({ ...claims, email_verified: false }), 'p');
    assert.equal(userOf({ sub: 's', name: 'n', preferred_username: '' }), 'n');
    assert.equal(userOf({ sub: 's', name: 7 }), 's');
  });

  test('userOf: has at most 256 characters, none of which hides others', () => {
    assert.equal(userOf({ sub: 'x'.repeat(10_000) }), 'x'.repeat(256));
    assert.equal(userOf({ sub: '👍'.repeat(10_000) }), '👍'.repeat(256));
    assert.equal(userOf({ sub: 'a\u0000b\u202Ec\nd\uD800' }), 'a\uFFFDb\uFFFDc\uFFFDd\uFFFD');
  });
});
