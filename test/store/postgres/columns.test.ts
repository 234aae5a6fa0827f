import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { query } from '../../helpers/postgres.ts';
import { newDatabase } from '../engines.ts';

/** `tools/promises.ts` compares the list with the columns that stood, without a server. */
test('PostgreSQL: the tables have the columns of test/promises/postgres-columns.txt', async () => {
  const rows = await query<{ name: string }>(
    await newDatabase(),
    // The partitions have the columns of their tables; the clock of the tests has a table of its own.
    `select c.relname || '.' || a.attname as name
     from pg_class c join pg_attribute a on a.attrelid = c.oid
     where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p')
       and not c.relispartition and c.relname <> 'test_time'
       and a.attnum > 0 and not a.attisdropped`,
  );
  const path = new URL('../../promises/postgres-columns.txt', import.meta.url);
  assert.deepEqual(
    rows.map(({ name }) => name).toSorted(),
    (await readFile(path, 'utf8')).trimEnd().split('\n'),
    'change the list as the migrations do',
  );
});
