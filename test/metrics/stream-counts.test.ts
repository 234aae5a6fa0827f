import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { AttemptReport } from '../../src/delivery/report.ts';
import { StreamCounts } from '../../src/metrics/stream-counts.ts';
import { attemptReport } from '../helpers/attempt-report.ts';

const minute = 60_000;

const attemptOf = (stream: string, changes: Partial<AttemptReport> = {}): AttemptReport =>
  attemptReport({ stream, ...changes });

const failed = { result: 'failed', status: 503, error: '503 - busy' } as const;
const failedKey = 'failed http_503';

function openCounts(streamsMax: number) {
  let nowMs = 0;
  const counts = new StreamCounts(streamsMax, () => nowMs);
  const ids = (): string[] => [...counts.shown()].map(({ stream }) => stream).toSorted();
  const of = (stream: string): Record<string, number> | undefined => {
    const found = [...counts.shown()].find((each) => each.stream === stream);
    return found && Object.fromEntries(found.counts);
  };
  const advance = (ms: number): void => {
    nowMs += ms;
  };
  return { counts, ids, of, advance };
}

describe('the series of one stream', () => {
  test('a receiver that responds with every status has few series, whose sum is every attempt', () => {
    const { counts, of } = openCounts(1);
    for (let round = 0; round < 2; round++) {
      for (let status = 100; status < 1000; status++) {
        for (const result of ['retry', 'failed'] as const) {
          counts.count(attemptOf('a', { result, status, error: `${status} - x` }));
          counts.count(attemptOf('b', { result, status, error: `${status} - x` }));
        }
      }
    }
    const shown = of('a') ?? {};
    assert.ok(Object.keys(shown).length <= 23, Object.keys(shown).join());
    assert.ok('failed http_4xx' in shown && 'failed other' in shown && 'retry other' in shown);
    const sum = (values: Iterable<number>): number =>
      [...values].reduce((all, one) => all + one, 0);
    assert.equal(sum(Object.values(shown)), 3600);
    assert.equal(sum(counts.others.values()), 3600);
  });
});

describe('which streams have series', () => {
  test('a stream that fails takes the place of the quietest one, and its series begin at 0', () => {
    const { counts, ids, of } = openCounts(2);
    for (const id of ['a', 'b', 'a']) counts.count(attemptOf(id));
    counts.count(attemptOf('c'));
    for (let count = 0; count < 3; count++) counts.count(attemptOf('bad', failed));
    assert.deepEqual(ids(), ['a', 'b']);
    assert.deepEqual(counts.rebalance(), ['bad']);
    assert.deepEqual(ids(), ['a', 'bad']);
    assert.deepEqual(of('bad'), { [failedKey]: 0 });
    counts.count(attemptOf('bad', failed));
    assert.deepEqual(of('bad'), { [failedKey]: 1 });
    assert.deepEqual(Object.fromEntries(counts.others), {
      'delivered http_2xx': 1,
      [failedKey]: 3,
    });
  });

  test('a failing stream keeps its series from others that do not fail much more often', () => {
    const { counts, ids } = openCounts(1);
    for (let count = 0; count < 10; count++) counts.count(attemptOf('a', failed));
    for (let count = 0; count < 20; count++) counts.count(attemptOf('b', failed));
    assert.deepEqual([counts.rebalance(), ids()], [[], ['a']]);
    counts.count(attemptOf('b', failed));
    assert.deepEqual([counts.rebalance(), ids()], [['b'], ['b']]);
    assert.deepEqual([counts.rebalance(), ids()], [[], ['b']]);
  });

  test('a stream that has recovered keeps its series until another one fails', () => {
    const { counts, ids, advance } = openCounts(1);
    counts.count(attemptOf('a', failed));
    advance(11 * minute);
    counts.count(attemptOf('b'));
    assert.deepEqual([counts.rebalance(), ids()], [[], ['a']]);
    counts.count(attemptOf('b', failed));
    assert.deepEqual([counts.rebalance(), ids()], [['b'], ['b']]);
  });

  test('a stream that gets its series back continues with the number that it had', () => {
    const { counts, of, advance } = openCounts(1);
    for (let count = 0; count < 7; count++) counts.count(attemptOf('a', failed));
    advance(11 * minute);
    counts.count(attemptOf('b', failed));
    counts.rebalance();
    assert.equal(of('a'), undefined);
    advance(11 * minute);
    counts.count(attemptOf('a', failed));
    counts.rebalance();
    assert.deepEqual(of('a'), { [failedKey]: 7 });
  });

  test('a stream of another node loses its series after a while, a deleted one at once', () => {
    const { counts, ids, advance } = openCounts(3);
    for (const id of ['a', 'b', 'c']) counts.count(attemptOf(id));
    counts.setOwned('a', false);
    counts.setOwned('b', false);
    counts.setOwned('b', true);
    counts.forget('c');
    counts.forget('never seen');
    counts.setOwned('never seen', false);
    counts.rebalance();
    assert.deepEqual(ids(), ['a', 'b']);
    advance(16 * minute);
    counts.rebalance();
    assert.deepEqual(ids(), ['b']);
    counts.count(attemptOf('d'));
    assert.deepEqual(ids(), ['b', 'd']);
  });
});

