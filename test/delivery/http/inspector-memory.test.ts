import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { InspectedRequest } from '../../../src/core/inspector.ts';
import {
  createInspectorRings,
  type InspectorLimits,
  type InspectorRings,
} from '../../../src/delivery/http/inspector-memory.ts';

const limits: InspectorLimits = {
  requestsMax: 50,
  bytesMax: 100_000,
  keptMs: 1000,
  totalBytesMax: 1_000_000,
};

const one = { tenant: 1, stream: 'est_1' };
const two = { tenant: 1, stream: 'est_2' };
const other = { tenant: 2, stream: 'est_3' };

function requestOf(body: string): InspectedRequest {
  return { receivedAt: 0, path: '/', headers: ['a', 'b'], body, result: undefined };
}

function bodiesOf(rings: InspectorRings, stream: typeof one): string[] {
  return rings.read(stream).requests.map(({ body }) => body);
}

describe('the memory of inspectors', () => {
  test('the memory of inspectors returns the requests of one stream, newest first', () => {
    const rings = createInspectorRings(limits);
    rings.add(one, requestOf('first'), 0);
    rings.add(one, requestOf('second'), 1);
    rings.add(two, requestOf('of another stream'), 2);
    rings.add({ tenant: 2, stream: one.stream }, requestOf('of another tenant'), 3);
    assert.deepEqual(bodiesOf(rings, one), ['second', 'first']);
    assert.deepEqual(bodiesOf(rings, other), []);
    assert.equal(rings.has(other), false);
  });

  test('the memory of inspectors keeps the newest 50 requests of a stream', () => {
    const rings = createInspectorRings(limits);
    for (let n = 1; n <= 60; n += 1) rings.add(one, requestOf(`${n}`), n);
    const bodies = bodiesOf(rings, one);
    assert.deepEqual([bodies.length, bodies[0], bodies.at(-1)], [50, '60', '11']);
  });

  test('the memory of inspectors bounds the bytes of a stream, and keeps the newest request', () => {
    const rings = createInspectorRings(limits);
    for (const text of 'abcd') rings.add(one, requestOf(text.repeat(40_000)), 0);
    assert.deepEqual(
      bodiesOf(rings, one).map(([first]) => first),
      ['d', 'c'],
    );
    rings.add(one, requestOf('€'.repeat(60_000)), 0);
    assert.deepEqual(
      bodiesOf(rings, one).map(([first]) => first),
      ['€'],
    );
  });

  test('the memory of inspectors drops requests at their age', () => {
    const rings = createInspectorRings(limits);
    rings.add(one, requestOf('old'), 0);
    rings.add(one, requestOf('young'), 500);
    rings.add(two, requestOf('old too'), 0);
    rings.expire(999);
    assert.deepEqual(bodiesOf(rings, one), ['young', 'old']);
    rings.expire(1000, one);
    assert.deepEqual([bodiesOf(rings, one), bodiesOf(rings, two)], [['young'], ['old too']]);
    rings.expire(1500);
    assert.deepEqual([rings.streams(), rings.bytes()], [[], 0]);
  });

  test('the memory of inspectors frees everything of a stream that is forgotten', () => {
    const rings = createInspectorRings(limits);
    rings.add(one, requestOf('x'), 0);
    rings.setAnswer(one, { status: 503, delayMs: 0, times: 1 });
    rings.forget(one);
    rings.forget(two);
    assert.deepEqual(rings.read(one), { requests: [], answer: undefined });
    assert.equal(rings.bytes(), 0);
  });

  test('the memory of inspectors drops the least used stream of the largest tenant at its bound', () => {
    const rings = createInspectorRings({ ...limits, totalBytesMax: 200_000 });
    const third = { tenant: 1, stream: 'est_4' };
    rings.add(other, requestOf('x'.repeat(50_000)), 0);
    rings.add(one, requestOf('x'.repeat(50_000)), 0);
    rings.add(two, requestOf('x'.repeat(50_000)), 0);
    rings.add(one, requestOf('used again'), 0);
    rings.add(third, requestOf('x'.repeat(50_000)), 0);
    assert.deepEqual(
      rings.streams().map(({ stream }) => stream),
      ['est_3', 'est_1', 'est_4'],
    );
    assert.ok(rings.bytes() <= 200_000);
  });

  test('the memory of inspectors bounds streams that only have an answer', () => {
    const rings = createInspectorRings({ ...limits, totalBytesMax: 10_000 });
    for (let n = 0; n < 100; n += 1) {
      rings.setAnswer({ tenant: 1, stream: `est_${n}` }, { status: 500, delayMs: 0, times: 1 });
    }
    assert.ok(rings.streams().length < 10);
    assert.equal(rings.read({ tenant: 1, stream: 'est_99' }).answer?.status, 500);
  });

  test('an answer of an inspector is for a number of requests', () => {
    const rings = createInspectorRings(limits);
    const answer = { status: 503, delayMs: 5, times: 2 };
    assert.equal(rings.takeAnswer(one), undefined);
    rings.setAnswer(one, answer);
    assert.equal(rings.takeAnswer(two), undefined);
    assert.deepEqual(rings.takeAnswer(one), answer);
    assert.deepEqual(rings.read(one).answer, { ...answer, times: 1 });
    assert.equal(rings.takeAnswer(one)?.status, 503);
    assert.equal(rings.takeAnswer(one), undefined);
  });
});
