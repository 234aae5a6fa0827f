import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type CpuProfile, sharesOf } from '../../bench/profile-shares.ts';

const all = { fromMicros: 0, toMicros: Infinity };

function node(id: number, functionName: string, url = '', lineNumber = -1) {
  return { id, callFrame: { functionName, url, lineNumber } };
}

/** Idle for 400 µs, program for 100, then 300 of `sign`, 150 of `send` in two places, 50 of garbage. */
const profile: CpuProfile = {
  nodes: [
    node(1, '(root)'),
    node(2, '(idle)'),
    node(3, '(program)'),
    node(4, 'sign', 'file:///src/sign.ts', 9),
    node(5, 'send', 'file:///src/send.ts', 4),
    node(6, 'send', 'file:///src/send.ts', 4),
    node(7, '(garbage collector)'),
  ],
  startTime: 1000,
  endTime: 2000,
  samples: [2, 3, 4, 5, 6, 7],
  timeDeltas: [0, 400, 100, 300, 100, 50],
};

test('shares of a profile are of the time that is neither idle nor program', () => {
  assert.deepEqual(sharesOf(profile, all, 12), {
    seconds: 0.001,
    idle: 0.4,
    program: 0.1,
    rest: 0.5,
    shares: [
      { share: 0.6, name: 'sign', place: 'file:///src/sign.ts:10' },
      { share: 0.3, name: 'send', place: 'file:///src/send.ts:5' },
      { share: 0.1, name: '(garbage collector)', place: '' },
    ],
  });
});

test('shares of a profile end after the largest ones', () => {
  const { shares } = sharesOf(profile, all, 1);
  assert.deepEqual(
    shares.map(({ name }) => name),
    ['sign'],
  );
});

test('shares of a profile count the part of a sample that is within the window', () => {
  const { seconds, idle, shares } = sharesOf(profile, { fromMicros: 1300, toMicros: 1600 }, 12);
  assert.equal(seconds, 0.0003);
  assert.equal(idle, 1 / 3);
  assert.deepEqual(shares, [{ share: 1, name: 'sign', place: 'file:///src/sign.ts:10' }]);
});

test('shares of a profile without a sample in the window are empty', () => {
  assert.deepEqual(sharesOf(profile, { fromMicros: 5000, toMicros: 6000 }, 12), {
    seconds: 0,
    idle: 0,
    program: 0,
    rest: 0,
    shares: [],
  });
});