describe('bounds', () => {
  test('10,000 streams that come and go: the series and the memory stay bounded', () => {
    const { counts, advance } = openCounts(200);
    for (let index = 0; index < 10_000; index++) {
      const id = `est_${index}`;
      counts.count(attemptOf(id, index % 3 === 0 ? failed : {}));
      if (index % 2 === 0) counts.forget(id);
      else counts.setOwned(id, false);
      if (index % 50 === 0) counts.rebalance();
      advance(1000);
      assert.ok([...counts.shown()].length <= 200);
    }
    const kept = Array.from({ length: 10_000 }, (_, index) => counts.has(`est_${index}`));
    assert.ok(kept.filter(Boolean).length <= 2000);
  });

  test('more failing streams than are tracked: a new one is found once the others are quiet', () => {
    const { counts, ids, advance } = openCounts(1);
    for (let index = 0; index < 50; index++) counts.count(attemptOf(`old_${index}`, failed));
    counts.count(attemptOf('bad', failed));
    assert.equal(counts.has('bad'), false);
    advance(11 * minute);
    counts.count(attemptOf('bad', failed));
    counts.rebalance();
    assert.deepEqual(ids(), ['bad']);
  });

  test('a receiver that responds with every status creates a bounded number of series', () => {
    const { counts, of } = openCounts(1);
    for (const result of ['retry', 'failed'] as const) {
      for (let status = 100; status < 1000; status++) {
        counts.count(attemptOf('a', { result, status, error: `${status} - "}\n` }));
      }
    }
    for (const error of ['timeout', 'dns: x', 'x" y\n', 'cancelled', '']) {
      counts.count(attemptOf('a', { result: 'failed', status: undefined, error }));
    }
    const keys = Object.keys(of('a') ?? {});
    assert.ok(keys.length <= 2 * 25 + 10, keys.join());
    for (const key of keys) assert.match(key, /^(retry|failed) (http_[0-9](xx|[0-9]{2})|[a-z_]+)$/);
  });
});

test('random histories: each attempt counts once, and no number ever falls', () => {
  const step = fc.record({
    stream: fc.integer({ min: 0, max: 12 }),
    isFailed: fc.boolean(),
    after: fc.constantFrom('rebalance', 'lose', 'own', 'wait', 'nothing'),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
      const { counts, advance } = openCounts(3);
      const highest = new Map<string, number>();
      let others = 0;
      for (const { stream, isFailed, after } of steps) {
        const sumOf = (values: ReadonlyMap<string, number>): number =>
          [...values.values()].reduce((sum, value) => sum + value, 0);
        const total = (): number =>
          [...counts.shown()].reduce((sum, each) => sum + sumOf(each.counts), sumOf(counts.others));
        const before = total();
        counts.count(attemptOf(`est_${stream}`, isFailed ? failed : {}));
        // A stream that gets a free place may bring its former number back.
        assert.ok(total() >= before + 1);
        if (after === 'rebalance') counts.rebalance();
        if (after === 'lose' || after === 'own') counts.setOwned(`est_${stream}`, after === 'own');
        if (after === 'wait') advance(2 * minute);
        assert.ok([...counts.shown()].length <= 3);
        for (const each of counts.shown()) {
          const sum = sumOf(each.counts);
          assert.ok(sum >= (highest.get(each.stream) ?? 0) || !counts.has(each.stream));
          highest.set(each.stream, sum);
        }
        for (const id of highest.keys()) if (!counts.has(id)) highest.delete(id);
        assert.ok(sumOf(counts.others) >= others);
        others = sumOf(counts.others);
      }
    }),
  );
});
