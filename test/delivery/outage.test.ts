import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { isDown, Outage } from '../../src/delivery/outage.ts';

const limits = { consecutive: 10, total: 100 };

describe('whether a receiver is down', () => {
  const cases = [
    { begun: 0, waiting: 500, open: 500, down: false },
    { begun: 9, waiting: 50, open: 0, down: false },
    { begun: 10, waiting: 10, open: 0, down: true },
    { begun: 1, waiting: 45, open: 50, down: false },
    { begun: 1, waiting: 46, open: 50, down: true },
  ];
  for (const { down, ...undelivered } of cases) {
    test(`a receiver with ${JSON.stringify(undelivered)} is ${down ? 'down' : 'up'}`, () => {
      assert.equal(isDown(undelivered, limits, 4), down);
    });
  }
});

describe('the steps of a release', () => {
  test('a release that was given up continues there, and returns to its beginning', () => {
    const outage = new Outage({ open: 0 });
    const all = Number.MAX_SAFE_INTEGER;
    outage.beginRelease();
    assert.deepEqual(outage.releaseRange, { after: 0, upTo: all });
    outage.released(70);
    assert.deepEqual(outage.releaseRange, { after: 70, upTo: all });
    outage.beginRelease();
    assert.deepEqual(outage.releaseRange, { after: 70, upTo: all });
    outage.released(all);
    assert.deepEqual(outage.releaseRange, { after: 0, upTo: 70 });
    outage.released(40);
    assert.deepEqual(outage.releaseRange, { after: 40, upTo: 70 });
    outage.released(70);
    assert.equal(outage.releaseRange, undefined);
    outage.endRelease();
    outage.beginRelease();
    outage.released(all);
    assert.equal(outage.releaseRange, undefined);
  });
});
