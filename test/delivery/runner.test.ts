import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { LogEvent } from '../../src/core/types.ts';
import { Runner } from '../../src/delivery/runner.ts';
import { Tail } from '../../src/log/tail.ts';
import type { OwnedStream } from '../../src/store/port/ownership.ts';
import { newStream } from '../store/contract/fixture.ts';
import { settings } from './fixture.ts';

function ownedOf(options: Partial<OwnedStream> = {}): OwnedStream {
  return {
    stream: { ...newStream(1, 0), subscriptions: [{ after: 0, types: ['a.made'] }], version: 1 },
    tenantName: 'main',
    epoch: 1,
    run: 1,
    cursor: 10,
    waiting: 0,
    waitingReplays: 0,
    health: { consecutive: 0, total: 0 },
    nextDueInMs: undefined,
    replay: undefined,
    takenAbove: [],
    keys: [],
    isRefused: false,
    ...options,
  };
}

const runnerOf = (options?: Partial<OwnedStream>): Runner =>
  new Runner(ownedOf(options), new Tail<Runner>(settings, 10));

const event = (offset: number): LogEvent => {
  return { offset, id: `evt_${offset}`, type: 'a.made', time: 0, publishedAt: 0, body: '{}' };
};

const noKey = (): undefined => undefined;

describe('a runner', () => {
  test('an enabled runner takes fresh work, a disabled one none', () => {
    const owned = ownedOf();
    const runner = runnerOf(owned);
    runner.enqueue(event(11), noKey);
    assert.equal(runner.nextWork(settings), 'fresh');
    runner.update({ ...owned, stream: { ...owned.stream, status: 'disabled' } });
    assert.equal(runner.nextWork(settings), undefined);
    runner.dueWaits = true;
    assert.equal(runner.nextWork(settings), 'due');
  });

  test('no event is queued twice, nor one below the position or with a row', () => {
    const runner = runnerOf({ takenAbove: [12] });
    assert.equal(runner.enqueue(event(10), noKey), false);
    assert.equal(runner.enqueue(event(11), noKey), true);
    assert.equal(runner.enqueue(event(11), noKey), false);
    assert.equal(runner.enqueue(event(12), noKey), false);
    assert.equal(runner.enqueue(event(13), noKey), true);
    assert.equal(runner.queue.length, 2);
  });

  test('the cursor is below the queued events, and at the head when the runner follows', () => {
    const runner = runnerOf();
    runner.tail.push(event(11));
    runner.tail.push(event(12));
    assert.equal(runner.cursor(), 10);
    runner.following = true;
    assert.equal(runner.cursor(), 12);
    runner.enqueue(event(13), noKey);
    runner.tail.push(event(13));
    runner.tail.push(event(14));
    assert.equal(runner.cursor(), 12);
  });

  test('the cursor is not raised while an outcome is not in the store', () => {
    const runner = runnerOf();
    runner.scannedTo = 20;
    runner.unsettled = 1;
    assert.equal(runner.cursorUpdate().cursor, 10);
    runner.settled(1, 0, 10);
    assert.equal(runner.cursorUpdate().cursor, 20);
  });

  test('a runner that stops following has scanned the events appended until then', () => {
    const runner = runnerOf();
    runner.following = true;
    runner.tail.push(event(11));
    runner.unfollow();
    runner.tail.push(event(12));
    assert.equal(runner.position, 11);
  });

  test('rows in the store and those of pending outcomes are counted', () => {
    const limits = { ...settings, disable: { consecutive: 2, total: 100 } };
    const runner = runnerOf({ waiting: 1 });
    runner.enqueue(event(11), noKey);
    assert.equal(runner.nextWork(limits), 'fresh');
    runner.rowsPending = 1;
    assert.equal(runner.nextWork(limits), undefined);
    runner.settled(0, 1, 10);
    assert.equal(runner.nextWork(limits), undefined);
    runner.settled(0, -1, 10);
    runner.rowsPending = 0;
    assert.equal(runner.nextWork(limits), 'fresh');
  });
});
