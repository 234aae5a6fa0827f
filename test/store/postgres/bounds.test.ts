import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { StoreUnavailable } from '../../../src/core/errors.ts';
import { createCommandTime } from '../../../src/store/engine/postgres/bounds.ts';
import { createManualClock } from '../../helpers/clock.ts';

function opened() {
  const clock = createManualClock();
  return {
    clock,
    time: createCommandTime({ statementMs: 3000, waitMs: 2000, waitingMax: 9, clock }),
  };
}

describe('bounds of commands that only read', () => {
  test('all statements of a command end within the sum of its bounds', async () => {
    const { clock, time } = opened();
    await time.run(async () => {
      assert.equal(time.statementMs(), 3000);
      await clock.advance(2900);
      // A part of the same command.
      await time.run(async () => {
        assert.equal(time.statementMs(), 2100);
        await clock.advance(2100);
        assert.throws(() => time.statementMs(), StoreUnavailable);
      });
      await assert.rejects(
        time.wait(Promise.resolve('a connection'), () => undefined),
        StoreUnavailable,
      );
    });
    await time.run(async () => assert.equal(time.statementMs(), 3000));
  });

  test('a wait for a connection ends with its bound, or with the command', async () => {
    const { clock, time } = opened();
    for (const { spentMs, waitMs } of [
      { spentMs: 0, waitMs: 2000 },
      { spentMs: 4000, waitMs: 1000 },
    ]) {
      const late: string[] = [];
      const { promise, resolve } = Promise.withResolvers<string>();
      await time.run(async () => {
        await clock.advance(spentMs);
        const refused = assert.rejects(
          time.wait(promise, (connection) => late.push(connection)),
          StoreUnavailable,
        );
        await clock.advance(waitMs);
        await refused;
      });
      resolve('a connection');
      await promise;
      assert.deepEqual(late, ['a connection']);
    }
  });

  test('a connection that comes in time is used', async () => {
    const { time } = opened();
    const late: string[] = [];
    assert.equal(
      await time.run(() => time.wait(Promise.resolve('one'), (one) => late.push(one))),
      'one',
    );
    assert.deepEqual(late, []);
  });
});
