import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { Window, type WindowEntry } from '../../src/delivery/window.ts';

/** Returns an item that the test knows to exist. */
function at<T>(items: readonly T[], index: number): T {
  const item = items.at(index);
  assert.ok(item !== undefined);
  return item;
}

const entry = (offset: number): WindowEntry => ({ offset, settled: false });

function windowOf(cursor: number, ...offsets: number[]) {
  const window = new Window<WindowEntry>(cursor);
  const entries = offsets.map(entry);
  for (const taken of entries) window.take(taken);
  return { window, entries };
}

describe('the window of a stream', () => {
  test('the cursor is just below the oldest event that is not settled', () => {
    const { window, entries } = windowOf(10, 12, 15, 20);
    assert.equal(window.cursor, 11);
    window.settle(at(entries, 1));
    assert.equal(window.cursor, 11);
    window.settle(at(entries, 0));
    assert.equal(window.cursor, 19);
    window.settle(at(entries, 2));
    assert.equal(window.cursor, 20);
  });

  test('pass moves the cursor over a stretch without matches, but not over an open event', () => {
    const { window, entries } = windowOf(0, 5);
    window.pass(100);
    assert.equal(window.cursor, 4);
    window.settle(at(entries, 0));
    assert.equal(window.cursor, 100);
    window.pass(50);
    assert.equal(window.cursor, 100);
  });

  test('events that settled above the durable cursor are counted until it has passed them', () => {
    const { window, entries } = windowOf(0, 1, 2, 3);
    window.settle(at(entries, 0));
    window.settle(at(entries, 2));
    assert.equal(window.settledAbove, 2);
    assert.equal(window.settledLater, 1);
    window.commit(1);
    assert.equal(window.settledAbove, 1);
    assert.equal(window.durable, 1);
  });

  test('settling an event twice counts once', () => {
    const { window, entries } = windowOf(0, 1, 2);
    window.settle(at(entries, 1));
    window.settle(at(entries, 1));
    assert.equal(window.settledAbove, 1);
  });

  test('an event cannot be taken twice or out of order', () => {
    const { window } = windowOf(0, 5);
    assert.throws(() => window.take(entry(5)));
    assert.throws(() => window.take(entry(4)));
  });

  test('a window reopened below open events takes them over, and its cursor stays below them', () => {
    const { window, entries } = windowOf(0, 1, 2, 3);
    window.settle(at(entries, 0));
    window.settle(at(entries, 2));
    const next = window.reopened(1);
    assert.equal(next.cursor, 1);
    assert.equal(next.settledAbove, 1);
    next.settle(at(entries, 1));
    assert.equal(next.cursor, 3);
  });

  test('a window reopened above open events is not moved by them', () => {
    const { window, entries } = windowOf(0, 1, 2);
    const next = window.reopened(40);
    next.settle(at(entries, 0));
    next.settle(at(entries, 1));
    assert.equal(next.cursor, 40);
    assert.equal(next.settledAbove, 0);
    assert.equal(next.oldest(), undefined);
  });

  test('the cursor never passes an open event, in any order of settling', () => {
    const step = fc.oneof(
      fc.record({ take: fc.integer({ min: 1, max: 5 }) }),
      fc.record({ settle: fc.nat() }),
      fc.record({ pass: fc.integer({ min: 0, max: 5 }) }),
      fc.record({ commit: fc.constant(true) }),
      fc.record({ reopen: fc.nat({ max: 3 }) }),
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        let window = new Window<WindowEntry>(0);
        let position = 0;
        const all: WindowEntry[] = [];
        for (const one of steps) {
          const open = all.filter((item) => !item.settled);
          if ('take' in one) {
            position += one.take;
            all.push(entry(position));
            window.take(at(all, -1));
          } else if ('settle' in one && open.length > 0) {
            window.settle(at(open, one.settle % open.length));
          } else if ('pass' in one) {
            position += one.pass;
            window.pass(position);
          } else if ('commit' in one) {
            window.commit(window.cursor);
          } else if ('reopen' in one) {
            // The cursor in the store may be lower, when an outcome of the former run did not raise it.
            window = window.reopened(Math.max(0, window.durable - one.reopen));
            window.pass(position);
          }
          const oldest = all.find((item) => !item.settled);
          assert.equal(window.cursor, oldest === undefined ? position : oldest.offset - 1);
          const above = all.filter((item) => item.settled && item.offset > window.durable);
          const oldestOpen = oldest?.offset ?? Infinity;
          assert.ok(window.settledAbove <= above.length);
          assert.equal(
            window.settledLater,
            above.filter((item) => item.offset > oldestOpen).length,
          );
        }
      }),
      { numRuns: 300 },
    );
  });
});
