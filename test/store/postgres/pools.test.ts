import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { sharesOf } from '../../../src/store/engine/postgres/pools.ts';

describe('connections by purpose', () => {
  test('sharesOf: each purpose has one connection of the minimum', () => {
    assert.deepEqual([...new Set(Object.values(sharesOf(8)))], [1]);
  });

  test('sharesOf: no share exceeds the total with the connection that listens', () => {
    for (let total = 8; total <= 100; total += 1) {
      const shares = Object.values(sharesOf(total));
      assert.equal(
        shares.reduce((sum, share) => sum + share, 1),
        total,
      );
      assert.ok(Math.min(...shares) >= 1);
    }
  });

  test('sharesOf: publishing and delivering get most of the remainder', () => {
    const { lease, publishing, delivering, lists } = sharesOf(30);
    assert.equal(lease, 1);
    assert.ok(publishing > lists && delivering > lists);
  });
});
