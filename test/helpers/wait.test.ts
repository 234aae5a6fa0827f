import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createQuota } from './quota.ts';
import { waitFor } from './wait.ts';

describe('waitFor', () => {
  test('waitFor returns what the condition returns', async () => {
    let polls = 0;
    assert.equal(await waitFor('a third poll', () => ++polls >= 3 && `after ${polls}`), 'after 3');
  });

  test('waitFor throws what the condition throws', async () => {
    const fails = (): never => {
      throw new Error('the server ended');
    };
    await assert.rejects(waitFor('a server', fails), /the server ended/);
  });

  test('waitFor waits as long as there is progress; the error has the last progress', async () => {
    let polls = 0;
    const never = (): boolean => {
      polls += 1;
      return false;
    };
    // Without the progress it would give up at the first poll after the minimum of polls.
    const progress = (): object => ({ arrived: Math.min(polls, 200) });
    const options = { progress, stallMs: 0, intervalMsMax: 1 };
    await assert.rejects(waitFor('300 arrivals', never, options), {
      message:
        'gave up waiting for 300 arrivals: no change for 0 s; last progress: {"arrived":200}',
    });
    assert.ok(polls > 200, `${polls} polls`);
  });
});

describe('a quota', () => {
  test('a quota hands out what was permitted, and no more', async () => {
    const quota = createQuota(10);
    const ending = new AbortController();
    assert.equal(await quota.take(7, ending.signal), 7);
    assert.equal(await quota.take(7, ending.signal), 3);
    const waiting = [quota.take(4, ending.signal), quota.take(4, ending.signal)];
    quota.add(5);
    assert.deepEqual(await Promise.all(waiting), [4, 1]);
    const last = quota.take(4, ending.signal);
    ending.abort();
    assert.equal(await last, 0);
    quota.add(5);
    assert.equal(await quota.take(4, ending.signal), 0);
  });
});
