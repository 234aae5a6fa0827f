import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { createDeadlines, Timeouts } from '../../../src/delivery/http/deadlines.ts';
import { createManualClock, type ManualClock } from '../../helpers/clock.ts';

interface Item {
  readonly name: string;
}

function setUp(clock: ManualClock, expired: (item: Item) => void = () => undefined) {
  return createDeadlines<Item>({ clock, afterMs: 100, expired });
}

describe('timeouts', () => {
  test('each item expires after its own limit, whichever was added first', async () => {
    const clock = createManualClock();
    const passed: string[] = [];
    const timeouts = new Timeouts<Item>(clock, ({ name }) =>
      passed.push(`${name} at ${clock.elapsedMs()}`),
    );
    for (const limit of [300, 100, 200]) timeouts.of(limit).add({ name: String(limit) });
    timeouts.of(100).add({ name: 'again' });
    assert.deepEqual(
      timeouts.items().map(({ name }) => name),
      ['300', '100', 'again', '200'],
    );
    await clock.advance(1000);
    assert.deepEqual(passed, ['100 at 100', 'again at 100', '200 at 200', '300 at 300']);
    assert.deepEqual(timeouts.items(), []);
  });
});

describe('deadlines', () => {
  test('items expire in order, each after its own time', async () => {
    const clock = createManualClock();
    const passed: string[] = [];
    const deadlines = setUp(clock, ({ name }) => passed.push(`${name} at ${clock.elapsedMs()}`));
    deadlines.add({ name: 'a' });
    await clock.advance(30);
    deadlines.add({ name: 'b' });
    deadlines.add({ name: 'c' });
    await clock.advance(1000);
    assert.deepEqual(passed, ['a at 100', 'b at 130', 'c at 130']);
  });

  test('a deleted item does not expire', async () => {
    const clock = createManualClock();
    const passed: string[] = [];
    const deadlines = setUp(clock, ({ name }) => passed.push(name));
    const [a, b] = [{ name: 'a' }, { name: 'b' }];
    deadlines.add(a);
    deadlines.add(b);
    deadlines.delete(a);
    await clock.advance(1000);
    assert.deepEqual(passed, ['b']);
    deadlines.delete(b);
    deadlines.delete(a);
    assert.deepEqual(deadlines.items(), []);
  });

  test('a paused item does not expire, and has all of its time after it resumes', async () => {
    const clock = createManualClock();
    const passed: string[] = [];
    const deadlines = setUp(clock, ({ name }) => passed.push(`${name} at ${clock.elapsedMs()}`));
    const [a, b, c] = [{ name: 'a' }, { name: 'b' }, { name: 'c' }];
    for (const item of [a, b, c]) deadlines.add(item);
    await clock.advance(60);
    deadlines.pause(a);
    deadlines.pause(b);
    await clock.advance(500);
    assert.deepEqual(deadlines.items(), [a, b]);
    deadlines.delete(b);
    for (const item of [a, b]) deadlines.resume(item);
    await clock.advance(1000);
    assert.deepEqual(passed, ['c at 100', 'a at 660']);
  });

  test('one timer is set for all items, and none without items', async () => {
    const clock = createManualClock();
    const deadlines = setUp(clock);
    const items = Array.from({ length: 1000 }, (_, n) => ({ name: String(n) }));
    for (const item of items) deadlines.add(item);
    assert.equal(clock.pending, 1);
    for (const item of items) deadlines.delete(item);
    await clock.advance(100);
    assert.equal(clock.pending, 0);
    deadlines.add({ name: 'later' });
    assert.equal(clock.pending, 1);
    deadlines.close();
    assert.equal(clock.pending, 0);
  });

  test('one timer is set when an item is added while another expires', async () => {
    const clock = createManualClock();
    const deadlines = setUp(clock, () => deadlines.add({ name: 'again' }));
    deadlines.add({ name: 'first' });
    deadlines.add({ name: 'second' });
    await clock.advance(100);
    assert.equal(clock.pending, 1);
    assert.equal(deadlines.items().length, 2);
    deadlines.close();
  });

  test('timers that fire early do not shorten a deadline', () => {
    // Timers of the platform may fire a fraction of a millisecond early.
    let elapsedMs = 0;
    const timers: (() => void)[] = [];
    const passed: Item[] = [];
    const deadlines = createDeadlines<Item>({
      clock: {
        now: () => 0,
        elapsedMs: () => elapsedMs,
        after: (_delayMs, action) => {
          timers.push(action);
          return { cancel: () => undefined };
        },
      },
      afterMs: 100,
      expired: (item) => passed.push(item),
    });
    deadlines.add({ name: 'a' });
    elapsedMs = 99.6;
    timers.shift()?.();
    assert.equal(passed.length, 0);
    elapsedMs = 100;
    timers.shift()?.();
    assert.equal(passed.length, 1);
  });

  test('exactly the items that were not deleted in time expire', async () => {
    const step = fc.record({ waitMs: fc.nat(60), deletedAfterMs: fc.nat(200) });
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 20 }), async (steps) => {
        const clock = createManualClock();
        const passed = new Map<string, number>();
        const deadlines = setUp(clock, ({ name }) => passed.set(name, clock.elapsedMs()));
        const expected = new Map<string, number>();
        for (const [index, { waitMs, deletedAfterMs }] of steps.entries()) {
          await clock.advance(waitMs);
          const item = { name: String(index) };
          deadlines.add(item);
          const addedAtMs = clock.elapsedMs();
          if (deletedAfterMs >= 100) expected.set(item.name, addedAtMs + 100);
          else clock.after(deletedAfterMs, () => deadlines.delete(item));
        }
        await clock.advance(1000);
        assert.deepEqual(passed, expected);
        assert.equal(clock.pending, 0);
      }),
      { numRuns: 50 },
    );
  });
});
