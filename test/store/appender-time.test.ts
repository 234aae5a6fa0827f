import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { StoreUnavailable } from '../../src/core/errors.ts';
import type { Appended, NewEvent } from '../../src/core/types.ts';
import { createAppender } from '../../src/store/appender.ts';
import { createManualClock } from '../helpers/clock.ts';
import { newEvent } from './contract/fixture.ts';

/** An engine whose writes end when the test ends them. */
function createFixture() {
  const clock = createManualClock();
  const writes: { readonly ids: string[]; readonly leftMs: number; end(): void }[] = [];
  const late: number[] = [];
  const appender = createAppender({
    groupEventsMax: 100,
    groupBodiesMax: 1_000_000,
    answerMs: 9000,
    clock,
    late: () => late.push(clock.elapsedMs()),
    defer: queueMicrotask,
    write: (_tenant, events, leftMs) =>
      new Promise((resolve) => {
        writes.push({
          ids: events.map(({ id }) => id),
          leftMs,
          end: () => resolve(appendedOf(events)),
        });
      }),
  });
  const append = (id: string, waitedMs?: number): Promise<string> =>
    appender.append(1, [newEvent({ id })], waitedMs).then(
      () => 'stored',
      (error: unknown) => {
        assert.ok(error instanceof StoreUnavailable);
        return error.mayBeStored ? 'unknown' : 'not stored';
      },
    );
  return { clock, writes, late, append };
}

function appendedOf(events: readonly NewEvent[]): Appended[] {
  return events.map(({ id }, index) => ({ id, offset: index + 1, repeated: false }));
}

describe('the time of an append', () => {
  test('a call whose request has waited before is answered so much earlier, the others are not', async () => {
    const { clock, writes, append } = createFixture();
    const ended: string[] = [];
    const written = append('a').then((end) => ended.push(`a ${end}`));
    await clock.advance(100);
    const waiting = append('b').then((end) => ended.push(`b ${end}`));
    const late = append('c', 5000).then((end) => ended.push(`c ${end}`));
    const least = append('d', 20_000).then((end) => ended.push(`d ${end}`));
    await clock.advance(2500);
    assert.deepEqual(ended, ['d not stored']);
    await clock.advance(2000);
    assert.deepEqual(ended, ['d not stored', 'c not stored']);
    writes[0]?.end();
    await clock.advance(0);
    writes[1]?.end();
    await Promise.all([written, waiting, late, least]);
    assert.deepEqual(ended, ['d not stored', 'c not stored', 'a stored', 'b stored']);
  });

  test('a call is answered in time: unknown if it is being written, not stored if it waits', async () => {
    const { clock, writes, append } = createFixture();
    const written = append('a');
    await clock.advance(100);
    const waiting = append('b');
    await clock.advance(9500);
    assert.deepEqual(await Promise.all([written, waiting]), ['unknown', 'not stored']);

    const later = append('c');
    await clock.advance(1000);
    writes[0]?.end();
    await clock.advance(0);
    assert.deepEqual(
      writes.map(({ ids }) => ids),
      [['a'], ['c']],
      'what was refused is not written later',
    );
    writes[1]?.end();
    assert.equal(await later, 'stored');
    assert.equal(clock.pending, 0);
  });

  test('a write that takes three seconds is reported as late, until it has its result', async () => {
    const { clock, writes, late, append } = createFixture();
    const call = append('a');
    await clock.advance(2900);
    assert.deepEqual(late, []);
    await clock.advance(700);
    writes[0]?.end();
    await call;
    await clock.advance(10_000);
    assert.deepEqual(late, [3000, 3500]);
  });

  test('a call that waits for a write and then for its own is not late: the store takes both', async () => {
    const { clock, writes, late, append } = createFixture();
    const calls = [append('a')];
    await clock.advance(100);
    calls.push(append('b'));
    for (const write of [0, 1]) {
      await clock.advance(2500);
      writes[write]?.end();
      await clock.advance(0);
    }
    assert.deepEqual(await Promise.all(calls), ['stored', 'stored']);
    assert.deepEqual(late, []);
  });

  test('a write receives the time that is left to the oldest of its calls', async () => {
    const { clock, writes, append } = createFixture();
    const calls = [append('a')];
    await clock.advance(2000);
    calls.push(append('b'));
    await clock.advance(1000);
    calls.push(append('c'));
    await clock.advance(1000);
    writes[0]?.end();
    await clock.advance(0);
    writes[1]?.end();
    await Promise.all(calls);
    assert.deepEqual(
      writes.map(({ leftMs }) => leftMs),
      [9000, 7000],
    );
  });
});
