import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type EntryShown, type Seen, unseen } from '../../src/cli/follow-log.ts';
import { formatTime } from '../../src/core/date.ts';

const start = Date.parse('2026-03-01T09:30:00.000Z');

/** An entry some seconds after the start. */
function entry(id: string, seconds: number): EntryShown {
  const date = formatTime(start + seconds * 1000);
  return { log_id: id, date, type: 'sapi', description: '' };
}

/** Polls one after the other; returns what each one prints. Each has its entries newest first. */
function printed(...polls: EntryShown[][]): string[][] {
  let seen: Seen | undefined;
  return polls.map((entries) => {
    const found = unseen(seen, entries, 2);
    seen = found.seen;
    return found.entries.map(({ log_id: id }) => id);
  });
}

describe('leat logs --follow: what a poll prints', () => {
  test('unseen: the first poll prints its newest entries, oldest first', () => {
    assert.deepEqual(printed([entry('c', 3), entry('b', 2), entry('a', 1)]), [['b', 'c']]);
  });

  test('unseen: later polls print each entry once', () => {
    const [a, b, c] = [entry('a', 1), entry('b', 2), entry('c', 2)];
    assert.deepEqual(printed([a], [b, a], [c, b, a], [c, b, a]), [['a'], ['b'], ['c'], []]);
  });

  test('unseen: an entry that appears late is printed, also before newer ones', () => {
    const [a, late, c] = [entry('a', 1), entry('late', 30), entry('c', 60)];
    assert.deepEqual(printed([c, a], [c, late, a]), [['a', 'c'], ['late']]);
  });

  test('unseen: entries of before the window of a poll are not printed again', () => {
    const old = Array.from({ length: 5 }, (_, index) => entry(`old-${index}`, 4 - index));
    const newest = entry('newest', 1000);
    assert.deepEqual(printed([newest, ...old], [newest, ...old]), [['old-0', 'newest'], []]);
  });

  test('unseen: a log that was empty prints all that comes', () => {
    const entries = [entry('c', 3), entry('b', 2), entry('a', 1)];
    assert.deepEqual(printed([], [], entries), [[], [], ['a', 'b', 'c']]);
  });
});
