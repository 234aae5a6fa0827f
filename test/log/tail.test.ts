import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { LogEvent } from '../../src/core/types.ts';
import { Tail } from '../../src/log/tail.ts';

const limits = { tailEventsMax: 4, tailBytesMax: 1000 };

function event(offset: number, type = 'a.made', body = 'x'.repeat(10)): LogEvent {
  return { offset, id: `evt_${offset}`, type, time: 0, publishedAt: 0, body };
}

describe('the tail of a log', () => {
  test('push returns only followers of the type of the event', () => {
    const tail = new Tail<string>(limits, 0);
    tail.join('one', ['a.made', 'b.made']);
    tail.join('two', ['b.made']);
    tail.join('none', []);
    assert.deepEqual([...tail.push(event(1))], ['one']);
    assert.deepEqual([...tail.push(event(2, 'b.made'))], ['one', 'two']);
    assert.deepEqual([...tail.push(event(3, 'c.made'))], []);
    tail.leave('one');
    assert.deepEqual([...tail.push(event(4))], []);
  });

  test('joining again replaces the types of a follower', () => {
    const tail = new Tail<string>(limits, 0);
    tail.join('one', ['a.made']);
    tail.join('one', ['b.made']);
    assert.deepEqual([...tail.push(event(1, 'a.made'))], []);
    assert.deepEqual([...tail.push(event(2, 'b.made'))], ['one']);
  });

  test('the tail has no more events than its limit, and reads them', () => {
    const tail = new Tail<string>(limits, 10);
    for (let offset = 11; offset <= 16; offset += 1) tail.push(event(offset));
    assert.equal(tail.covers(11), false);
    assert.equal(tail.covers(12), true);
    const page = tail.read(12, undefined, ['a.made'], 1000);
    assert.deepEqual(
      page.events.map((item) => item.offset),
      [13, 14, 15, 16],
    );
    assert.equal(page.scannedTo, 16);
  });

  test('the tail has no more characters than its limit', () => {
    const tail = new Tail<string>(limits, 0);
    for (let offset = 1; offset <= 3; offset += 1) {
      tail.push(event(offset, 'a.made', 'x'.repeat(400)));
    }
    assert.equal(tail.covers(0), false);
    assert.equal(tail.covers(1), true);
  });

  test('read returns matches only, up to an offset or a size, with the offset it came to', () => {
    const tail = new Tail<string>(limits, 0);
    tail.push(event(1));
    tail.push(event(2, 'b.made'));
    tail.push(event(3));
    tail.push(event(4, 'b.made'));
    assert.deepEqual(tail.read(0, 2, ['b.made'], 1000).scannedTo, 2);
    const small = tail.read(0, undefined, ['b.made'], 10);
    assert.deepEqual(
      small.events.map((item) => item.offset),
      [2],
    );
    assert.equal(small.scannedTo, 3);
    assert.deepEqual(tail.read(4, undefined, ['b.made'], 10), { events: [], scannedTo: 4 });
  });

  test('skipTo returns the followers and drops all events', () => {
    const tail = new Tail<string>(limits, 0);
    tail.join('one', ['a.made']);
    tail.join('none', []);
    tail.push(event(1));
    assert.deepEqual(tail.skipTo(7), ['one', 'none']);
    assert.equal(tail.head, 7);
    assert.equal(tail.covers(6), false);
    assert.deepEqual([...tail.push(event(8))], []);
  });

  test('age drops the events that were there at the last call', () => {
    const tail = new Tail<string>(limits, 0);
    tail.push(event(1));
    assert.equal(tail.age(), true);
    tail.push(event(2));
    assert.equal(tail.covers(0), true);
    assert.equal(tail.age(), true);
    assert.equal(tail.covers(0), false);
    assert.equal(tail.covers(1), true);
    assert.equal(tail.age(), false);
    assert.equal(tail.covers(1), false);
    assert.equal(tail.head, 2);
  });

  test('an event that would leave a gap is refused', () => {
    const tail = new Tail<string>(limits, 0);
    assert.throws(() => tail.push(event(2)));
    assert.throws(() => tail.push(event(0)));
  });
});

describe('a follower that wants every type', () => {
  test('a follower of every type gets each event, along with the followers of its type', () => {
    const tail = new Tail<string>(limits, 0);
    tail.join('all', undefined);
    tail.join('one', ['a.made']);
    assert.deepEqual([...tail.push(event(1))], ['all', 'one']);
    assert.deepEqual([...tail.push(event(2, 'b.made'))], ['all']);
    assert.deepEqual(
      tail.read(0, undefined, undefined, 1000).events.map(({ offset }) => offset),
      [1, 2],
    );
    tail.leave('all');
    assert.deepEqual([...tail.push(event(3, 'b.made'))], []);
    tail.join('all', undefined);
    assert.deepEqual(tail.skipTo(9), ['one', 'all']);
    assert.deepEqual([...tail.push(event(10))], []);
  });
});
