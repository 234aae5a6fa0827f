import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import pg from 'pg';
import { textArray } from '../../../src/store/engine/postgres/append.ts';
import { sharedPostgres } from '../../helpers/postgres.ts';

describe('textArray', () => {
  test('the server reads texts of any length, none, and null as they are', async (t) => {
    const client = new pg.Client((await sharedPostgres()).url());
    await client.connect();
    t.after(() => client.end());
    const many = Array.from({ length: 2000 }, (_, index) => 'é'.repeat(index % 300));
    for (const values of [
      [],
      [''],
      [undefined],
      ['a', undefined, null, ''],
      ['"', '\\', '{}', ',', 'null', '\n\t', '😀\u2028', '\ud800'],
      many,
    ]) {
      const { rows } = await client.query<{ values: (string | null)[] }>(
        'select $1::text[] as values',
        [textArray(values)],
      );
      // Half of a pair of surrogates has no UTF-8.
      const expected = values.map((value) => value?.toWellFormed() ?? null);
      assert.deepEqual(rows, [{ values: expected }]);
    }
  });

  test('U+0000 is refused by the server', async (t) => {
    const client = new pg.Client((await sharedPostgres()).url());
    await client.connect();
    t.after(() => client.end());
    const query = client.query('select $1::text[]', [textArray(['a\0b'])]);
    await assert.rejects(query, { code: '22021' });
  });
});
