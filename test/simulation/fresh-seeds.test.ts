import assert from 'node:assert/strict';
import { randomInt } from 'node:crypto';
import { test } from 'node:test';
import { search } from './search.ts';

/** Some 60 s of processor time. */
const count = 300;

test(`${count} histories of fresh seeds keep every guarantee`, { tags: ['long'] }, async (t) => {
  const from = randomInt(2 ** 31 - count);
  t.diagnostic(`seeds ${from} to ${from + count - 1}`);
  const { violation, histories } = await search({ from, to: from + count, threads: 2 });
  assert.equal(violation, undefined, `npm run simulate -- --seed ${violation?.seed}`);
  assert.equal(histories, count);
});
