import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Counts } from '../../src/core/counts.ts';

test('counts: a key whose count is zero again takes no memory, and the total is that of all keys', () => {
  const counts = new Counts<string>();
  assert.deepEqual([counts.add('a', 2), counts.add('b', 3), counts.add('a', -1)], [2, 3, 1]);
  assert.deepEqual([counts.of('a'), counts.of('c'), counts.total, counts.size], [1, 0, 4, 2]);
  assert.equal(counts.add('a', -1), 0);
  assert.deepEqual([counts.of('a'), counts.total, counts.size], [0, 3, 1]);
});
