import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import {
  createGuardedTime,
  type GuardState,
  nextReading,
  stepLastsMs,
} from '../../../src/store/engine/sqlite/guarded-time.ts';

const start = 1_772_357_400_000;
const hour = 3_600_000;
const opened: GuardState = { now: start, elapsedMs: 0, allowanceMs: 60_000, step: undefined };

/** A guarded clock over a wall clock and a monotonic clock that the test sets. */
function guarded() {
  let wall = start;
  let elapsedMs = 0;
  const time = createGuardedTime({ now: () => wall, elapsedMs: () => elapsedMs });
  return {
    time,
    pass: (ms: number) => {
      wall += ms;
      elapsedMs += ms;
    },
    /** The same, read every second. */
    passReading: (ms: number) => {
      for (let passed = 0; passed < ms; passed += 1000) {
        wall += 1000;
        elapsedMs += 1000;
        time.now();
      }
    },
    step: (ms: number) => {
      wall += ms;
    },
    wall: () => wall,
  };
}

describe('the guarded time of a SQLite store', () => {
  test('guarded time: equals the wall clock while that runs like the monotonic clock', () => {
    const { time, pass, wall } = guarded();
    for (const ms of [0, 1, 999, hour, 24 * hour]) {
      pass(ms);
      assert.equal(time.now(), wall());
    }
    assert.deepEqual([time.skewMs(), time.skews], [0, 0]);
  });

  test('guarded time: follows a step forward of up to a minute at once', () => {
    const { time, step, wall } = guarded();
    step(60_000);
    assert.equal(time.now(), wall());
    assert.equal(time.skews, 0);
  });

  test('guarded time: follows many short steps by a minute in total, and reports that it follows no more', () => {
    const { time, pass, step } = guarded();
    for (let count = 0; count < 10; count += 1) {
      step(50_000);
      pass(1);
      assert.ok(time.now() <= start + 60_010, `${time.now() - start} ms`);
    }
    assert.equal(time.skews, 1);
    assert.ok(Math.abs(time.skewMs() - 440_000) < 10, `${time.skewMs()} ms`);
  });

  test('guarded time: follows short steps with pauses, and a drift', () => {
    const { time, pass, passReading, step, wall } = guarded();
    for (let count = 0; count < 10; count += 1) {
      step(50_000);
      assert.equal(time.now(), wall());
      passReading(150_000);
    }
    for (let second = 0; second < 3600; second += 1) {
      // A time service that slews accelerates it by no more than a twelfth.
      step(1000 / 12);
      pass(1000);
      assert.equal(time.now(), Math.floor(wall()));
    }
    assert.equal(time.skews, 0);
  });

  test('guarded time: does not follow a step of an hour that lasts 1.3 s, in either direction', () => {
    for (const ms of [hour, -hour]) {
      const { time, pass, step, wall } = guarded();
      step(ms);
      pass(650);
      assert.equal(time.now(), start + 650);
      assert.equal(time.skewMs(), ms);
      pass(650);
      assert.equal(time.now(), start + 1300);
      step(-ms);
      assert.equal(time.now(), wall());
      assert.deepEqual([time.skewMs(), time.skews], [0, 1]);
    }
  });

  test('guarded time: follows a step forward once it has lasted, and counts it once', () => {
    const { time, passReading, step, wall } = guarded();
    step(8 * hour);
    time.now();
    passReading(stepLastsMs - 1000);
    assert.equal(time.skewMs(), 8 * hour);
    passReading(1000);
    assert.equal(time.now(), wall());
    assert.equal(time.skews, 1);
  });

  test('guarded time: approaches a clock that was set back, without stopping', () => {
    const { time, passReading, step } = guarded();
    step(-hour);
    time.now();
    passReading(stepLastsMs);
    const before = time.now();
    passReading(100_000);
    assert.equal(time.now() - before, 90_000);
    passReading(12 * hour);
    assert.equal(time.skewMs(), 0);
    assert.equal(time.skews, 1);
  });

  test('guarded time: never goes back or stops, whatever the wall clock does', () => {
    const move = fc.record({
      passedMs: fc.integer({ min: 1, max: 600_000 }),
      stepMs: fc.oneof(
        fc.integer({ min: -100_000, max: 100_000 }),
        fc.integer({ min: -100 * hour, max: 100 * hour }),
      ),
      steps: fc.boolean(),
    });
    // Follows by the rest of the minute, which is no whole number by then.
    const allOfTheAllowance = [
      { passedMs: 1, stepMs: 50_273, steps: true },
      { passedMs: 8858, stepMs: 12_680, steps: true },
    ];
    fc.assert(
      fc.property(fc.array(move, { maxLength: 100 }), (moves) => {
        let state = opened;
        let wall = start;
        for (const { passedMs, stepMs, steps } of moves) {
          wall += passedMs + (steps ? stepMs : 0);
          const next = nextReading(state, wall, state.elapsedMs + passedMs);
          assert.ok(next.now >= state.now + passedMs * 0.9 - 1e-3, 'it goes on');
          const isAdopted = next.now === wall;
          const carried = state.now + passedMs + 1e-3;
          assert.ok(isAdopted || next.now <= carried + 60_000, 'no jump but to the wall');
          assert.ok(next.allowanceMs >= 0 && next.allowanceMs <= 60_000);
          state = next;
        }
      }),
      { numRuns: 500, examples: [[allOfTheAllowance]] },
    );
  });

  test('guarded time: equals the wall clock again in the end, if that runs evenly', () => {
    fc.assert(
      fc.property(fc.integer({ min: -5 * 60_000, max: 100 * hour }), (stepMs) => {
        let state = opened;
        for (let second = 1; second <= 4000; second += 1) {
          state = nextReading(state, start + stepMs + second * 1000, second * 1000);
        }
        assert.equal(state.now, start + stepMs + 4_000_000);
      }),
      { numRuns: 20 },
    );
  });
});
