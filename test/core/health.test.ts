import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { nextHealth, reachedLimit } from '../../src/core/health.ts';
import type { Health } from '../../src/core/types.ts';

const limits = { consecutive: 500, total: 5000 };

describe('nextHealth', () => {
  test('a failure raises both counters', () => {
    const next = nextHealth({ consecutive: 3, total: 7 }, 'failed', false);
    assert.deepEqual(next, { consecutive: 4, total: 8 });
    assert.equal(reachedLimit(next, limits), undefined);
  });

  test('a redelivery that fails raises consecutive and leaves the total', () => {
    const next = nextHealth({ consecutive: 3, total: 7 }, 'failed', true);
    assert.deepEqual(next, { consecutive: 4, total: 7 });
  });

  test('any success resets consecutive', () => {
    const next = nextHealth({ consecutive: 499, total: 7 }, 'delivered', false);
    assert.deepEqual(next, { consecutive: 0, total: 7 });
    assert.equal(reachedLimit(next, limits), undefined);
  });

  test('a redelivery that succeeds lowers the total by one', () => {
    const next = nextHealth({ consecutive: 3, total: 7 }, 'delivered', true);
    assert.deepEqual(next, { consecutive: 0, total: 6 });
  });

  test('the total is the number of open records, consecutive the failures since a success', () => {
    const step = fc.record({ ok: fc.boolean(), event: fc.integer({ min: 0, max: 5 }) });
    fc.assert(
      fc.property(fc.array(step), (steps) => {
        const open = new Set<number>();
        let inARow = 0;
        let health: Health = { consecutive: 0, total: 0 };
        for (const { ok, event } of steps) {
          health = nextHealth(health, ok ? 'delivered' : 'failed', open.has(event));
          if (ok) open.delete(event);
          else open.add(event);
          inARow = ok ? 0 : inARow + 1;
          assert.deepEqual(health, { consecutive: inARow, total: open.size });
        }
      }),
    );
  });
});

describe('reachedLimit', () => {
  const afterFailure = (before: Health) =>
    reachedLimit(nextHealth(before, 'failed', false), limits);

  test('the 499th consecutive failure reaches no limit, the 500th does', () => {
    assert.equal(afterFailure({ consecutive: 498, total: 9 }), undefined);
    assert.equal(afterFailure({ consecutive: 499, total: 9 }), 'consecutive');
  });

  test('the 4999th open failure reaches no limit, the 5000th does', () => {
    assert.equal(afterFailure({ consecutive: 0, total: 4998 }), undefined);
    assert.equal(afterFailure({ consecutive: 0, total: 4999 }), 'total');
  });

  test('a success above the limits reaches none', () => {
    const next = nextHealth({ consecutive: 600, total: 6000 }, 'delivered', true);
    assert.equal(reachedLimit(next, limits), undefined);
  });
});
