import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  attemptTimes,
  cycleMs,
  delaysSecondsOf,
  placeOf,
  readDelays,
  retryWords,
  serviceDelays,
  span,
  writeDelays,
} from '../../src/console/retry-times.ts';

test('attemptTimes: the first attempt is at 0, each other one after its wait', () => {
  assert.deepEqual(attemptTimes([5, 60]), { timesMs: [0, 5000, 65_000], beyond: 0 });
});

test('attemptTimes: no attempt begins after the end of the cycle', () => {
  const { timesMs, beyond } = attemptTimes([86_400, 86_400, 86_400, 1, 1]);
  assert.deepEqual([timesMs.length, beyond, timesMs.at(-1)], [4, 2, cycleMs]);
});

test('placeOf: from the left edge to the right one', () => {
  assert.deepEqual([placeOf(0), placeOf(cycleMs)], [0, 1]);
  assert.ok(placeOf(5000) < placeOf(60_000));
});

for (const [seconds, words] of [
  [0, '0 s'],
  [0.05, '50 ms'],
  [59, '59 s'],
  [65, '1 min 5 s'],
  [63_365, '17 h 36 min'],
  [172_800, '2 d'],
] as const) {
  test(`span: ${seconds} seconds are ${words}`, () => assert.equal(span(seconds), words));
}

test('readDelays: reads what writeDelays writes', () => {
  const delays = delaysSecondsOf('days');
  assert.equal(writeDelays(delays), '5 s, 1 min, 5 min, 30 min, 2 h, 5 h, 10 h, 12 h, 1 d');
  assert.deepEqual(readDelays(writeDelays(delays)), { delays });
});

test('readDelays: a number without a unit is seconds', () => {
  assert.deepEqual(readDelays('5, 1.5m,2H'), { delays: [5, 90, 7200] });
});

for (const [text, problem] of [
  ['', /at least one/],
  ['5, soon', /“soon” is no wait/],
  ['0', /1 s to 24 h/],
  ['25 h', /1 s to 24 h/],
  ['0.5', /whole seconds/],
  ['5 parsecs', /no wait/],
  [Array.from({ length: 21 }, () => '1').join(), /21 waits/],
] as const) {
  test(`readDelays: rejects ${text.slice(0, 20) || 'nothing'}`, () => {
    const read = readDelays(text);
    assert.match('problem' in read ? read.problem : '', problem);
  });
}

test('retryWords: names the preset, the number of attempts and the waits', () => {
  assert.equal(retryWords('quick', [9]), 'Quick: 4 attempts within 7 s, after 1 s, 2 s, 4 s');
  assert.equal(
    retryWords({ delays_seconds: [90] }, [9]),
    '2 attempts within about 1 min 30 s, after 1 min 30 s',
  );
});

test('retryWords: without a schedule that of the service, or where it is set', () => {
  assert.equal(
    retryWords(undefined, [0.5, 9]),
    'Of the service: 3 attempts within 10 s, after 500 ms, 9 s',
  );
  assert.match(retryWords(undefined, undefined), /LEAT_RETRY or LEAT_RETRY_DELAYS_MS/);
});

test('serviceDelays: by LEAT_RETRY if that is set, else by LEAT_RETRY_DELAYS_MS', () => {
  const delays = { name: 'LEAT_RETRY_DELAYS_MS', value: '500,9000', is_default: true };
  const unset = { name: 'LEAT_RETRY', value: 'as LEAT_RETRY_DELAYS_MS says', is_default: true };
  assert.deepEqual(serviceDelays([unset, delays]), [0.5, 9]);
  const set = (value: string) => ({ name: 'LEAT_RETRY', value, is_default: false });
  assert.deepEqual(serviceDelays([delays, set('hours')]), delaysSecondsOf('hours'));
  assert.deepEqual(serviceDelays([delays, set('5, 60')]), [5, 60]);
  assert.equal(serviceDelays([]), undefined);
});
