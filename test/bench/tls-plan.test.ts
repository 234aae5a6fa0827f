import assert from 'node:assert/strict';
import { test } from 'node:test';
import { delayMsOf, responseTo, streams } from '../../bench/tls-plan.ts';

test('drain-tls: of a hundred events of each stream one fails and one gets no response', () => {
  for (let stream = 0; stream < streams; stream += 1) {
    const responses = Array.from({ length: 100 }, (_, turn) => responseTo(stream + turn * streams));
    assert.equal(responses.filter((response) => response === 'fail').length, 1);
    assert.equal(responses.filter((response) => response === 'hang').length, 1);
  }
});

test('drain-tls: failures of different streams do not come all at once', () => {
  const first = Array.from({ length: streams }, (_, stream) => responseTo(stream));
  assert.equal(first.filter((response) => response !== 'deliver').length, streams / 50);
});

test('drain-tls: each delay from 20 to 60 ms is as frequent as the others, also within a stream', () => {
  const expected = Array.from({ length: 41 }, (_, index) => 20 + index);
  for (const step of [1, streams]) {
    const delays = Array.from({ length: 41 }, (_, index) => delayMsOf(7 + index * step));
    assert.deepEqual(
      delays.toSorted((a, b) => a - b),
      expected,
    );
  }
});
