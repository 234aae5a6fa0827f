import assert from 'node:assert/strict';
import { test } from 'node:test';
import { nightNamed } from './table.ts';

/** A share of `npm run test:nights`: the same faults with fewer events, and so many rounds. */
const share: readonly (readonly [name: string, rounds: number])[] = [
  ['SQLite: kill -9', 3],
  ['PostgreSQL: rolling restarts of two nodes', 2],
  ['PostgreSQL: locks', 1],
];

for (const [name, rounds] of share) {
  test(
    `${name}: every acknowledged event is in the log and at the receiver`,
    { tags: ['long'] },
    async (t) => {
      const { wrong, ...found } = await nightNamed(name).play({ events: 1000, rounds });
      t.diagnostic(JSON.stringify(found));
      assert.deepEqual(wrong, []);
    },
  );
}
