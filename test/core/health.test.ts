import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { nextHealth, type HealthEvent } from '../../src/core/health.ts';
import type { Health } from '../../src/core/types.ts';

const limits = { consecutive: 500, total: 5000 };
const failed = (wasOpen: boolean): HealthEvent => ({ ended: 'failed', wasOpen });
const delivered = (wasOpen: boolean): HealthEvent => ({ ended: 'delivered', wasOpen });

describe('nextHealth', () => {
  test('a failure raises both counters', () => {
    const next = nextHealth({ consecutive: 3, total: 7 }, failed(false), limits);
    assert.deepEqual(next, { health: { consecutive: 4, total: 8 }, reached: undefined });
  });

  test('a redelivery that fails raises consecutive and leaves the total', () => {
    const next = nextHealth({ consecutive: 3, total: 7 }, failed(true), limits);
    assert.deepEqual(next.health, { consecutive: 4, total: 7 });
  });

  test('any success ends the row of failures', () => {
    const next = nextHealth({ consecutive: 499, total: 7 }, delivered(false), limits);
    assert.deepEqual(next, { health: { consecutive: 0, total: 7 }, reached: undefined });
  });

  test('a redelivery that succeeds lowers the total by one', () => {
    const next = nextHealth({ consecutive: 3, total: 7 }, delivered(true), limits);
    assert.deepEqual(next.health, { consecutive: 0, total: 6 });
  });

  test('the 499th consecutive failure reaches nothing, the 500th the limit', () => {
    assert.equal(
      nextHealth({ consecutive: 498, total: 9 }, failed(false), limits).reached,
      undefined,
    );
    assert.equal(
      nextHealth({ consecutive: 499, total: 9 }, failed(false), limits).reached,
      'consecutive',
    );
  });

  test('the 4999th open failure reaches nothing, the 5000th the limit', () => {
    assert.equal(
      nextHealth({ consecutive: 0, total: 4998 }, failed(false), limits).reached,
      undefined,
    );
    assert.equal(
      nextHealth({ consecutive: 0, total: 4999 }, failed(false), limits).reached,
      'total',
    );
  });

  test('a success at the limit reaches nothing', () => {
    const next = nextHealth({ consecutive: 600, total: 6000 }, delivered(true), limits);
    assert.equal(next.reached, undefined);
  });

  test('the total is the number of open records, consecutive the failures since a success', () => {
    const step = fc.record({ ok: fc.boolean(), event: fc.integer({ min: 0, max: 5 }) });
    fc.assert(
      fc.property(fc.array(step), (steps) => {
        const open = new Set<number>();
        let inARow = 0;
        let health: Health = { consecutive: 0, total: 0 };
        for (const { ok, event } of steps) {
          const ended = ok ? 'delivered' : 'failed';
          health = nextHealth(health, { ended, wasOpen: open.has(event) }, limits).health;
          if (ok) open.delete(event);
          else open.add(event);
          inARow = ok ? 0 : inARow + 1;
          assert.deepEqual(health, { consecutive: inARow, total: open.size });
        }
      }),
    );
  });
});
