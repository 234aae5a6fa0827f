import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { cpSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { pathToFileURL } from 'node:url';
import { systemClock } from '../../src/clock.ts';
import { openStore, type StoreOptions } from '../../src/store/open.ts';
import type { Store } from '../../src/store/port/store.ts';
import { sharedPostgres } from '../helpers/postgres.ts';
import { newStream } from '../store/contract/fixture.ts';

// The change of `column.patch` works on both engines: it is all that a new column needs.

type Open = typeof openStore;

test('SQLite: column.patch: a stream has the note, also for the version before', async (t) => {
  const folder = tempFolder(t);
  await assertNoted(t, { engine: 'sqlite', path: join(folder, 'leat.db') });
});

test(
  'PostgreSQL: column.patch: a stream has the note, also for the version before',
  { tags: ['long'] },
  async (t) => {
    const server = await sharedPostgres();
    const url = await server.createDatabase();
    t.after(() => server.dropDatabase(url));
    await assertNoted(t, { engine: 'postgres', url });
  },
);

/** Opens a store with the present program, with the patched one, and with the present one again. */
async function assertNoted(t: TestContext, location: StoreOptions['location']): Promise<void> {
  const secretKeys = [randomBytes(32)];
  const within = async <T>(open: Open, work: (store: Store) => Promise<T>): Promise<T> => {
    const store = await open({ location, secretKeys, random: randomBytes, clock: systemClock });
    try {
      return await work(store);
    } finally {
      await store.close();
    }
  };
  const rules = { streamsMax: 2 };
  const [tenant, old] = await within(openStore, async ({ tenants, streams }) => {
    const made = await tenants.create({ name: 'a', domain: 'a.example' }, 0);
    assert.ok('created' in made);
    const stream = newStream(made.created.id, 0);
    await streams.create(stream, rules);
    return [made.created.id, stream.id];
  });
  const noted = { ...newStream(tenant, 0), note: 'the first' };
  await within(await patched(t), async ({ streams }) => {
    await streams.create(noted, rules);
    assert.equal(noteOf(await streams.get(tenant, noted.id)), 'the first');
    assert.equal(noteOf(await streams.get(tenant, old)), undefined);
    await streams.update(tenant, old, (before) => ({ after: { ...before, note: 'the second' } }));
    assert.equal(noteOf(await streams.get(tenant, old)), 'the second');
  });
  await within(openStore, async ({ streams }) => {
    const { items } = await streams.list(tenant, { after: undefined, take: 3 });
    assert.deepEqual(items.map(({ id }) => id).toSorted(), [noted.id, old].toSorted());
  });
}

function noteOf(stream: object | undefined): unknown {
  return Object.entries(stream ?? {}).find(([name]) => name === 'note')?.[1];
}

/** Returns `openStore` of a copy of the sources with the patch. */
async function patched(t: TestContext): Promise<Open> {
  const folder = tempFolder(t);
  const root = join(import.meta.dirname, '../..');
  for (const name of ['src', 'package.json']) {
    cpSync(join(root, name), join(folder, name), { recursive: true });
  }
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
  const { status, stderr } = spawnSync(
    'git',
    ['apply', join(import.meta.dirname, 'column.patch')],
    { cwd: folder, encoding: 'utf8' },
  );
  assert.equal(status, 0, stderr);
  const module: unknown = await import(pathToFileURL(join(folder, 'src/store/open.ts')).href);
  return (module as { readonly openStore: Open }).openStore;
}

function tempFolder(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'leat-column-'));
  t.after(() => rmSync(folder, { recursive: true }));
  return folder;
}
