import assert from 'node:assert/strict';
import { test } from 'node:test';
import { nightNamed } from './table.ts';

/** A share of `npm run test:nights`: the same faults with fewer events and fewer rounds. */
const share = ['SQLite: kill -9', 'PostgreSQL: rolling restarts of two nodes', 'PostgreSQL: locks'];

for (const name of share) {
  test(
    `${name}: every acknowledged event is in the log and at the receiver`,
    { tags: ['long'] },
    async (t) => {
      const { wrong, ...found } = await nightNamed(name).play({ events: 1000, rounds: 3 });
      t.diagnostic(JSON.stringify(found));
      assert.deepEqual(wrong, []);
    },
  );
}
