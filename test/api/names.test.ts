import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type ApiFixture, type ApiResponse, openApiFixture } from './fixture.ts';

let fixture: ApiFixture;
before(async () => {
  fixture = await openApiFixture();
});
after(() => fixture.close());

const destination = {
  type: 'webhook',
  configuration: {
    webhook_endpoint: 'https://receiver.example.com/',
    webhook_authorization: { method: 'bearer', token: 'token' },
  },
};
const password = 'correct-horse-7-battery';
const connection = 'Username-Password-Authentication';
let made = 0;
const email = (): string => `user-${(made += 1)}@example.com`;

/** Each field that people know something by. */
const fields: [path: string, field: string, others: () => object, isUnique: boolean][] = [
  ['/event-streams', 'name', () => ({ destination }), true],
  ['/roles', 'name', () => ({}), true],
  ['/clients', 'name', () => ({}), false],
  ['/resource-servers', 'name', () => ({ identifier: `https://${(made += 1)}` }), false],
  ['/users', 'username', () => ({ email: email(), password, connection }), true],
];

const idOf = ({ body }: ApiResponse): string =>
  encodeURIComponent(body.id ?? body.client_id ?? body.user_id);

describe('names that look the same', () => {
  for (const [path, field, others, isUnique] of fields) {
    test(`${field} of ${path}: is stored in one form`, async () => {
      const send = (name: string) => fixture.send('POST', path, { ...others(), [field]: name });
      const first = await send('Cafe\u0301\u00A01');
      assert.equal(first.body[field], 'Café 1', first.text);
      const second = await send('Café 1');
      assert.equal(second.status === 409, isUnique, second.text);
      const other = await send('second');
      const patched = await fixture.send('PATCH', `${path}/${idOf(other)}`, {
        [field]: 'Cafe\u0301\u20021',
      });
      assert.equal(patched.status, isUnique ? 409 : 200, patched.text);
      if (!isUnique) assert.equal(patched.body[field], 'Café 1');
    });

    test(`${field} of ${path}: refuses characters that show nothing, and names them`, async () => {
      const ofOne = await fixture.send('POST', path, { ...others(), [field]: 'once' });
      for (const [name, character] of [
        ['on\u200Bce', 'U+200B'],
        ['on\u00ADce', 'U+00AD'],
        ['on\u202Ece', 'U+202E'],
        ['once\u2800', 'U+2800'],
      ] as const) {
        const start = `Payload validation error: 'Has the invisible character ${character}' on property ${field} (`;
        for (const response of [
          await fixture.send('POST', path, { ...others(), [field]: name }),
          await fixture.send('PATCH', `${path}/${idOf(ofOne)}`, { [field]: name }),
        ]) {
          assert.equal(response.status, 400, response.text);
          assert.ok(response.body.message?.startsWith(start), response.text);
        }
      }
      const word = await fixture.send('POST', path, { ...others(), [field]: 'می\u200Cخواهم 👩‍💻' });
      assert.equal(word.body[field], 'می\u200Cخواهم 👩‍💻', word.text);
    });
  }

  test('identifier of /resource-servers: refuses another form, which tokens would not have', async () => {
    for (const [identifier, reason] of [
      ['https://cafe\u0301', 'Not in the Unicode normal form NFC'],
      ['https://ca\u00ADfe', 'Has the invisible character U+00AD'],
    ]) {
      const response = await fixture.send('POST', '/resource-servers', { identifier });
      assert.equal(response.status, 400);
      assert.ok(response.body.message?.includes(`'${reason}' on property identifier (`));
    }
  });

  test('email of /users: refuses what cannot be seen, and a domain with an empty label', async () => {
    const user = { password, connection };
    const sent = await fixture.send('POST', '/users', { ...user, email: 'soft@exam\u00ADple.com' });
    assert.equal(sent.body.email, 'soft@example.com');
    for (const wrong of [
      'so\u00ADft@example.com',
      'soft@exa\u202Emple.com',
      'a@x.example..',
      'a@x..example',
      'a@.example',
      'a@.',
      'a@x。。',
    ]) {
      for (const response of [
        await fixture.send('POST', '/users', { ...user, email: wrong }),
        await fixture.send('PATCH', `/users/${idOf(sent)}`, { email: wrong }),
      ]) {
        assert.equal(response.status, 400, `${wrong} ${response.text}`);
        assert.ok(response.body.message?.includes('on property email ('));
      }
    }
  });

  test('name_filter of /roles: finds a name by any of its forms', async () => {
    await fixture.send('POST', '/roles', { name: 'Zoë' });
    const path = `/roles?name_filter=${encodeURIComponent('Zoe\u0308')}`;
    assert.equal((await fixture.send('GET', path)).body.length, 1);
  });

  test('PATCH: accepts the name that an earlier version stored, and changes nothing of it', async () => {
    const { store, tenant } = fixture.auth;
    const { body } = await fixture.send('POST', '/roles', { name: 'of earlier' });
    const name = 'earlier\u200B';
    await store.roles.update(tenant.id, body.id, (role) => ({ ...role, name }));
    const patch = { name, description: 'new' };
    const patched = await fixture.send('PATCH', `/roles/${body.id}`, patch);
    assert.deepEqual([patched.status, patched.body.name], [200, name], patched.text);
  });
});
