import assert from 'node:assert/strict';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { test } from 'node:test';
import { openStore } from '../../../src/store/open.ts';
import { newEvent } from '../contract/fixture.ts';
import { newUser } from '../contract/users.ts';
import { newFolder, storeDeps } from './file.ts';

test('update: two users that an earlier version stored with one mailbox can both be changed', async (t) => {
  const path = join(await newFolder(t), 'leat.db');
  const open = () => openStore({ ...storeDeps, location: { engine: 'sqlite', path } });
  let store = await open();
  t.after(() => store.close());
  const made = await store.tenants.create({ name: 'main', domain: 'localhost' }, 0);
  assert.ok('created' in made);
  const { id: tenant } = made.created;
  for (const id of ['a', 'b']) await store.users.create(newUser(tenant, id), newEvent());
  await store.close();
  const db = new DatabaseSync(path);
  db.exec("update users set email = 'a@example.com.' where id = 'leat|b'");
  db.close();
  store = await open();
  const rename = (id: string, email?: string) =>
    store.users.update(tenant, id, async (before) => ({
      after: { ...before, username: id, email: email ?? before.email },
      event: newEvent(),
    }));
  for (const id of ['leat|a', 'leat|b']) assert.ok('updated' in (await rename(id)), id);
  assert.deepEqual(await rename('leat|b', 'a@example.com'), { refused: 'duplicate' });
  const found = await store.users.byEmail(tenant, 'A@example.com');
  assert.deepEqual(
    found.map(({ id, email }) => [id, email]),
    [
      ['leat|a', 'a@example.com'],
      ['leat|b', 'a@example.com.'],
    ],
  );
});
