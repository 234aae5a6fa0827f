import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { eventLoopTurn } from '../../src/core/turn.ts';

test('eventLoopTurn is the same within a turn of the event loop, and another one in the next', async () => {
  await nextTurn();
  const first = eventLoopTurn();
  await Promise.resolve();
  assert.equal(eventLoopTurn(), first);
  await nextTurn();
  const second = eventLoopTurn();
  assert.notEqual(second, first);
  await nextTurn();
  await nextTurn();
  assert.notEqual(eventLoopTurn(), second);
});
